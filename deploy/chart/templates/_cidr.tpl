{{/*
The address of a cidr as JSON, a list of its groups of 16 bits: two of IPv4, eight
of IPv6. It is empty if the cidr is none.
*/}}
{{- define "cidr.groups" -}}
{{- $address := splitList "/" . | first | lower -}}
{{- $octet := "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])" -}}
{{- $groups := list -}}
{{- if regexMatch (printf `^(%s\.){3}%s/(3[0-2]|[12]?[0-9])$` $octet $octet) . -}}
{{- $o := splitList "." $address -}}
{{- $groups = list (add (mul 256 (int (index $o 0))) (int (index $o 1))) (add (mul 256 (int (index $o 2))) (int (index $o 3))) -}}
{{- else if regexMatch `^[0-9A-Fa-f:]+/(12[0-8]|1[01][0-9]|[1-9]?[0-9])$` . -}}
{{- $words := include "cidr.words" $address -}}
{{- if regexMatch "^([0-9a-f]{1,4}:){7}[0-9a-f]{1,4}$" $words -}}
{{- range splitList ":" $words }}{{ $groups = append $groups (include "cidr.hex" . | int) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- if $groups }}{{ toJson $groups }}{{ end -}}
{{- end -}}

{{/* An IPv6 address with zeros in the place of its "::". */}}
{{- define "cidr.words" -}}
{{- $halves := splitList "::" . -}}
{{- if ne (len $halves) 2 -}}
{{- . -}}
{{- else -}}
{{- $before := list -}}{{- $after := list -}}
{{- with first $halves }}{{ $before = splitList ":" . }}{{ end -}}
{{- with last $halves }}{{ $after = splitList ":" . }}{{ end -}}
{{- $gap := sub 8 (len (concat $before $after)) | int -}}
{{- if gt $gap 0 -}}
{{- range until $gap }}{{ $before = append $before "0" }}{{ end -}}
{{- concat $before $after | join ":" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A hexadecimal number in decimal. */}}
{{- define "cidr.hex" -}}
{{- $digits := dict "0" 0 "1" 1 "2" 2 "3" 3 "4" 4 "5" 5 "6" 6 "7" 7 "8" 8 "9" 9 "a" 10 "b" 11 "c" 12 "d" 13 "e" 14 "f" 15 -}}
{{- $n := 0 -}}
{{- range splitList "" . }}{{ $n = add (mul $n 16) (get $digits .) }}{{ end -}}
{{- $n -}}
{{- end -}}

{{/* The first bits of an address's groups, as text to compare; the argument is the cidr with the address and the number of bits. */}}
{{- define "cidr.network" -}}
{{- $left := index . 1 -}}
{{- range include "cidr.groups" (index . 0) | fromJsonArray -}}
{{- div (int64 .) (include "cidr.step" $left | int64) }}.
{{- $left = sub $left 16 -}}
{{- end -}}
{{- end -}}

{{/* Two to the number of bits of a group that are behind the mask; the argument is how many the mask has left for it. */}}
{{- define "cidr.step" -}}
{{- $step := 1 -}}
{{- range until (int (sub 16 (min 16 (max 0 .)))) }}{{ $step = mul $step 2 }}{{ end -}}
{{- $step -}}
{{- end -}}

{{/* A cidr without the address bits behind its mask. */}}
{{- define "cidr.masked" -}}
{{- $bits := splitList "/" . | last -}}
{{- $left := int $bits -}}{{- $groups := list -}}
{{- range include "cidr.groups" . | fromJsonArray -}}
{{- $step := include "cidr.step" $left | int64 -}}
{{- $groups = append $groups (mul (div (int64 .) $step) $step) -}}
{{- $left = sub $left 16 -}}
{{- end -}}
{{- $words := list -}}
{{- if contains ":" . -}}
{{- range $groups }}{{ $words = append $words (printf "%x" .) }}{{ end -}}
{{- regexReplaceAll "^0::$" (regexReplaceAll "(:0)+$" ($words | join ":") "::") "::" -}}
{{- else -}}
{{- range $groups }}{{ $words = append $words (div . 256) }}{{ $words = append $words (mod . 256) }}{{ end -}}
{{- $words | join "." -}}
{{- end -}}
/{{ $bits }}
{{- end -}}

{{/*
Fails unless a value is a cidr, and for one with address bits behind its mask: it
may mean the network or the address. The argument is the cidr and its path for the
message.
*/}}
{{- define "cidr.check" -}}
{{- $cidr := index . 0 -}}{{- $path := index . 1 -}}
{{- if not (include "cidr.groups" $cidr) -}}
{{- fail (printf "%s is %q, which is no network: want one like 192.0.2.10/32 or 2001:db8::10/128" $path $cidr) -}}
{{- end -}}
{{- $masked := include "cidr.masked" $cidr -}}
{{- if ne (include "cidr.groups" $cidr) (include "cidr.groups" $masked) -}}
{{- $alone := printf "%s/%d" (splitList "/" $cidr | first) (contains ":" $cidr | ternary 128 32) -}}
{{- fail (printf "%s is %q, which has address bits behind its mask: want %s, or %s for that address alone" $path $cidr $masked $alone) -}}
{{- end -}}
{{- end -}}

{{/* Fails for a cidr that is no part of another and smaller; the argument is the part, its path and the whole. */}}
{{- define "cidr.checkWithin" -}}
{{- $part := index . 0 -}}{{- $path := index . 1 -}}{{- $whole := index . 2 -}}
{{- include "cidr.check" (list $part $path) -}}
{{- $bits := splitList "/" $whole | last | int -}}
{{- if or (le (splitList "/" $part | last | int) $bits) (ne (contains ":" $part) (contains ":" $whole)) (ne (include "cidr.network" (list $part $bits)) (include "cidr.network" (list $whole $bits))) -}}
{{- fail (printf "%s is %s, which is no part of %s: want a smaller network within it" $path $part $whole) -}}
{{- end -}}
{{- end -}}

{{/* Fails for a cidr that is as good as everything; the argument is the cidr, its path and what it should name. */}}
{{- define "cidr.checkNarrow" -}}
{{- $cidr := index . 0 -}}{{- $path := index . 1 -}}
{{- include "cidr.check" (list $cidr $path) -}}
{{- $least := contains ":" $cidr | ternary 16 8 -}}
{{- if lt (splitList "/" $cidr | last | int) $least -}}
{{- fail (printf "%s is %s, which is no bound for a run without network: want %s, /%d or longer" $path $cidr (index . 2) $least) -}}
{{- end -}}
{{- end -}}

{{/* A quantity of memory in MiB, rounded down; the argument is the quantity and its path for the message. */}}
{{- define "sandbox.mebibytes" -}}
{{- $quantity := index . 0 -}}
{{- $text := toString (kindIs "float64" $quantity | ternary (int64 $quantity) $quantity) -}}
{{- $units := dict "" 1 "k" 1000 "M" 1000000 "G" 1000000000 "T" 1000000000000 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776 -}}
{{- if not (regexMatch "^[0-9]{1,15}([kMGT]|[KMGT]i)?$" $text) -}}
{{- fail (printf "%s is %q, want a whole number of bytes or of Ki, Mi, Gi, Ti, k, M, G or T, from which the pool is derived; or set worker.sandbox.kubernetes.quotaPool" (index . 1) $text) -}}
{{- end -}}
{{- $digits := regexFind "^[0-9]+" $text -}}
{{- div (mul (int64 $digits) (get $units (trimPrefix $digits $text))) 1048576 -}}
{{- end -}}

{{/* What one run costs, in MiB. */}}
{{- define "sandbox.cost" -}}
{{- add (int64 .Values.worker.sandbox.memory_limit_mb) (int64 .Values.worker.sandbox.max_extracted_mb) -}}
{{- end -}}

{{/* The runs that one worker has at a time: its memory by a run's cost, at least one, and one without a limit. */}}
{{- define "sandbox.pool" -}}
{{- $limits := .Values.worker.resources.limits | default dict -}}
{{- if .Values.worker.sandbox.kubernetes.quotaPool -}}
{{- int64 .Values.worker.sandbox.kubernetes.quotaPool -}}
{{- else if $limits.memory -}}
{{- max 1 (div (int64 (include "sandbox.mebibytes" (list $limits.memory "worker.resources.limits.memory"))) (int64 (include "sandbox.cost" .))) -}}
{{- else -}}
1
{{- end -}}
{{- end -}}

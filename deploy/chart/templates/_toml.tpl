{{/* A value in TOML. Numbers come as several types, depending on who read them. */}}
{{- define "toml.value" -}}
{{- if typeIs "json.Number" . -}}
{{- . -}}
{{- else if kindIs "string" . -}}
{{- /* JSON's strings are TOML's but for one character, which TOML wants escaped. */ -}}
{{- toRawJson . | replace "\u007f" "\\u007f" -}}
{{- else if kindIs "float64" . -}}
{{- if eq (float64 (int64 .)) . }}{{ int64 . }}{{ else }}{{ . }}{{ end -}}
{{- else if kindIs "slice" . -}}
[{{ range $i, $v := . }}{{ if $i }}, {{ end }}{{ include "toml.value" $v }}{{ end }}]
{{- else if kindIs "map" . -}}
{{- $pairs := list -}}
{{- range $k, $v := . }}{{ $pairs = append $pairs (printf "%s = %s" (include "toml.key" $k) (include "toml.value" $v)) }}{{ end -}}
{{- if $pairs }}{{ printf "{ %s }" (join ", " $pairs) }}{{ else }}{}{{ end -}}
{{- else -}}
{{- . -}}
{{- end -}}
{{- end -}}

{{- define "toml.key" -}}
{{- if regexMatch "^[A-Za-z0-9_-]+$" . }}{{ . }}{{ else }}{{ toRawJson . }}{{ end -}}
{{- end -}}

{{/* The lines of a table; the argument has its values and the keys that are the chart's own. */}}
{{- define "toml.lines" -}}
{{- $own := .own | default list -}}
{{- range $k, $v := .values -}}
{{- if not (or (has $k $own) (kindIs "invalid" $v)) }}
{{ include "toml.key" $k }} = {{ include "toml.value" $v }}
{{- end -}}
{{- end -}}
{{- end -}}

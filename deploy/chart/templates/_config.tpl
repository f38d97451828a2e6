{{/*
The worker's config.toml: keys with underscores are its own and go there as they
are, keys in camelCase are the chart's. Only the selected runtime's table is
written, for the worker warns of others.
*/}}
{{- define "sandbox.config" -}}
{{- $w := .Values.worker -}}
{{- $s := $w.sandbox -}}
# docs/guide/configuration.md has every key.
[worker]
{{- include "toml.lines" (dict "values" (pick $w "max_concurrent" "registries" "job_timeout_secs" "max_attempts")) }}

[worker.sandbox]
{{- include "toml.lines" (dict "values" (omit $s "bwrap" "kubernetes")) }}
{{ if include "sandbox.pods" . }}
[worker.sandbox.kubernetes]
{{- $keys := omit $s.kubernetes "createNamespace" "storageEgress" "egressAllow" "dns" "quotaPool" }}
{{- $keys = merge (dict "namespace" (include "sandbox.namespace" .)) $keys }}
{{- include "toml.lines" (dict "values" $keys) }}
{{ else }}
[worker.sandbox.bwrap]
{{- include "toml.lines" (dict "values" $s.bwrap) }}
{{ end }}
{{- with .Values.storage }}{{ if .backends }}
[storage]
{{- include "toml.lines" (dict "values" (dict "default" .default)) }}
{{ range $name, $backend := .backends }}
[storage.backends.{{ include "toml.key" $name }}]
{{- include "toml.lines" (dict "values" $backend) }}
{{ end }}{{ end }}{{ end }}
{{- $root := . }}
{{- range $name, $scanner := .Values.scanners }}{{ if $scanner.enabled }}
[scanners.{{ include "toml.key" $name }}]
{{- $keys := omit $scanner "enabled" "image" }}
{{- if include "sandbox.pods" $root }}
{{- $keys = set $keys "image" (include "sandbox.image" (list $root $name $scanner.image (printf "scanners.%s.image" $name))) }}
{{- end }}
{{- include "toml.lines" (dict "values" $keys) }}
{{ end }}{{ end }}
{{- end -}}

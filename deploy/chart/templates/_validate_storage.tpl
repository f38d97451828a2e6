{{/* Backends that the worker's configuration can't have. No message repeats an endpoint, for a URL may have a password in it. */}}
{{- define "sandbox.validateBackends" -}}
{{- range $name, $b := .Values.storage.backends | default dict -}}
{{- $path := printf "storage.backends.%s" $name -}}
{{- if not (regexMatch "^[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?$" $name) -}}
{{- fail (printf "storage.backends has the name %q: want 1 to 63 of letters, digits, - _ ." $name) -}}
{{- end -}}
{{- if and (eq $b.type "filesystem") (not $b.path) -}}
{{- fail (printf "%s has no path: set it to the backend's directory" $path) -}}
{{- end -}}
{{- if eq $b.type "s3" -}}
{{- if not $b.bucket -}}
{{- fail (printf "%s has no bucket: set it" $path) -}}
{{- end -}}
{{- if ne (empty $b.access_key_env) (empty $b.secret_key_env) -}}
{{- fail (printf "%s has one of access_key_env and secret_key_env alone: set both, or neither" $path) -}}
{{- end -}}
{{- include "sandbox.validateEndpoint" (list $path $b) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The endpoint of a backend; the argument is the backend's path and the backend. */}}
{{- define "sandbox.validateEndpoint" -}}
{{- $path := index . 0 -}}{{- $b := index . 1 -}}
{{- with $b.endpoint -}}
{{- if not (regexMatch `^https?://(\[[0-9A-Fa-f:.]+\]|[^][/?#@%:\s]+)(:[0-9]{1,5})?/?$` .) -}}
{{- fail (printf "%s.endpoint is no server: want http://HOST[:PORT] or https://HOST[:PORT]" $path) -}}
{{- end -}}
{{- $port := regexFind "[]a-zA-Z0-9_.-]:[0-9]+/?$" . | trimSuffix "/" | splitList ":" | last -}}
{{- if and $port (or (lt (int $port) 1) (gt (int $port) 65535)) -}}
{{- fail (printf "%s.endpoint has the port %s: want 1 to 65535" $path $port) -}}
{{- end -}}
{{- if and (not $b.path_style) (regexMatch `^https?://(\[|[0-9]{1,3}(\.[0-9]{1,3}){3}(:|/|$))` .) -}}
{{- fail (printf "%s.endpoint is an address, which no bucket's name can stand before: set path_style to true" $path) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The bundles' backend, which has to presign. */}}
{{- define "sandbox.validateStorage" -}}
{{- $backends := .Values.storage.backends | default dict -}}
{{- $name := .Values.worker.sandbox.bundle_backend | default .Values.storage.default -}}
{{- if and (not $name) (eq (len $backends) 1) }}{{ $name = keys $backends | first }}{{ end -}}
{{- if not $backends -}}
{{- fail "the kubernetes runtime moves bundles through the storage backend and storage.backends has none: add an S3-compatible one" -}}
{{- else if not $name -}}
{{- fail (printf "the kubernetes runtime moves bundles through the storage backend and there is no default: set storage.default or worker.sandbox.bundle_backend to one of %s" (keys $backends | sortAlpha | join ", ")) -}}
{{- else if regexMatch `^(?i)https?://(localhost\.?|127(\.[0-9]{1,3}){3}|0\.0\.0\.0|\[::1?\])(:|/|$)` (default "" (get $backends $name).endpoint) -}}
{{- fail (printf "storage.backends.%s.endpoint is a loopback address, which in a sandbox is the sandbox's own: want one that the worker and the sandboxes both reach" $name) -}}
{{- else if ne (get $backends $name).type "s3" -}}
{{- fail (printf "the kubernetes runtime moves bundles through the storage backend and '%s' cannot presign a URL; configure an S3-compatible backend, or name one in worker.sandbox.bundle_backend" (get $backends $name).type) -}}
{{- end -}}
{{- end -}}

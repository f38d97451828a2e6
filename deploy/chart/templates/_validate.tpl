{{/* What no schema of single values can refuse: each in one line, with what to do. */}}
{{- define "sandbox.validate" -}}
{{- $enabled := list -}}
{{- range $name, $scanner := .Values.scanners }}{{ if $scanner.enabled }}{{ $enabled = append $enabled $name }}{{ end }}{{ end -}}
{{- if not $enabled -}}
{{- fail "no scanner is enabled: set scanners.NAME.enabled to true for one" -}}
{{- end -}}
{{- $names := keys (.Values.storage.backends | default dict) | sortAlpha -}}
{{- range list (list "storage.default" .Values.storage.default) (list "worker.sandbox.bundle_backend" .Values.worker.sandbox.bundle_backend) -}}
{{- if and (index . 1) (not (has (index . 1) $names)) -}}
{{- fail (printf "%s '%s' is not declared in storage.backends; it has %s" (index . 0) (index . 1) ($names | join ", " | default "none")) -}}
{{- end -}}
{{- end -}}
{{- if include "sandbox.pods" . -}}
{{- include "sandbox.validatePods" . -}}
{{- end -}}
{{- end -}}

{{- define "sandbox.validatePods" -}}
{{- $s := .Values.worker.sandbox -}}
{{- $k := $s.kubernetes -}}
{{- if ge (int64 $s.max_extracted_mb) (int64 $s.memory_limit_mb) -}}
{{- fail (printf "worker.sandbox.max_extracted_mb (%v) has to be below memory_limit_mb (%v): /work is memory and charged to the same limit" $s.max_extracted_mb $s.memory_limit_mb) -}}
{{- end -}}
{{- include "sandbox.validateStorage" . -}}
{{- if not $k.storageEgress -}}
{{- fail "worker.sandbox.kubernetes.storageEgress is empty: no sandbox could fetch its bundle; name the storage with a port and one of cidr, fqdn or pods" -}}
{{- end -}}
{{- range $key := list "storageEgress" "egressAllow" -}}
{{- range $i, $to := get $k $key -}}
{{- $forms := list -}}
{{- range list "cidr" "fqdn" "pods" }}{{ if hasKey $to . }}{{ $forms = append $forms . }}{{ end }}{{ end -}}
{{- if ne (len $forms) 1 -}}
{{- fail (printf "worker.sandbox.kubernetes.%s[%d] has %s: want exactly one of cidr, fqdn and pods" $key $i ($forms | join " and " | default "no destination")) -}}
{{- end -}}
{{- if and (hasKey $to "except") (not (hasKey $to "cidr")) -}}
{{- fail (printf "worker.sandbox.kubernetes.%s[%d] has except without the cidr that it is taken from" $key $i) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and (eq $k.service_account (include "sandbox.workerAccount" .)) (eq (include "sandbox.namespace" .) .Release.Namespace) -}}
{{- fail (printf "worker.sandbox.kubernetes.service_account is %s, the worker's own account, which may make pods: name another" $k.service_account) -}}
{{- end -}}
{{- if and $k.createNamespace (eq (include "sandbox.namespace" .) .Release.Namespace) -}}
{{- fail "worker.sandbox.kubernetes.createNamespace: the sandboxes' namespace is the release's own, which is there already; set worker.sandbox.kubernetes.namespace to another" -}}
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
{{- else if ne (get $backends $name).type "s3" -}}
{{- fail (printf "the kubernetes runtime moves bundles through the storage backend and '%s' cannot presign a URL; configure an S3-compatible backend, or name one in worker.sandbox.bundle_backend" (get $backends $name).type) -}}
{{- end -}}
{{- end -}}

{{/* What sandboxes in pods can't do with, or without. */}}
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
{{- if and $k.own_kernel (not $k.runtime_class) -}}
{{- fail "worker.sandbox.kubernetes.own_kernel is true without a runtime_class: set runtime_class to one of gVisor's, or leave own_kernel out" -}}
{{- end -}}
{{- include "sandbox.validateTolerations" (list "worker.sandbox.kubernetes.tolerations" $k.tolerations) -}}
{{- include "sandbox.validateAccounts" . -}}
{{- include "sandbox.validateNamespace" . -}}
{{- include "sandbox.validateDestinations" . -}}
{{- end -}}

{{/* What the policies let through. */}}
{{- define "sandbox.validateDestinations" -}}
{{- $k := .Values.worker.sandbox.kubernetes -}}
{{- range $i, $cidr := $k.dns.cidrs -}}
{{- include "cidr.checkNarrow" (list $cidr (printf "worker.sandbox.kubernetes.dns.cidrs[%d]" $i) "the resolver's own address") -}}
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
{{- include "sandbox.validateCidrs" (list $key $i $to) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The networks of one destination; the argument is the list's key, its index there and the destination. */}}
{{- define "sandbox.validateCidrs" -}}
{{- $path := printf "worker.sandbox.kubernetes.%s[%d]" (index . 0) (index . 1) -}}{{- $to := index . 2 -}}
{{- $storage := eq (index . 0) "storageEgress" -}}
{{- with $to.cidr -}}
{{- include "cidr.check" (list . (printf "%s.cidr" $path)) -}}
{{- if $storage }}{{ include "cidr.checkNarrow" (list . (printf "%s.cidr" $path) "the storage's own addresses") }}{{ end -}}
{{- range $i, $part := $to.except -}}
{{- include "cidr.checkWithin" (list $part (printf "%s.except[%d]" $path $i) $to.cidr) -}}
{{- end -}}
{{- end -}}
{{- if and $storage $to.fqdn -}}
{{- if regexMatch "^[*.]+$" $to.fqdn -}}
{{- fail (printf "%s.fqdn is %s, which is every name: want the storage's own" $path $to.fqdn) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Who the worker and the sandboxes are. */}}
{{- define "sandbox.validateAccounts" -}}
{{- $k := .Values.worker.sandbox.kubernetes -}}
{{- if not .Values.serviceAccount.automount -}}
{{- fail "serviceAccount.automount is false, and the kubernetes runtime makes pods with the worker's token: leave it true" -}}
{{- end -}}
{{- if eq $k.service_account "default" -}}
{{- fail "worker.sandbox.kubernetes.service_account is default, which every namespace has already: name one that the chart can make" -}}
{{- end -}}
{{- if and (eq $k.service_account (include "sandbox.workerAccount" .)) (eq (include "sandbox.namespace" .) .Release.Namespace) -}}
{{- fail (printf "worker.sandbox.kubernetes.service_account is %s, the worker's own account, which may make pods: name another" $k.service_account) -}}
{{- end -}}
{{- end -}}

{{/* A namespace of the sandboxes' own, in which nothing else can run. */}}
{{- define "sandbox.validateNamespace" -}}
{{- $k := .Values.worker.sandbox.kubernetes -}}
{{- $namespace := include "sandbox.namespace" . -}}
{{- if include "sandbox.apart" . -}}
{{- if or (hasPrefix "kube-" $namespace) (eq $namespace "default") -}}
{{- fail (printf "worker.sandbox.kubernetes.namespace is %s, which is not the sandboxes' own, and nothing else could run in it: name another" $namespace) -}}
{{- end -}}
{{- $pods := list (dict "path" "dns" "namespace" $k.dns.namespace) -}}
{{- range $key := list "storageEgress" "egressAllow" -}}
{{- range $i, $to := get $k $key -}}
{{- with $to.pods }}{{ $pods = append $pods (dict "path" (printf "%s[%d].pods" $key $i) "namespace" .namespace) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- range $pods -}}
{{- if eq .namespace $namespace -}}
{{- fail (printf "worker.sandbox.kubernetes.%s.namespace is %s, the sandboxes' own, in which nothing else can run: name another for the sandboxes" .path $namespace) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and $k.createNamespace (eq (include "sandbox.namespace" .) .Release.Namespace) -}}
{{- fail "worker.sandbox.kubernetes.createNamespace: the sandboxes' namespace is the release's own, which is there already; set worker.sandbox.kubernetes.namespace to another" -}}
{{- end -}}
{{- end -}}

{{/* Whether one of some destinations is a name, which NetworkPolicy has no rule for. */}}
{{- define "sandbox.named" -}}
{{- range . }}{{ if .fqdn }}true{{ end }}{{ end -}}
{{- end -}}

{{/*
A policy over the pods with one value of io.batlehub/network: the storage, the
resolver, and the destinations that are allowed besides. The argument is the root,
that value and those destinations.
*/}}
{{- define "sandbox.policy" -}}
{{- $root := index . 0 -}}{{- $network := index . 1 -}}{{- $allow := index . 2 -}}
{{- $k := $root.Values.worker.sandbox.kubernetes -}}
{{- $cilium := include "sandbox.named" (concat $k.storageEgress $allow) -}}
{{- if $cilium }}
apiVersion: cilium.io/v2
kind: CiliumNetworkPolicy
{{- else }}
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
{{- end }}
metadata:
  name: {{ printf "%s-%s" (include "sandbox.fullname" $root) $network | quote }}
  namespace: {{ include "sandbox.namespace" $root | quote }}
  labels:
    {{- include "sandbox.labels" (list $root "sandbox") | nindent 4 }}
spec:
  {{- if $cilium }}
  endpointSelector: {matchLabels: {io.batlehub/network: {{ $network }}}}
  # One rule that lets nobody in: without any, everybody is.
  ingress: [{}]
  egress:
    {{- range $k.storageEgress }}
    {{- include "sandbox.ciliumRule" . | nindent 4 }}
    {{- end }}
    {{- include "sandbox.ciliumResolver" $k.dns | nindent 4 }}
    {{- range $allow }}
    {{- include "sandbox.ciliumRule" . | nindent 4 }}
    {{- end }}
  {{- else }}
  podSelector: {matchLabels: {io.batlehub/network: {{ $network }}}}
  policyTypes: [Ingress, Egress]
  egress:
    {{- range $k.storageEgress }}
    {{- include "sandbox.rule" . | nindent 4 }}
    {{- end }}
    {{- include "sandbox.resolver" $k.dns | nindent 4 }}
    {{- range $allow }}
    {{- include "sandbox.rule" . | nindent 4 }}
    {{- end }}
  {{- end }}
{{- end -}}

{{- define "sandbox.rule" -}}
- to:
    {{- if .cidr }}
    - ipBlock:
        cidr: {{ .cidr | quote }}
        {{- with .except }}
        except: {{ toJson . }}
        {{- end }}
    {{- else }}
    - namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: {{ .pods.namespace | quote }}}}
      podSelector: {matchLabels: {{ toJson .pods.labels }}}
    {{- end }}
  {{- with .port }}
  ports:
    - {protocol: TCP, port: {{ . }}}
  {{- end }}
{{- end -}}

{{/* A default among the values would be merged with an operator's labels. */}}
{{- define "sandbox.resolverLabels" -}}
{{- .labels | default (dict "k8s-app" "kube-dns") | toJson -}}
{{- end -}}

{{/* The cluster's resolver, because the host of a signed URL is part of what was signed. */}}
{{- define "sandbox.resolver" -}}
- to:
    - namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: {{ .namespace | quote }}}}
      podSelector: {matchLabels: {{ include "sandbox.resolverLabels" . }}}
    {{- range .cidrs }}
    - ipBlock: {cidr: {{ . | quote }}}
    {{- end }}
  ports:
    - {protocol: UDP, port: 53}
    - {protocol: TCP, port: 53}
{{- end -}}

{{- define "sandbox.ciliumRule" -}}
{{- if .fqdn -}}
- toFQDNs: [{ {{- contains "*" .fqdn | ternary "matchPattern" "matchName" }}: {{ .fqdn | quote }}}]
{{- else if .cidr -}}
- toCIDRSet:
    - cidr: {{ .cidr | quote }}
      {{- with .except }}
      except: {{ toJson . }}
      {{- end }}
{{- else -}}
- toEndpoints:
    - matchLabels: {{ set (deepCopy .pods.labels) "k8s:io.kubernetes.pod.namespace" .pods.namespace | toJson }}
{{- end }}
{{- with .port }}
  toPorts:
    - ports: [{port: {{ . | quote }}, protocol: TCP}]
{{- end }}
{{- end -}}

{{/* A name is allowed by what the resolver answered for it, so Cilium has to see that. */}}
{{- define "sandbox.ciliumResolver" -}}
- toEndpoints:
    - matchLabels: {{ set (include "sandbox.resolverLabels" . | fromJson) "k8s:io.kubernetes.pod.namespace" .namespace | toJson }}
  toPorts:
    - ports: [{port: "53", protocol: ANY}]
      rules: {dns: [{matchPattern: "*"}]}
{{- with .cidrs }}
- toCIDR: {{ toJson . }}
  toPorts:
    - ports: [{port: "53", protocol: ANY}]
      rules: {dns: [{matchPattern: "*"}]}
{{- end }}
{{- end -}}

{{/* The name that every object's begins with: the release's, and the chart's unless it is in it. */}}
{{- define "sandbox.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimAll "-." -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimAll "-." -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimAll "-." -}}
{{- end -}}
{{- end -}}

{{/* The labels that select the worker. They are not those of a sandbox's pod, which a sweep goes by. */}}
{{- define "sandbox.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: worker
{{- end -}}

{{/* The labels of an object; the argument is the root and the component. */}}
{{- define "sandbox.labels" -}}
{{- $root := index . 0 -}}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/name: {{ $root.Chart.Name }}
app.kubernetes.io/instance: {{ $root.Release.Name | quote }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "sandbox.workerAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (printf "%s-worker" (include "sandbox.fullname" .)) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end -}}

{{/* Where the sandboxes' pods are made. */}}
{{- define "sandbox.namespace" -}}
{{- .Values.worker.sandbox.kubernetes.namespace | default .Release.Namespace -}}
{{- end -}}

{{/* "true" where the sandboxes have a namespace of their own, in which nothing else is meant to run. */}}
{{- define "sandbox.apart" -}}
{{- if ne (include "sandbox.namespace" .) .Release.Namespace -}}true{{- end -}}
{{- end -}}

{{/* "true" under the runtime kubernetes. */}}
{{- define "sandbox.pods" -}}
{{- if eq .Values.worker.sandbox.runtime "kubernetes" -}}true{{- end -}}
{{- end -}}

{{/*
The image of a name, by digest: what the values name, or else this release's.
The argument is the root, the image's name and the value that could name it,
with its path for the message.
*/}}
{{- define "sandbox.image" -}}
{{- $root := index . 0 -}}{{- $name := index . 1 -}}{{- $own := index . 2 -}}{{- $path := index . 3 -}}
{{- $digest := get $root.Values.images.digests $name -}}
{{- if $own -}}
{{- $own -}}
{{- else if and $root.Values.images.prefix $digest -}}
{{- printf "%s%s@%s" $root.Values.images.prefix $name $digest -}}
{{- else -}}
{{- fail (printf "%s is empty, and this chart is no release's, whose images.prefix and images.digests.%s would say it: set it to NAME@sha256:DIGEST" $path $name) -}}
{{- end -}}
{{- end -}}

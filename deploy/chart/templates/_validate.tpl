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
{{- include "sandbox.validateBackends" . -}}
{{- include "sandbox.validateScanners" . -}}
{{- include "sandbox.validateWorker" . -}}
{{- end -}}

{{/* What the worker's pod can't have besides. */}}
{{- define "sandbox.validateWorker" -}}
{{- range $key := keys .Values.worker.podLabels | sortAlpha -}}
{{- if or (hasKey (include "sandbox.selector" $ | fromYaml) $key) (hasPrefix "io.batlehub/" $key) -}}
{{- fail (printf "worker.podLabels has %s, which tells workers from sandboxes and is the chart's to set: leave it out" $key) -}}
{{- end -}}
{{- end -}}
{{- if hasKey .Values.worker.podAnnotations "checksum/config" -}}
{{- fail "worker.podAnnotations has checksum/config, which the chart sets: leave it out" -}}
{{- end -}}
{{- include "sandbox.validateTolerations" (list "worker.tolerations" .Values.worker.tolerations) -}}
{{- $base := base .Values.worker.sandbox.bwrap.binary | trimSuffix "-remote" -}}
{{- if and (not (include "sandbox.pods" .)) (has $base (list "podman" "docker" "nerdctl" "crun" "runc" "runsc" "kubectl")) -}}
{{- fail (printf "worker.sandbox.bwrap.binary is %s, the program of something else: want bwrap, or leave it out" .Values.worker.sandbox.bwrap.binary) -}}
{{- end -}}
{{- if and .Values.serviceAccount.create (eq .Values.serviceAccount.name "default") -}}
{{- fail "serviceAccount.name is default, which every namespace has already: name another, or set serviceAccount.create to false" -}}
{{- end -}}
{{- range list "artifact:" "local:" "meta:" -}}
{{- if hasPrefix . $.Values.worker.sandbox.bundle_prefix -}}
{{- fail (printf "worker.sandbox.bundle_prefix is %s and begins with %s, with which the registry's own keys begin: want another, such as sandbox/" $.Values.worker.sandbox.bundle_prefix .) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Tolerations that a pod can't have; the argument is their path and they. */}}
{{- define "sandbox.validateTolerations" -}}
{{- $path := index . 0 -}}
{{- range $i, $t := index . 1 -}}
{{- if and (not $t.key) (ne (default "" $t.operator) "Exists") -}}
{{- fail (printf "%s[%d] has no key: want one, or operator Exists for all taints" $path $i) -}}
{{- end -}}
{{- if and (eq (default "" $t.operator) "Exists") $t.value -}}
{{- fail (printf "%s[%d] has a value beside operator Exists: want operator Equal, or no value" $path $i) -}}
{{- end -}}
{{- if and (hasKey $t "tolerationSeconds") (ne (default "" $t.effect) "NoExecute") -}}
{{- fail (printf "%s[%d] has tolerationSeconds without the effect NoExecute: want that effect, or no tolerationSeconds" $path $i) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Scanners that the worker's configuration can't have. */}}
{{- define "sandbox.validateScanners" -}}
{{- $known := list "artifact" "work" "name" "version" "ecosystem" -}}
{{- range $name, $s := .Values.scanners -}}
{{- if not (regexMatch "^[a-z0-9]([-_.a-z0-9]{0,61}[a-z0-9])?$" $name) -}}
{{- fail (printf "scanners has the name %q: want 1 to 63 of a-z 0-9 - _ . between letters or digits" $name) -}}
{{- end -}}
{{- if $s.enabled -}}
{{- range $i, $arg := $s.args -}}
{{- range regexFindAll `\{\s*[A-Za-z_][A-Za-z0-9_-]*\s*\}` $arg -1 -}}
{{- $word := trimAll "{} \t\n\r\f\v" . -}}
{{- $spaced := ne . (printf "{%s}" $word) -}}
{{- /* As the worker: {NAME} has to be known, and { name } is a slip of what is. */ -}}
{{- if eq $spaced (has $word $known) -}}
{{- fail (printf "scanners.%s.args[%d] has %s, which is filled in with nothing: known are {%s}" $name $i . (join "}, {" $known)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $predefined := list "gitleaks" "guarddog" "postmortem" "trivy" -}}
{{- $type := $s.type | default (has $name $predefined | ternary $name "command") -}}
{{- if and (eq $type "command") (not $s.command) (not (has $name (list "osv" "mlab" "sigstore" "socket"))) -}}
{{- fail (printf "scanners.%s has no command: set it, or type to one of %s" $name (join ", " $predefined)) -}}
{{- end -}}
{{- if and (hasKey $s "timeout") (hasKey $s "timeout_secs") -}}
{{- fail (printf "scanners.%s has both timeout and timeout_secs: keep timeout" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

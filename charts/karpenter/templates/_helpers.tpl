{{/*
Fills in what the values lack; each template begins with it. Helm lays the chart's own values under the user's, but not with `helm upgrade --reuse-values`,
where those of the chart before are all there is: then what is new here would be missing. A null is no value, so it gets the default too, but for what
a null takes away (resources, priority class, …), unless the values are of a chart that had no `settings` and so knew none of ours.
files/defaults.yaml is values.yaml, which templates cannot read.
*/}}
{{- define "karpenter.defaults" -}}
{{- $defaults := .Files.Get "files/defaults.yaml" | fromYaml }}
{{- $foreign := not (hasKey .Values "settings") }}
{{- range $name, $default := $defaults }}
{{- if or $foreign (not (has $name (list "resources" "podSecurityContext" "priorityClassName" "strategy"))) }}
{{- include "karpenter.default" (dict "into" $.Values "name" $name "value" $default) }}
{{- end }}
{{- end }}
{{- /* The parts that are read here; a map of Kubernetes' own is taken as it is given. */}}
{{- range $part := list "image" "serviceAccount" "spot" "operator" "settings" "podDisruptionBudget" "service" "serviceMonitor" "prometheusRule" }}
{{- range $name, $default := index $defaults $part }}
{{- include "karpenter.default" (dict "into" (index $.Values $part) "name" $name "value" $default) }}
{{- end }}
{{- end }}
{{- end }}

{{- define "karpenter.default" -}}
{{- if kindIs "invalid" (index .into .name) }}{{ $_ := set .into .name .value }}{{ end }}
{{- end }}

{{/* A value as text: a whole number without an exponent. */}}
{{- define "karpenter.text" -}}
{{- if and (kindIs "float64" .) (eq (floor .) .) }}{{ printf "%.0f" . }}{{ else }}{{ toString . }}{{ end }}
{{- end }}

{{/* The name, at most 63 characters. */}}
{{- define "karpenter.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* The full name: the release's name when it holds the chart's, else both. */}}
{{- define "karpenter.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}
{{- end }}

{{/* Immutable in a Deployment: never change these two. */}}
{{- define "karpenter.selectorLabels" -}}
app.kubernetes.io/name: {{ include "karpenter.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "karpenter.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "karpenter.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.additionalLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Annotations of an object: its own and those for all. Takes (dict "root" $ "own" {...}). */}}
{{- define "karpenter.annotations" -}}
{{- with merge (dict) (.own | default dict) (.root.Values.additionalAnnotations | default dict) }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "karpenter.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "karpenter.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "karpenter.image" -}}
{{- $image := printf "%s:%s" .Values.image.repository (include "karpenter.text" (.Values.image.tag | default .Chart.AppVersion)) }}
{{- with .Values.image.digest }}{{ $image = printf "%s@%s" $image . }}{{ end }}
{{- $image }}
{{- end }}

{{/* Where the token comes from: the name of a secret, or nothing when the free-form variables bring it. What another secret holds is not known here. */}}
{{- define "karpenter.secretName" -}}
{{- $byEnv := false }}
{{- range .Values.extraEnv }}
{{- if and (has .name (list "SPOT_REFRESH_TOKEN" "refreshToken" "SPOT_REFRESH_TOKEN_FILE" "SPOT_ACCESS_TOKEN")) (or .value .valueFrom) }}{{ $byEnv = true }}{{ end }}
{{- end }}
{{- range .Values.extraEnvFrom }}
{{- if .secretRef }}{{ $byEnv = true }}{{ end }}
{{- end }}
{{- if .Values.spot.existingSecret }}
{{- .Values.spot.existingSecret }}
{{- else if .Values.spot.refreshToken }}
{{- printf "%s-credentials" (include "karpenter.fullname" .) }}
{{- else if not $byEnv }}
{{- fail "Set spot.refreshToken, or spot.existingSecret to the name of a secret that has the token under refreshToken or SPOT_REFRESH_TOKEN." }}
{{- end }}
{{- end }}

{{/* A variable of extraEnv, as YAML; the last of a name wins, as in a container. Takes (dict "root" $ "name" "X"). */}}
{{- define "karpenter.extra" -}}
{{- $found := dict }}
{{- range .root.Values.extraEnv }}{{ if eq .name $.name }}{{ $found = . }}{{ end }}{{ end }}
{{- toYaml $found }}
{{- end }}

{{/* The lease that the process asks for, which is the one that the Role has to allow. */}}
{{- define "karpenter.leaseName" -}}
{{- $extra := include "karpenter.extra" (dict "root" . "name" "LEADER_ELECTION_NAME") | fromYaml }}
{{- if not $extra }}
{{- .Values.operator.leaderElectionName }}
{{- else if $extra.value }}
{{- include "karpenter.text" $extra.value }}
{{- else }}
{{- fail "Give LEADER_ELECTION_NAME in extraEnv as a plain value, or set operator.leaderElectionName: the Role has to name the lease." }}
{{- end }}
{{- end }}

{{/* Where that lease is. */}}
{{- define "karpenter.leaseNamespace" -}}
{{- $extra := include "karpenter.extra" (dict "root" . "name" "LEADER_ELECTION_NAMESPACE") | fromYaml }}
{{- if $extra.value }}
{{- include "karpenter.text" $extra.value }}
{{- else if or (not $extra.valueFrom) (eq "metadata.namespace" (dig "valueFrom" "fieldRef" "fieldPath" "" $extra)) }}
{{- .Release.Namespace }}
{{- else }}
{{- fail "Give LEADER_ELECTION_NAMESPACE in extraEnv as a plain value: the Role for the lease has to be in that namespace." }}
{{- end }}
{{- end }}

{{/* "true" when every replica would work at once. */}}
{{- define "karpenter.withoutLeader" -}}
{{- $extra := include "karpenter.extra" (dict "root" . "name" "DISABLE_LEADER_ELECTION") | fromYaml }}
{{- $said := .Values.operator.disableLeaderElection }}
{{- if $extra }}{{ $said = $extra.value }}{{ end }}
{{- if has (toString $said) (list "1" "t" "T" "true" "TRUE" "True") }}true{{ end }}
{{- end }}

{{/*
How pods are replaced. Recreate has no rollingUpdate, which the default values bring. One that waits for no lease makes room before the next comes; not by
Recreate, which a server-side apply cannot bring into a Deployment whose rollingUpdate nobody ever wrote, such as the Go chart's.
*/}}
{{- define "karpenter.strategy" -}}
{{- $strategy := .Values.strategy | default dict }}
{{- if eq "Recreate" (toString $strategy.type) }}
{{- $strategy = dict "type" "Recreate" }}
{{- else if include "karpenter.withoutLeader" . }}
{{- $strategy = dict "rollingUpdate" (dict "maxSurge" 0 "maxUnavailable" 1) }}
{{- end }}
{{- with $strategy }}{{ toYaml . }}{{ end }}
{{- end }}

{{/* What cannot go well, in one sentence each. */}}
{{- define "karpenter.checks" -}}
{{- if and (include "karpenter.withoutLeader" .) (gt (int .Values.replicaCount) 1) }}
{{- fail "Without leader election every replica buys servers on its own: set replicaCount to 1, or operator.disableLeaderElection to false." }}
{{- end }}
{{- if and .Release.IsUpgrade (include "karpenter.goImage" .) }}
{{- fail (include "karpenter.goImage" .) }}
{{- end }}
{{- end }}

{{/* A sentence when the image is that of the Go provider, which the values of its chart name. */}}
{{- define "karpenter.goImage" -}}
{{- if contains "kanya-approve/" .Values.image.repository -}}
image.repository is {{ .Values.image.repository }}, the Go provider's image: set image.repository and image.tag to an image of this provider.
{{- end }}
{{- end }}

{{/* FEATURE_GATES: every gate of the values, in Karpenter's spelling. */}}
{{- define "karpenter.featureGates" -}}
{{- $items := list }}
{{- range $name, $on := .Values.settings.featureGates }}
{{- $items = append $items (printf "%s=%t" (printf "%s%s" (upper (substr 0 1 $name)) (substr 1 -1 $name)) $on) }}
{{- end }}
{{- join "," $items }}
{{- end }}

{{/* The chart's own variables; those that extraEnv names too are left out, so that no name comes twice. */}}
{{- define "karpenter.env" -}}
{{- $taken := dict }}
{{- $extra := list }}
{{- range .Values.extraEnv }}
{{- $_ := set $taken .name true }}
{{- $variable := deepCopy . }}
{{- if hasKey . "value" }}{{ $_ := set $variable "value" (include "karpenter.text" (ternary "" .value (kindIs "invalid" .value))) }}{{ end }}
{{- $extra = append $extra $variable }}
{{- end }}
{{- $own := list
  (dict "name" "SPOT_CLOUDSPACE_NAME" "value" (include "karpenter.text" (required "Set spot.cloudspaceName to the name of the cloudspace." .Values.spot.cloudspaceName)))
  (dict "name" "METRICS_PORT" "value" (include "karpenter.text" .Values.operator.metricsPort))
  (dict "name" "HEALTH_PROBE_PORT" "value" (include "karpenter.text" .Values.operator.healthProbePort))
  (dict "name" "DISABLE_LEADER_ELECTION" "value" (toString .Values.operator.disableLeaderElection))
  (dict "name" "LEADER_ELECTION_NAME" "value" .Values.operator.leaderElectionName)
  (dict "name" "LOG_LEVEL" "value" .Values.logLevel)
  (dict "name" "LOG_OUTPUT_PATHS" "value" (join "," .Values.logOutputPaths))
  (dict "name" "LOG_ERROR_OUTPUT_PATHS" "value" (join "," .Values.logErrorOutputPaths))
  (dict "name" "BATCH_MAX_DURATION" "value" .Values.settings.batchMaxDuration)
  (dict "name" "BATCH_IDLE_DURATION" "value" .Values.settings.batchIdleDuration)
  (dict "name" "PREFERENCE_POLICY" "value" .Values.settings.preferencePolicy)
  (dict "name" "MIN_VALUES_POLICY" "value" .Values.settings.minValuesPolicy)
  (dict "name" "IGNORE_DRA_REQUESTS" "value" (toString .Values.settings.ignoreDRARequests))
  (dict "name" "DISABLE_CLUSTER_STATE_OBSERVABILITY" "value" (toString .Values.settings.disableClusterStateObservability))
  (dict "name" "FEATURE_GATES" "value" (include "karpenter.featureGates" .))
  (dict "name" "LEADER_ELECTION_NAMESPACE" "valueFrom" (dict "fieldRef" (dict "fieldPath" "metadata.namespace")))
  (dict "name" "CPU_REQUESTS" "valueFrom" (dict "resourceFieldRef" (dict "containerName" "controller" "resource" "requests.cpu" "divisor" "1m")))
  (dict "name" "MEMORY_LIMIT" "valueFrom" (dict "resourceFieldRef" (dict "containerName" "controller" "resource" "limits.memory")))
}}
{{- with .Values.spot.baseURL }}{{ $own = append $own (dict "name" "SPOT_BASE_URL" "value" .) }}{{ end }}
{{- with .Values.spot.oauthURL }}{{ $own = append $own (dict "name" "SPOT_AUTH_URL" "value" .) }}{{ end }}
{{- with .Values.settings.launchTimeout }}{{ $own = append $own (dict "name" "RACKSPACE_LAUNCH_TIMEOUT" "value" .) }}{{ end }}
{{- with .Values.settings.bidRules }}{{ $own = append $own (dict "name" "RACKSPACE_BID_RULES" "value" .) }}{{ end }}
{{- with .Values.settings.vmMemoryOverheadPercent }}{{ $own = append $own (dict "name" "VM_MEMORY_OVERHEAD_PERCENT" "value" (toString .)) }}{{ end }}
{{- $env := list }}
{{- range $own }}{{ if not (hasKey $taken .name) }}{{ $env = append $env . }}{{ end }}{{ end }}
{{- toYaml (concat $env $extra) }}
{{- end }}

{{/* Rather not on nodes that the operator manages (it could drain itself), rather not two on one node. Soft, so that a small cluster still runs it. */}}
{{- define "karpenter.affinity" -}}
nodeAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      preference:
        matchExpressions:
          - key: karpenter.sh/nodepool
            operator: DoesNotExist
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 50
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "karpenter.selectorLabels" . | nindent 12 }}
{{- end }}

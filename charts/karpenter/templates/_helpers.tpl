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
{{- $image := printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
{{- with .Values.image.digest }}{{ $image = printf "%s@%s" $image . }}{{ end }}
{{- $image }}
{{- end }}

{{/* Where the token comes from: the name of a secret, or nothing when extraEnv brings it. */}}
{{- define "karpenter.secretName" -}}
{{- $byEnv := false }}
{{- range .Values.extraEnv }}
{{- if has .name (list "SPOT_REFRESH_TOKEN" "SPOT_REFRESH_TOKEN_FILE" "SPOT_ACCESS_TOKEN") }}{{ $byEnv = true }}{{ end }}
{{- end }}
{{- if .Values.spot.existingSecret }}
{{- .Values.spot.existingSecret }}
{{- else if .Values.spot.refreshToken }}
{{- printf "%s-credentials" (include "karpenter.fullname" .) }}
{{- else if not (or $byEnv .Values.extraEnvFrom) }}
{{- fail "Set spot.refreshToken, or spot.existingSecret to the name of a secret that has the token under refreshToken or SPOT_REFRESH_TOKEN." }}
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
{{- range .Values.extraEnv }}{{ $_ := set $taken .name true }}{{ end }}
{{- $own := list
  (dict "name" "SPOT_CLOUDSPACE_NAME" "value" (required "Set spot.cloudspaceName to the name of the cloudspace." .Values.spot.cloudspaceName))
  (dict "name" "METRICS_PORT" "value" (toString .Values.operator.metricsPort))
  (dict "name" "HEALTH_PROBE_PORT" "value" (toString .Values.operator.healthProbePort))
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
{{- toYaml (concat $env .Values.extraEnv) }}
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

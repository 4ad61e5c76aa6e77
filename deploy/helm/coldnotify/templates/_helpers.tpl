{{- define "coldnotify.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end -}}

{{- define "coldnotify.labels" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end -}}

{{- define "coldnotify.kafka" -}}
{{- $bootstrap := .Values.kafka.bootstrap -}}
{{- if kindIs "string" $bootstrap }}{{ $bootstrap }}{{ else }}{{ join "," $bootstrap }}{{ end }}
{{- end -}}

{{/* The name of this pod of a stateful set, as others reach it; it writes it to the nodes topic. */}}
{{- define "coldnotify.this" -}}
$(POD_NAME).{{ include "coldnotify.name" .root }}-{{ .part }}
{{- end -}}

{{/* What each pod has: .root, .part, .values (of the part), .command, .port (for looking in), .scheme, .environment (more of it). */}}
{{- define "coldnotify.pod" -}}
metadata:
  labels: {{- include "coldnotify.labels" . | nindent 4 }}
  annotations:
    prometheus.io/scheme: {{ lower .scheme }}
spec:
  automountServiceAccountToken: false
  # A service named ...-http would set COLDNOTIFY_HTTP_PORT, which is a setting.
  enableServiceLinks: false
  terminationGracePeriodSeconds: 30
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    seccompProfile: {type: RuntimeDefault}
  {{- with .root.Values.imagePullSecrets }}
  imagePullSecrets: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .root.Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .root.Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels: {{- include "coldnotify.labels" . | nindent 10 }}
  containers:
    - name: {{ .part }}
      {{- include "coldnotify.container" . | nindent 6 }}
      ports:
        - {name: look, containerPort: {{ .port }}}
      livenessProbe:
        httpGet: {path: /healthz, port: look, scheme: {{ .scheme }}}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /readyz, port: look, scheme: {{ .scheme }}}
        periodSeconds: 5
        timeoutSeconds: 5
      resources: {{- toYaml .values.resources | nindent 8 }}
  {{- include "coldnotify.volumes" . | nindent 2 }}
{{- end -}}

{{- define "coldnotify.container" -}}
image: "{{ .root.Values.image.repository }}:{{ .root.Values.image.tag | default .root.Chart.AppVersion }}"
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
args: {{ toJson .command }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
env:
  {{- if has .part (list "matcher" "gateway") }}
  # Before those that contain it.
  - name: POD_NAME
    valueFrom: {fieldRef: {fieldPath: metadata.name}}
  {{- end }}
  - {name: COLDNOTIFY_KAFKA, value: {{ include "coldnotify.kafka" .root | quote }}}
  - {name: COLDNOTIFY_TOPICS_PREFIX, value: {{ .root.Values.kafka.topicsPrefix | default "coldnotify." | quote }}}
  - {name: COLDNOTIFY_LOG_FORMAT, value: json}
  {{- range $name, $value := merge (dict) (default (dict) (default (dict) .values).settings) (default (dict) .root.Values.settings) .environment }}
  - {name: {{ $name }}, value: {{ $value | quote }}}
  {{- end }}
  {{- if eq .part "matcher" }}
  - name: COLDNOTIFY_MATCHER_ID
    valueFrom: {fieldRef: {fieldPath: metadata.name}}
  {{- end }}
volumeMounts:
  - {name: tmp, mountPath: /tmp}
  {{- if .root.Values.filesSecret }}
  - {name: files, mountPath: /etc/coldnotify, readOnly: true}
  {{- end }}
{{- end -}}

{{- define "coldnotify.volumes" -}}
volumes:
  - name: tmp
    emptyDir: {medium: Memory, sizeLimit: 16Mi}
  {{- if .root.Values.filesSecret }}
  - name: files
    secret: {secretName: {{ .root.Values.filesSecret }}, defaultMode: 0440}
  {{- end }}
{{- end -}}

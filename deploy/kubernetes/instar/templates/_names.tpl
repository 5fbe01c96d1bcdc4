{{- define "instar.name" -}}
{{- if contains "instar" .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-instar" (.Release.Name | trunc 33 | trimSuffix "-") }}{{ end }}
{{- end }}

{{- define "instar.account" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "instar.name" .) }}{{ else }}{{ .Values.serviceAccount.name | default "default" }}{{ end }}
{{- end }}

{{- define "instar.labels" -}}
app.kubernetes.io/name: instar
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- /* One role's pod. Takes: root, role, arguments, resources. */ -}}
{{- define "instar.pod" -}}
{{- $root := .root -}}
metadata:
  labels:
    {{- include "instar.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .role }}
    {{- with $root.Values.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  annotations:
    # Another configuration is another pod.
    instar/configuration: {{ toYaml $root.Values.pipeline | sha256sum }}
    prometheus.io/scrape: "true"
    prometheus.io/port: "8710"
    prometheus.io/path: /metrics
    {{- with $root.Values.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  serviceAccountName: {{ include "instar.account" $root }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: 15
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    seccompProfile: { type: RuntimeDefault }
  containers:
    - name: instar
      image: "{{ $root.Values.image.repository }}:{{ $root.Values.image.tag | default $root.Chart.AppVersion }}"
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      args: {{ concat .arguments (list "--admin" "0.0.0.0:8710") | toJson }}
      env:
        - { name: INSTAR_LOG_FORMAT, value: {{ $root.Values.logFormat | quote }} }
      {{- with $root.Values.secrets }}
      envFrom:
        {{- range . }}
        - secretRef: { name: {{ . | quote }} }
        {{- end }}
      {{- end }}
      ports:
        - { name: admin, containerPort: 8710 }
      # A stop waits for a person: not ready, but alive.
      livenessProbe: { httpGet: { path: /healthz, port: admin }, initialDelaySeconds: 15, periodSeconds: 10, failureThreshold: 6 }
      readinessProbe: { httpGet: { path: /readyz, port: admin }, periodSeconds: 5 }
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: { drop: [ALL] }
      resources: {{ toJson .resources }}
      volumeMounts:
        - { name: configuration, mountPath: /etc/instar/pipeline, readOnly: true }
        {{- range $root.Values.files }}
        - { name: {{ printf "file-%s" .name }}, mountPath: {{ printf "/etc/instar/%s" .name }}, readOnly: true }
        {{- end }}
  volumes:
    - name: configuration
      configMap: { name: {{ include "instar.name" $root }} }
    {{- range $root.Values.files }}
    - name: {{ printf "file-%s" .name }}
      {{- if .secret }}
      secret: { secretName: {{ .secret | quote }} }
      {{- else }}
      configMap: { name: {{ .configMap | quote }} }
      {{- end }}
    {{- end }}
  {{- with $root.Values.nodeSelector }}
  nodeSelector: {{ toJson . }}
  {{- end }}
  {{- with $root.Values.tolerations }}
  tolerations: {{ toJson . }}
  {{- end }}
  {{- with $root.Values.affinity }}
  affinity: {{ toJson . }}
  {{- end }}
{{- end }}

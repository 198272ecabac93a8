{{- define "thalweg.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end }}

{{- define "thalweg.selector" -}}
app.kubernetes.io/name: thalweg
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "thalweg.labels" -}}
{{ include "thalweg.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- /* The volumes of a pod; empty if it has none. */ -}}
{{- define "thalweg.volumes" -}}
{{- if .Values.config }}
- name: config
  configMap: {name: {{ include "thalweg.name" . }}}
{{- end }}
{{- if .Values.nats.credentials.secret }}
- name: nats-credentials
  secret: {secretName: {{ .Values.nats.credentials.secret | quote }}}
{{- end }}
{{- if .Values.nats.ca.secret }}
- name: nats-ca
  secret: {secretName: {{ .Values.nats.ca.secret | quote }}}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

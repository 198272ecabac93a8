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

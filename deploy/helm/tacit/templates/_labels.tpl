{{- define "tacit.labels" }} app.kubernetes.io/name: tacit, app.kubernetes.io/instance: {{ printf "%q" .Release.Name }} {{ end -}}

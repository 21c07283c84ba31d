{{- define "zoarium.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "zoarium.labels" -}}
app.kubernetes.io/name: zoarium
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Lines of the member list, in the format of ZOO_SERVERS. */}}
{{- define "zoarium.servers" -}}
{{- $name := include "zoarium.name" . -}}
{{- $lines := list -}}
{{- range $ordinal := until (int .Values.replicaCount) -}}
{{- $host := printf "%s-%d.%s-members.%s.svc.%s" $name $ordinal $name $.Release.Namespace $.Values.clusterDomain -}}
{{- $lines = append $lines (printf "server.%d=%s:%d:%d;%d" (add1 $ordinal) $host (int $.Values.ports.quorum) (int $.Values.ports.election) (int $.Values.ports.client)) -}}
{{- end -}}
{{- join " " $lines -}}
{{- end -}}

{{/* Further settings. A pod must listen on all addresses, because it may start before DNS has its name. */}}
{{- define "zoarium.extra" -}}
{{- $lines := list "quorumListenOnAllIPs=true" (printf "admin.serverPort=%d" (int .Values.ports.admin)) (printf "zoarium.health.port=%d" (int .Values.ports.health)) -}}
{{- if .Values.ports.metrics -}}
{{- $lines = append $lines "metricsProvider.className=org.apache.zookeeper.metrics.prometheus.PrometheusMetricsProvider" -}}
{{- $lines = append $lines (printf "metricsProvider.httpPort=%d" (int .Values.ports.metrics)) -}}
{{- end -}}
{{- join " " (concat $lines .Values.extraConfig) -}}
{{- end -}}

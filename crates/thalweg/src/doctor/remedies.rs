//! Settings of proxies that remove a problem, as in `docs/how-to/proxies.md`.

pub(super) const UNREACHABLE: &str = "check the host and the port, that the server and its proxy run, and that no firewall blocks them";

pub(super) const HOST: &str = "let the proxy pass Host unchanged, and X-Forwarded-Proto if TLS ends there (nginx: proxy_set_header \
     Host $http_host; Apache: ProxyPreserveHost On; HAProxy and Caddy pass Host), and name the proxy with --trusted-proxy";

pub(super) const PATH: &str = "if the proxy serves Thalweg below a path, let it remove the path (nginx: a slash at the end of \
     proxy_pass; HAProxy: http-request set-path; Apache: the same slashes on both sides of ProxyPass; Caddy: handle_path)";

pub(super) const HTTP2: &str = "enable HTTP/2 where TLS ends (nginx: http2 on; HAProxy: alpn h2,http/1.1; Apache: Protocols h2 \
     http/1.1; Caddy has it; Thalweg with --tls-cert has it)";

pub(super) const UPGRADE: &str = "pass the upgrade over HTTP/1.1 (nginx: proxy_http_version 1.1 and proxy_set_header Upgrade \
     $http_upgrade, Connection $connection_upgrade; Apache: upgrade=websocket in ProxyPass; HAProxy and Caddy: remove rules that \
     delete Upgrade); until then the SDK uses HTTP streaming";

pub(super) const BUFFERED: &str = "switch buffering of responses off (nginx: proxy_buffering off, without proxy_ignore_headers \
     X-Accel-Buffering; HAProxy: no http-response wait-for-body; Apache: flushpackets=on; Caddy: flush_interval -1)";

pub(super) const COMPRESSED: &str = "switch the proxy's compression off for text/event-stream and application/x-ndjson (nginx: \
     gzip_types; HAProxy: compression type; Apache: SetEnv no-gzip 1; Caddy: encode with a matcher), or compress in the server \
     with --compression";

pub(super) const IDLE: &str = "set idle timeouts longer than the heartbeat of 25 s (nginx: proxy_read_timeout 75s; HAProxy: \
     timeout client, timeout server and timeout tunnel 75s; Apache: timeout=75 in ProxyPass; Caddy: no read_timeout), or set a \
     shorter --heartbeat";

pub(super) const SILENT: &str = "if --heartbeat of the server is longer, use a longer --idle; otherwise switch off what holds \
     small messages back in the proxy (nginx: proxy_buffering off; Apache: flushpackets=on; Caddy: flush_interval -1)";

pub(super) const PREFLIGHT: &str = "let the proxy pass OPTIONS, Origin and the Access-Control-… headers of the server, and remove rules that answer \
     for it";

pub(super) const TWO_CORS: &str = "remove the proxy's own rule, because the server adds the header (nginx: add_header; HAProxy: \
     http-response add-header; Apache: Header add; Caddy: header)";

pub(super) const RIGHTS: &str =
    "pass a --token that may subscribe, or name a topic that it may read, as in …/v1/topics/cars";

pub(super) const ENDED: &str = "read the logs of the server and of the proxy";

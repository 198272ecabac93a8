//! Proxies with the configurations of `docs/how-to/proxies.md`, and with mistakes in them.

use super::{Diagnosis, PATIENTLY, STREAMS, WITHOUT_IDLE};
use crate::harness::Server;
use crate::proxies::{Behind, ProxyKind};

/// Data that a proxy holds back is late after this time.
const SOON: [&str; 2] = ["--wait", "2s"];

fn behind(behind: &Behind, more: &[&[&str]]) -> Diagnosis {
    Diagnosis::from_url(&format!("http://{}/live/", behind.address), more)
}

fn documented_is_in_order(kind: ProxyKind) {
    let server = Server::start(&["--heartbeat", "500ms", "--trusted-proxy", "127.0.0.1"]);
    let Some(proxy) = Behind::start(kind, server.address) else { return };
    let diagnosis = behind(&proxy, &[&PATIENTLY, &["--idle", "2s"]]);
    diagnosis.is_in_order();
    for check in STREAMS {
        diagnosis.has("ok", &format!("{check} idle"), "stays open");
    }
}

#[test]
fn nginx_as_documented_is_in_order() {
    documented_is_in_order(ProxyKind::Nginx);
}

#[test]
fn haproxy_as_documented_is_in_order() {
    documented_is_in_order(ProxyKind::HAProxy);
}

/// As without any setting for streams: HTTP/1.0 to the server, no upgrade, buffers, and the proxy's own `Host`.
#[test]
fn nginx_with_its_defaults_strips_and_buffers() {
    let server = Server::start(&["--heartbeat", "1h"]);
    let changes = [
        ("proxy_http_version 1.1;", "proxy_http_version 1.0;"),
        ("proxy_set_header Host $http_host;", "proxy_ignore_headers X-Accel-Buffering;"),
        ("proxy_set_header Upgrade $http_upgrade;", "proxy_set_header Upgrade '';"),
        ("proxy_set_header Connection $connection_upgrade;", "proxy_set_header Connection close;"),
    ];
    let Some(proxy) = Behind::start_changed(ProxyKind::Nginx, server.address, &changes) else {
        return;
    };
    let diagnosis = behind(&proxy, &[&SOON, &WITHOUT_IDLE]);
    diagnosis.has("problem", "own-origin", "proxy_set_header Host");
    diagnosis.has("problem", "websocket", "strips the upgrade");
    for check in ["sse", "http-streaming"] {
        diagnosis.has("problem", check, "proxy_buffering off");
    }
}

#[test]
fn haproxy_that_waits_for_bodies_is_found() {
    let server = Server::start(&["--heartbeat", "1h"]);
    let changes = [(
        "option forwardfor",
        "option forwardfor\n    http-request del-header Upgrade\n    \
         http-response wait-for-body time 1h at-least 16000",
    )];
    let Some(proxy) = Behind::start_changed(ProxyKind::HAProxy, server.address, &changes) else {
        return;
    };
    let diagnosis = behind(&proxy, &[&SOON, &WITHOUT_IDLE]);
    diagnosis.has("problem", "websocket", "strips the upgrade");
    for check in ["sse", "http-streaming"] {
        diagnosis.has("problem", check, "wait-for-body");
    }
}

fn cuts_idle_streams(kind: ProxyKind) {
    let server = Server::start(&["--heartbeat", "1h"]);
    // The idle timeout of the proxy is 3 s.
    let Some(proxy) = Behind::start(kind, server.address) else { return };
    let diagnosis = behind(&proxy, &[&PATIENTLY, &["--idle", "20s"]]);
    for check in STREAMS {
        diagnosis.has("problem", &format!("{check} idle"), "a stream without events ends after");
    }
}

#[test]
fn nginx_that_cuts_idle_streams_is_found() {
    cuts_idle_streams(ProxyKind::Nginx);
}

#[test]
fn haproxy_that_cuts_idle_streams_is_found() {
    cuts_idle_streams(ProxyKind::HAProxy);
}

#[test]
fn a_proxy_that_passes_another_host_is_found() {
    let server = Server::start(&[]);
    let changes = [("proxy_set_header Host $http_host;", "proxy_set_header Host inside.example;")];
    let Some(proxy) = Behind::start_changed(ProxyKind::Nginx, server.address, &changes) else {
        return;
    };
    let diagnosis = behind(&proxy, &[&PATIENTLY, &WITHOUT_IDLE]);
    diagnosis.has("problem", "server", "proxy_set_header Host");
}

#[test]
fn a_proxy_without_its_server_is_found() {
    let server = Server::start(&[]);
    let Some(proxy) = Behind::start(ProxyKind::Nginx, server.address) else { return };
    drop(server);
    let diagnosis = behind(&proxy, &[&PATIENTLY, &WITHOUT_IDLE]);
    diagnosis.has("problem", "server", "a proxy answers 502");
}

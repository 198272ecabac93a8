//! Notes on settings of connections that only the subject sees. Values that the swarm sees are in `equality`.

use crate::scenario::{Plan, Program, Settings};

pub(super) fn notes(plan: &Plan) -> Vec<String> {
    // The answers of an endpoint that was already running are reported with its figures.
    let started = || plan.subjects().filter(|subject| !matches!(subject.program, Program::Url(_)));
    let any = |has: fn(&Settings) -> bool| started().any(|subject| has(&subject.settings));
    let ran = |is: fn(&Program) -> bool| started().any(|subject| is(&subject.program));
    let has_limit = ran(|program| *program == Program::Limit);
    let has_thalweg = ran(|program| matches!(program, Program::Thalweg | Program::Build(_)));
    let in_browser = plan.load.is_browser();
    let notes = [
        (any(|settings| settings.streams == 0 && !settings.tls), "HTTP/1.1 over IPv4, no TLS"),
        (
            any(|settings| settings.streams == 0 && settings.tls) && !in_browser,
            "where tls: HTTP/1.1 in TLS 1.3 over IPv4",
        ),
        (
            any(|settings| settings.tls) && in_browser,
            "where tls: TLS 1.3 over IPv4, and HTTP/2 where the subject has it, also for WebSockets \
             (“connections over HTTP/2” of each sample counts them)",
        ),
        (
            any(|settings| settings.streams > 0),
            "where streams: HTTP/2 over IPv4, with prior knowledge or in TLS 1.3 (ALPN h2); \
             windows of 6 MiB per stream and 15 MiB per connection",
        ),
        (
            any(|settings| settings.tls) && !in_browser,
            "TLS: rustls with ring on both sides, one self-signed certificate, no resumption",
        ),
        (
            any(|settings| settings.tls) && in_browser,
            "TLS: rustls with ring in the subject, one self-signed certificate",
        ),
        (
            any(|settings| !settings.compress) && !in_browser,
            "no WebSocket extensions offered, no compression asked for",
        ),
        (
            any(|settings| !settings.compress) && in_browser,
            "the browser always offers compression; subjects are started without it",
        ),
        (
            any(|settings| settings.compress),
            "where compressed: permessage-deflate offered without parameters, or gzip",
        ),
        (
            any(|settings| settings.receive_buffer_bytes > 0),
            "swarm: SO_RCVBUF where receive_buffer_bytes",
        ),
        (has_limit, "limit: TCP_NODELAY, TCP_NOTSENT_LOWAT 16 KiB"),
        (has_thalweg, "thalweg: TCP_NODELAY, TCP_NOTSENT_LOWAT 16 KiB (its default)"),
        (
            has_thalweg
                && any(|settings| settings.send_buffer_bytes > 0 || settings.unsent_bytes > 0),
            "thalweg: SO_SNDBUF where send_buffer_bytes, TCP_NOTSENT_LOWAT where unsent_bytes",
        ),
    ];
    let notes = notes.into_iter().filter(|(applies, _)| *applies).map(|(_, note)| note.to_owned());
    notes.chain(peers(plan)).collect()
}

fn peers(plan: &Plan) -> Vec<String> {
    let mut reported: Vec<String> = Vec::new();
    for subject in plan.subjects() {
        let Program::Peer(peer) = &subject.program else { continue };
        let drops = peer.drops.iter().map(|how| ("drops", how));
        let settings = peer.settings.iter().map(|(name, value)| (name.as_str(), value));
        let settings: Vec<String> =
            settings.chain(drops).map(|(name, value)| format!("{name}: {value}")).collect();
        let note = format!("{}: {}", peer.name, settings.join("; "));
        if !settings.is_empty() && !reported.contains(&note) {
            reported.push(note);
        }
    }
    reported
}

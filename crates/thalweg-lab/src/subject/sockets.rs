//! Kernel memory of a subject's connections, and their options.

use super::Place;
use anyhow::{Context, bail};
use rustix::net::{getpeername, getsockname, sockopt};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd};
use std::net::SocketAddr;

/// Limit of sockets that are tried to find a connection: the first may be listeners.
const SOCKETS_TRIED_MAX: usize = 64;

/// A connection of a subject, seen from the subject's side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Socket {
    /// The port of the other end.
    pub peer_port: u16,
    /// Kernel memory of received, unread bytes, with bookkeeping.
    pub received_bytes: u64,
    /// Kernel memory of bytes that are not acknowledged, or not sent yet (`wmem_queued`).
    pub unsent_bytes: u64,
    /// `SO_RCVBUF`, set or grown.
    pub receive_buffer_bytes: u64,
    /// `SO_SNDBUF`, set or grown.
    pub send_buffer_bytes: u64,
    /// The largest segment that the subject has offered to accept.
    pub segment_bytes: Option<u64>,
    /// Congestion control algorithm, e.g. `cubic`.
    pub congestion_control: Option<String>,
}

/// Returns the subject's connections. Runs `ss` of iproute2, which takes milliseconds, so never call this within a measured span.
pub fn sockets(place: &Place, subject: SocketAddr) -> anyhow::Result<Vec<Socket>> {
    let output = place
        .command("ss")
        .args(["-tmniH", "state", "connected", "sport", "=", &format!(":{}", subject.port())])
        .output()
        .context("`ss` (package iproute2) is needed to see the kernel's memory")?;
    if !output.status.success() {
        bail!("ss: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(parse(&String::from_utf8_lossy(&output.stdout)))
}

/// Returns whether the subject's first connection has `TCP_NODELAY`; `None` if there is no connection, or none can be seen. Reads the
/// option from a duplicate of the socket's descriptor (`pidfd_getfd(2)`), which is closed at once.
pub fn sends_at_once(processes: &[u32], subject: SocketAddr) -> Option<bool> {
    processes.iter().find_map(|&process| {
        let pid = Pid::from_raw(i32::try_from(process).ok()?)?;
        let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
        let descriptors = std::fs::read_dir(format!("/proc/{process}/fd")).ok()?;
        let sockets = descriptors.flatten().filter(|descriptor| {
            let target = std::fs::read_link(descriptor.path());
            target.is_ok_and(|target| target.to_string_lossy().starts_with("socket:"))
        });
        let numbers = sockets.filter_map(|socket| socket.file_name().to_str()?.parse::<i32>().ok());
        numbers.take(SOCKETS_TRIED_MAX).find_map(|number| {
            let socket = pidfd_getfd(&pidfd, number, PidfdGetfdFlags::empty()).ok()?;
            let own = SocketAddr::try_from(getsockname(&socket).ok()?).ok()?;
            let is_connected = getpeername(&socket).is_ok();
            (is_connected && own.port() == subject.port())
                .then(|| sockopt::tcp_nodelay(&socket).ok())?
        })
    })
}

/// Parses the output of `ss`. Each connection is a line with both addresses, then one with its
/// `skmem:(r0,rb131072,t0,tb46080,f1280,w2816,o0,bl0,d0)` and TCP's state (`cubic wscale:7,7 … advmss:65483 …`); some
/// versions put both on one line.
fn parse(text: &str) -> Vec<Socket> {
    let mut found: Vec<Socket> = Vec::new();
    let mut peer_port: Option<u16> = None;
    let mut last_word = "";
    for word in text.split_whitespace() {
        if let Some(memory) = word.strip_prefix("skmem:(") {
            found.extend(peer_port.take().map(|port| socket(port, memory.trim_end_matches(')'))));
        } else if let Some((name, value)) = word.rsplit_once(':') {
            match (name, found.last_mut()) {
                ("advmss", Some(socket)) => socket.segment_bytes = value.parse().ok(),
                ("wscale", Some(socket)) => {
                    socket.congestion_control = Some(last_word.to_owned());
                }
                // The peer's address is the last before the memory.
                _ if name.ends_with(|c: char| c.is_ascii_digit() || c == ']' || c == '*') => {
                    peer_port = value.parse().ok().or(peer_port);
                }
                _ => {}
            }
        }
        last_word = word;
    }
    found
}

fn socket(peer_port: u16, memory: &str) -> Socket {
    let field = |name: &str| {
        let digits = memory.split(',').filter_map(|field| field.strip_prefix(name));
        digits.filter_map(|digits| digits.parse().ok()).next().unwrap_or(0)
    };
    Socket {
        peer_port,
        received_bytes: field("r"),
        unsent_bytes: field("w"),
        receive_buffer_bytes: field("rb"),
        send_buffer_bytes: field("tb"),
        ..Socket::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_and_settings_are_found() {
        let text = "ESTAB 0 2048 127.0.0.1:9000 127.0.0.1:40001\n\
                    \t skmem:(r7,rb131072,t0,tb2626560,f1792,w4864,o0,bl0,d0) ts sack cubic \
                    wscale:7,7 rto:201 rtt:0.02/0.01 mss:32768 pmtu:65535 advmss:65483 cwnd:10 \
                    lastsnd:4 minrtt:0.01\n\
                    ESTAB 0 0 [::ffff:127.0.0.1]:9000 [::ffff:127.0.0.1]:40002\n\
                    \t skmem:(r0,rb65536,t0,tb1048576,f0,w0,o0,bl0,d0)\n";
        let first = Socket {
            peer_port: 40001,
            received_bytes: 7,
            unsent_bytes: 4864,
            receive_buffer_bytes: 131_072,
            send_buffer_bytes: 2_626_560,
            segment_bytes: Some(65_483),
            congestion_control: Some("cubic".to_owned()),
        };
        let second = Socket {
            peer_port: 40002,
            receive_buffer_bytes: 65_536,
            send_buffer_bytes: 1_048_576,
            ..Socket::default()
        };
        assert_eq!(parse(text), [first, second]);
        assert!(parse("").is_empty());
    }
}

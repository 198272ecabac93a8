//! What the kernel holds unsent for a subject's connections.

use super::Place;
use anyhow::{Context, bail};
use std::collections::HashMap;
use std::net::SocketAddr;

/// Bytes of kernel memory in the send queue of each of the subject's
/// connections (`wmem_queued`: payload and bookkeeping), by the port of the
/// other end. Asks `ss`, of iproute2.
pub fn unsent_bytes_by_port(
    place: &Place,
    subject: SocketAddr,
) -> anyhow::Result<HashMap<u16, u64>> {
    let output = place
        .command("ss")
        .args(["-tmnH", "state", "connected", "sport", "=", &format!(":{}", subject.port())])
        .output()
        .context("`ss` (package iproute2) is needed to see the kernel's memory")?;
    if !output.status.success() {
        bail!("ss: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(parse(&String::from_utf8_lossy(&output.stdout)))
}

/// Each connection is a line with both addresses, then one with its
/// `skmem:(r0,rb131072,t0,tb46080,f1280,w2816,o0,bl0,d0)`; some versions put
/// both on one line.
fn parse(text: &str) -> HashMap<u16, u64> {
    let mut found = HashMap::new();
    let mut peer_port: Option<u16> = None;
    for word in text.split_whitespace() {
        if let Some(memory) = word.strip_prefix("skmem:(") {
            let queued = memory
                .trim_end_matches(')')
                .split(',')
                .find_map(|field| field.strip_prefix('w').and_then(|digits| digits.parse().ok()));
            found.extend(peer_port.take().zip(queued));
        } else if let Some((_, port)) = word.rsplit_once(':') {
            // The peer's address is the last before the memory.
            peer_port = port.parse().ok().or(peer_port);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_found_by_the_peers_port() {
        let text = "ESTAB 0 2048 127.0.0.1:9000 127.0.0.1:40001\n\
                    \t skmem:(r0,rb131072,t0,tb2626560,f1792,w4864,o0,bl0,d0)\n\
                    ESTAB 0 0 127.0.0.1:9000 127.0.0.1:40002\n\
                    \t skmem:(r0,rb131072,t0,tb2626560,f0,w0,o0,bl0,d0)\n";
        assert_eq!(parse(text), HashMap::from([(40001, 4864), (40002, 0)]));
        assert!(parse("").is_empty());
    }
}

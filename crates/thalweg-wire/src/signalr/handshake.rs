//! The handshake ("Overview"): a client's first record names the hub protocol, and the server accepts or refuses it.

use std::borrow::Cow;

use serde::Deserialize;

use super::record;
use crate::Excerpt;

/// The answer to an accepted handshake.
pub const HANDSHAKE_ACCEPTED: &str = "{}\u{1e}";

/// The newest version of the hub protocol. Version 2 adds messages of a stateful reconnect, which no negotiation
/// offers: for a client both versions are the same.
const VERSION_MAX: u32 = 2;

/// The reason why a handshake is refused: one sentence with the remedy.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// The record is no handshake.
    #[error(
        "the first message of a connection is a handshake: use a client of ASP.NET Core SignalR"
    )]
    Missing,
    /// The server does not have this protocol.
    #[error("the hub protocol is json, and not {0}: remove the other protocol from the client")]
    Protocol(String),
    /// The server does not have this version.
    #[error("the hub protocol has versions 1 and 2, and not {0}: use an older client")]
    Version(u32),
}

#[derive(Deserialize)]
struct HandshakeRequest<'a> {
    #[serde(borrow)]
    protocol: Cow<'a, str>,
    version: u32,
}

/// Checks a client's first record.
///
/// # Errors
/// If it is no handshake, or names another protocol or version. The server answers with [`handshake_refused`] and
/// closes the connection.
pub fn accept_handshake(record: &str) -> Result<(), HandshakeError> {
    let json = record::content(record).filter(|json| json.trim_ascii_start().starts_with('{'));
    let request: HandshakeRequest<'_> =
        json.and_then(|json| serde_json::from_str(json).ok()).ok_or(HandshakeError::Missing)?;
    match request {
        HandshakeRequest { protocol, .. } if protocol != "json" => {
            Err(HandshakeError::Protocol(Excerpt(&protocol).to_string()))
        }
        HandshakeRequest { version: 1..=VERSION_MAX, .. } => Ok(()),
        HandshakeRequest { version, .. } => Err(HandshakeError::Version(version)),
    }
}

/// Appends the answer to a refused handshake.
pub fn handshake_refused(error: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(br#"{"error":"#);
    super::outgoing::string(error, out);
    out.push(b'}');
    record::end(out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_names_json_and_a_known_version() {
        let check = |json: &str, expected| {
            assert_eq!(accept_handshake(&format!("{json}\u{1e}")), expected, "{json}");
        };
        check(r#"{"protocol":"json","version":1}"#, Ok(()));
        check(r#"{"version":2,"protocol":"js\u006fn","more":[]}"#, Ok(()));
        check(r#"{"protocol":"json","version":3}"#, Err(HandshakeError::Version(3)));
        check(r#"{"protocol":"json","version":0}"#, Err(HandshakeError::Version(0)));
        let other = HandshakeError::Protocol("messagepack".into());
        check(r#"{"protocol":"messagepack","version":1}"#, Err(other));
        for json in ["", "{}", "[\"json\",1]", r#"{"type":6}"#, r#"{"protocol":1,"version":1}"#] {
            check(json, Err(HandshakeError::Missing));
        }
        let unfinished = r#"{"protocol":"json","version":1}"#;
        assert_eq!(accept_handshake(unfinished), Err(HandshakeError::Missing));
    }

    #[test]
    fn a_refusal_is_a_record_with_an_error() {
        let mut out = Vec::new();
        handshake_refused("say \"json\"", &mut out);
        assert_eq!(out, b"{\"error\":\"say \\\"json\\\"\"}\x1e");
    }
}

use base64::{Engine, engine::general_purpose::STANDARD};
use sha1::{Digest, Sha1};

/// RFC 6455 §1.3: proves that a WebSocket server answers and not a server that merely echoes.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// RFC 6455 §4.1: the key is a random nonce of this length.
const NONCE_BYTES: usize = 16;

/// A `Sec-WebSocket-Key` that is not 16 bytes in base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("Sec-WebSocket-Key is not 16 bytes in base64; send a fresh random one")]
pub struct BadKey;

/// Returns the `Sec-WebSocket-Accept` for a `Sec-WebSocket-Key` (RFC 6455 §4.2.2, step 5.4).
///
/// # Errors
/// [`BadKey`]; answer the request with status 400 (§4.2.1).
pub fn accept_key(sec_websocket_key: &str) -> Result<String, BadKey> {
    match STANDARD.decode(sec_websocket_key) {
        Ok(nonce) if nonce.len() == NONCE_BYTES => {}
        _ => return Err(BadKey),
    }
    let digest = Sha1::new().chain_update(sec_websocket_key).chain_update(GUID).finalize();
    Ok(STANDARD.encode(digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(key: &str, expected: Result<&str, BadKey>) {
        assert_eq!(accept_key(key).as_deref(), expected.as_deref(), "{key}");
    }

    #[test]
    fn a_key_is_answered_as_in_the_rfc() {
        // RFC 6455 §1.3.
        check("dGhlIHNhbXBsZSBub25jZQ==", Ok("s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
    }

    #[test]
    fn keys_other_than_16_bytes_in_base64_are_refused() {
        check("", Err(BadKey));
        check("dGhlIHNhbXBsZSBub25j", Err(BadKey));
        check("dGhlIHNhbXBsZSBub25jZSE=", Err(BadKey));
        check("dGhlIHNhbXBsZSBub25jZQ", Err(BadKey));
        check(" dGhlIHNhbXBsZSBub25jZQ==", Err(BadKey));
        check("dGhlIHNhbXBsZSBub25jZ*==", Err(BadKey));
    }
}

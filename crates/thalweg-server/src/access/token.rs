//! Comparing secrets.

use subtle::ConstantTimeEq;

use crate::config::Secret;

/// Maximum bytes of a token. A comparison always examines this many.
const TOKEN_BYTES_MAX: usize = 256;

/// A secret, padded for comparison. The time depends neither on where two secrets differ nor on the length of this one,
/// only on the length of the presented one, which its sender knows.
pub(super) struct Token {
    padded: [u8; TOKEN_BYTES_MAX],
    length: usize,
}

impl Token {
    /// Returns a token. Fails if the secret is empty, too long, or not allowed in a header.
    pub(super) fn new(secret: &Secret) -> Result<Self, String> {
        let bytes = secret.as_bytes();
        if bytes.is_empty() {
            return Err("the secret is empty: make one with `openssl rand -hex 32`".into());
        }
        if !bytes.iter().all(u8::is_ascii_graphic) {
            return Err("the secret has spaces, or is not visible ASCII: choose another one".into());
        }
        let too_long = || format!("the secret has over {TOKEN_BYTES_MAX} characters: shorten it");
        Self::padded(bytes).ok_or_else(too_long)
    }

    pub(super) fn is(&self, presented: &[u8]) -> bool {
        let Some(presented) = Self::padded(presented) else { return false };
        let same = self.padded.ct_eq(&presented.padded) & self.length.ct_eq(&presented.length);
        same.into()
    }

    fn padded(bytes: &[u8]) -> Option<Self> {
        let mut padded = [0; TOKEN_BYTES_MAX];
        padded.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(Self { padded, length: bytes.len() })
    }
}

/// Returns the token in `Bearer TOKEN` (RFC 6750 §2.1); `None` for another scheme.
pub(super) fn bearer(credentials: &[u8]) -> Option<&[u8]> {
    let end = credentials.iter().position(|&byte| byte == b' ').unwrap_or(credentials.len());
    let (scheme, token) = credentials.split_at(end);
    scheme.eq_ignore_ascii_case(b"bearer").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn comparing_is_equality(
            own in vec(any::<u8>(), 0..=TOKEN_BYTES_MAX),
            change in prop_oneof![
                Just(None),
                any::<(prop::sample::Index, u8)>().prop_map(Some),
            ],
            length in 0..=TOKEN_BYTES_MAX + 2,
        ) {
            let token = Token::padded(&own).unwrap();
            prop_assert!(token.is(&own));
            let mut presented = own.clone();
            if let Some((at, byte)) = change && !presented.is_empty() {
                let at = at.index(presented.len());
                presented[at] = byte;
            }
            prop_assert_eq!(token.is(&presented), own == presented);
            // The padding consists of zeros.
            presented.resize(length, 0);
            prop_assert_eq!(token.is(&presented), own == presented);
        }
    }

    #[test]
    fn tokens_fit_in_a_header() {
        let check = |text: &str, right: bool| {
            assert_eq!(Token::new(&Secret::new(text)).is_ok(), right, "{text:?}");
        };
        check("s3cret+/=", true);
        check(&"x".repeat(TOKEN_BYTES_MAX), true);
        check(&"x".repeat(TOKEN_BYTES_MAX + 1), false);
        check("", false);
        check("two words", false);
        check("line\n", false);
        check("schlüssel", false);
    }

    #[test]
    fn bearer_is_one_scheme_of_many() {
        let check = |text: &str, token: Option<&str>| {
            assert_eq!(bearer(text.as_bytes()), token.map(str::as_bytes), "{text:?}");
        };
        check("Bearer abc", Some("abc"));
        check("bEARER   abc ", Some("abc"));
        check("Bearer", Some(""));
        check("Bearerabc", None);
        check("Basic YTpi", None);
        check("", None);
    }
}

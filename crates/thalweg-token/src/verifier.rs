use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use jsonwebtoken::{
    Algorithm, Header, Validation, dangerous::insecure_decode_claims, decode, decode_header,
    encode, errors::ErrorKind,
};

use crate::{
    claims::{Claims, Expectations, Granted},
    error::TokenError,
    key::{KEYS_TRIED_MAX, Keys, SigningKey},
    ring_provider,
};

/// The longest token that is looked at: it comes in a header, which has a limit of its own.
pub const TOKEN_BYTES_MAX: usize = 8 << 10;

/// What a token grants at `now_s`, in seconds since 1970.
///
/// # Errors
/// Why it grants nothing.
pub fn verify(
    token: &str,
    keys: &Keys,
    expected: &Expectations,
    now_s: u64,
) -> Result<Granted, TokenError> {
    ring_provider::install();
    if token.len() > TOKEN_BYTES_MAX {
        return Err(TokenError::TooLong);
    }
    let header = decode_header(token).map_err(|error| match error.kind() {
        // An algorithm without a name here, `none` for one.
        ErrorKind::Json(error) if error.is_data() => TokenError::Algorithm,
        _ => TokenError::Unreadable,
    })?;
    if header.crit.is_some() {
        return Err(TokenError::Critical);
    }
    use Algorithm::{ES256, EdDSA, HS256, RS256};
    if !matches!(header.alg, HS256 | RS256 | ES256 | EdDSA) {
        return Err(TokenError::Algorithm);
    }
    // Times and names are looked at behind it, by the time that was passed in.
    let mut validation = Validation::new(header.alg);
    validation.required_spec_claims.clear();
    (validation.validate_exp, validation.validate_aud) = (false, false);
    let mut why = TokenError::UnknownKey;
    let candidates = keys.of(header.alg, header.kid.as_deref());
    if candidates.clone().count() > KEYS_TRIED_MAX {
        return Err(TokenError::ManyKeys);
    }
    for key in candidates {
        match decode::<Claims>(token, &key.decoding, &validation) {
            Ok(read) => return read.claims.granted(expected, now_s),
            Err(error) => {
                why = match error.kind() {
                    ErrorKind::InvalidSignature => TokenError::Signature,
                    _ => TokenError::Unreadable,
                }
            }
        }
    }
    Err(why)
}

/// Header and claims of a token, as they stand in it. Nothing of them is verified: they are to be
/// shown, not to be believed.
///
/// # Errors
/// When it cannot be read.
pub fn parts(token: &str) -> Result<(String, Claims), TokenError> {
    let header = token.split('.').next().unwrap_or_default();
    let header = URL_SAFE_NO_PAD.decode(header).map_err(|_| TokenError::Unreadable)?;
    let header = String::from_utf8(header).map_err(|_| TokenError::Unreadable)?;
    let claims = insecure_decode_claims(token).map_err(|_| TokenError::Unreadable)?;
    Ok((header, claims))
}

impl SigningKey {
    /// A token with these claims.
    ///
    /// # Errors
    /// One sentence.
    pub fn sign(&self, claims: &Claims, key_id: Option<&str>) -> Result<String, String> {
        ring_provider::install();
        let header = Header { kid: key_id.map(str::to_owned), ..Header::new(self.algorithm) };
        encode(&header, claims, &self.encoding).map_err(|error| error.to_string())
    }
}

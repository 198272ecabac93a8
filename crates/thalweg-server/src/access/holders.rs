//! Finds the holder of a token.

use std::{net::SocketAddr, sync::Arc};

use http::{HeaderMap, header};
use thalweg_token::TokenError;

use super::{
    holder::{Holder, Kind},
    keys::PublishedKeys,
    signed::SignedTokens,
    token::{self, Token},
};
use crate::{
    clock::Now,
    config::{Access, NamedToken},
    refusal::Refusal,
};

pub(crate) struct Holders {
    /// The tokens of the configuration.
    tokens: Vec<(Token, Arc<Holder>)>,
    signed: Option<SignedTokens>,
    /// Stands for clients without a token. All other holders have these rights, too.
    pub(super) everybody: Arc<Holder>,
}

#[derive(Debug)]
pub(crate) enum Unidentified {
    /// The token is invalid.
    Refused(Refusal),
    /// The key of the token may have been published meanwhile: wait for [`Holders::published_keys`].
    UnknownKey,
    /// The signed token was not verified before: verifying takes as long as a hundred visits of connections ([`Holders::verify`]).
    Unverified,
}

impl From<Refusal> for Unidentified {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Unidentified> for Refusal {
    fn from(unidentified: Unidentified) -> Self {
        match unidentified {
            Unidentified::Refused(refusal) => refusal,
            Unidentified::UnknownKey | Unidentified::Unverified => {
                Refusal::unauthorized(TokenError::UnknownKey.to_string())
            }
        }
    }
}

impl Holders {
    /// Returns the holders of a server that listens on `listen`. `published` has the keys at the configured URL. The error is one
    /// sentence for the user.
    pub(super) fn new(
        access: &Access,
        listen: SocketAddr,
        published: Option<Arc<PublishedKeys>>,
    ) -> Result<Self, String> {
        let tokens = tokens(access)?;
        let rights = access.rights_of_all(listen);
        let signed = access.signed.as_ref().map(|signed| {
            SignedTokens::new(signed.expected.clone(), signed.keys.clone(), published)
        });
        Ok(Self { tokens, signed, everybody: Arc::new(Holder::nobody(rights)) })
    }

    /// Returns the holder of the token of a request without a ticket. A server without tokens ignores all tokens, so that a
    /// client also works with a server on its developer's machine. Schemes other than `Bearer` concern only the client and a
    /// proxy. Fails with `Unauthorized` for an invalid token, even if the request needs none: a client that presents one expects
    /// it to be valid. Answers with this code carry `WWW-Authenticate: Bearer` (RFC 9110 §11.6.1).
    pub(crate) fn verify(
        &self,
        headers: &HeaderMap,
        now: Now,
    ) -> Result<Arc<Holder>, Unidentified> {
        self.identify_by(headers, |signed, token| Self::signed_holder(signed, token, now))
    }

    /// Returns the holder like [`Self::verify`], but fails with `Unverified` for an unknown signed token.
    pub(crate) fn identify(
        &self,
        headers: &HeaderMap,
        now: Now,
    ) -> Result<Arc<Holder>, Unidentified> {
        self.identify_by(headers, |signed, token| {
            let verified = signed.verified(token, now).ok_or(Unidentified::Unverified)?;
            verified.map_err(|error| Refusal::unauthorized(error.to_string()).into())
        })
    }

    fn identify_by(
        &self,
        headers: &HeaderMap,
        from_signed: impl FnOnce(&SignedTokens, &[u8]) -> Result<Arc<Holder>, Unidentified>,
    ) -> Result<Arc<Holder>, Unidentified> {
        if !self.has_tokens() {
            return Ok(self.everybody());
        }
        let mut presented = headers.get_all(header::AUTHORIZATION).iter();
        let Some(credentials) = presented.next() else { return Ok(self.everybody()) };
        if presented.next().is_some() {
            return Err(Refusal::unauthorized(
                "the request has several Authorization headers: send one",
            )
            .into());
        }
        let Some(presented) = token::bearer(credentials.as_bytes()) else {
            return Ok(self.everybody());
        };
        self.holder_by(presented, from_signed)
    }

    /// Returns the holder of a token. Fails with `Unauthorized`.
    pub(crate) fn holder(&self, presented: &[u8], now: Now) -> Result<Arc<Holder>, Unidentified> {
        self.holder_by(presented, |signed, token| Self::signed_holder(signed, token, now))
    }

    fn holder_by(
        &self,
        presented: &[u8],
        from_signed: impl FnOnce(&SignedTokens, &[u8]) -> Result<Arc<Holder>, Unidentified>,
    ) -> Result<Arc<Holder>, Unidentified> {
        // Always compares all tokens, so that the time does not show which one matches.
        let mut holder = None;
        for (token, own) in &self.tokens {
            holder = if token.is(presented) { Some(own) } else { holder };
        }
        if let Some(holder) = holder {
            return Ok(Arc::clone(holder));
        }
        // Other tokens may be signed: dots join the parts of such a token (RFC 7515 §7.1).
        match self.signed.as_ref().filter(|_| presented.contains(&b'.')) {
            Some(signed) => from_signed(signed, presented),
            None => Err(Refusal::unauthorized(
                "the server does not know this token: add it to the settings, or set jwt-key if it is \
                 a JSON Web Token",
            )
            .into()),
        }
    }

    fn signed_holder(
        signed: &SignedTokens,
        token: &[u8],
        now: Now,
    ) -> Result<Arc<Holder>, Unidentified> {
        signed.holder(token, now).map_err(|error| match error {
            TokenError::UnknownKey if signed.published().is_some() => Unidentified::UnknownKey,
            error => Refusal::unauthorized(error.to_string()).into(),
        })
    }

    pub(crate) fn published_keys(&self) -> Option<&Arc<PublishedKeys>> {
        self.signed.as_ref()?.published()
    }

    pub(crate) fn everybody(&self) -> Arc<Holder> {
        Arc::clone(&self.everybody)
    }

    /// Returns the same holder under this newer policy. `None` if its token is no longer valid.
    pub(crate) fn successor(&self, holder: &Arc<Holder>) -> Option<Arc<Holder>> {
        match holder.kind {
            Kind::Nobody => Some(self.everybody()),
            Kind::Named => {
                let mut holders = self.tokens.iter().map(|(_, own)| own);
                holders.find(|own| own.identity == holder.identity).cloned()
            }
            Kind::Signed => self.signed.as_ref().map(|_| Arc::clone(holder)),
        }
    }

    /// Returns the holder of the token with this name; `nobody` stands for clients without a token.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn named(&self, name: &str) -> Option<Arc<Holder>> {
        let mut holders = self.tokens.iter().map(|(_, holder)| holder);
        let named = holders.find(|holder| holder.token() == name);
        named.or((name == "nobody").then_some(&self.everybody)).cloned()
    }

    /// Returns whether there are tokens. A server without tokens does not check tickets.
    pub(crate) fn has_tokens(&self) -> bool {
        !self.tokens.is_empty() || self.signed.is_some()
    }
}

/// Returns the tokens of a configuration. The error is one sentence for the user.
fn tokens(access: &Access) -> Result<Vec<(Token, Arc<Holder>)>, String> {
    let mut tokens = Vec::new();
    let mut known: Vec<&NamedToken> = Vec::new();
    for named in &access.tokens {
        let NamedToken { name, secret, rights } = named;
        let token = Token::new(secret).map_err(|error| format!("token {name}: {error}"))?;
        if let Some(other) = known.iter().find(|other| other.secret == *secret) {
            return Err(format!(
                "the tokens {} and {name} have the same secret: choose another one",
                other.name
            ));
        }
        known.push(named);
        tokens.push((token, Arc::new(Holder::named(name, secret, rights.clone()))));
    }
    Ok(tokens)
}

//! Whose token it is.

use std::{net::SocketAddr, sync::Arc};

use http::{HeaderMap, header};
use thalweg_token::{Rights, TokenError, Topics};

use super::{
    holder::{Holder, Kind},
    keys::PublishedKeys,
    signed::SignedTokens,
    token::{self, Token},
};
use crate::{
    clock::Now,
    config::{Access, NamedToken, Secret},
    refusal::Refusal,
};

/// Everybody who presents a token that a server takes, or none.
pub(crate) struct Holders {
    /// The tokens of the configuration.
    tokens: Vec<(Token, Arc<Holder>)>,
    /// Those that somebody else signs, if there are keys.
    signed: Option<SignedTokens>,
    /// Who presents no token. All others have their rights, too, for they need not present theirs.
    pub(super) everybody: Arc<Holder>,
}

/// Why it is not known whose token it is.
#[derive(Debug)]
pub(crate) enum Unidentified {
    /// It is nobody's.
    Refused(Refusal),
    /// Its key may have been published meanwhile: ask for [`Holders::published_keys`].
    UnknownKey,
    /// It is signed, and was not verified before: that takes as long as a hundred visits
    /// ([`Holders::verify`]).
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
    /// Those of a server that listens on `listen`. `published`: the keys at the URL of the
    /// configuration.
    ///
    /// # Errors
    /// One sentence for the user.
    pub(super) fn new(
        access: &Access,
        listen: SocketAddr,
        published: Option<Arc<PublishedKeys>>,
    ) -> Result<Self, String> {
        let tokens = tokens(access)?;
        let all_if = |is_open: bool| if is_open { Topics::all() } else { Topics::default() };
        let rights = access.everybody.clone().unwrap_or_else(|| Rights {
            subscribe: all_if(access.subscribe_token.is_none() && !access.has_own_rights()),
            publish: all_if(!access.says_who_publishes()),
            inspect: all_if(access.lets_everybody_inspect(listen)),
            admin: false,
        });
        let signed = access.signed.as_ref().map(|signed| {
            SignedTokens::new(signed.expected.clone(), signed.keys.clone(), published)
        });
        Ok(Self { tokens, signed, everybody: Arc::new(Holder::nobody(rights)) })
    }

    /// The holder of the token that a request presents, if it presents no ticket.
    ///
    /// A server without tokens ignores any token: so the same client also works with a server
    /// on its developer's machine. Schemes other than `Bearer` concern only the client and a
    /// proxy.
    ///
    /// # Errors
    /// `Unauthorized` for a wrong token, even if the request needs none: a client that presents
    /// one believes that it is valid. Answers with this code carry `WWW-Authenticate: Bearer`
    /// (RFC 9110 §11.6.1).
    pub(crate) fn verify(
        &self,
        headers: &HeaderMap,
        now: Now,
    ) -> Result<Arc<Holder>, Unidentified> {
        self.identify_by(headers, |signed, token| Self::signed_holder(signed, token, now))
    }

    /// The same, but a signed token that was not verified before is not verified now.
    ///
    /// # Errors
    /// As [`Self::verify`], and `Unverified`.
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
        of_signed: impl FnOnce(&SignedTokens, &[u8]) -> Result<Arc<Holder>, Unidentified>,
    ) -> Result<Arc<Holder>, Unidentified> {
        if !self.has_tokens() {
            return Ok(self.everybody());
        }
        let mut presented = headers.get_all(header::AUTHORIZATION).iter();
        let Some(credentials) = presented.next() else { return Ok(self.everybody()) };
        if presented.next().is_some() {
            return Err(Refusal::unauthorized("a request carries one Authorization").into());
        }
        let Some(presented) = token::bearer(credentials.as_bytes()) else {
            return Ok(self.everybody());
        };
        self.holder_by(presented, of_signed)
    }

    /// The holder of a token.
    ///
    /// # Errors
    /// `Unauthorized`.
    pub(crate) fn holder(&self, presented: &[u8], now: Now) -> Result<Arc<Holder>, Unidentified> {
        self.holder_by(presented, |signed, token| Self::signed_holder(signed, token, now))
    }

    fn holder_by(
        &self,
        presented: &[u8],
        of_signed: impl FnOnce(&SignedTokens, &[u8]) -> Result<Arc<Holder>, Unidentified>,
    ) -> Result<Arc<Holder>, Unidentified> {
        // Always compares all, so that the time does not show which one matches.
        let mut holder = None;
        for (token, own) in &self.tokens {
            holder = if token.is(presented) { Some(own) } else { holder };
        }
        if let Some(holder) = holder {
            return Ok(Arc::clone(holder));
        }
        // What is none of ours may be signed: the parts of such a token are joined by points (RFC 7515 §7.1).
        match self.signed.as_ref().filter(|_| presented.contains(&b'.')) {
            Some(signed) => of_signed(signed, presented),
            None => Err(Refusal::unauthorized("the token is not the right one").into()),
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

    /// The keys at a URL, if there is one.
    pub(crate) fn published_keys(&self) -> Option<&Arc<PublishedKeys>> {
        self.signed.as_ref()?.published()
    }

    /// The holder of no token.
    pub(crate) fn everybody(&self) -> Arc<Holder> {
        Arc::clone(&self.everybody)
    }

    /// The same holder under this policy, which is newer than the one that it was identified by.
    /// `None` if its token is not good any more.
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

    /// The holder of the token with a name; of none, for `nobody`.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn named(&self, name: &str) -> Option<Arc<Holder>> {
        let mut holders = self.tokens.iter().map(|(_, holder)| holder);
        let named = holders.find(|holder| holder.token() == name);
        named.or((name == "nobody").then_some(&self.everybody)).cloned()
    }

    /// Whether it has any. A server without tokens does not check tickets.
    pub(crate) fn has_tokens(&self) -> bool {
        !self.tokens.is_empty() || self.signed.is_some()
    }
}

/// The tokens of a configuration.
///
/// # Errors
/// One sentence for the user.
fn tokens(access: &Access) -> Result<Vec<(Token, Arc<Holder>)>, String> {
    let (all, none) = (Topics::all, Topics::default);
    // Each gives fewer rights than those before it.
    let given = [
        ("publish", &access.publish_token, "publisher", [all(), all(), all()]),
        ("subscribe", &access.subscribe_token, "subscriber", [all(), none(), none()]),
        ("inspect", &access.inspect_token, "inspector", [none(), none(), all()]),
    ];
    let mut tokens = Vec::new();
    let mut known: Vec<(&Secret, String)> = Vec::new();
    let mut add = |secret, called: String, name: &str, rights: Rights, places: &str| {
        let token = Token::new(secret).map_err(|error| format!("{places}: {error}"))?;
        if let Some((_, other)) = known.iter().find(|(other, _)| *other == secret) {
            return Err(format!(
                "{other} and {called} are the same: whoever has the one has the rights of the other"
            ));
        }
        known.push((secret, called));
        tokens.push((token, Arc::new(Holder::named(name, secret, rights))));
        Ok(())
    };
    for (flag, secret, name, [subscribe, publish, inspect]) in given {
        let Some(secret) = secret else { continue };
        // It is not known whether the token was set by flag, environment variable or file:
        // name all three.
        let variable = flag.to_uppercase();
        let places =
            format!("--{flag}-token, THALWEG_{variable}_TOKEN or {flag}-token of the file");
        let rights = Rights { subscribe, publish, inspect, admin: flag == "publish" };
        add(secret, format!("--{flag}-token"), name, rights, &places)?;
    }
    for NamedToken { name, secret, rights } in &access.tokens {
        let called = format!("--token {name}");
        add(secret, called.clone(), name, rights.clone(), &called)?;
    }
    Ok(tokens)
}

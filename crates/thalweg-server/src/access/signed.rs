//! Tokens signed by an issuer: each is verified once, and remembered while it lasts.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ring::digest::{SHA256, digest};
use thalweg_token::{Expectations, Keys, TokenError, verify};

use super::{Holder, keys::PublishedKeys};
use crate::{clock::Now, config::SEEN_TOKENS_MAX};

pub(super) struct SignedTokens {
    expected: Expectations,
    /// The keys of the configuration.
    own: Keys,
    published: Option<Arc<PublishedKeys>>,
    seen: Mutex<Seen>,
}

/// The verified tokens by digest, so that the time of a lookup reveals nothing about other tokens.
#[derive(Default)]
struct Seen {
    /// The version of the keys that verified them.
    version: u64,
    /// A used token moves to `newer`. Once `newer` is full, it replaces `older`.
    newer: HashMap<[u8; 32], Arc<Holder>>,
    older: HashMap<[u8; 32], Arc<Holder>>,
}

impl SignedTokens {
    pub(super) fn new(
        expected: Expectations,
        own: Keys,
        published: Option<Arc<PublishedKeys>>,
    ) -> Self {
        Self { expected, own, published, seen: Mutex::default() }
    }

    /// Returns the holder of a token, or the reason for its rejection. The key of an `UnknownKey` may be known after another read
    /// of [`Self::published`].
    pub(super) fn holder(&self, token: &[u8], now: Now) -> Result<Arc<Holder>, TokenError> {
        if let Some(verified) = self.verified(token, now) {
            return verified;
        }
        let (version, published) =
            self.published.as_ref().map(|published| published.known()).unzip();
        let version = version.unwrap_or_default();
        let token = std::str::from_utf8(token).map_err(|_| TokenError::Unreadable)?;
        let granted = match verify(token, &self.own, &self.expected, now.unix_s) {
            // A key without an id may match and not be the right one.
            Err(TokenError::UnknownKey | TokenError::Signature) if published.is_some() => {
                verify(token, &published.unwrap_or_default(), &self.expected, now.unix_s)
            }
            granted => granted,
        }?;
        let holder = Arc::new(Holder::from_signed(granted, now));
        self.seen().insert(digest_of(token.as_bytes()), version, Arc::clone(&holder));
        Ok(holder)
    }

    /// Returns the holder of a token that was verified before. Fails if the token has expired.
    pub(super) fn verified(
        &self,
        token: &[u8],
        now: Now,
    ) -> Option<Result<Arc<Holder>, TokenError>> {
        let version = self.published.as_ref().map(|published| published.known().0);
        let holder = self.seen().find(digest_of(token), version.unwrap_or_default())?;
        Some(if holder.is_over(now.us) { Err(TokenError::Expired) } else { Ok(holder) })
    }

    pub(super) fn published(&self) -> Option<&Arc<PublishedKeys>> {
        self.published.as_ref()
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn digest_of(token: &[u8]) -> [u8; 32] {
    let mut key = [0; 32];
    key.copy_from_slice(digest(&SHA256, token).as_ref());
    key
}

impl Seen {
    fn find(&mut self, key: [u8; 32], version: u64) -> Option<Arc<Holder>> {
        if self.version != version {
            // A key may have been removed.
            *self = Self { version, ..Self::default() };
        }
        if let Some(holder) = self.newer.get(&key) {
            return Some(Arc::clone(holder));
        }
        let holder = self.older.remove(&key)?;
        self.insert(key, version, Arc::clone(&holder));
        Some(holder)
    }

    fn insert(&mut self, key: [u8; 32], version: u64, holder: Arc<Holder>) {
        if self.version != version {
            return;
        }
        if self.newer.len() >= SEEN_TOKENS_MAX / 2 {
            self.older = std::mem::take(&mut self.newer);
        }
        self.newer.insert(key, holder);
    }
}

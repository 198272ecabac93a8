//! Identifies the holder of a request, and limits the rate of requests.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method, header, request::Parts};
use thalweg_wire::ErrorCode;
use tokio::task::yield_now;

use super::{context::Http, traced_request::TracedRequest};
use crate::{
    access::{AccessPolicy, Allowed, Holder, Unidentified, Wanted},
    clock::{Now, now_us},
    connection_limits::Requester,
    rates::{Act, Rated},
    refusal::Refusal,
    shard::Handle,
    transport::Query,
};

impl Http {
    /// Counts a request without events or commands, before its holder is known, so that a flood of tokens is not verified. Fails
    /// when its address sends too many.
    pub(super) fn take_handshake(
        &self,
        parts: &Parts,
        requester: &Requester,
    ) -> Result<(), Refusal> {
        match is_counted_by_content(parts) {
            true => Ok(()),
            false => self.take_of_address(Act::Handshake, requester),
        }
    }

    /// Counts a publish that is refused for missing rights: no other limit counts it. Returns the refusal to send.
    pub(super) fn take_for_refused(&self, refusal: Refusal, requester: &Requester) -> Refusal {
        self.take_of_address(Act::Handshake, requester).err().unwrap_or(refusal)
    }

    fn take_of_address(&self, act: Act, requester: &Requester) -> Result<(), Refusal> {
        let Some(address) = requester.counted() else { return Ok(()) };
        self.take(Rated { subject: None, address: Some(address) }, (act, 1))
    }

    /// Counts a request once its subject is known. Fails when the subject sends too many.
    fn take_of_subject(&self, holder: &Holder, requester: &Requester) -> Result<(), Refusal> {
        let Some(rated) = holder.rated(requester.counted()) else { return Ok(()) };
        // The address was counted before.
        let taken = self.take(Rated { address: None, ..rated }, (Act::Handshake, 1));
        taken.map_err(|refusal| refusal.with_subject(holder.names(), ""))
    }

    /// Counts an unknown token or a ticket that needs verification. Fails when its address sends too many of them.
    fn take_verification(&self, requester: &Requester) -> Result<(), Refusal> {
        self.take_of_address(Act::Verification, requester)
    }

    /// Counts an invalid token as several: a client with a valid token rarely presents an invalid one. Returns the
    /// refusal to send.
    fn take_for_wrong_token(&self, refusal: Refusal, requester: &Requester) -> Refusal {
        let (ErrorCode::Unauthorized, Some(address)) = (refusal.code, requester.counted()) else {
            return refusal;
        };
        if let Err(too_many) = self.take_verification(requester) {
            return too_many;
        }
        self.shard.common.rates.charge(address, now_us());
        refusal
    }

    /// Counts an action against a client's rate limits. Fails when the rate is exceeded.
    pub(super) fn take(&self, rated: Rated, act: (Act, u64)) -> Result<(), Refusal> {
        let Handle { common, counts, .. } = &*self.shard;
        let uncounted = common.rates.take(rated, None, act, now_us())?;
        counts.rates_uncounted.add(uncounted);
        Ok(())
    }

    /// Returns the holder of a request's token or ticket. A ticket has precedence over a token, and is redeemed.
    pub(super) async fn identify(
        &self,
        parts: &Parts,
        query: &Query<'_>,
        requester: &Requester,
    ) -> Result<Arc<Holder>, Refusal> {
        let holder = match query.ticket.as_deref().filter(|_| self.access().holders.has_tokens()) {
            // Boxed here and below because it is rare: it must not enlarge the future of every request.
            Some(ticket) => Box::pin(self.redeem(ticket, requester)).await,
            None => match query.token.as_deref().and_then(|token| bearer(token, &parts.headers)) {
                Some(headers) => {
                    Box::pin(async move { self.identify_token(&headers, requester).await }).await
                }
                None => self.identify_token(&parts.headers, requester).await,
            },
        }?;
        if let Some(traced) = TracedRequest::find(self, parts) {
            traced.identified(&holder);
        }
        if !is_counted_by_content(parts) {
            self.take_of_subject(&holder, requester)?;
        }
        Ok(holder)
    }

    async fn identify_token(
        &self,
        headers: &HeaderMap,
        requester: &Requester,
    ) -> Result<Arc<Holder>, Refusal> {
        let access = self.access();
        if !access.holders.has_tokens() {
            // Saves reading the clock.
            return Ok(access.holders.everybody());
        }
        let identified = match access.holders.identify(headers, Now::get()) {
            Err(Unidentified::Unverified) => {
                self.take_verification(requester)?;
                Box::pin(async {
                    match self.verify(&access, headers).await {
                        Err(Unidentified::UnknownKey) => {
                            if let Some(keys) = access.holders.published_keys() {
                                keys.newer(now_us()).await?;
                            }
                            Ok(self.verify(&access, headers).await?)
                        }
                        verified => Ok(verified?),
                    }
                })
                .await
            }
            identified => identified.map_err(Refusal::from),
        };
        identified.map_err(|refusal| self.take_for_wrong_token(refusal, requester))
    }

    /// Returns the holder of a ticket, with its token's current rights.
    async fn redeem(&self, ticket: &str, requester: &Requester) -> Result<Arc<Holder>, Refusal> {
        self.take_verification(requester)?;
        let redeemed = self.shared.tickets.redeem(&self.access(), ticket).await;
        let is_good = |holder: Arc<Holder>| {
            self.access().holders.successor(&holder).ok_or_else(AccessPolicy::void_ticket)
        };
        redeemed.and_then(is_good).map_err(|refusal| self.take_for_wrong_token(refusal, requester))
    }

    /// Verifies a token when its turn comes: one token at a time, with polls of the sockets in between. A flood of
    /// tokens delays clients that present tokens, not the subscribers.
    async fn verify(
        &self,
        access: &AccessPolicy,
        headers: &HeaderMap,
    ) -> Result<Arc<Holder>, Unidentified> {
        let _turn = self.verifying.lock().await;
        yield_now().await;
        access.holders.verify(headers, Now::get())
    }

    /// Returns the wanted value, if the request's holder has the right to it. Fails like [`Self::identify`], and when the right is
    /// missing.
    pub(super) async fn allow<T: Wanted>(
        &self,
        wanted: T,
        parts: &Parts,
        query: &Query<'_>,
        requester: &Requester,
    ) -> Result<Allowed<T>, Refusal> {
        let holder = self.identify(parts, query, requester).await?;
        self.access().allow(&holder, wanted)
    }
}

/// Returns headers with the token of a URL. A text that no header may have becomes an empty token. `None` if the request has
/// the header, which takes precedence.
fn bearer(token: &str, headers: &HeaderMap) -> Option<HeaderMap> {
    let none = HeaderValue::from_static("Bearer ");
    let is_first = !headers.contains_key(header::AUTHORIZATION);
    is_first.then(|| {
        let credentials = HeaderValue::try_from(format!("Bearer {token}")).unwrap_or(none);
        HeaderMap::from_iter([(header::AUTHORIZATION, credentials)])
    })
}

/// Returns whether rate limits count the events or commands in a request's body instead of the request.
fn is_counted_by_content(parts: &Parts) -> bool {
    let path = parts.uri.path();
    parts.method == Method::POST && (path.starts_with("/v1/topics/") || path == "/v1/commands")
}

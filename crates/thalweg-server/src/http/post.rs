use std::{pin::pin, rc::Rc, sync::Arc, time::Duration};

use http::{HeaderName, HeaderValue, StatusCode, header, request::Parts};
use thalweg_core::stream::Payloads;
use thalweg_wire::{
    Condition, ErrorCode, Topic, answer::Published, event::EventError, limits::COMMAND_BYTES_MAX,
};
use tokio::time::{Instant, sleep_until};

use super::{
    body::{RequestBody, slow},
    body_permits::{BodyMemory, ClientBodyPermits},
    context::Http,
    line_body::{LineBody, Piece},
    repolls::Repolls,
    respond::{Answer, ErrorResponse, json},
    traced_request::TracedRequest,
};
use crate::{
    access::{Allowed, Holder, TICKET_LIFE_S, Writing},
    broker::{PublishTerms, RetryKey},
    clock::now_us,
    connection_limits::Requester,
    protocol::{Reply, thalweg},
    rates::Act,
    refusal::Refusal,
    shard::{Context, PublishResult},
    source::{
        EventKeys,
        posted::{self, BodyKind, Lines},
    },
    traces::Action,
    transport::{Client, Query, parameters::bad},
};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// The longest idempotency key. A UUID has 36 characters.
const KEY_BYTES_MAX: usize = 128;

/// Returns the permits for a client's request bodies. Clients that may not publish have separate permits, so that
/// publishers find free ones however slowly other clients send.
pub(super) fn client_permits<'a>(
    http: &'a Http,
    holder: &Holder,
    client: Client,
) -> ClientBodyPermits<'a> {
    match http.access().lets_publish(holder) {
        true => http
            .shared
            .requests_of_publishers
            .permits_of_client(&http.shard.counts.requests, client),
        false => {
            http.shared.requests_of_others.permits_of_client(&http.shard.counts.requests, client)
        }
    }
}

/// The publisher of a body to a topic. It is made from the request's header, which is dropped afterwards.
pub(super) struct Publisher {
    topic: Allowed<Writing>,
    client: Client,
    holder: Arc<Holder>,
    kind: BodyKind,
    /// The idempotency key, which allows the client to retry the publish.
    key: Option<Box<[u8]>>,
    event_keys: EventKeys,
    condition: Option<Condition>,
    ttl_us: Option<u64>,
}

impl Publisher {
    /// Returns the publisher of a request. Fails when the client may not publish, or the request is invalid.
    pub(super) async fn new(
        http: &Http,
        requester: &Requester,
        topic: &str,
        parts: &Parts,
    ) -> Result<Self, Refusal> {
        let topic = Topic::from_path(topic)?;
        if http.shard.is_draining() {
            return Err(Refusal::draining());
        }
        let query = Query::from_publish(parts)?;
        let holder = http.identify(parts, &query, requester).await?;
        let key = query.keys.first().map(|key| Box::from(&**key));
        let topic = http.access().allow(&holder, Writing { topic, key });
        let topic = topic.map_err(|refusal| http.take_for_refused(refusal, requester))?;
        reject_encoded(parts)?;
        let content_type = parts.headers.get(header::CONTENT_TYPE).and_then(|t| t.to_str().ok());
        let kind = BodyKind::from_content_type(content_type);
        let key = idempotency_key(parts)?.map(Box::from);
        if kind == BodyKind::Lines && key.is_some() {
            return Err(bad("an Idempotency-Key cannot be used with several lines: send one event in each request"
                .into()));
        }
        if kind == BodyKind::Lines && query.condition.is_some() {
            return Err(bad(
                "if cannot be used with several lines: send one event in each request".into(),
            ));
        }
        let settings = http.shard.config().keys(&topic.topic);
        let pointer = settings.and_then(|keys| keys.pointer.clone());
        let event_keys = match (topic.key.as_deref(), pointer) {
            (Some(key), pointer) => EventKeys::Same(key.into(), pointer),
            (None, Some(pointer)) => EventKeys::Within(pointer),
            (None, None) => EventKeys::None,
        };
        let (client, condition) = (Client::new(&holder, requester), query.condition);
        let ttl_us = query.ttl_us;
        Ok(Self { topic, client, holder, kind, key, event_keys, condition, ttl_us })
    }

    /// Returns whether the body is lines. Such a request may last indefinitely.
    pub(super) fn is_ndjson(&self) -> bool {
        self.kind == BodyKind::Lines
    }

    /// Publishes the body. `repolls` lets its connection be polled again. Fails when the body is refused. The error says which
    /// part was published.
    pub(super) async fn publish(
        self,
        http: &Rc<Http>,
        body: &mut RequestBody,
        repolls: &Repolls,
    ) -> Result<Answer, ErrorResponse> {
        let permits = client_permits(http, &self.holder, self.client);
        let permit = permits.try_take()?;
        let mut result = None;
        let published = if self.is_ndjson() {
            // Each line takes its own permit.
            drop(permit);
            let body =
                LineBody::new(body, repolls, http.limits().event_bytes, self.event_keys.clone());
            self.publish_lines(http, body, &permits, &mut result).await
        } else {
            self.publish_one(http, body, &mut result).await
        };
        let answered = result.map(|result| result.published(&self.topic.topic));
        match (published, answered) {
            (Err(refusal), published) => {
                http.shard.common.traces.note(self.holder.subject(), || {
                    let mut action = self.action(None);
                    action.refuse(&refusal);
                    action
                });
                Err(ErrorResponse { published, ..refusal.into() })
            }
            (Ok(()), published) => {
                let body = published.map(|published| published.to_json()).unwrap_or_default();
                let mut answer = json(StatusCode::OK, body);
                if result.is_some_and(|result| result.replayed) {
                    answer.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
                }
                Ok(answer)
            }
        }
    }

    /// Counts an action against its client's rate limits. Fails when the rate is exceeded.
    fn take_rate(&self, http: &Http, act: Act, count: usize) -> Result<(), Refusal> {
        let Some(rated) = self.holder.rated(self.client.counted()) else { return Ok(()) };
        let taken = http.take(rated, (act, count as u64));
        taken
            .map_err(|refusal| refusal.with_subject(self.holder.names(), self.topic.topic.as_str()))
    }

    /// Appends lines, and adds them to the request's result.
    async fn append(
        &self,
        http: &Http,
        payloads: &mut Payloads,
        result: &mut Option<PublishResult>,
    ) -> Result<(), Refusal> {
        let (condition, ttl_us) = (self.condition, self.ttl_us);
        let terms = PublishTerms { condition, ttl_us, ..PublishTerms::default() };
        let now = self.send(http, payloads, terms).await?;
        match result {
            Some(result) => result.extend(&now),
            None => *result = Some(now),
        }
        Ok(())
    }

    async fn publish_one(
        &self,
        http: &Rc<Http>,
        body: &mut RequestBody,
        result: &mut Option<PublishResult>,
    ) -> Result<(), Refusal> {
        let bytes_max = http.limits().event_bytes;
        let too_large = || EventError::TooLarge(bytes_max).into();
        let body = http.whole(body, bytes_max, too_large).await?;
        self.take_rate(http, Act::Byte, body.len())?;
        let mut payloads = posted::one(self.kind, &body, bytes_max, &self.event_keys)?;
        self.take_rate(http, Act::Publish, payloads.count())?;
        let (identity, key) = (self.client.identity, self.key.clone());
        let retry_key = key.map(|key| RetryKey { identity, key });
        let (condition, ttl_us) = (self.condition, self.ttl_us);
        let may_read = condition.is_some()
            && http.access().may_read_key(
                &self.holder,
                &self.topic.topic,
                self.topic.key.as_deref(),
            );
        let terms =
            PublishTerms { retry_key, condition, may_read, ttl_us, ..PublishTerms::default() };
        *result = Some(self.send(http, &mut payloads, terms).await?);
        Ok(())
    }

    /// Publishes events, with a line in the trace of the subject.
    async fn send(
        &self,
        http: &Http,
        payloads: &mut Payloads,
        terms: PublishTerms,
    ) -> Result<PublishResult, Refusal> {
        let traces = &http.shard.common.traces;
        let traced = traces.has(self.holder.subject()).then(|| self.action(Some(payloads)));
        let result = http.shard.publish(&self.topic, payloads, terms).await?;
        if let Some(action) = traced {
            let Published { position, .. } = result.published(&self.topic.topic);
            let position = Some(position.to_string());
            traces.note(self.holder.subject(), || Action { position, ..action });
        }
        Ok(result)
    }

    /// Returns a publish for a trace.
    fn action(&self, payloads: Option<&Payloads>) -> Action {
        let Writing { topic, key } = &*self.topic;
        let action = match payloads {
            Some(payloads) => Action::publish(topic, payloads),
            None => Action::new("publish").on(topic),
        };
        Action { key: key.as_deref().map(str::to_owned), ..action }
    }

    /// Appends lines as they arrive, so that a long request can serve as a connection for publishing. The request has a permit
    /// while a line is unfinished or being appended. Between lines it is idle, and only the limits of connections apply.
    async fn publish_lines(
        &self,
        http: &Rc<Http>,
        mut body: LineBody<'_>,
        permits: &ClientBodyPermits<'_>,
        result: &mut Option<PublishResult>,
    ) -> Result<(), Refusal> {
        let limits = http.limits();
        let mut drain = pin!(http.shard.drain());
        // The drain may have begun while the token was verified. Then nothing completes the future, and the request would
        // keep the shard from ending.
        if http.shard.is_draining() {
            return Err(Refusal::draining());
        }
        let mut publishing = http.shard.publishing(&self.holder, &self.topic)?;
        let mut token_end = pin!(until(ends_at(&self.holder)));
        // The time between lines is not limited, but a line that has begun must be finished in time.
        let mut deadline = None;
        let mut permit = None;
        let mut memory = BodyMemory::new(&http.shard.counts.body_bytes);
        let take_events = |count| self.take_rate(http, Act::Publish, count);
        loop {
            let before = body.lines.number;
            let is_all = async {
                loop {
                    let piece = tokio::select! {
                        biased;
                        () = &mut drain => return Err(Refusal::draining()),
                        // Checked before the body, which may always have more.
                        () = &mut token_end => return Err(expired()),
                        refusal = publishing.ended() => return Err(refusal),
                        piece = body.next() => piece,
                        () = until(deadline) => return Err(slow()),
                    };
                    let chunk = match piece {
                        Piece::Data(chunk) => chunk,
                        Piece::NothingYet => break,
                        Piece::End => {
                            return body.gather(Lines::finish, take_events).map(|()| true);
                        }
                        Piece::Broken(broken_off) => return Err(broken_off.into()),
                    };
                    if permit.is_none() {
                        permit = Some(tokio::select! {
                            biased;
                            () = &mut drain => return Err(Refusal::draining()),
                            permit = permits.take() => permit?,
                        });
                    }
                    self.take_rate(http, Act::Byte, chunk.len())?;
                    body.gather(|lines, out| lines.read(&chunk, out), take_events)?;
                    if !body.reads_on() {
                        break;
                    }
                }
                Ok(false)
            }
            .await;
            // The lines before an error stay published. An empty body is answered with a position too, but it publishes nothing.
            if !body.gathered.is_empty() || (matches!(is_all, Ok(true)) && result.is_none()) {
                self.append(http, &mut body.gathered, result).await?;
            }
            if is_all? {
                return Ok(());
            }
            memory.set(body.lines.unfinished_bytes(), limits.unfinished_bytes)?;
            if body.lines.unfinished_bytes() == 0 {
                (deadline, permit) = (None, None);
            } else if deadline.is_none() || body.lines.number > before {
                deadline = Some(Instant::now() + limits.body_timeout);
            }
        }
    }
}

pub(super) async fn command(
    http: &Rc<Http>,
    requester: &Requester,
    parts: &Parts,
    body: &mut RequestBody,
) -> Result<Answer, ErrorResponse> {
    if idempotency_key(parts)?.is_some() {
        let message =
            "a command cannot have an Idempotency-Key: publish to /v1/topics/{topic} with it";
        return Err(bad(message.into()).into());
    }
    let holder = http.identify(parts, &Query::from_request(parts)?, requester).await?;
    reject_encoded(parts)?;
    let client = Client::new(&holder, requester);
    let permits = client_permits(http, &holder, client);
    let _permit = permits.try_take()?;
    let limits = http.limits();
    let may_publish = http.access().lets_publish(&holder);
    let (bytes_max, whose) = match may_publish {
        true => (limits.command_bytes(), ""),
        false => (COMMAND_BYTES_MAX, " of a client that may not publish"),
    };
    let too_large = || {
        let message =
            format!("the command{whose} is larger than {bytes_max} bytes: send a smaller one");
        Refusal::new(ErrorCode::EventTooLarge, message)
    };
    let body = http.whole(body, bytes_max, too_large).await?;
    let text = std::str::from_utf8(&body).map_err(|_| {
        Refusal::new(ErrorCode::BadCommand, "the command is not UTF-8: send JSON in UTF-8")
    })?;
    let request = thalweg::read(text, may_publish.then_some(limits.event_bytes));
    let context = Context { client, subscriber: None };
    let traced = TracedRequest::find(http, parts);
    if let Some(traced) = traced {
        traced.set(request.action());
    }
    if let Some(rated) = holder.rated(client.counted()) {
        let taken = request.acts().into_iter().try_for_each(|act| http.take(rated, act));
        if let Err(refusal) = taken {
            let refusal = refusal.with_subject(holder.names(), "");
            return Err(ErrorResponse { id: request.id, ..refusal.into() });
        }
    }
    let reply = match request.command.and_then(|command| http.access().allow(&holder, command)) {
        Ok(command) => http.shard.execute(command, &holder, &context).await,
        Err(refused) => Err(refused),
    };
    if let Some(traced) = traced {
        traced.complete(|action| Reply::complete(reply.as_ref(), action));
    }
    match reply {
        Ok(reply) => Ok(json(StatusCode::OK, thalweg::to_json(request.id.as_deref(), &reply))),
        Err(refusal) => Err(ErrorResponse { id: request.id, ..refusal.into() }),
    }
}

/// Issues a ticket for a token. A ticket cannot be exchanged for another one: otherwise it would be as good as the token.
pub(super) async fn ticket(
    http: &Http,
    parts: &Parts,
    requester: &Requester,
) -> Result<Answer, ErrorResponse> {
    let query = Query::from_request(parts)?;
    if query.ticket.is_some() {
        let message = "a ticket cannot be used to request a ticket: send the header \"Authorization: Bearer TOKEN\"";
        return Err(bad(message.into()).into());
    }
    let access = http.access();
    let holder = http.identify(parts, &query, requester).await?;
    let ticket = access.new_ticket(&holder)?;
    // A server without tokens does not check tickets.
    if access.holders.has_tokens() {
        let has_replaced = http.shared.tickets.keep(&access, ticket, holder).await?;
        http.shard.counts.tickets_replaced.add(u64::from(has_replaced));
    }
    let ticket = ticket.text();
    let body = format!(r#"{{"ticket":"{ticket}","expires_in_s":{TICKET_LIFE_S}}}"#);
    Ok(json(StatusCode::OK, body.into_bytes()))
}

/// Rejects a compressed body: the server would have to decompress it for anybody who sends one.
pub(super) fn reject_encoded(parts: &Parts) -> Result<(), Refusal> {
    let mut codings = parts.headers.get_all(header::CONTENT_ENCODING).iter();
    if codings.all(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Ok(());
    }
    let message = "a body must not be compressed: send it without Content-Encoding";
    Err(Refusal::new(ErrorCode::UnsupportedEncoding, message))
}

fn idempotency_key(parts: &Parts) -> Result<Option<&[u8]>, Refusal> {
    let mut keys = parts.headers.get_all(IDEMPOTENCY_KEY).iter().map(HeaderValue::as_bytes);
    let Some(key) = keys.next() else { return Ok(None) };
    let is_one = keys.next().is_none();
    if !is_one || !(1..=KEY_BYTES_MAX).contains(&key.len()) || !key.iter().all(u8::is_ascii_graphic)
    {
        let message = "the Idempotency-Key is not valid: send the header once, with 1 to 128 visible ASCII characters";
        return Err(bad(message.into()));
    }
    Ok(Some(key))
}

/// Returns when the holder's token expires, if it does.
fn ends_at(holder: &Holder) -> Option<Instant> {
    let left = Duration::from_micros(holder.ends_us.saturating_sub(now_us()));
    (holder.ends_us != u64::MAX).then(|| Instant::now() + left)
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

fn expired() -> Refusal {
    let message = "the token has expired, and the request was ended: publish the remaining lines with a new token";
    Refusal::new(ErrorCode::Unauthorized, message)
}

use std::{pin::pin, rc::Rc};

use http::{HeaderName, HeaderValue, StatusCode, header, request::Parts};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::Incoming;
use thalweg_wire::{ErrorCode, Topic, event::EventError, limits::COMMAND_BYTES_MAX};
use tokio::time::{Instant, sleep_until, timeout};

use super::{
    Http,
    places::{BodyMemory, Share},
    respond::{Answer, Refused, json},
};
use crate::{
    access::{Issued, Right, TICKET_LIFE_S},
    clock::now_us,
    connection_limits::Caller,
    refusal::Refusal,
    shard::{Context, Placed, Request, Retry},
    source::posted::{self, BodyKind, Lines},
    stream::Payloads,
    transport::{Client, Query, parameters::bad},
};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Longest idempotency key: a UUID and more.
const KEY_BYTES_MAX: usize = 128;

/// Where a client's requests have their places while their bodies are read. Who may not
/// publish has places apart, so that publishers find theirs however slowly others send their
/// commands.
fn share(http: &Http, client: Client) -> Share<'_> {
    match http.access().lets_publish(client.identity) {
        true => http.shared.requests_of_publishers.share(&http.shard.counts.requests, client),
        false => http.shared.requests_of_others.share(&http.shard.counts.requests, client),
    }
}

/// Whoever publishes a body to a topic, as its request's head says: that is kept no longer.
pub(super) struct Publisher {
    topic: Topic,
    client: Client,
    kind: BodyKind,
    /// It may publish the same again under it.
    key: Option<Box<[u8]>>,
}

impl Publisher {
    /// Who asks to publish, if it may.
    ///
    /// # Errors
    /// When it may not, or asks for what there is not.
    pub(super) fn new(
        http: &Http,
        caller: &Caller,
        topic: &str,
        parts: &Parts,
    ) -> Result<Self, Refusal> {
        let topic: Topic = topic.parse()?;
        if http.shard.is_draining() {
            return Err(Refusal::draining());
        }
        let identity = http.identify(parts, &Query::of(parts)?)?;
        http.access().authorise(identity, Right::Publish(&topic))?;
        is_as_it_is(parts)?;
        let content_type = parts.headers.get(header::CONTENT_TYPE).and_then(|t| t.to_str().ok());
        let kind = BodyKind::of(content_type);
        let key = idempotency_key(parts)?.map(Box::from);
        if kind == BodyKind::Lines && key.is_some() {
            return Err(bad("lines cannot be repeated under one Idempotency-Key: publish one \
                            event with it"
                .into()));
        }
        Ok(Self { topic, client: Client::new(identity, caller), kind, key })
    }

    /// Whether it publishes lines, for as long as it likes.
    pub(super) fn is_of_lines(&self) -> bool {
        self.kind == BodyKind::Lines
    }

    /// Publishes the body.
    ///
    /// # Errors
    /// When it is refused; what of it is published is said then.
    pub(super) async fn publish(
        self,
        http: &Rc<Http>,
        body: &mut Incoming,
    ) -> Result<Answer, Refused> {
        let share = share(http, self.client);
        let place = share.try_take()?;
        let mut placed = None;
        let published = if self.is_of_lines() {
            // Taken again with each line.
            drop(place);
            self.publish_lines(http, body, &share, &mut placed).await
        } else {
            self.publish_one(http, body, &mut placed).await
        };
        let answered = placed.map(|placed| placed.published(&self.topic));
        match (published, answered) {
            (Err(refusal), published) => Err(Refused { published, ..refusal.into() }),
            (Ok(()), published) => {
                let body = published.map(|published| published.to_json()).unwrap_or_default();
                let mut answer = json(StatusCode::OK, body);
                if placed.is_some_and(|placed| placed.replayed) {
                    answer.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
                }
                Ok(answer)
            }
        }
    }

    async fn publish_one(
        &self,
        http: &Rc<Http>,
        body: &mut Incoming,
        placed: &mut Option<Placed>,
    ) -> Result<(), Refusal> {
        let bytes_max = http.limits().event_bytes;
        let body = whole(http, body, bytes_max, || EventError::TooLarge(bytes_max).into()).await?;
        let mut payloads = posted::one(self.kind, &body, bytes_max)?;
        let retry = self.key.as_ref().map(|key| -> Retry {
            let hasher = &http.shard.common.retry_hasher;
            hasher.retry(&self.topic, self.client.identity, key, payloads.joined())
        });
        *placed = Some(http.shard.publish(&self.topic, &mut payloads, retry).await?);
        Ok(())
    }

    /// Lines are appended as they are read: a long request is a publish connection. It has a
    /// place while it has begun a line or appends some; between lines it is as idle as any
    /// other connection, and bounded with those.
    async fn publish_lines(
        &self,
        http: &Rc<Http>,
        body: &mut Incoming,
        share: &Share<'_>,
        placed: &mut Option<Placed>,
    ) -> Result<(), Refusal> {
        let limits = http.limits();
        let (mut lines, mut payloads) = (Lines::new(limits.event_bytes), Payloads::default());
        let mut drain = pin!(http.shard.drain());
        // Lines may be far between, but one that is begun is to be finished.
        let mut deadline = None;
        let mut place = None;
        let mut memory = BodyMemory::new(&http.shard.counts.body_bytes);
        loop {
            let frame = tokio::select! {
                biased;
                () = &mut drain => return Err(Refusal::draining()),
                frame = body.frame() => frame,
                () = until(deadline) => return Err(slow()),
            };
            if place.is_none() && matches!(frame, Some(Ok(_))) {
                place = Some(tokio::select! {
                    biased;
                    () = &mut drain => return Err(Refusal::draining()),
                    place = share.take() => place?,
                });
            }
            let before = lines.number;
            let read = match frame {
                Some(Ok(frame)) => match frame.data_ref() {
                    Some(chunk) => lines.read(chunk, &mut payloads),
                    None => continue,
                },
                // The publisher is gone, or its chunks are broken: what it sent stands.
                Some(Err(_)) => return Err(broken_off()),
                None => {
                    let finished = lines.finish(&mut payloads);
                    // An empty body has a position too, but no other's events.
                    if !payloads.is_empty() || placed.is_none() {
                        append(http, &self.topic, &mut payloads, placed).await?;
                    }
                    return finished;
                }
            };
            if !payloads.is_empty() {
                append(http, &self.topic, &mut payloads, placed).await?;
            }
            read?;
            memory.set(lines.unfinished_bytes(), limits.unfinished_bytes)?;
            if lines.unfinished_bytes() == 0 {
                (deadline, place) = (None, None);
            } else if deadline.is_none() || lines.number > before {
                deadline = Some(Instant::now() + limits.body_wait);
            }
        }
    }
}

/// Answers a command.
pub(super) async fn command(
    http: &Rc<Http>,
    caller: &Caller,
    parts: &Parts,
    body: &mut Incoming,
) -> Result<Answer, Refused> {
    if idempotency_key(parts)?.is_some() {
        let message = "a command has no Idempotency-Key: publish to /v1/topics/{topic} with it";
        return Err(bad(message.into()).into());
    }
    let identity = http.identify(parts, &Query::of(parts)?)?;
    is_as_it_is(parts)?;
    let client = Client::new(identity, caller);
    let share = share(http, client);
    let _place = share.try_take()?;
    let limits = http.limits();
    let may_publish = http.access().lets_publish(identity);
    let (bytes_max, whose) = match may_publish {
        true => (limits.command_bytes(), ""),
        false => (COMMAND_BYTES_MAX, " of who may not publish"),
    };
    let too_large = || {
        let message = format!("a command{whose} has at most {bytes_max} bytes: split it");
        Refusal::new(ErrorCode::EventTooLarge, message)
    };
    let body = whole(http, body, bytes_max, too_large).await?;
    let text = std::str::from_utf8(&body)
        .map_err(|_| Refusal::new(ErrorCode::BadCommand, "a command is JSON in UTF-8"))?;
    let request = Request::read(text, may_publish.then_some(limits.event_bytes));
    let context = Context { client, subscriber: None };
    let answer = match request.command {
        Ok(command) => http.shard.execute(command, &context).await,
        Err(refused) => Err(refused),
    };
    match answer {
        Ok(answer) => Ok(json(StatusCode::OK, answer.to_json(request.id.as_deref()))),
        Err(refusal) => Err(Refused { id: request.id, ..refusal.into() }),
    }
}

/// Gives a ticket for a token, not for a ticket: that would be as good as the token.
pub(super) fn ticket(http: &Http, parts: &Parts) -> Result<Answer, Refused> {
    if Query::of(parts)?.ticket.is_some() {
        let message = "a ticket is given for a token: send Authorization: Bearer TOKEN";
        return Err(bad(message.into()).into());
    }
    let identity = http.access().identify(&parts.headers, None, now_us())?;
    let Issued { ticket, has_replaced } = http.access().issue_ticket(identity, now_us())?;
    http.shard.counts.tickets_replaced.add(u64::from(has_replaced));
    let body = format!(r#"{{"ticket":"{ticket}","expires_in_s":{TICKET_LIFE_S}}}"#);
    Ok(json(StatusCode::OK, body.into_bytes()))
}

/// Whether a body is what it stands for: one that is compressed would be inflated for
/// whoever sends it.
fn is_as_it_is(parts: &Parts) -> Result<(), Refusal> {
    let mut codings = parts.headers.get_all(header::CONTENT_ENCODING).iter();
    if codings.all(|coding| coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Ok(());
    }
    let message = "a body is read as it is: send it without Content-Encoding";
    Err(Refusal::new(ErrorCode::UnsupportedEncoding, message))
}

fn idempotency_key(parts: &Parts) -> Result<Option<&[u8]>, Refusal> {
    let mut keys = parts.headers.get_all(IDEMPOTENCY_KEY).iter().map(HeaderValue::as_bytes);
    let Some(key) = keys.next() else { return Ok(None) };
    let is_one = keys.next().is_none();
    if !is_one || !(1..=KEY_BYTES_MAX).contains(&key.len()) || !key.iter().all(u8::is_ascii_graphic)
    {
        let message = "Idempotency-Key: one, of 1 to 128 visible ASCII characters";
        return Err(bad(message.into()));
    }
    Ok(Some(key))
}

/// Reads a whole body.
async fn whole(
    http: &Http,
    body: &mut Incoming,
    bytes_max: usize,
    too_large: impl Fn() -> Refusal,
) -> Result<Vec<u8>, Refusal> {
    let limits = http.limits();
    let mut memory = BodyMemory::new(&http.shard.counts.body_bytes);
    let mut body = Limited::new(body, bytes_max);
    let read = async {
        // Not the pieces as they come: one of a byte has dozens of bytes around it.
        let mut whole = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| match error.is::<LengthLimitError>() {
                true => too_large(),
                false => broken_off(),
            })?;
            if let Some(piece) = frame.data_ref() {
                whole.extend_from_slice(piece);
                memory.set(whole.capacity(), limits.unfinished_bytes)?;
            }
        }
        Ok(whole)
    };
    timeout(limits.body_wait, read).await.map_err(|_| slow())?
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Appends, and widens what this request has published.
async fn append(
    http: &Rc<Http>,
    topic: &Topic,
    payloads: &mut Payloads,
    placed: &mut Option<Placed>,
) -> Result<(), Refusal> {
    let now = http.shard.publish(topic, payloads, None).await?;
    match placed {
        Some(placed) => placed.extend(&now),
        None => *placed = Some(now),
    }
    Ok(())
}

fn broken_off() -> Refusal {
    let message = "the body broke off before its end, or its chunks are malformed";
    Refusal::new(ErrorCode::BadEvent, message)
}

fn slow() -> Refusal {
    let message = "the body, or a line of it, did not arrive in time: send it at once";
    Refusal::new(ErrorCode::SlowRequest, message)
}

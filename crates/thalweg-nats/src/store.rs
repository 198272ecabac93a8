//! Storing, with retries.
//!
//! A message without a key is sent again only while it is certain that no attempt was stored. One with a key
//! can always be sent again: the stream knows it by its id.

use std::{sync::Arc, time::Duration};

use async_nats::{HeaderMap, HeaderName, Message};
use bytes::Bytes;
use ring::digest::{Context, Digest, SHA256, digest};
use thalweg_server::{
    backend::{Content, StoreError, Stored},
    now_us,
};
use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinSet,
    time::Instant,
};

use crate::{
    ack::Ack,
    api::Api,
    counts::{Counts, add},
    end::{Answer, Work},
    leader,
    message::{END, MARK, MARK_VALUE, PAUSED},
    requests::{Requests, Unanswered},
    settings::subject_of,
    stream_state::StreamState,
};

/// How long an answer of the stream may take. A change of leader takes less.
const ACK_TIMEOUT: Duration = Duration::from_secs(5);

/// How long is tried altogether, from the arrival of what is stored on: what has waited for the messages of
/// its topic before has less.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);

/// An attempt gets at least so long, however late.
const ACK_TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// Pauses before attempts: the first, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// How long the events of a topic stay that has ended.
const PURGE_DELAY: Duration = Duration::from_secs(10);

/// Ended topics whose events are about to be removed. Of more at a time they stay.
pub(crate) const PURGES_MAX: usize = 4096;

/// Messages being stored at once. Their answers must find room in a subscription; many more
/// would make the leader slower, not faster.
const STORES_MAX: usize = 4096;

/// How often a message is looked for that the stream says it has.
const REPETITION_LOOKS: u32 = 8;

/// With which the server refuses to store in another stream.
pub(crate) const EXPECTED_STREAM: HeaderName = HeaderName::from_static("Nats-Expected-Stream");
/// By which the stream knows a message that is sent again.
const MESSAGE_ID: HeaderName = HeaderName::from_static("Nats-Msg-Id");
/// With which the server stores only after this message of the subject.
pub(crate) const EXPECTED_LAST: HeaderName =
    HeaderName::from_static("Nats-Expected-Last-Subject-Sequence");
/// By which another body with the same id is known.
const BODY: HeaderName = HeaderName::from_static("Thalweg-Body");

/// What storing takes. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Storing {
    pub(crate) streams: Arc<[Arc<StreamState>]>,
    pub(crate) requests: Requests,
    pub(crate) api: Api,
    pub(crate) counts: Arc<Counts>,
    /// [`PURGES_MAX`] places.
    pub(crate) purges: Arc<Semaphore>,
}

/// Stores what comes, until nothing more can come and all is answered.
pub(crate) async fn run<S, A: Answer>(
    storing: Storing,
    mut stores: mpsc::Receiver<S>,
    split: impl Fn(S) -> (Work, A),
) {
    let mut under_way = JoinSet::new();
    loop {
        tokio::select! {
            store = stores.recv(), if under_way.len() < STORES_MAX => {
                let Some(store) = store else { break };
                let (work, answer) = split(store);
                let storing = storing.clone();
                under_way.spawn(async move {
                    let result = storing.store(work).await;
                    if result == Err(StoreError::Unknown) {
                        add(&storing.counts.unknown);
                    }
                    answer.send(result);
                });
            }
            Some(_) = under_way.join_next() => {}
        }
    }
    while under_way.join_next().await.is_some() {}
}

/// A message as it is sent, with every attempt.
struct Attempt {
    subject: String,
    headers: HeaderMap,
    body: Bytes,
    /// The digest of the body, if there is a key.
    digest: Option<String>,
}

impl Attempt {
    fn new(stream: &str, work: Work) -> Self {
        let Work { topic, content, key, after, .. } = work;
        let mut headers = HeaderMap::new();
        headers.insert(MARK, MARK_VALUE);
        headers.insert(EXPECTED_STREAM, stream);
        if let Some(after) = after {
            headers.insert(EXPECTED_LAST, after.to_string());
        }
        let body = match content {
            Content::Events(payloads) => Bytes::from(payloads.into_lines()),
            Content::Paused(ms) => {
                headers.insert(PAUSED, ms.to_string());
                Bytes::new()
            }
            Content::End(code) => {
                headers.insert(END, code.name());
                Bytes::new()
            }
        };
        let mut body_digest = None;
        if let Some(key) = key {
            let digest = hex(&digest(&SHA256, &body));
            headers.insert(MESSAGE_ID, message_id(topic.as_str(), &key));
            headers.insert(BODY, digest.as_str());
            body_digest = Some(digest);
        }
        Self { subject: subject_of(&topic), headers, body, digest: body_digest }
    }
}

/// The same for the same topic and key, on every server.
fn message_id(topic: &str, key: &[u8]) -> String {
    let mut context = Context::new(&SHA256);
    context.update(topic.as_bytes());
    context.update(&[0]);
    context.update(key);
    hex(&context.finish())
}

fn hex(digest: &Digest) -> String {
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What an attempt came to.
enum Outcome {
    Done(Result<Stored, StoreError>),
    /// It was not stored.
    Not,
    /// It may have been stored.
    Maybe,
}

impl Storing {
    async fn store(&self, work: Work) -> Result<Stored, StoreError> {
        let Some(state) = self.streams.get(work.stream).cloned() else {
            return Err(StoreError::Refused("there is no such stream".to_owned()));
        };
        let is_end = matches!(work.content, Content::End(_));
        let waited = Duration::from_micros(now_us().saturating_sub(work.arrived_us));
        if waited >= STORE_TIMEOUT {
            return Err(StoreError::Unavailable);
        }
        let attempt = Attempt::new(&state.name, work);
        let begun = Instant::now();
        let start = begun.checked_sub(waited).unwrap_or(begun);
        let (mut pause, mut is_uncertain) = (PAUSE_MIN, false);
        loop {
            let left = STORE_TIMEOUT.saturating_sub(start.elapsed());
            let timeout = left.clamp(ACK_TIMEOUT_MIN, ACK_TIMEOUT);
            match self.attempt(&state, &attempt, timeout).await {
                Outcome::Done(Err(StoreError::Refused(_))) if is_uncertain => {
                    return Err(StoreError::Unknown);
                }
                Outcome::Done(result) => {
                    if let Ok(Stored { sequence, .. }) = result {
                        self.counts.take_stored(begun.elapsed());
                        if is_end && !state.has_values {
                            self.purge(&state.name, &attempt.subject, sequence);
                        }
                    }
                    return result;
                }
                Outcome::Not => {}
                Outcome::Maybe if attempt.digest.is_none() => return Err(StoreError::Unknown),
                Outcome::Maybe => is_uncertain = true,
            }
            if start.elapsed() + pause >= STORE_TIMEOUT {
                let unavailable = StoreError::Unavailable;
                return Err(if is_uncertain { StoreError::Unknown } else { unavailable });
            }
            let retries = [&self.counts.retries_unavailable, &self.counts.retries_unanswered];
            add(retries[usize::from(is_uncertain)]);
            // Spread: all topics are refused at the same moment when a leader goes.
            tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Removes what a topic that has ended had before the message that says so. If that fails, it
    /// stays as long as it may: nobody reads it.
    fn purge(&self, stream: &str, subject: &str, before: u64) {
        let (api, stream, subject) = (self.api.clone(), stream.to_owned(), subject.to_owned());
        let counts = self.counts.clone();
        let Ok(place) = self.purges.clone().try_acquire_owned() else {
            return add(&counts.purges_omitted);
        };
        tokio::spawn(async move {
            // Servers that are a little behind get them before: a hole tells them less.
            tokio::time::sleep(PURGE_DELAY).await;
            if let Err(error) = api.purge(&stream, &subject, before).await {
                add(&counts.purges_omitted);
                tracing::debug!(stream, subject, "an ended topic's events stay: {error}");
            }
            drop(place);
        });
    }

    async fn attempt(&self, state: &StreamState, attempt: &Attempt, timeout: Duration) -> Outcome {
        let Attempt { subject, headers, body, digest } = attempt;
        let (epoch, next) = (state.epoch(), state.next());
        let sent = self.requests.send(subject.clone(), headers.clone(), body.clone(), timeout);
        // Who waits for a leader that leads no more waits in vain, and all of its topic with it.
        let answer = tokio::select! {
            answer = sent => answer,
            () = leader::changed(state, Instant::now()) => Err(Unanswered::Timeout),
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(Unanswered::NotSent | Unanswered::NoResponders) => return Outcome::Not,
            Err(Unanswered::Lost | Unanswered::Timeout) => return Outcome::Maybe,
            Err(Unanswered::TooLarge) => {
                let why = "the message is larger than the NATS server takes (max_payload)";
                return Outcome::Done(Err(StoreError::Refused(why.to_owned())));
            }
        };
        let (sequence, is_repetition) = match Ack::read(&answer.payload) {
            Ack::Stored { sequence, is_duplicate } => (sequence, is_duplicate),
            Ack::NotNow => return Outcome::Not,
            Ack::InProcess | Ack::Unreadable => return Outcome::Maybe,
            Ack::Outdated => {
                let newest = self.api.last_message(&state.name, subject).await;
                let newest = newest.ok().map(|found| found.map_or(0, |(sequence, _)| sequence));
                return Outcome::Done(Err(StoreError::Outdated(newest)));
            }
            Ack::Refused(why) => return Outcome::Done(Err(StoreError::Refused(why))),
        };
        if is_repetition {
            return match self.is_other_body(&state.name, sequence, digest.as_deref()).await {
                Some(true) => Outcome::Done(Err(StoreError::KeyReused)),
                Some(false) => Outcome::Done(Ok(Stored { epoch, sequence, is_repetition })),
                None => Outcome::Maybe,
            };
        }
        if sequence < next {
            // This number was read already, before the message was sent: the stream is another one,
            // of which nothing is known yet.
            state.suspect.notify_one();
            return Outcome::Maybe;
        }
        Outcome::Done(Ok(Stored { epoch, sequence, is_repetition }))
    }

    /// Whether a message that is stored has another body. A replica may not have it yet; one that none has for
    /// long was removed since, and a repetition is likelier than anything else. `None` if nobody
    /// answers.
    async fn is_other_body(
        &self,
        stream: &str,
        sequence: u64,
        digest: Option<&str>,
    ) -> Option<bool> {
        let mut has_answered = false;
        let mut pause = PAUSE_MIN;
        for _ in 0..REPETITION_LOOKS {
            match self.api.message(stream, sequence).await {
                Ok(Some(message)) => return Some(body_of(&message) != digest),
                Ok(None) => has_answered = true,
                Err(_) => {}
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
        has_answered.then_some(false)
    }
}

fn body_of(message: &Message) -> Option<&str> {
    Some(message.headers.as_ref()?.get(BODY)?.as_str())
}

#[cfg(test)]
mod tests {
    use thalweg_wire::EndCode;

    use super::*;

    #[test]
    fn an_id_is_of_topic_and_key() {
        let id = message_id("a", b"k");
        assert_eq!(id.len(), 64);
        assert_eq!(id, message_id("a", b"k"));
        assert_ne!(id, message_id("b", b"k"));
        assert_ne!(message_id("a", b"bc"), message_id("ab", b"c"), "what divides them counts");
    }

    #[test]
    fn what_has_a_key_says_its_body() {
        let work = |key: Option<&[u8]>| {
            let mut payloads = thalweg_core::stream::Payloads::default();
            for event in ["1", "22"] {
                let write = |out: &mut Vec<u8>| {
                    out.extend_from_slice(event.as_bytes());
                    Ok::<_, ()>(())
                };
                payloads.push(write).unwrap();
            }
            let (topic, key) = ("a/b.c".parse().unwrap(), key.map(Into::into));
            Work {
                stream: 0,
                topic,
                content: Content::Events(payloads),
                key,
                after: None,
                arrived_us: 0,
            }
        };
        let plain = Attempt::new("thalweg-s", work(None));
        assert_eq!((plain.subject.as_str(), &plain.body[..]), ("thalweg.a.b/c", &b"1\n22"[..]));
        assert_eq!(plain.headers.get(EXPECTED_STREAM).unwrap().as_str(), "thalweg-s");
        assert!(plain.headers.get(MESSAGE_ID).is_none() && plain.digest.is_none());
        let keyed = Attempt::new("thalweg-s", work(Some(b"k")));
        assert_eq!(keyed.headers.get(BODY).unwrap().as_str(), keyed.digest.unwrap());
        assert_eq!(keyed.headers.get(MESSAGE_ID).unwrap().as_str(), message_id("a/b.c", b"k"));
    }

    #[test]
    fn an_end_has_no_body_and_says_what_it_comes_after() {
        let (topic, content) = ("a".parse().unwrap(), Content::End(EndCode::Gone));
        let after = Some(7);
        let end = Work { stream: 0, topic, content, key: None, after, arrived_us: 0 };
        let end = Attempt::new("s", end);
        let header = |name| end.headers.get(name).map(|value| value.as_str());
        assert_eq!((header(END), header(EXPECTED_LAST)), (Some("gone"), Some("7")));
        assert_eq!((header(MARK), end.body.len()), (Some(MARK_VALUE), 0));
    }
}

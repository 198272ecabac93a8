//! Appends, with retries. A message without a key is sent again only if it is certain that no attempt was
//! stored. A message with a key can always be sent again, because the stream recognises the repeated id.

use std::{sync::Arc, time::Duration};

use async_nats::{HeaderMap, HeaderName, Message};
use bytes::Bytes;
use ring::digest::{Context, Digest, SHA256, digest};
use thalweg_broker::{Append, AppendError, Content, Stored};
use thalweg_wire::{Epoch, Offset, Topic};
use tokio::{sync::Semaphore, time::Instant};

use crate::{
    ack::Ack,
    api::Api,
    counts::{Counts, add},
    leader,
    message::{END, MARK, MARK_VALUE, PAUSED, keyed_body},
    offsets::{offset_of, sequence_of},
    requests::{Requests, Unanswered},
    settings::{index_subject_of, part_subject_of, subject_of},
    setup,
    stream_state::StreamState,
};

/// The timeout of the stream's answer. A change of leader takes less.
const ACK_TIMEOUT: Duration = Duration::from_secs(5);

/// The time limit of all attempts, counted from the arrival of the publish. A message that had to wait for
/// earlier messages of its topic has less time left.
const STORE_TIMEOUT: Duration = Duration::from_secs(10);

/// The minimum timeout of an attempt, even if little of [`STORE_TIMEOUT`] is left.
const ACK_TIMEOUT_MIN: Duration = Duration::from_secs(1);

/// Pauses before attempts: the first, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// The time for which the events of an ended topic, and messages that a stored state replaces, stay.
pub(crate) const PURGE_DELAY: Duration = Duration::from_secs(10);

/// Maximum number of ended topics whose events wait for removal. If more topics end, the server does not
/// purge their events: they stay until the stream removes them by age.
pub(crate) const PURGES_MAX: usize = 4096;

/// The number of attempts to read a message that the stream reports as stored.
const REPETITION_READS: u32 = 8;

/// Maximum number of such reads at a time. Each reads the whole message.
pub(crate) const REPETITIONS_MAX: usize = 16;

/// Makes the server refuse to store the message in another stream.
pub(crate) const EXPECTED_STREAM: HeaderName = HeaderName::from_static("Nats-Expected-Stream");
/// The id by which the stream recognises a repeated message.
const MESSAGE_ID: HeaderName = HeaderName::from_static("Nats-Msg-Id");
/// Makes the server store the message only if this is the newest message of the subject.
pub(crate) const EXPECTED_LAST: HeaderName =
    HeaderName::from_static("Nats-Expected-Last-Subject-Sequence");
/// A value that no stream accepts: a message that has it is answered as a repetition or refused, and never stored.
const ROLLUP: HeaderName = HeaderName::from_static("Nats-Rollup");
const ROLLUP_REFUSED: &str = "none";
/// The digest of the body. It shows whether a message with the same id has another body.
const BODY: HeaderName = HeaderName::from_static("Thalweg-Body");

/// The part that appends messages. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Store {
    pub(crate) streams: Arc<[Arc<StreamState>]>,
    pub(crate) requests: Requests,
    pub(crate) api: Api,
    pub(crate) counts: Arc<Counts>,
    /// [`PURGES_MAX`] permits.
    pub(crate) purges: Arc<Semaphore>,
    /// [`REPETITIONS_MAX`] permits.
    pub(crate) repetitions: Arc<Semaphore>,
}

/// A message, as each attempt sends it.
struct Attempt {
    subject: String,
    headers: HeaderMap,
    body: Bytes,
    /// The digest of the body, if there is a key.
    digest: Option<String>,
    /// The headers of a message that finds out whether the stream knows the key, if there is a condition, too: a stream with one
    /// replica checks the condition first.
    question: Option<HeaderMap>,
}

impl Attempt {
    fn new(stream: &str, append: Append, after: Option<Offset>) -> Self {
        let Append { topic, content, key, .. } = append;
        let mut headers = HeaderMap::new();
        headers.insert(MARK, MARK_VALUE);
        headers.insert(EXPECTED_STREAM, stream);
        if let Some(after) = after {
            headers.insert(EXPECTED_LAST, sequence_of(after).to_string());
        }
        let body_digest = key.is_some().then(|| digest_of(&content));
        let body = match content {
            Content::Events(payloads) if payloads.has_keys() => Bytes::from(keyed_body(payloads)),
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
        let mut question = None;
        if let Some((key, digest)) = key.zip(body_digest.as_deref()) {
            let id = message_id(topic.as_str(), &key);
            if after.is_some() {
                let mut headers = HeaderMap::new();
                headers.insert(EXPECTED_STREAM, stream);
                headers.insert(MESSAGE_ID, id.as_str());
                headers.insert(ROLLUP, ROLLUP_REFUSED);
                question = Some(headers);
            }
            headers.insert(MESSAGE_ID, id);
            headers.insert(BODY, digest);
        }
        Self { subject: subject_of(&topic), headers, body, digest: body_digest, question }
    }
}

/// Returns the digest of events and their keys. A repetition may expire at another time.
fn digest_of(content: &Content) -> String {
    match content {
        Content::Events(payloads) if payloads.has_keys() => {
            let bytes = [payloads.joined_keys(), b"\n", payloads.joined()].concat();
            hex(&digest(&SHA256, &bytes))
        }
        // A record with a key has one event.
        Content::Events(payloads) => hex(&digest(&SHA256, payloads.joined())),
        Content::Paused(_) | Content::End(_) => hex(&digest(&SHA256, b"")),
    }
}

/// Returns the id of a topic and key, the same on every server.
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

enum Outcome {
    Done(Result<Stored, AppendError>),
    NotStored,
    MaybeStored,
}

impl Store {
    /// Appends a record; with `after`, only if that is the topic's newest record.
    pub(crate) async fn append(
        &self,
        append: Append,
        after: Option<Offset>,
    ) -> Result<Stored, AppendError> {
        let result = self.try_append(append, after).await;
        if result == Err(AppendError::Unknown) {
            add(&self.counts.unknown);
        }
        result
    }

    async fn try_append(
        &self,
        append: Append,
        after: Option<Offset>,
    ) -> Result<Stored, AppendError> {
        let Some(state) = self.streams.get(append.stream).cloned() else {
            return Err(AppendError::Refused("there is no such stream".to_owned()));
        };
        let is_end = matches!(append.content, Content::End(_));
        let waited = append.waited;
        if waited >= STORE_TIMEOUT {
            return Err(AppendError::Unavailable);
        }
        let topic = append.topic.clone();
        let attempt = Attempt::new(&state.name, append, after);
        let begun = Instant::now();
        let start = begun.checked_sub(waited).unwrap_or(begun);
        let (mut pause, mut is_uncertain) = (PAUSE_MIN, false);
        loop {
            let left = STORE_TIMEOUT.saturating_sub(start.elapsed());
            let timeout = left.clamp(ACK_TIMEOUT_MIN, ACK_TIMEOUT);
            match self.attempt(&state, &attempt, timeout).await {
                Outcome::Done(Err(AppendError::Refused(_))) if is_uncertain => {
                    return Err(AppendError::Unknown);
                }
                Outcome::Done(result) => {
                    if let Ok(Stored { first, .. }) = result {
                        self.counts.take_stored(begun.elapsed());
                        if is_end && !state.kind.has_versions() {
                            self.purge(&state, &topic, sequence_of(first));
                        }
                    }
                    return result;
                }
                Outcome::NotStored => {}
                Outcome::MaybeStored if attempt.digest.is_none() => {
                    return Err(AppendError::Unknown);
                }
                Outcome::MaybeStored => is_uncertain = true,
            }
            if start.elapsed() + pause >= STORE_TIMEOUT {
                let unavailable = AppendError::Unavailable;
                return Err(if is_uncertain { AppendError::Unknown } else { unavailable });
            }
            let retries = [&self.counts.retries_unavailable, &self.counts.retries_unanswered];
            add(retries[usize::from(is_uncertain)]);
            // Add jitter, because a leader that fails refuses the messages of all topics at the same moment.
            tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Removes the messages that come before the end message of a topic. If this fails, they stay until
    /// retention removes them. That does no harm, because no server reads them.
    fn purge(&self, state: &StreamState, topic: &Topic, before: u64) {
        let (api, stream) = (self.api.clone(), state.name.clone());
        let mut subjects = vec![subject_of(topic)];
        if state.kind.has_keys() {
            subjects.extend([index_subject_of(topic), part_subject_of(topic)]);
        }
        let counts = self.counts.clone();
        let Ok(permit) = self.purges.clone().try_acquire_owned() else {
            return add(&counts.purges_omitted);
        };
        tokio::spawn(async move {
            // In the meantime, servers that are a little behind can read these messages.
            tokio::time::sleep(PURGE_DELAY).await;
            for subject in subjects {
                if let Err(error) = api.purge(&stream, &subject, before).await {
                    add(&counts.purges_omitted);
                    tracing::debug!(
                        stream,
                        subject,
                        "cannot remove an ended topic's events: {error}"
                    );
                }
            }
            drop(permit);
        });
    }

    async fn attempt(&self, state: &StreamState, attempt: &Attempt, timeout: Duration) -> Outcome {
        let Attempt { subject, headers, body, digest, question } = attempt;
        let (epoch, next) = (state.epoch(), state.next());
        let sent = self.requests.send(subject.clone(), headers.clone(), body.clone(), timeout);
        // If the leader changes, stop waiting: the former leader does not answer, and all later messages of
        // the topic would wait.
        let answer = tokio::select! {
            answer = sent => answer,
            () = leader::changed(state, Instant::now()) => Err(Unanswered::Timeout),
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(Unanswered::NotSent | Unanswered::NoResponders) => return Outcome::NotStored,
            Err(Unanswered::Lost | Unanswered::Timeout) => return Outcome::MaybeStored,
            Err(Unanswered::TooLarge) => {
                let why =
                    "the message is larger than the NATS server accepts: raise its max_payload";
                return Outcome::Done(Err(AppendError::Refused(why.to_owned())));
            }
        };
        let mut ack = Ack::read(&answer.payload);
        if let (Ack::Outdated, Some(question)) = (&ack, question) {
            let sent = self.requests.send(subject.clone(), question.clone(), Bytes::new(), timeout);
            ack = match sent.await.map(|answer| Ack::read(&answer.payload)) {
                Ok(Ack::Refused(_)) => Ack::Outdated,
                Ok(known) => known,
                Err(_) => return Outcome::MaybeStored,
            };
        }
        let (sequence, is_repetition) = match ack {
            Ack::Stored { sequence, is_duplicate } => (sequence, is_duplicate),
            Ack::NotNow => return Outcome::NotStored,
            Ack::InProcess | Ack::Unreadable => return Outcome::MaybeStored,
            Ack::Outdated => {
                let newest = self.api.last_message(&state.name, subject).await;
                let newest =
                    newest.ok().map(|found| found.map_or(0, |(sequence, _)| offset_of(sequence)));
                return Outcome::Done(Err(AppendError::Outdated(newest)));
            }
            Ack::Refused(why) => return Outcome::Done(Err(AppendError::Refused(why))),
        };
        let stored = Stored { epoch, first: offset_of(sequence), is_repetition };
        if is_repetition {
            return match self.is_other_body(&state.name, sequence, digest.as_deref()).await {
                Some(true) => Outcome::Done(Err(AppendError::KeyReused)),
                Some(false) if self.has_epoch(state, epoch).await => Outcome::Done(Ok(stored)),
                Some(false) | None => Outcome::MaybeStored,
            };
        }
        if sequence < next {
            // A message with this number was read before, so the stream was created again.
            state.suspect.notify_one();
            return Outcome::MaybeStored;
        }
        Outcome::Done(Ok(stored))
    }

    /// Asks the leader whether a stream still has an epoch: a stream that was created again may know the key,
    /// too, so the id alone proves nothing.
    async fn has_epoch(&self, state: &StreamState, epoch: Epoch) -> bool {
        let info = self.api.stream_info(&state.name).await.ok();
        let found = info.as_ref().and_then(setup::epoch);
        if found.is_some_and(|found| found != epoch) {
            state.suspect.notify_one();
        }
        found == Some(epoch)
    }

    /// Returns whether a stored message has another body; `None` if no replica answers. A replica may not
    /// have the message yet. If no replica has the message after all attempts, it was removed, and the
    /// publish counts as a repetition of the same event.
    async fn is_other_body(
        &self,
        stream: &str,
        sequence: u64,
        digest: Option<&str>,
    ) -> Option<bool> {
        let mut has_answered = false;
        let mut pause = PAUSE_MIN;
        for _ in 0..REPETITION_READS {
            let permit = self.repetitions.acquire().await.ok()?;
            let found = self.api.message(stream, sequence).await;
            drop(permit);
            match found {
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
    fn an_id_depends_on_topic_and_key() {
        let id = message_id("a", b"k");
        assert_eq!(id.len(), 64);
        assert_eq!(id, message_id("a", b"k"));
        assert_ne!(id, message_id("b", b"k"));
        assert_ne!(message_id("a", b"bc"), message_id("ab", b"c"), "the separator counts");
    }

    #[test]
    fn a_message_with_a_key_has_the_digest_of_its_body() {
        let append = |key: Option<&[u8]>| {
            let mut payloads = thalweg_core::stream::Payloads::default();
            for event in ["1", "22"] {
                let write = |out: &mut Vec<u8>| {
                    out.extend_from_slice(event.as_bytes());
                    Ok::<_, ()>(())
                };
                payloads.push(write).unwrap();
            }
            let (topic, key) = ("a/b.c".parse().unwrap(), key.map(Into::into));
            let content = Content::Events(payloads);
            Append { stream: 0, topic, content, key, waited: Duration::ZERO }
        };
        let plain = Attempt::new("thalweg-s", append(None), None);
        assert_eq!((plain.subject.as_str(), &plain.body[..]), ("thalweg.a.b/c", &b"1\n22"[..]));
        assert_eq!(plain.headers.get(EXPECTED_STREAM).unwrap().as_str(), "thalweg-s");
        assert!(plain.headers.get(MESSAGE_ID).is_none() && plain.digest.is_none());
        let keyed = Attempt::new("thalweg-s", append(Some(b"k")), None);
        assert_eq!(keyed.headers.get(BODY).unwrap().as_str(), keyed.digest.unwrap());
        assert_eq!(keyed.headers.get(MESSAGE_ID).unwrap().as_str(), message_id("a/b.c", b"k"));
    }

    #[test]
    fn an_end_has_no_body_and_a_condition() {
        let (topic, content) = ("a".parse().unwrap(), Content::End(EndCode::Gone));
        let end = Append { stream: 0, topic, content, key: None, waited: Duration::ZERO };
        let end = Attempt::new("s", end, Some(7 * 256));
        let header = |name| end.headers.get(name).map(|value| value.as_str());
        assert_eq!((header(END), header(EXPECTED_LAST)), (Some("gone"), Some("7")));
        assert_eq!((header(MARK), end.body.len()), (Some(MARK_VALUE), 0));
    }
}

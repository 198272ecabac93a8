//! The answers of `--demo`: a thread that answers questions of the demo page word by word, as a language
//! model does. It is a client of its own server. Its only state is in topics, so that a server that restarts
//! continues each answer after its last word.
//!
//! ```text
//! demo/questions    {"answer":ID,"question":0} from a page; an ID has twelve characters of a-z and 0-9
//! demo/answers/ID   {"index":0,"text":"Each "} and so on, then {"index":N,"done":true}
//! ```

mod texts;

use std::{
    collections::{HashSet, VecDeque},
    convert::Infallible,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::bail;
use serde::{Deserialize, Serialize};
use thalweg_broker::LogThrottle;
use thalweg_client::{
    Client, Error, Options, StartAt, Subscribe, Subscription, Topic, Transport, Update,
};
use thalweg_token::Rights;
use tokio::{
    runtime::Builder,
    sync::Semaphore,
    task::{JoinError, JoinSet},
    time::{MissedTickBehavior, interval, sleep},
};

use texts::TEXTS;

const QUESTIONS: &str = "demo/questions";

/// The length of an ID. Pages choose it at random, so two pages never choose the same.
const ID_LENGTH: usize = 12;

/// Answers written at the same time: together about 530 events a second.
const WRITING_MAX: usize = 32;

/// Unanswered questions: these, and 256 that wait. The last of them waits for more than a minute. A start
/// reads as many of the newest questions again, because their answers may be unfinished.
const UNANSWERED_MAX: u32 = 32 + 256;

/// Requests at the same time: the connections that the client keeps.
const REQUESTS_MAX: usize = 8;

/// The time between two words of an answer.
const WORD_INTERVAL: Duration = Duration::from_millis(60);

/// Events of an answer that are read to find its last word: more than the longest answer has.
const EVENTS_MAX: usize = 1000;

/// Delay before the topic of questions is looked for again, or a failed read is repeated.
const AGAIN: Duration = Duration::from_secs(2);

/// Attempts to read the topic of an answer.
const READS_MAX: u32 = 30;

/// Answers questions at the server at `url` until the program ends, on a thread. `rights` are those of
/// clients without a token, as this one is. Fails if no thread is available.
pub(crate) fn beside(url: &str, rights: &Rights) -> anyhow::Result<()> {
    let questions: Topic = QUESTIONS.parse()?;
    let example = answer_topic(&"x".repeat(ID_LENGTH));
    let may_publish = example.is_some_and(|topic| rights.publish.contain(&topic));
    if !may_publish || !rights.subscribe.contain(&questions) {
        tracing::warn!(
            "the demo answers no questions: clients without a token need the rights to subscribe to \
             {QUESTIONS} and to publish to demo/answers/*"
        );
        return Ok(());
    }
    // The server's certificate need not have the name or address that this machine has for itself.
    let client = Client::new(url, Options { is_insecure: true, ..Options::default() })?;
    let serve = move || -> anyhow::Result<Infallible> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(Desk::new(client).run(&questions))
    };
    thread::Builder::new().name("demo-answers".into()).spawn(move || {
        let Err(error) = serve();
        tracing::warn!(%error, "the demo answers no more questions");
    })?;
    Ok(())
}

/// The answers that are being written, and the questions that wait.
struct Desk {
    client: Client,
    requests: Arc<Semaphore>,
    questions: Questions,
    writing: JoinSet<(Topic, Result<(), Error>)>,
    dropped: LogThrottle,
    failed: LogThrottle,
    begun: Instant,
}

impl Desk {
    fn new(client: Client) -> Self {
        Self {
            client,
            requests: Arc::new(Semaphore::new(REQUESTS_MAX)),
            questions: Questions::default(),
            writing: JoinSet::new(),
            dropped: LogThrottle::default(),
            failed: LogThrottle::default(),
            begun: Instant::now(),
        }
    }

    async fn run(mut self, questions: &Topic) -> anyhow::Result<Infallible> {
        loop {
            let subscribe = Subscribe {
                from: StartAt::Newest(UNANSWERED_MAX),
                transport: Some(Transport::HttpStreaming),
                ..Subscribe::default()
            };
            let mut subscription = self.client.subscribe(vec![questions.clone()], subscribe)?;
            if let Err(error) = self.follow(&mut subscription).await
                && let Some(count) = self.failed.take(1, self.now_us())
            {
                tracing::warn!(count, %error, "the demo cannot read its questions");
            }
            sleep(AGAIN).await;
        }
    }

    /// Answers questions until their topic ends, which also happens if it does not exist yet and the server
    /// refuses such topics.
    async fn follow(&mut self, subscription: &mut Subscription) -> anyhow::Result<()> {
        loop {
            while self.writing.len() < WRITING_MAX
                && let Some(question) = self.questions.take()
            {
                let (client, requests) = (self.client.clone(), Arc::clone(&self.requests));
                self.writing.spawn(async move {
                    let written = write(&client, &requests, &question).await;
                    (question.answer, written)
                });
            }
            tokio::select! {
                Some(ended) = self.writing.join_next() => self.has_ended(ended),
                update = subscription.next() => match update {
                    Ok(Update::Events(events)) => {
                        let added = events.iter().map(|(_, event)| self.questions.add(event));
                        let dropped = added.filter(|is_added| !is_added).count();
                        self.has_dropped(dropped as u64);
                    }
                    Ok(Update::Closed(closed)) => bail!(closed.reason),
                    Ok(_) => {}
                    Err(Error::Ended) => return Ok(()),
                    Err(error) if is_no_such_topic(&error) => return Ok(()),
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }

    fn has_dropped(&mut self, count: u64) {
        if let Some(count) = self.dropped.take(count, self.now_us()) {
            tracing::warn!(
                count,
                "the demo drops questions, because {UNANSWERED_MAX} others are not answered yet"
            );
        }
    }

    fn has_ended(&mut self, ended: Result<(Topic, Result<(), Error>), JoinError>) {
        let Ok((answer, written)) = ended else { return };
        self.questions.forget(&answer);
        if let Err(error) = written
            && let Some(count) = self.failed.take(1, self.now_us())
        {
            tracing::warn!(count, %error, "the demo cannot finish an answer");
        }
    }

    fn now_us(&self) -> u64 {
        self.begun.elapsed().as_micros() as u64
    }
}

/// The questions that wait, in order. Pure.
#[derive(Default)]
struct Questions {
    waiting: VecDeque<Question>,
    /// The answers of these, and those that are being written.
    known: HashSet<Topic>,
}

struct Question {
    answer: Topic,
    text: &'static str,
}

impl Questions {
    /// Adds the question of an event. An event that is no question, or one that is known, has no effect.
    /// Returns `false` if the question is dropped, because too many are unanswered.
    fn add(&mut self, event: &str) -> bool {
        let Some(question) = Question::parse(event) else { return true };
        if self.known.contains(&question.answer) {
            return true;
        }
        if self.known.len() >= UNANSWERED_MAX as usize {
            return false;
        }
        self.known.insert(question.answer.clone());
        self.waiting.push_back(question);
        true
    }

    /// Returns the question to answer next.
    fn take(&mut self) -> Option<Question> {
        self.waiting.pop_front()
    }

    /// Forgets an answer that is not being written any more.
    fn forget(&mut self, answer: &Topic) {
        self.known.remove(answer);
    }
}

impl Question {
    fn parse(event: &str) -> Option<Self> {
        #[derive(Deserialize)]
        struct Fields {
            answer: String,
            question: usize,
        }
        let Fields { answer, question } = serde_json::from_str(event).ok()?;
        Some(Self { answer: answer_topic(&answer)?, text: TEXTS.get(question)? })
    }
}

/// Returns the topic of an answer; `None` if the ID is malformed.
fn answer_topic(id: &str) -> Option<Topic> {
    let is_valid = id.len() == ID_LENGTH
        && id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    is_valid.then(|| format!("demo/answers/{id}").parse().ok()).flatten()
}

/// An event of an answer.
#[derive(Serialize, Deserialize)]
struct Word<'a> {
    index: usize,
    /// A word and the space after it; `None` at the end.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    done: bool,
}

/// Returns the events of an answer as JSON.
fn events(text: &'static str) -> impl Iterator<Item = Result<String, serde_json::Error>> {
    let words = text.split_inclusive(' ').map(Some).chain([None]).enumerate();
    words.map(|(index, text)| serde_json::to_string(&Word { index, text, done: text.is_none() }))
}

/// Writes the part of an answer that its topic does not have yet.
async fn write(client: &Client, requests: &Semaphore, question: &Question) -> Result<(), Error> {
    let Question { answer, text } = question;
    let written = written(client, requests, answer).await?;
    let mut pace = interval(WORD_INTERVAL);
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for event in events(text).skip(written).flatten() {
        pace.tick().await;
        let _permit = requests.acquire().await;
        client.publish(answer, event).await?;
    }
    Ok(())
}

/// Returns how many events of an answer its topic has. An event that is not part of an answer counts as its
/// end, because another client uses the topic.
async fn written(client: &Client, requests: &Semaphore, answer: &Topic) -> Result<usize, Error> {
    for attempt in 1.. {
        let permit = requests.acquire().await;
        let read = client.read(answer, StartAt::Earliest, EVENTS_MAX).await;
        drop(permit);
        match read {
            Ok(read) => {
                let Some(last) = read.events.last() else { return Ok(0) };
                let last = serde_json::from_str::<Word<'_>>(last.get()).ok();
                return Ok(last.map_or(usize::MAX, |word| word.index.saturating_add(1)));
            }
            Err(error) if is_no_such_topic(&error) => return Ok(0),
            Err(error) if !error.is_transient() || attempt == READS_MAX => return Err(error),
            Err(_) => sleep(AGAIN).await,
        }
    }
    Err(Error::Ended)
}

fn is_no_such_topic(error: &Error) -> bool {
    matches!(error, Error::Refused(refusal) if refusal.code.as_deref() == Some("no_such_topic"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(id: &str, question: usize) -> String {
        format!(r#"{{"answer":"{id}","question":{question}}}"#)
    }

    #[test]
    fn an_answer_takes_about_ten_seconds_and_joins_to_its_text() {
        for text in TEXTS {
            let events: Vec<String> = events(text).map(|event| event.unwrap()).collect();
            let words: Vec<Word<'_>> =
                events.iter().map(|event| serde_json::from_str(event).unwrap()).collect();
            assert!((120..=160).contains(&(words.len() - 1)), "{}: {text}", words.len());
            assert!(words.iter().enumerate().all(|(at, word)| word.index == at));
            assert_eq!(words.iter().filter_map(|word| word.text).collect::<String>(), text);
            assert!(words.iter().all(|word| word.done == word.text.is_none()));
        }
        assert_eq!(events("Each word").next().unwrap().unwrap(), r#"{"index":0,"text":"Each "}"#);
        assert_eq!(events("Each").last().unwrap().unwrap(), r#"{"index":1,"done":true}"#);
    }

    #[test]
    fn only_questions_of_the_page_are_answered() {
        let check = |event: &str, expected: Option<usize>| {
            let asked = Question::parse(event).map(|question| question.text);
            assert_eq!(asked, expected.map(|question| TEXTS[question]), "{event}");
        };
        check(&question("0123456789az", 0), Some(0));
        check(&question("0123456789az", 3), Some(3));
        check(&question("0123456789az", 4), None);
        for id in
            ["", "0123456789a", "0123456789azb", "0123456789aZ", "0123/56789az", "012345678é1"]
        {
            check(&question(id, 0), None);
        }
        for event in ["", "5", "{}", r#"{"answer":"0123456789az","question":-1}"#, "[[[["] {
            check(event, None);
        }
    }

    #[test]
    fn questions_wait_in_order_without_repeats_and_up_to_a_limit() {
        const MAX: usize = UNANSWERED_MAX as usize;
        let id = |number: usize| format!("{number:012}");
        let mut questions = Questions::default();
        for number in 0..MAX {
            assert!(questions.add(&question(&id(number), 0)));
        }
        assert!(!questions.add(&question(&id(MAX), 0)), "there is no room");
        assert!(questions.add(&question(&id(1), 2)), "it is known");
        let first = questions.take().unwrap();
        assert_eq!((first.answer.as_str(), first.text), ("demo/answers/000000000000", TEXTS[0]));
        assert!(questions.add(&question(&id(0), 1)), "it is being written");
        assert!(!questions.add(&question(&id(MAX), 0)), "there is no room");
        assert_eq!(questions.waiting.len(), MAX - 1);
        questions.forget(&first.answer);
        assert!(questions.add(&question(&id(0), 1)));
        assert_eq!(questions.waiting.back().map(|question| question.text), Some(TEXTS[1]));
    }
}

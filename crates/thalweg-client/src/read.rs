//! Reading history, listing topics, and commands.

use serde::Deserialize;
use serde_json::value::RawValue;
use thalweg_wire::{GapReason, Offset, StartAt, Topic};

use crate::{
    Client, Error, exchange::Ask, limits::TOPICS_PER_PAGE, publish::answer, target::cursor_text,
};

/// A part of a topic's history, as [`Client::read`] gives it.
///
/// There is more to read while `position` is not `head`:
///
/// ```no_run
/// # async fn example(client: thalweg_client::Client) -> Result<(), Box<dyn std::error::Error>> {
/// use thalweg_client::StartAt;
///
/// let topic = "cars".parse()?;
/// let mut from = StartAt::Earliest;
/// loop {
///     let read = client.read(&topic, from, 1000).await?;
///     read.events.iter().for_each(|event| println!("{event}"));
///     if read.position == read.head {
///         break;
///     }
///     from = read.position.parse()?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Deserialize)]
pub struct Read {
    /// The topic.
    pub topic: String,
    /// Position of the last event, or the cursor if there are no events: read on from here.
    pub position: String,
    /// Offset of the first event.
    pub first: Offset,
    /// One offset for each event; `None` if they are consecutive from `first` on.
    pub offsets: Option<Vec<Offset>>,
    /// Each a JSON value.
    pub events: Vec<Box<RawValue>>,
    /// Position of the topic's newest event.
    pub head: String,
    /// What is missing between the cursor and the first event; `None` if nothing is.
    pub gap: Option<Missing>,
}

/// Events that are not in the history any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Missing {
    /// How many, where that can be known.
    pub missed: Option<Offset>,
    /// Why.
    pub reason: GapReason,
}

/// What a query does, as [`Client::explain`] gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The topic of its rows.
    pub topic: Topic,
    /// A line for each part of it.
    pub text: String,
}

/// A topic in the list.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct TopicSummary {
    /// Its name.
    pub topic: String,
    /// Position of its newest event.
    pub position: String,
    /// Events retained.
    pub events: u64,
    /// Its subscribers.
    pub subscribers: u64,
}

#[derive(Deserialize)]
struct Page {
    topics: Vec<TopicSummary>,
}

#[derive(Deserialize)]
struct Echoed {
    answer: Data,
}

#[derive(Deserialize)]
struct Data {
    data: Box<RawValue>,
}

impl Client {
    /// Reads up to `limit` events after a cursor, at most 10,000. There may be fewer if they
    /// are large.
    ///
    /// # Errors
    /// A refusal (`no_such_topic` if nobody has used the topic), or no connection. It is
    /// tried once.
    pub async fn read(&self, topic: &Topic, from: StartAt, limit: usize) -> Result<Read, Error> {
        let path = self.exchange.server.topic_path(topic);
        let ask = Ask::get(format!("{path}?limit={limit}&cursor={}", cursor_text(from)));
        let (_, body) = self.exchange.ask(&ask).await?;
        answer(&body)
    }

    /// All topics there are, by name.
    ///
    /// # Errors
    /// A refusal, or no connection.
    pub async fn topics(&self) -> Result<Vec<TopicSummary>, Error> {
        let mut topics: Vec<TopicSummary> = Vec::new();
        loop {
            let mut path = self.exchange.server.path("/v1/topics");
            path += &format!("?limit={TOPICS_PER_PAGE}");
            if let Some(last) = topics.last() {
                // A topic's characters are all a query's.
                path += &format!("&after={}", last.topic);
            }
            let (_, body) = self.exchange.ask(&Ask::get(path)).await?;
            let page: Page = answer(&body)?;
            let is_last = page.topics.len() < TOPICS_PER_PAGE;
            topics.extend(page.topics);
            if is_last {
                return Ok(topics);
            }
        }
    }

    /// What a query does, and the topic of its rows. To subscribe to them give both to [`Self::subscribe`]: this
    /// topic, and the query as [`crate::Subscribe::query`].
    ///
    /// # Errors
    /// A refusal (`bad_query`, whose message has the line and column), or no connection.
    pub async fn explain(&self, query: &str) -> Result<Explanation, Error> {
        let path = self.exchange.server.explanation(query);
        let (_, body) = self.exchange.ask(&Ask::get(path)).await?;
        let text = String::from_utf8(body.into());
        let text = text.map_err(|_| Error::Stranger("its answer is not UTF-8".to_owned()))?;
        let named = text.lines().find_map(|line| line.strip_prefix("topic "));
        let topic = named.and_then(|topic| topic.trim().parse().ok());
        let topic =
            topic.ok_or_else(|| Error::Stranger("it names no topic of the query".to_owned()))?;
        Ok(Explanation { topic, text })
    }

    /// Sends a command, a JSON object of `docs/wire.md`, "Commands", and gives its answer as
    /// JSON. It is sent once. `subscribe` and `unsubscribe` do not exist here: a subscription
    /// belongs to a connection.
    ///
    /// # Errors
    /// A refusal, or no connection; after a connection's end nobody knows whether it
    /// was carried out.
    pub async fn command(&self, command: &str) -> Result<String, Error> {
        let path = self.exchange.server.path("/v1/commands");
        let ask = Ask::post(path, "application/json", command.to_owned().into());
        let (_, body) = self.exchange.ask(&ask).await?;
        let body = String::from_utf8(body.into());
        body.map_err(|_| Error::Stranger("its answer is not UTF-8".to_owned()))
    }

    /// Has the server say a JSON value back.
    ///
    /// # Errors
    /// As [`Self::command`].
    pub async fn echo(&self, data: &RawValue) -> Result<Box<RawValue>, Error> {
        let answered = self.command(&format!(r#"{{"command":"echo","data":{data}}}"#)).await?;
        answer::<Echoed>(answered.as_bytes()).map(|echoed| echoed.answer.data)
    }
}

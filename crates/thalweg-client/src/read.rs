//! Reads history, lists topics, and sends commands.

use serde::Deserialize;
use serde_json::value::RawValue;
use thalweg_wire::{GapReason, Offset, StartAt, Topic};

use crate::{
    Client, Error, exchange::Ask, limits::TOPICS_PER_PAGE, publish::answer, target::cursor_text,
};

/// A part of a topic's history, from [`Client::read`].
///
/// More events follow while `position` is not `head`:
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
    /// Position of the last event, or the cursor if there are no events: continue from here.
    pub position: String,
    /// Offset of the first event.
    pub first: Offset,
    /// The offset of each event; `None` if they are consecutive from `first` on.
    pub offsets: Option<Vec<Offset>>,
    /// The events, each a JSON value.
    pub events: Vec<Box<RawValue>>,
    /// Position of the topic's newest event.
    pub head: String,
    /// The missing events between the cursor and the first event, if any.
    pub gap: Option<Missing>,
}

/// Events that are no longer in the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Missing {
    /// Their number, if known.
    pub missed: Option<Offset>,
    /// The reason.
    pub reason: GapReason,
}

/// The explanation of a query, from [`Client::explain`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// The topic of its rows.
    pub topic: Topic,
    /// The explanation, one line per part.
    pub text: String,
}

/// A topic in the list.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct TopicSummary {
    /// The topic's name.
    pub topic: String,
    /// Position of its newest event; `None` if the server does not have the topic in memory.
    pub position: Option<String>,
    /// Number of events in memory.
    pub events: u64,
    /// Number of subscribers.
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
    /// Reads up to `limit` events after a cursor, at most 10,000. If events are large, there may be fewer.
    ///
    /// # Errors
    /// A refusal (`no_such_topic` for an unused topic), or no connection. The client does not retry.
    pub async fn read(&self, topic: &Topic, from: StartAt, limit: usize) -> Result<Read, Error> {
        let path = self.exchange.server.topic_path(topic);
        let ask = Ask::get(format!("{path}?limit={limit}&cursor={}", cursor_text(from)));
        let (_, body) = self.exchange.ask(&ask).await?;
        answer(&body)
    }

    /// Returns all topics, by name.
    ///
    /// # Errors
    /// A refusal, or no connection.
    pub async fn topics(&self) -> Result<Vec<TopicSummary>, Error> {
        let mut topics: Vec<TopicSummary> = Vec::new();
        loop {
            let mut path = self.exchange.server.path("/v1/topics");
            path += &format!("?limit={TOPICS_PER_PAGE}");
            if let Some(last) = topics.last() {
                // A query can hold every character of a topic unescaped.
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

    /// Explains a query and returns the topic of its rows. To subscribe, give both to [`Self::subscribe`]: this topic,
    /// and the query as [`crate::Subscribe::query`].
    ///
    /// # Errors
    /// A refusal (`bad_query`, whose message has line and column), or no connection.
    pub async fn explain(&self, query: &str) -> Result<Explanation, Error> {
        let path = self.exchange.server.explanation(query);
        let (_, body) = self.exchange.ask(&Ask::get(path)).await?;
        let text = String::from_utf8(body.into());
        let text = text.map_err(|_| Error::InvalidAnswer("the answer is not UTF-8".to_owned()))?;
        let named = text.lines().find_map(|line| line.strip_prefix("topic "));
        let topic = named.and_then(|topic| topic.trim().parse().ok());
        let topic = topic.ok_or_else(|| {
            Error::InvalidAnswer("the answer has no topic of the query".to_owned())
        })?;
        Ok(Explanation { topic, text })
    }

    /// Sends a command once, a JSON object of `docs/reference/http.md`, "Commands", and returns its answer as JSON. `subscribe`
    /// and `unsubscribe` do not exist here, because a subscription belongs to a connection.
    ///
    /// # Errors
    /// A refusal, or no connection. After a disconnection the client does not know whether the server executed the command.
    pub async fn command(&self, command: &str) -> Result<String, Error> {
        let path = self.exchange.server.path("/v1/commands");
        let ask = Ask::post(path, "application/json", command.to_owned().into());
        let (_, body) = self.exchange.ask(&ask).await?;
        let body = String::from_utf8(body.into());
        body.map_err(|_| Error::InvalidAnswer("the answer is not UTF-8".to_owned()))
    }

    /// Makes the server echo a JSON value.
    ///
    /// # Errors
    /// Those of [`Self::command`].
    pub async fn echo(&self, data: &RawValue) -> Result<Box<RawValue>, Error> {
        let answered = self.command(&format!(r#"{{"command":"echo","data":{data}}}"#)).await?;
        answer::<Echoed>(answered.as_bytes()).map(|echoed| echoed.answer.data)
    }
}

use std::{borrow::Cow, sync::Arc};

use http::request::Parts;

use thalweg_core::fanout::Terms;
use thalweg_wire::{Condition, KeyFilter, StartAt, Topic, key::check_key, limits::NEWEST_MAX};

use super::{MemberRequest, Transport, parameters};
use crate::refusal::Refusal;

/// The keys of a topic that a subscriber wants. `None`: all.
pub(crate) type TopicFilter = Option<Arc<KeyFilter>>;

/// The parameters of a request for topics, decoded as browsers encode them (`URLSearchParams` writes `/` as `%2F`).
#[derive(Debug, Default)]
pub(crate) struct Query<'a> {
    pub(crate) topics: Vec<Cow<'a, str>>,
    /// A query to run.
    pub(crate) sql: Option<Cow<'a, str>>,
    /// Whether to explain the query instead of returning its rows.
    pub(crate) explains: bool,
    pub(crate) cursors: Vec<Cow<'a, str>>,
    /// Start with this many of the newest events.
    pub(crate) newest: Option<u32>,
    /// Start with the events since this time.
    pub(crate) since: Option<StartAt>,
    /// Last-Event-ID, of clients that cannot set headers.
    pub(crate) last_event_id: Option<Cow<'a, str>>,
    pub(crate) terms: Terms,
    /// Whether versions of value topics may come as patches.
    pub(crate) takes_patches: bool,
    pub(crate) transport: Option<Transport>,
    /// The wait of a long poll, in µs.
    pub(crate) wait_us: Option<u64>,
    /// Read at most this many events, or topics, without subscribing.
    pub(crate) limit: Option<usize>,
    /// List the topics after this one.
    pub(crate) after: Option<Cow<'a, str>>,
    /// List the topics with this prefix, or select the keys of a topic with it.
    pub(crate) prefix: Option<Cow<'a, str>>,
    /// The client's description of itself, for the members of its topics.
    pub(crate) member: Option<MemberRequest>,
    /// The key of the published events, the key to remove, or the keys to read.
    pub(crate) keys: Vec<Cow<'a, str>>,
    /// How long the published keys stay, in µs.
    pub(crate) ttl_us: Option<u64>,
    /// The condition of the publish.
    pub(crate) condition: Option<Condition>,
    pub(crate) ticket: Option<Cow<'a, str>>,
    /// A token in the URL, of clients that cannot set headers.
    pub(crate) token: Option<Cow<'a, str>>,
}

/// The parameters of a publish, or of the removal of a key.
const PUBLISH_PARAMETERS: [&str; 4] = ["key", "if", "ttl", "ticket"];

const PARAMETERS: [&str; 20] = [
    "topic",
    "query",
    "explain",
    "cursor",
    "newest",
    "since",
    "lastEventId",
    "policy",
    "interval",
    "window",
    "deltas",
    "transport",
    "wait",
    "limit",
    "after",
    "prefix",
    "key",
    "member",
    "info",
    "ticket",
];

/// The maximum number of events, or topics, in one read.
const LIMIT_MAX: usize = 10_000;

impl<'a> Query<'a> {
    /// Parses a request's query. The error has the parameter and the remedy.
    pub(crate) fn from_request(request: &'a Parts) -> Result<Self, Refusal> {
        Self::from_request_with(request, &PARAMETERS)
    }

    /// Parses the query of a publish. Fails like [`Query::from_request`].
    pub(crate) fn from_publish(request: &'a Parts) -> Result<Self, Refusal> {
        let query = Self::from_request_with(request, &PUBLISH_PARAMETERS)?;
        match query.keys.len() > 1 {
            true => Err(parameters::bad("a publish has one key: remove the others".into())),
            false => Ok(query),
        }
    }

    /// Parses a request's query in which only the `known` parameters are allowed. Fails like
    /// [`Query::from_request`].
    pub(crate) fn from_request_with(request: &'a Parts, known: &[&str]) -> Result<Self, Refusal> {
        let mut query = Self::default();
        let text = request.uri.query().unwrap_or_default();
        for (key, value) in form_urlencoded::parse(text.as_bytes()) {
            if !key.starts_with('_') && !known.contains(&&*key) {
                return Err(parameters::unknown("parameter", &key, known));
            }
            match &*key {
                "topic" => query.topics.push(value),
                "query" => query.sql = Some(value),
                "explain" => (query.sql, query.explains) = (Some(value), true),
                "cursor" => query.cursors.push(value),
                "newest" => {
                    let count = parameters::number("newest", &value, NEWEST_MAX as usize)?;
                    query.newest = u32::try_from(count).ok();
                }
                "since" => query.since = Some(parameters::since(&value)?),
                "lastEventId" => query.last_event_id = Some(value),
                "policy" => query.terms.policy = parameters::policy(&value)?,
                "interval" => query.terms.interval_us = parameters::time_us("interval", &value)?,
                "window" => query.terms.window_bytes = Some(parameters::window(&value)?),
                "deltas" => query.takes_patches = parameters::deltas(&value)?,
                "wait" => query.wait_us = Some(parameters::time_us("wait", &value)?),
                "limit" => query.limit = Some(parameters::number("limit", &value, LIMIT_MAX)?),
                "after" => query.after = Some(value),
                "prefix" if query.prefix.is_some() => return Err(parameters::two_prefixes()),
                "prefix" => query.prefix = Some(value),
                "key" => {
                    check_key(&value)?;
                    query.keys.push(value);
                }
                "ttl" => query.ttl_us = Some(parameters::ttl_us(&value)?),
                "if" => query.condition = Some(parameters::condition(&value)?),
                "member" => {
                    check_key(&value)?;
                    query.member.get_or_insert_default().id = Some((*value).into());
                }
                "info" => {
                    query.member.get_or_insert_default().info = Some(parameters::info(&value)?);
                }
                "ticket" => query.ticket = Some(value),
                "transport" => query.transport = Some(Transport::named(&value)?),
                _ => {}
            }
        }
        let starts = [
            ("newest", query.newest.is_some()),
            ("since", query.since.is_some()),
            ("cursor", !query.cursors.is_empty()),
        ];
        let mut given = starts.into_iter().filter(|(_, is_given)| *is_given);
        if let (Some((one, _)), Some((other, _))) = (given.next(), given.next()) {
            return Err(parameters::bad(format!(
                "{one} and {other} both say where to begin: remove one of them"
            )));
        }
        Ok(query)
    }

    /// Returns the filter of the keys of the only topic. Fails if the keys are too many or too long.
    pub(crate) fn filter(&self) -> Result<Option<Arc<KeyFilter>>, Refusal> {
        parameters::filter(&self.keys, self.prefix.as_deref())
    }

    /// Returns the first topic of the list, and the filter of its keys. `None` if the list is empty. Fails like [`Self::filter`].
    pub(crate) fn first_topic(&self) -> Option<Result<(Topic, TopicFilter), Refusal>> {
        let (topic, filter) = match parameters::filtered_topic(self.topics.first()?) {
            Ok(named) => named,
            Err(refusal) => return Some(Err(refusal)),
        };
        Some(match self.filter() {
            Ok(None) => Ok((topic, filter)),
            Ok(Some(_)) if filter.is_some() => Err(parameters::bad(
                "the topic has a filter in topic= and beside it: remove one of them".into(),
            )),
            Ok(own) => Ok((topic, own)),
            Err(refusal) => Err(refusal),
        })
    }

    /// Returns the ticket of a request whose other parameters belong to another protocol, and its token, if the
    /// protocol has a parameter for it.
    pub(crate) fn from_credentials(request: &'a Parts, token_parameter: Option<&str>) -> Self {
        let token = token_parameter.and_then(|name| parameter(request, name));
        Self { ticket: parameter(request, "ticket"), token, ..Self::default() }
    }

    /// Returns the start of each topic, from `cursor`, `newest` or `since`. A single start applies to all
    /// topics. Fails if a value is not a cursor.
    pub(crate) fn starts(&self) -> Result<Vec<StartAt>, Refusal> {
        match self.newest.map(StartAt::Newest).or(self.since) {
            Some(start) => Ok(vec![start]),
            None => self.cursors.iter().map(|cursor| parameters::start(cursor)).collect(),
        }
    }
}

/// Returns the first parameter of a request's URL with this name.
pub(crate) fn parameter<'a>(request: &'a Parts, name: &str) -> Option<Cow<'a, str>> {
    let text = request.uri.query().unwrap_or_default();
    let mut pairs = form_urlencoded::parse(text.as_bytes());
    pairs.find(|(key, _)| key == name).map(|(_, value)| value)
}

//! Queries that clients ask for: planned over the columns that their source has, and remembered for the home of their
//! topic, which runs them while somebody subscribes. And the columns of topics, for clients that only ask for these.

use std::sync::Arc;

use thalweg_columns::Columns;
use thalweg_query::{Plan, Query};
use thalweg_wire::{ErrorCode, Topic};

use super::{Common, Handle, planning::PlanningClient, topics::Topics};
use crate::{
    access::{Allowed, Reading, Right, Wanted},
    clock::now_us,
    connection_limits::Address,
    derived::{self, DerivedTopic, ParsedQuery},
    home::home_of,
    refusal::Refusal,
};
use thalweg_core::stream::Feed;

/// A query that a client has.
#[derive(Debug)]
pub(crate) struct Asked {
    parsed: Arc<ParsedQuery>,
    client: PlanningClient,
}

impl Asked {
    pub(crate) fn query(&self) -> &Query {
        &self.parsed.query
    }

    /// The topic of its rows.
    pub(crate) fn topic(&self) -> &Topic {
        &self.parsed.topic
    }
}

impl Wanted for Asked {
    fn rights(&self) -> impl Iterator<Item = Right<'_>> {
        [Right::Subscribe(&self.parsed.source)].into_iter()
    }
}

impl Handle {
    /// Reads a query of a client. One that another client has already sent is not read again.
    ///
    /// # Errors
    /// When it is no query, or as many wait as may.
    pub(crate) async fn read_asked(
        &self,
        text: &str,
        client: PlanningClient,
    ) -> Result<Box<Asked>, Refusal> {
        let asked = &self.common.asked;
        let parsed = match asked.parsed(text) {
            Some(parsed) => parsed,
            None => self.planning.run(client, || asked.parse(text)).await??,
        };
        // Boxed because it is rare: it must not enlarge the future of every request.
        Ok(Box::new(Asked { parsed, client }))
    }

    /// Has a query run while somebody subscribes to its topic, from the next seconds on. Its client is counted for
    /// `address`. Returns what it does.
    ///
    /// # Errors
    /// When it cannot run, or there are too many.
    pub(crate) async fn ask(
        &self,
        asked: &Allowed<Box<Asked>>,
        address: Option<Address>,
    ) -> Result<Arc<Plan>, Refusal> {
        self.remember(asked, false, address).await
    }

    /// The same of one that is part of a subscription, and begins at once.
    pub(super) async fn run(
        &self,
        asked: &Asked,
        address: Option<Address>,
    ) -> Result<Arc<Plan>, Refusal> {
        self.remember(asked, true, address).await
    }

    async fn remember(
        &self,
        asked: &Asked,
        begins: bool,
        address: Option<Address>,
    ) -> Result<Arc<Plan>, Refusal> {
        let ParsedQuery { query, topic: output, .. } = &*asked.parsed;
        let known = || self.common.asked.again(output, begins, now_us());
        if let Some(plan) = known()? {
            return Ok(plan);
        }
        let (source, columns) = self.columns_of(query).await?;
        let plan_or_known = || -> Result<Arc<Plan>, Refusal> {
            // Another client may have asked for it meanwhile.
            if let Some(plan) = known()? {
                return Ok(plan);
            }
            let plan = Arc::new(query.plan(&columns)?);
            let is_shared = self.is_shared(&source);
            let (output, query) = (output.clone(), query.clone());
            let known = Some(Arc::clone(&plan));
            let topic = DerivedTopic { output, query, source, plan: known, is_shared };
            let parsed = Arc::clone(&asked.parsed);
            self.common.asked.add(topic, parsed, address, begins, now_us())?;
            Ok(plan)
        };
        self.planning.run(asked.client, plan_or_known).await?
    }

    /// What a query does, in words.
    ///
    /// # Errors
    /// When it cannot run.
    pub(crate) async fn explain(&self, asked: &Allowed<Box<Asked>>) -> Result<String, Refusal> {
        let query = asked.query();
        let (_, columns) = self.columns_of(query).await?;
        Ok(self.planning.run(asked.client, || query.explain(&columns)).await??)
    }

    /// The columns of a topic's events, as far as they are known; `None`: not, or its events are no rows.
    ///
    /// # Errors
    /// `NoSuchTopic`, if they are not declared either.
    pub(crate) async fn topic_columns(
        &self,
        topic: &Allowed<Reading>,
    ) -> Result<Option<Arc<Columns>>, Refusal> {
        let Reading(topic) = &**topic;
        let Common { config, asked, peers, .. } = &self.common;
        let declared = config.topic(topic).columns;
        if let Some(columns) = declared.or_else(|| asked.columns(topic)) {
            return Ok(Some(columns));
        }
        // One at a time, like other reads: each may take as long as many visits.
        let _turn = self.read_queue.turn().await;
        if let Some(query) = config.queries.iter().find(|query| query.topic == *topic) {
            // The columns of its source are not declared: they are those of the source's events.
            return Ok(self.planned_columns(&query.text).await.map(Arc::new));
        }
        let (home, wanted) = (home_of(topic, peers.len()), topic.clone());
        let known = self.look(home, move |topics| topics.columns_told(&wanted)).await?;
        let columns = known.ok_or_else(|| Refusal::no_such_topic(topic))?;
        Ok(columns.filter(|columns| columns.are_of_rows()))
    }

    /// The columns of a query's rows, if it can run over the events that its source has.
    async fn planned_columns(&self, text: &str) -> Option<Columns> {
        let query = Query::parse(text).ok()?;
        let (_, columns) = self.columns_of(&query).await.ok()?;
        derived::columns_of(&query.plan_inferred(&columns).ok()?)
    }

    fn is_shared(&self, source: &Topic) -> bool {
        derived::is_in_stream(&self.common.config, source) || self.common.asked.is_shared(source)
    }

    /// The source of a query, and its columns.
    async fn columns_of(&self, query: &Query) -> Result<(Topic, Arc<Columns>), Refusal> {
        let config = &self.common.config;
        let source: Topic = query.source().parse()?;
        derived::check_source(config, &source).map_err(bad_query)?;
        if let Some(columns) = config.topic(&source).columns {
            return Ok((source, columns));
        }
        if self.is_shared(&source) {
            return Err(bad_query(derived::undeclared(&source)));
        }
        let (home, topic) = (home_of(&source, self.common.peers.len()), source.clone());
        let columns = self.look(home, move |topics| topics.columns_of(&topic)).await?;
        let unknown = || {
            bad_query(format!(
                "{source} has no events yet, so its columns are not known: publish one, or declare them with --topic"
            ))
        };
        let columns = columns.ok_or_else(unknown)?;
        Ok((source, columns))
    }
}

fn bad_query(message: String) -> Refusal {
    Refusal::new(ErrorCode::BadQuery, message)
}

impl Topics {
    fn columns_of(&self, topic: &Topic) -> Option<Arc<Columns>> {
        self.feed_of(topic)?.columns()
    }

    /// `None`: there is no such topic.
    fn columns_told(&self, topic: &Topic) -> Option<Option<Arc<Columns>>> {
        Some(self.feed_of(topic)?.columns_told(now_us()))
    }

    fn feed_of(&self, topic: &Topic) -> Option<&Feed> {
        self.feeds.get(self.feeds.find(topic)?)?.feed.as_ref()
    }
}

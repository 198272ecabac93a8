//! Ad hoc queries. Each is planned over the columns of its source and registered. The owner shard of its topic
//! runs it while there are subscribers. This module also finds the columns of topics.

use std::sync::Arc;

use thalweg_columns::Columns;
use thalweg_query::{Plan, Query};
use thalweg_wire::{ErrorCode, Topic};

use super::{Handle, planning::PlanningClient};
use crate::{
    access::{Allowed, Reading, Right, Wanted, WantedKeys},
    clock::now_us,
    connection_limits::Address,
    derived::{self, DerivedTopic, ParsedQuery},
    owner_shard::owner_shard,
    refusal::Refusal,
    shard::{common::Common, message::Lookup},
};

#[derive(Debug)]
pub(crate) struct AdHocQuery {
    parsed: Arc<ParsedQuery>,
    client: PlanningClient,
}

impl AdHocQuery {
    pub(crate) fn query(&self) -> &Query {
        &self.parsed.query
    }

    pub(crate) fn topic(&self) -> &Topic {
        &self.parsed.topic
    }
}

impl Wanted for AdHocQuery {
    fn rights(&self) -> impl Iterator<Item = Right<'_>> {
        [Right::Subscribe(&self.parsed.source, WantedKeys::All)].into_iter()
    }
}

impl Handle {
    /// Parses a client's query, unless a client has sent the same one before.
    ///
    /// # Errors
    /// If the text is not a query, or too many queries wait.
    pub(crate) async fn read_ad_hoc(
        &self,
        text: &str,
        client: PlanningClient,
    ) -> Result<Box<AdHocQuery>, Refusal> {
        let ad_hoc = &self.common.ad_hoc;
        let parsed = match ad_hoc.parsed(text) {
            Some(parsed) => parsed,
            None => self.planning.run(client, || ad_hoc.parse(text)).await??,
        };
        // Boxed because it is rare: it must not enlarge the future of every request.
        Ok(Box::new(AdHocQuery { parsed, client }))
    }

    /// Registers a query, which runs while its topic has subscribers, and counts towards the limits of `address`. Returns its plan.
    /// Fails if the query cannot run, or there are too many queries.
    pub(crate) async fn ask(
        &self,
        ad_hoc: &Allowed<Box<AdHocQuery>>,
        address: Option<Address>,
    ) -> Result<Arc<Plan>, Refusal> {
        self.remember(ad_hoc, false, address).await
    }

    /// Registers a query whose subscription begins at once.
    pub(super) async fn run(
        &self,
        ad_hoc: &AdHocQuery,
        address: Option<Address>,
    ) -> Result<Arc<Plan>, Refusal> {
        self.remember(ad_hoc, true, address).await
    }

    async fn remember(
        &self,
        ad_hoc: &AdHocQuery,
        begins: bool,
        address: Option<Address>,
    ) -> Result<Arc<Plan>, Refusal> {
        let ParsedQuery { query, topic: output, .. } = &*ad_hoc.parsed;
        let known = || self.common.ad_hoc.again(output, begins, now_us());
        if let Some(plan) = known()? {
            return Ok(plan);
        }
        let (source, columns) = self.columns_of(query).await?;
        let plan_or_known = || -> Result<Arc<Plan>, Refusal> {
            // Another client may have registered it in the meantime.
            if let Some(plan) = known()? {
                return Ok(plan);
            }
            let plan = Arc::new(query.plan(&columns)?);
            let is_shared = self.is_shared(&source) && !query.has_state();
            let (output, query) = (output.clone(), query.clone());
            let known = Some(Arc::clone(&plan));
            let topic = DerivedTopic { output, query, source, plan: known, is_shared };
            let parsed = Arc::clone(&ad_hoc.parsed);
            self.common.ad_hoc.add(topic, parsed, address, begins, now_us())?;
            Ok(plan)
        };
        self.planning.run(ad_hoc.client, plan_or_known).await?
    }

    /// Describes a query in words. Fails if the query cannot run.
    pub(crate) async fn explain(
        &self,
        ad_hoc: &Allowed<Box<AdHocQuery>>,
    ) -> Result<String, Refusal> {
        let query = ad_hoc.query();
        let (_, columns) = self.columns_of(query).await?;
        Ok(self.planning.run(ad_hoc.client, || query.explain(&columns)).await??)
    }

    /// Returns the known columns of a topic's events. `None` if they are unknown or the events are not rows. Fails with
    /// `NoSuchTopic` if there is no such topic and no columns are declared for it.
    pub(crate) async fn topic_columns(
        &self,
        topic: &Allowed<Reading>,
        client: PlanningClient,
    ) -> Result<Option<Arc<Columns>>, Refusal> {
        let Reading { topic, .. } = &**topic;
        let Common { config, ad_hoc, peers, .. } = &self.common;
        let declared = config.topic(topic).columns;
        if let Some(columns) = declared.or_else(|| ad_hoc.columns(topic)) {
            return Ok(Some(columns));
        }
        if let Some(query) = config.queries.iter().find(|query| query.topic == *topic) {
            // The columns of its source are not declared, so the query is planned over those of the source's events.
            return Ok(self.planned_columns(&query.text, client).await?.map(Arc::new));
        }
        // Lookups run one at a time like other reads, because one takes as long as visits to many connections.
        let _turn = self.read_queue.turns.turn().await;
        let (owner, wanted) = (owner_shard(topic, peers.len()), topic.clone());
        let lookup = |answer| Lookup::ToldColumns { topic: wanted, answer };
        let known = self.look_up(owner, lookup).await?;
        let columns = known.ok_or_else(|| Refusal::no_such_topic(topic))?;
        Ok(columns.filter(|columns| columns.are_of_rows()))
    }

    /// Returns the columns of a query's rows, if the query can run over its source's events.
    async fn planned_columns(
        &self,
        text: &str,
        client: PlanningClient,
    ) -> Result<Option<Columns>, Refusal> {
        let Ok(query) = self.planning.run(client, || Query::parse(text)).await? else {
            return Ok(None);
        };
        let Ok((_, columns)) = self.columns_of(&query).await else { return Ok(None) };
        let plan = self.planning.run(client, || query.plan_inferred(&columns)).await?;
        Ok(plan.ok().and_then(|plan| derived::columns_of(&plan)))
    }

    fn is_shared(&self, source: &Topic) -> bool {
        let Common { config, shared_topics, ad_hoc, .. } = &self.common;
        derived::is_in_stream(config, shared_topics, source) || ad_hoc.is_shared(source)
    }

    /// Returns the source of a query and the source's columns.
    async fn columns_of(&self, query: &Query) -> Result<(Topic, Arc<Columns>), Refusal> {
        let config = &self.common.config;
        let source: Topic = query.source().parse()?;
        derived::check_source(config, &self.common.shared_topics, &source).map_err(bad_query)?;
        if let Some(columns) = config.topic(&source).columns {
            return Ok((source, columns));
        }
        if self.is_shared(&source) {
            return Err(bad_query(derived::undeclared(&source)));
        }
        let (owner, topic) = (owner_shard(&source, self.common.peers.len()), source.clone());
        let columns = self.look_up(owner, |answer| Lookup::Columns { topic, answer }).await?;
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

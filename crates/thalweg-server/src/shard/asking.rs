//! Queries that clients ask for: planned over the columns that their source has, and remembered for the home of their
//! topic, which runs them while somebody subscribes.

use std::sync::Arc;

use thalweg_columns::Columns;
use thalweg_query::{Plan, Query};
use thalweg_wire::{ErrorCode, Topic};

use super::{Handle, topics::Topics};
use crate::{
    clock::now_us,
    connection_limits::Address,
    derived::{self, DerivedTopic},
    home::home_of,
    refusal::Refusal,
};

impl Handle {
    /// Has a query run while somebody subscribes to `output`, from the next seconds on. Its client is counted for
    /// `address`. Returns what it does.
    ///
    /// # Errors
    /// When it cannot run, or there are too many.
    pub(crate) async fn ask(
        &self,
        query: Query,
        output: Topic,
        address: Option<Address>,
    ) -> Result<Arc<Plan>, Refusal> {
        if let Some(plan) = self.common.asked.again(&output, now_us()) {
            return Ok(plan);
        }
        let (source, columns) = self.columns_of(&query).await?;
        let plan = Arc::new(query.plan(&columns)?);
        let is_shared = self.is_shared(&source);
        let topic =
            DerivedTopic { output, query, source, plan: Some(Arc::clone(&plan)), is_shared };
        self.common.asked.add(topic, address, now_us())?;
        Ok(plan)
    }

    /// What a query does, in words.
    ///
    /// # Errors
    /// When it cannot run.
    pub(crate) async fn explain(&self, query: &Query) -> Result<String, Refusal> {
        let (_, columns) = self.columns_of(query).await?;
        Ok(query.explain(&columns)?)
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
        let feed = self.feeds.get(self.feeds.find(topic)?)?.feed.as_ref()?;
        feed.columns()
    }
}

//! Checks a configuration and builds a server's parts without listening.

use std::sync::Arc;

use thalweg_columns::Columns;

use super::error::ServeError;
use crate::{
    access::{AccessPolicy, MadeOf, PublishedKeys},
    config::{Config, SharedTopics, SourceConfig, UpstreamUrl},
    derived::{self, AdHocQueries, DerivedTopic},
    fetch::KeyReader,
    protocol::Sessions,
    runs::Runs,
    source::{self, Scheduled},
    transport::Certificate,
};

pub(super) struct Prepared {
    pub(super) access: AccessPolicy,
    pub(super) made_of: MadeOf,
    /// Reads the keys of signed tokens from their URL.
    pub(super) key_reader: Option<KeyReader>,
    pub(super) admin: Option<AccessPolicy>,
    pub(super) certificate: Option<Certificate>,
    pub(super) runs: Option<Runs>,
    pub(super) sources: Vec<Scheduled>,
    /// The configuration, with the columns of sources and queries.
    pub(super) config: Config,
    pub(super) queries: Vec<DerivedTopic>,
    pub(super) ad_hoc: Arc<AdHocQueries>,
    pub(super) sessions: Sessions,
}

/// Checks a configuration, and builds the parts of a server.
///
/// # Errors
/// When the configuration cannot be applied.
pub(super) fn prepare(mut config: Config, shared: &SharedTopics) -> Result<Prepared, ServeError> {
    let admin = config.admin_listen.map(|listen| AccessPolicy::new_admin(listen, &config.access));
    let admin = admin.transpose().map_err(ServeError::Config)?;
    let certificate = config.tls.as_ref().map(Certificate::load).transpose();
    let certificate = certificate.map_err(ServeError::Config)?;
    let runs = config.runs.as_deref().map(Runs::new).transpose().map_err(ServeError::Config)?;
    let mut sources = scheduled_sources(&config)?;
    for source in &sources {
        // A source's own columns are valid: a test checks them.
        if let Ok(columns) = Columns::declared(source.source.columns().iter().copied()) {
            config.declare(&source.output, columns);
        }
    }
    if !config.runs_sources {
        sources.clear();
    }
    let queries = derived::prepare(&mut config, shared);
    let queries = queries.map_err(|(topic, error)| ServeError::Query(topic, error))?;
    let ad_hoc = Arc::new(AdHocQueries::new(&queries, &config.limits));
    let read = queries.iter().map(|query| (query.output.clone(), query.source.clone()));
    let made_of = MadeOf { configured: Arc::new(read.collect()), ad_hoc: Arc::clone(&ad_hoc) };
    let (access, key_reader) =
        access_policy(&config, made_of.clone(), None).map_err(ServeError::Config)?;
    let sessions = sessions(&access)?;
    Ok(Prepared {
        access,
        made_of,
        key_reader,
        admin,
        certificate,
        runs,
        sources,
        config,
        queries,
        ad_hoc,
        sessions,
    })
}

/// Returns an empty table of sessions, with a new key for their tokens.
fn sessions(access: &AccessPolicy) -> Result<Sessions, ServeError> {
    let mut key = [0; 32];
    for half in key.chunks_exact_mut(16) {
        let random = access.random().map_err(|refusal| ServeError::Config(refusal.message))?;
        half.copy_from_slice(&random.to_be_bytes());
    }
    Ok(Sessions::new(&key))
}

/// Returns the access policy of a configuration, and a reader for the keys at its URL. If `before` has the same URL, its keys
/// stay known, and there is no reader. The error is one sentence.
pub(super) fn access_policy(
    config: &Config,
    made_of: MadeOf,
    before: Option<(&UpstreamUrl, &Arc<PublishedKeys>)>,
) -> Result<(AccessPolicy, Option<KeyReader>), String> {
    let url = config.access.signed.as_ref().and_then(|signed| signed.url.clone());
    let (published, reader) = match (url, before) {
        (Some(url), Some((same, known))) if url == *same => (Some(Arc::clone(known)), None),
        (Some(url), _) => {
            let (published, end) = PublishedKeys::new();
            (Some(Arc::new(published)), Some(KeyReader::new(url, end)?))
        }
        (None, _) => (None, None),
    };
    let access = AccessPolicy::new(&config.access, config.listen, made_of, published)?;
    Ok((access, reader))
}

/// Finds the errors that [`super::serve`] would find, without serving. `shared`: the topics of brokers.
///
/// # Errors
/// When the configuration cannot be applied.
pub fn check(config: &Config, shared: &SharedTopics) -> Result<(), ServeError> {
    prepare(config.clone(), shared).map(|_| ())
}

fn scheduled_sources(config: &Config) -> Result<Vec<Scheduled>, ServeError> {
    let build = |wanted: &SourceConfig| {
        if config.upstream(&wanted.topic).is_some() {
            let error = "an --upstream matches this topic: change the topic or the pattern";
            return Err(ServeError::Source(wanted.topic.clone(), error.to_owned()));
        }
        source::build(wanted).map_err(|error| ServeError::Source(wanted.topic.clone(), error))
    };
    config.sources.iter().map(build).collect()
}

//! The key-value bucket of tickets, which a server creates or checks, and creates again when it is deleted. A bucket is
//! a stream that keeps the last message of a subject for each key.

use std::sync::Arc;

use serde_json::{Value, json};
use thalweg_broker::{LogThrottle, TicketDigest};
use tokio::{sync::Notify, time::Instant};

use crate::{
    api::{Api, RETRY_PAUSE},
    counts::{Counts, add},
    now_us,
    settings::TicketSettings,
    setup::{
        CHECK_INTERVAL, LAYOUT, LAYOUT_VALUE, MISSING_CHECKS, find_or_create, metadata, nanos,
    },
};

/// The name of the bucket's stream: JetStream's names of buckets begin with `KV_`.
pub(crate) const STREAM: &str = "KV_thalweg-tickets";

/// The prefix of the subjects of the bucket's keys.
const SUBJECT_PREFIX: &str = "$KV.thalweg-tickets.";

pub(crate) fn subject_of(ticket: TicketDigest) -> String {
    format!("{SUBJECT_PREFIX}{ticket}")
}

/// Creates the bucket if there is none, or checks it. Waits until `deadline` for JetStream. Fails with the problem and remedy.
pub(crate) async fn open(
    api: &Api,
    settings: &TicketSettings,
    deadline: Instant,
) -> Result<(), String> {
    let found = find_or_create(api, STREAM, &config_of(settings), deadline).await;
    let info = found.map_err(|error| {
        format!(
            "the bucket of tickets, stream {STREAM}, can neither be read nor created ({error}): check that NATS has JetStream, a majority of its servers, {} servers for replicas, and the permissions of docs/how-to/cluster.md",
            settings.replicas
        )
    })?;
    check(settings, &info.config)
}

/// The bucket while the server runs. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Bucket {
    api: Api,
    settings: TicketSettings,
    /// Wakes the task that checks the bucket, because the bucket may have been deleted.
    suspect: Arc<Notify>,
}

enum Check {
    Right,
    Unknown,
    Missing,
    /// The configuration of the bucket is wrong; one sentence with the remedy.
    Wrong(String),
}

impl Bucket {
    pub(crate) fn new(api: Api, settings: TicketSettings) -> Self {
        Self { api, settings, suspect: Arc::default() }
    }

    pub(crate) fn suspect(&self) {
        self.suspect.notify_one();
    }

    /// Creates the bucket again if it stays deleted: without it, no client with a ticket can connect. Never returns.
    pub(crate) async fn watch(self, counts: Arc<Counts>) {
        let (mut missing, mut throttle) = (0, LogThrottle::default());
        loop {
            if missing > 0 {
                tokio::time::sleep(RETRY_PAUSE).await;
            } else {
                tokio::select! {
                    () = tokio::time::sleep(CHECK_INTERVAL) => {}
                    () = self.suspect.notified() => {}
                }
            }
            let mut log_error = |why: String| {
                if let Some(times) = throttle.take(1, now_us()) {
                    tracing::error!(stream = STREAM, times, "{why}");
                }
            };
            match self.check().await {
                Check::Right => missing = 0,
                Check::Unknown => {}
                Check::Missing => missing += 1,
                Check::Wrong(why) => {
                    missing = 0;
                    log_error(why);
                }
            }
            if missing < MISSING_CHECKS {
                continue;
            }
            match self.api.create_stream(STREAM, &config_of(&self.settings)).await {
                Ok(_) => {
                    missing = 0;
                    add(&counts.buckets_recreated);
                    tracing::error!(
                        stream = STREAM,
                        "the bucket of tickets was deleted and created again, empty: earlier tickets are no longer accepted"
                    );
                }
                Err(error) => log_error(format!(
                    "the bucket of tickets was deleted and cannot be created again ({error}), so tickets are neither issued nor accepted: check that NATS has a majority of its servers, and the permissions of docs/how-to/cluster.md"
                )),
            }
        }
    }

    async fn check(&self) -> Check {
        match self.api.stream_info(STREAM).await {
            Ok(info) => {
                check(&self.settings, &info.config).map_or_else(Check::Wrong, |()| Check::Right)
            }
            Err(error) if error.is_not_found() => Check::Missing,
            Err(error) if error.is_transient() => Check::Unknown,
            Err(error) => Check::Wrong(format!("the bucket of tickets cannot be read: {error}")),
        }
    }
}

fn config_of(settings: &TicketSettings) -> Value {
    json!({
        "name": STREAM,
        "subjects": [format!("{SUBJECT_PREFIX}>")],
        "retention": "limits",
        // A replica in memory loses its messages when it restarts, and a redeemed ticket might be valid again.
        "storage": "file",
        "discard": "new",
        "num_replicas": settings.replicas,
        "max_age": nanos(settings.life),
        "duplicate_window": nanos(settings.life),
        "max_bytes": -1,
        "max_msgs": -1,
        "max_msgs_per_subject": 1,
        "max_msg_size": -1,
        "max_consumers": -1,
        "allow_direct": true,
        "allow_rollup_hdrs": true,
        "deny_delete": true,
        "metadata": { LAYOUT: LAYOUT_VALUE },
    })
}

fn check(settings: &TicketSettings, config: &Value) -> Result<(), String> {
    let expected = config_of(settings);
    if metadata(config, LAYOUT) != Some(LAYOUT_VALUE) {
        return Err(format!(
            "stream {STREAM}, the bucket of tickets, was not made by this release of Thalweg (its metadata is {}): delete it",
            config["metadata"]
        ));
    }
    let must = ["subjects", "storage", "num_replicas", "max_age", "max_msgs_per_subject"];
    if let Some(key) = must.into_iter().find(|key| config[key] != expected[key]) {
        return Err(format!(
            "stream {STREAM}, the bucket of tickets, has {key} {}, and {} is required: delete it, or change it with nats stream edit",
            config[key], expected[key]
        ));
    }
    for key in ["mirror", "sources", "subject_transform"] {
        if !config[key].is_null() {
            return Err(format!(
                "stream {STREAM}, the bucket of tickets, has {key}, so that it may have tickets that no server issued: delete it"
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SETTINGS: TicketSettings = TicketSettings { replicas: 3, life: Duration::from_secs(30) };

    fn checked(change: impl FnOnce(&mut Value)) -> Result<(), String> {
        let mut config = config_of(&SETTINGS);
        change(&mut config);
        check(&SETTINGS, &config)
    }

    #[test]
    fn a_wrong_configuration_is_reported_with_the_remedy() {
        checked(|_| {}).unwrap();
        checked(|config| config["metadata"]["_nats.ver"] = "2.15.2".into()).unwrap();
        checked(|config| config["max_bytes"] = 1_000_000.into()).unwrap();
        let wrong = |key: &'static str, value: Value, says: &str| {
            let error = checked(|config| config[key] = value).unwrap_err();
            assert!(error.contains(says) && error.contains(STREAM), "{error}");
        };
        wrong("metadata", Value::Null, "was not made by this release");
        wrong("metadata", json!({ "thalweg": "2" }), "was not made by this release");
        wrong("max_age", 0.into(), "max_age 0, and 30000000000 is required");
        wrong("max_msgs_per_subject", 5.into(), "max_msgs_per_subject 5, and 1");
        wrong("num_replicas", 1.into(), "num_replicas 1, and 3");
        wrong("storage", "memory".into(), "storage \"memory\"");
        wrong("subjects", json!(["x"]), "subjects [\"x\"]");
        wrong("sources", json!([{ "name": "other" }]), "that no server issued");
    }
}

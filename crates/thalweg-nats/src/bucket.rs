//! The key-value bucket of tickets: it is created, or checked, and made again when somebody deletes it. A bucket is a
//! stream with a subject for each key, of which it keeps the last message.

use std::sync::Arc;

use serde_json::{Value, json};
use thalweg_server::{LogThrottle, backend::TicketDigest, now_us};
use tokio::{sync::Notify, time::Instant};

use crate::{
    api::{Api, RETRY_PAUSE},
    counts::{Counts, add},
    settings::TicketSettings,
    setup::{LAYOUT, LAYOUT_VALUE, LOOK_INTERVAL, MISSING_LOOKS, find_or_create, metadata, nanos},
};

/// What JetStream calls its stream: a bucket's begins with `KV_`.
pub(crate) const STREAM: &str = "KV_thalweg-tickets";

/// What the subjects of its keys begin with.
const SUBJECT_PREFIX: &str = "$KV.thalweg-tickets.";

/// The subject of a ticket.
pub(crate) fn subject_of(ticket: TicketDigest) -> String {
    format!("{SUBJECT_PREFIX}{ticket}")
}

/// Creates the bucket if there is none, or checks it. Waits until `deadline` for JetStream.
///
/// # Errors
/// One sentence with the remedy.
pub(crate) async fn open(
    api: &Api,
    settings: &TicketSettings,
    deadline: Instant,
) -> Result<(), String> {
    let found = find_or_create(api, STREAM, &config_of(settings), deadline).await;
    let info = found.map_err(|error| {
        format!(
            "the bucket of tickets, stream {STREAM}, can neither be read nor created ({error}): see that NATS has JetStream, a majority of its servers, {} servers for replicas, and the permissions of docs/cluster.md",
            settings.replicas
        )
    })?;
    check(settings, &info.config)
}

/// The bucket while the server runs. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Bucket {
    api: Api,
    settings: TicketSettings,
    /// It may have been deleted: look at it now.
    suspect: Arc<Notify>,
}

/// The result of a look at the bucket.
enum Look {
    /// It is as it must be.
    Right,
    /// JetStream does not answer now.
    Unknown,
    /// There is none.
    Missing,
    /// Somebody has changed it, or made another one: one sentence with the remedy.
    Wrong(String),
}

impl Bucket {
    /// A bucket that is [open].
    pub(crate) fn new(api: Api, settings: TicketSettings) -> Self {
        Self { api, settings, suspect: Arc::default() }
    }

    /// Has it looked at now, because a ticket met no stream.
    pub(crate) fn suspect(&self) {
        self.suspect.notify_one();
    }

    /// Makes the bucket again if it stays away, as streams of topics are made again: without it no client gets in that
    /// needs a ticket. For ever.
    pub(crate) async fn watch(self, counts: Arc<Counts>) {
        let (mut missing, mut complaints) = (0, LogThrottle::default());
        loop {
            if missing > 0 {
                tokio::time::sleep(RETRY_PAUSE).await;
            } else {
                tokio::select! {
                    () = tokio::time::sleep(LOOK_INTERVAL) => {}
                    () = self.suspect.notified() => {}
                }
            }
            let mut complain = |why: String| {
                if let Some(times) = complaints.take(1, now_us()) {
                    tracing::error!(stream = STREAM, times, "{why}");
                }
            };
            match self.look().await {
                Look::Right => missing = 0,
                Look::Unknown => {}
                Look::Missing => missing += 1,
                Look::Wrong(why) => {
                    missing = 0;
                    complain(why);
                }
            }
            if missing < MISSING_LOOKS {
                continue;
            }
            match self.api.create_stream(STREAM, &config_of(&self.settings)).await {
                Ok(_) => {
                    missing = 0;
                    add(&counts.buckets_made_anew);
                    tracing::error!(
                        stream = STREAM,
                        "the bucket of tickets was deleted, and made again, empty: tickets of before are not accepted any more"
                    );
                }
                Err(error) => complain(format!(
                    "the bucket of tickets was deleted and cannot be made again ({error}), so tickets are neither issued nor accepted: see that NATS has a majority of its servers, and the permissions of docs/cluster.md"
                )),
            }
        }
    }

    async fn look(&self) -> Look {
        match self.api.stream_info(STREAM).await {
            Ok(info) => {
                check(&self.settings, &info.config).map_or_else(Look::Wrong, |()| Look::Right)
            }
            Err(error) if error.is_not_found() => Look::Missing,
            Err(error) if error.is_transient() => Look::Unknown,
            Err(error) => Look::Wrong(format!("the bucket of tickets cannot be read: {error}")),
        }
    }
}

/// The bucket as it is created.
fn config_of(settings: &TicketSettings) -> Value {
    json!({
        "name": STREAM,
        "subjects": [format!("{SUBJECT_PREFIX}>")],
        "retention": "limits",
        // A replica in memory forgets when it restarts, and a used ticket might be good again.
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

/// Says what of the bucket is not as it must be.
fn check(settings: &TicketSettings, config: &Value) -> Result<(), String> {
    let wanted = config_of(settings);
    if metadata(config, LAYOUT) != Some(LAYOUT_VALUE) {
        return Err(format!(
            "stream {STREAM}, the bucket of tickets, was not made by this release of Thalweg (its metadata is {}): delete it",
            config["metadata"]
        ));
    }
    let must = ["subjects", "storage", "num_replicas", "max_age", "max_msgs_per_subject"];
    if let Some(key) = must.into_iter().find(|key| config[key] != wanted[key]) {
        return Err(format!(
            "stream {STREAM}, the bucket of tickets, has {key} {}, and {} is wanted: delete it, or change it with nats stream edit",
            config[key], wanted[key]
        ));
    }
    for key in ["mirror", "sources", "subject_transform"] {
        if !config[key].is_null() {
            return Err(format!(
                "stream {STREAM}, the bucket of tickets, has {key}, so that it may have tickets that nobody issued: delete it"
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
    fn what_is_not_as_it_must_be_is_said_with_the_remedy() {
        checked(|_| {}).unwrap();
        checked(|config| config["metadata"]["_nats.ver"] = "2.15.2".into()).unwrap();
        checked(|config| config["max_bytes"] = 1_000_000.into()).unwrap();
        let wrong = |key: &'static str, value: Value, says: &str| {
            let error = checked(|config| config[key] = value).unwrap_err();
            assert!(error.contains(says) && error.contains(STREAM), "{error}");
        };
        wrong("metadata", Value::Null, "was not made by this release");
        wrong("metadata", json!({ "thalweg": "2" }), "was not made by this release");
        wrong("max_age", 0.into(), "max_age 0, and 30000000000 is wanted");
        wrong("max_msgs_per_subject", 5.into(), "max_msgs_per_subject 5, and 1");
        wrong("num_replicas", 1.into(), "num_replicas 1, and 3");
        wrong("storage", "memory".into(), "storage \"memory\"");
        wrong("subjects", json!(["x"]), "subjects [\"x\"]");
        wrong("sources", json!([{ "name": "other" }]), "that nobody issued");
    }
}

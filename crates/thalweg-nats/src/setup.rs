//! Creation and checks of streams.

use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use thalweg_core::stream::FeedKind;
use thalweg_wire::Epoch;
use tokio::time::Instant;

use crate::{
    api::{Api, ApiError, RETRY_PAUSE, StreamInfo, code},
    incarnation::epoch_of,
    offsets::SEQUENCE_MAX,
    settings::{DUPLICATE_WINDOW, StreamSettings},
};

/// The oldest supported version of NATS servers.
pub(crate) const VERSION_MIN: (u64, u64) = (2, 15);

/// Metadata of a stream: the layout of its messages.
pub(crate) const LAYOUT: &str = "thalweg";
pub(crate) const LAYOUT_VALUE: &str = "1";

/// Metadata of a stream: see `incarnation`.
const GENERATION: &str = "generation";

/// The interval of checks of a stream, which may have been deleted, or created again.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_secs(30);

/// Consecutive checks without a stream before it is created again: an administrator who has deleted it may create it
/// with another configuration, or restore it.
pub(crate) const MISSING_CHECKS: u32 = 8;

/// The time after which JetStream removes a consumer that was created only to find its first message.
const PROBE_THRESHOLD: Duration = Duration::from_secs(5);

pub(crate) fn check_version(version: &str) -> Result<(), String> {
    let (major, minor) = VERSION_MIN;
    let mut numbers = version.split('.').map(|number| number.parse::<u64>().ok());
    match (numbers.next().flatten(), numbers.next().flatten()) {
        (Some(a), Some(b)) if (a, b) >= VERSION_MIN => Ok(()),
        _ => Err(format!(
            "the NATS server has version {version:?}: upgrade it to {major}.{minor} or newer"
        )),
    }
}

/// Creates a stream, or checks an existing one. Waits until `deadline` for JetStream. Fails with one sentence with the remedy.
pub(crate) async fn open_stream(
    api: &Api,
    settings: &StreamSettings,
    payload_bytes_max: usize,
    deadline: Instant,
) -> Result<StreamInfo, String> {
    let (name, config) = (settings.stream_name(), config_of(settings));
    let found = find_or_create(api, &name, &config, deadline).await;
    let info = found.map_err(|error| sentence(settings, &error))?;
    check(settings, &info, payload_bytes_max)?;
    Ok(info)
}

/// Returns the state of a stream. Creates the stream with this configuration if it does not exist. Waits until
/// `deadline` for JetStream.
pub(crate) async fn find_or_create(
    api: &Api,
    name: &str,
    config: &Value,
    deadline: Instant,
) -> Result<StreamInfo, ApiError> {
    loop {
        let error = match api.stream_info(name).await {
            Ok(info) => return Ok(info),
            Err(error) if error.is_not_found() => {
                match api.create_stream(name, config).await {
                    // The next round reads the configuration: another server may have created the stream meanwhile,
                    // even with another configuration.
                    Ok(_) => continue,
                    Err(error) if error.has_code(code::STREAM_NAME_IN_USE) => continue,
                    Err(error) => error,
                }
            }
            Err(error) => error,
        };
        if !error.is_transient() || Instant::now() + RETRY_PAUSE > deadline {
            return Err(error);
        }
        tokio::time::sleep(RETRY_PAUSE).await;
    }
}

fn sentence(settings: &StreamSettings, error: &ApiError) -> String {
    let (name, pattern) = (settings.stream_name(), &settings.pattern);
    if error.has_code(code::SUBJECTS_OVERLAP) {
        return format!(
            "stream {name} cannot store the topics {pattern}, because another stream stores some of them: choose another pattern, or delete that stream"
        );
    }
    format!(
        "stream {name} can neither be read nor created ({error}): check that JetStream is enabled, that a majority of the NATS servers runs, and that there are {} servers for replicas",
        settings.replicas
    )
}

/// Returns the configuration with which a stream is created. Public for the lab's bare consumer, which uses the same.
pub fn config_of(settings: &StreamSettings) -> Value {
    // A value stays until there is a newer one, or its topic ends. It is never removed because of its age or size.
    // The same applies to keys, whose older events a server removes.
    let (discard, age, of_subject) = match settings.kind {
        FeedKind::Value => ("new", Duration::ZERO, 1),
        FeedKind::Keyed => ("new", Duration::ZERO, -1),
        FeedKind::Log => ("old", settings.age, -1),
    };
    json!({
        "name": settings.stream_name(),
        "subjects": settings.subjects(),
        "retention": "limits",
        "storage": "file",
        "discard": discard,
        "num_replicas": settings.replicas,
        "max_age": nanos(age),
        "max_bytes": settings.bytes.map_or(-1, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX)),
        "max_msgs": -1,
        "max_msgs_per_subject": of_subject,
        "max_msg_size": -1,
        "max_consumers": -1,
        "duplicate_window": nanos(DUPLICATE_WINDOW),
        "allow_direct": true,
        "metadata": { LAYOUT: LAYOUT_VALUE, GENERATION: "1" },
    })
}

pub(crate) fn check(
    settings: &StreamSettings,
    info: &StreamInfo,
    payload_bytes_max: usize,
) -> Result<(), String> {
    check_maker(settings, info)?;
    check_config(settings, &info.config)?;
    check_limits(settings, &info.config, payload_bytes_max)?;
    if info.state.last_seq >= SEQUENCE_MAX {
        return Err(format!(
            "stream {} is at sequence number {}, and offsets end at {SEQUENCE_MAX}: choose another name, or delete the stream",
            settings.stream_name(),
            info.state.last_seq
        ));
    }
    warn_of_other_limits(settings, &info.config);
    Ok(())
}

fn check_maker(settings: &StreamSettings, info: &StreamInfo) -> Result<(), String> {
    let (name, layout) = (settings.stream_name(), metadata(&info.config, LAYOUT));
    if layout.is_none() {
        return Err(format!(
            "stream {name} was not made by Thalweg (it has no metadata \"{LAYOUT}\"): choose another name, or delete the stream"
        ));
    }
    if layout != Some(LAYOUT_VALUE) || epoch(info).is_none() {
        return Err(format!(
            "stream {name} was made by another release of Thalweg (its metadata is {}): use that release, or choose another name",
            info.config["metadata"]
        ));
    }
    Ok(())
}

fn check_config(settings: &StreamSettings, config: &Value) -> Result<(), String> {
    let (name, subjects) = (settings.stream_name(), json!(settings.subjects()));
    if config["subjects"] != subjects {
        let is = format!("the subjects {}, and {subjects} are required", config["subjects"]);
        return wrong(settings, &is, &format!("--subjects '{}'", settings.subjects().join(",")));
    }
    let replicas = settings.replicas;
    if config["num_replicas"] != replicas {
        let is = format!("{} replicas, and {replicas} are required", config["num_replicas"]);
        return wrong(settings, &is, &format!("--replicas {replicas}"));
    }
    if config["storage"] != "file" {
        return Err(format!(
            "stream {name} is kept in memory, and would be lost with its servers: delete it, so that Thalweg creates it with file storage"
        ));
    }
    if config["allow_direct"] != true {
        return wrong(settings, "no direct access, which is required", "--allow-direct");
    }
    for key in ["mirror", "sources", "subject_transform"] {
        if !config[key].is_null() {
            return Err(format!(
                "stream {name} has {key}, so its messages may differ from the ones that Thalweg stored: remove {key}, or choose another name"
            ));
        }
    }
    Ok(())
}

fn check_limits(
    settings: &StreamSettings,
    config: &Value,
    payload_bytes_max: usize,
) -> Result<(), String> {
    let number = |key: &str| config[key].as_i64().unwrap_or_default();
    let window = number("duplicate_window");
    if window < nanos(DUPLICATE_WINDOW) {
        let window = Duration::from_nanos(u64::try_from(window).unwrap_or_default());
        let window = humantime::format_duration(window);
        let is = format!("a duplicate window of {window}, and 5m or more is required");
        return wrong(settings, &is, "--dupe-window 5m");
    }
    // -1 and 0 mean all.
    let of_subject = number("max_msgs_per_subject").max(0);
    if settings.kind.has_versions() && of_subject != 1 {
        return Err(format!(
            "stream {} has no value topics, and the settings have kind=value: remove kind=value, or choose another name",
            settings.stream_name()
        ));
    }
    // A stream without value topics would lose messages in the middle before all servers have read them.
    if !settings.kind.has_versions() && of_subject > 0 {
        let is = format!("{of_subject} messages of each subject, and all are required");
        return wrong(settings, &is, "--max-msgs-per-subject=-1");
    }
    if settings.kind.is_state() && number("max_age") > 0 {
        return wrong(
            settings,
            "a maximum age, after which values or keys would be removed",
            "--max-age=0",
        );
    }
    let message = number("max_msg_size");
    if message > 0 && usize::try_from(message).is_ok_and(|bytes| bytes < payload_bytes_max) {
        let is = format!(
            "a max_msg_size of {message}, and no limit is required, or at least that of the servers ({payload_bytes_max})"
        );
        return wrong(settings, &is, "--max-msg-size=-1");
    }
    Ok(())
}

fn wrong(settings: &StreamSettings, is: &str, edit: &str) -> Result<(), String> {
    let name = settings.stream_name();
    Err(format!(
        "stream {name} has {is}: change the settings, or run nats stream edit {name} {edit}"
    ))
}

/// Logs limits that differ from the settings. Those of the stream apply.
fn warn_of_other_limits(settings: &StreamSettings, config: &Value) {
    let expected = config_of(settings);
    for key in ["max_age", "max_bytes", "discard"] {
        if config[key] != expected[key] {
            tracing::warn!(
                stream = settings.stream_name(),
                "{key} of the stream is {}, and the settings say {}: the value of the stream applies; change it with nats stream edit",
                config[key],
                expected[key]
            );
        }
    }
}

pub(crate) fn epoch(info: &StreamInfo) -> Option<Epoch> {
    epoch_of(info.created, generation_of(&info.config)?)
}

pub(crate) fn with_next_generation(mut config: Value) -> Option<Value> {
    let generation = generation_of(&config)?;
    config["metadata"][GENERATION] = (generation + 1).to_string().into();
    Some(config)
}

fn generation_of(config: &Value) -> Option<u64> {
    metadata(config, GENERATION)?.parse().ok()
}

pub(crate) fn metadata<'a>(config: &'a Value, key: &str) -> Option<&'a str> {
    config["metadata"][key].as_str()
}

/// Returns the sequence number of the first message that a server reads when it starts: of events that are not older than `warm`.
/// A keyed topic's state is read when the topic is first used, so older events of keys are not needed.
pub(crate) async fn first_sequence(
    api: &Api,
    (stream, kind): (&str, FeedKind),
    info: &StreamInfo,
    warm: Duration,
) -> Result<u64, ApiError> {
    match kind.has_keys() {
        true => Ok(info.state.last_seq + 1),
        false => sequence_ago(api, stream, info, warm).await,
    }
}

/// Returns the sequence number of the first message that is not older than `warm`, or the next number if there is none.
async fn sequence_ago(
    api: &Api,
    stream: &str,
    info: &StreamInfo,
    warm: Duration,
) -> Result<u64, ApiError> {
    let first = info.state.first_seq.max(1);
    let Some(time) = SystemTime::now().checked_sub(warm).filter(|time| *time > info.created) else {
        return Ok(first);
    };
    let name = format!("probe-{:016x}", fastrand::u64(..));
    let config = json!({
        "name": name,
        "deliver_policy": "by_start_time",
        "opt_start_time": humantime::format_rfc3339_nanos(time).to_string(),
        "ack_policy": "none",
        "replay_policy": "instant",
        "inactive_threshold": nanos(PROBE_THRESHOLD),
        "mem_storage": true,
        "num_replicas": 1,
    });
    let consumer = api.create_consumer(stream, &name, &config).await?;
    // A new consumer reports the number before the first message that it will deliver. If its replica lacks the newest
    // messages, this number is too low, never too high.
    let sequence = consumer.delivered.stream_seq + 1;
    // If this fails, JetStream removes the consumer by itself.
    let _ = api.delete_consumer(stream, &name).await;
    Ok(sequence.max(first))
}

pub(crate) fn nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;

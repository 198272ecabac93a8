//! Exports from a running server, and imports into one. Events get new positions there, so subscribers get a gap.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    io::{BufRead, Write},
    path::Path,
};

use anyhow::{Context as _, anyhow, bail};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use thalweg_client::{Client, Error, Position, StartAt, Topic};
use thalweg_token::Pattern;
use tokio::{runtime::Runtime, sync::mpsc::channel};

use crate::reach::events;

/// The version of the lines, which have fewer members than the lines of a directory.
const VERSION: u32 = 1;

/// Events that are read at a time.
const EVENTS_PER_READ: usize = 10_000;

/// Bytes of events that are collected, so that each topic gets many at a time.
const COLLECTED_BYTES: usize = 8 << 20;

/// A line of an export. A directory writes more members.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Line<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    thalweg_data: Option<u32>,
    /// The pattern of the exported topics.
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    topics: Option<Cow<'a, str>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    topic: Option<Cow<'a, str>>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    position: Option<Cow<'a, str>>,
    #[serde(borrow, deserialize_with = "any_json", skip_serializing_if = "Option::is_none")]
    event: Option<&'a RawValue>,
    /// Offsets whose events are damaged.
    #[serde(skip_serializing_if = "Option::is_none")]
    lost: Option<[u64; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_of_data: Option<bool>,
}

/// Parses a member that may be `null`.
fn any_json<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

/// Returns the URL, if an argument is that of a server.
pub(super) fn url(argument: &Path) -> Option<&str> {
    let is_url = |text: &&str| text.starts_with("http://") || text.starts_with("https://");
    argument.to_str().filter(is_url)
}

/// Writes the events that a server has of the topics that match a pattern.
pub(super) fn export(
    client: &Client,
    pattern: &Pattern,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let runtime = runtime()?;
    let topics = Some(pattern.as_str().into());
    write(out, &Line { thalweg_data: Some(VERSION), topics, ..Line::default() })?;
    let mut missed = 0;
    for listed in runtime.block_on(client.topics())? {
        let topic: Topic = listed.topic.parse()?;
        if pattern.matches(&topic) {
            let exported = export_topic(&runtime, client, &topic, out);
            missed += exported.with_context(|| format!("topic {topic}"))?;
        }
    }
    write(out, &Line { end_of_data: Some(true), ..Line::default() })?;
    match missed {
        0 => Ok(()),
        _ => bail!("some events had expired or were damaged and are missing"),
    }
}

/// Writes the events that a topic has now. Returns the number of gaps.
fn export_topic(
    runtime: &Runtime,
    client: &Client,
    topic: &Topic,
    out: &mut dyn Write,
) -> anyhow::Result<u64> {
    let (mut from, mut until, mut gaps) = (StartAt::Earliest, None, 0);
    loop {
        let read = match runtime.block_on(client.read(topic, from, EVENTS_PER_READ)) {
            Ok(read) => read,
            // The topic had no event, or was deleted meanwhile.
            Err(Error::Refused(refusal)) if refusal.code.as_deref() == Some("no_such_topic") => {
                return Ok(gaps);
            }
            Err(error) => return Err(error.into()),
        };
        gaps += u64::from(read.gap.is_some());
        let position: Position = read.position.parse()?;
        let nth = |nth: usize| match &read.offsets {
            Some(offsets) => offsets.get(nth).copied(),
            None => Some(read.first + nth as u64),
        };
        for (number, event) in read.events.iter().enumerate() {
            let offset = nth(number).ok_or_else(|| anyhow!("an event has no offset"))?;
            let at = Position { offset, ..position }.to_string();
            let (topic, at) = (Some(topic.as_str().into()), Some(at.into()));
            write(out, &Line { topic, position: at, event: Some(event), ..Line::default() })?;
        }
        // Stops at the first head, because publishers may be faster than this program.
        let head: Position = match until {
            Some(until) => until,
            None => *until.insert(read.head.parse()?),
        };
        let is_over = position.epoch != head.epoch || position.offset >= head.offset;
        if is_over || read.events.is_empty() {
            return Ok(gaps);
        }
        from = StartAt::After(position);
    }
}

fn write(out: &mut dyn Write, line: &Line<'_>) -> anyhow::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")?;
    Ok(())
}

/// Publishes the events of an export. Returns their number.
pub(super) fn import(client: &Client, input: &mut dyn BufRead) -> anyhow::Result<u64> {
    let mut import =
        Import { runtime: runtime()?, client, collected: BTreeMap::new(), bytes: 0, count: 0 };
    let mut bytes = Vec::new();
    let (mut number, mut lost, mut has_ended) = (0_u64, 0_u64, false);
    while input.read_until(b'\n', &mut bytes)? > 0 {
        number += 1;
        let line: Line<'_> = serde_json::from_slice(&bytes)
            .map_err(|error| anyhow!("line {number} is not a line of an export ({error})"))?;
        if number == 1 && line.thalweg_data != Some(VERSION) {
            bail!(
                "line 1 is not the first line of an export of this version: use the output of thalweg data export"
            );
        }
        lost += u64::from(line.lost.is_some());
        has_ended |= line.end_of_data == Some(true);
        if let (Some(topic), Some(event)) = (&line.topic, line.event) {
            let topic = topic.parse().with_context(|| format!("line {number}"))?;
            import.collect(topic, event.get())?;
        }
        bytes.clear();
    }
    import.publish()?;
    match (number, has_ended) {
        (0, _) => bail!("stdin is empty: pipe the output of thalweg data export to stdin"),
        (_, false) => bail!("the export has ended early: {} published", events(import.count)),
        _ if lost > 0 => bail!(
            "{} published; events that were damaged in the exported directory are missing",
            events(import.count)
        ),
        _ => Ok(import.count),
    }
}

struct Import<'a> {
    runtime: Runtime,
    client: &'a Client,
    /// The lines of each topic that are not published yet.
    collected: BTreeMap<Topic, Vec<u8>>,
    bytes: usize,
    count: u64,
}

impl Import<'_> {
    fn collect(&mut self, topic: Topic, event: &str) -> anyhow::Result<()> {
        let lines = self.collected.entry(topic).or_default();
        lines.extend_from_slice(event.as_bytes());
        lines.push(b'\n');
        self.bytes += event.len();
        if self.bytes < COLLECTED_BYTES { Ok(()) } else { self.publish() }
    }

    fn publish(&mut self) -> anyhow::Result<()> {
        self.bytes = 0;
        for (topic, lines) in std::mem::take(&mut self.collected) {
            let (sender, receiver) = channel(1);
            let published = self.runtime.block_on(async {
                // The receiver still exists, so this does not fail.
                let _ = sender.send(lines.into()).await;
                drop(sender);
                self.client.publish_lines(&topic, receiver).await
            });
            match published {
                Ok(published) => self.count += published.count,
                Err(error) => bail!(
                    "topic {topic}: {error}; {} were already published, and another import would repeat them",
                    events(self.count)
                ),
            }
        }
        Ok(())
    }
}

fn runtime() -> anyhow::Result<Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

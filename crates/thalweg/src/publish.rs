//! `thalweg pub`: publishes the lines of stdin.

mod lines;

use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use bytes::Bytes;
use clap::Args;
use thalweg_client::{Client, Error, Topic, text_event};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc::{Receiver, channel},
    time::{MissedTickBehavior, interval},
};

use crate::reach::{Notes, ReachArgs, events, topics};
use lines::Lines;

/// Publish each line of stdin as an event.
///
/// Each line is a JSON value. `pub` sends it with an idempotency key, and retries for up to four minutes if the
/// connection breaks or the server restarts. It sends the next line after the server has confirmed this one,
/// so the order is kept. Exit status: 0 if all lines were published, otherwise 1. The error message names the
/// line from which to continue.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  echo '\"hello\"' | thalweg pub http://127.0.0.1:8080/v1/topics/greetings
  journalctl -f | thalweg pub http://127.0.0.1:8080/v1/topics/journal --text
  thalweg pub https://push.example --topic rows --fast < rows.ndjson")]
pub(crate) struct PublishArgs {
    /// Publish to this topic, if the URL names none.
    #[arg(long, value_name = "TOPIC")]
    topic: Option<Topic>,
    /// Publish each line as a JSON string, whatever it contains.
    #[arg(long)]
    text: bool,
    /// Send all lines in one request: many times faster, but without retries if the connection breaks.
    #[arg(long)]
    fast: bool,
    #[command(flatten)]
    reach: ReachArgs,
}

/// Maximum number of lines (with `--fast`: of chunks of several lines) that are read from stdin and not yet
/// sent.
const PIECES_MAX: usize = 16;

/// Publishes until stdin ends.
pub(crate) fn run(args: &PublishArgs) -> anyhow::Result<()> {
    let client = args.reach.client()?;
    let mut topics = topics(&client, args.topic.as_slice())?;
    let (Some(topic), true) = (topics.pop(), topics.is_empty()) else {
        bail!("one topic at a time: name it in the URL or with --topic")
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let publishing =
            Publishing { notes: args.reach.notes(true), client, topic, is_text: args.text };
        let done = match args.fast {
            true => publishing.fast(&mut interrupt).await?,
            false => publishing.safely(&mut interrupt).await?,
        };
        args.reach.notes(false).say(&done);
        Ok(())
    })
}

struct Publishing {
    client: Client,
    topic: Topic,
    is_text: bool,
    notes: Notes,
}

impl Publishing {
    /// Publishes one line at a time, and retries each until the server confirms it.
    async fn safely(mut self, interrupt: &mut Signal) -> anyhow::Result<String> {
        let (sender, mut lines) = channel(PIECES_MAX);
        let mut stdin = Lines::from_stdin();
        std::thread::spawn(move || {
            while let Some(line) = stdin.next() {
                let is_last = line.is_err();
                if sender.blocking_send(line).is_err() || is_last {
                    return;
                }
            }
        });
        let mut second = interval(Duration::from_secs(1));
        second.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut count, mut last) = (0, None);
        loop {
            let line = tokio::select! {
                _ = interrupt.recv() => bail!("interrupted: {}", done(count, last.as_deref())),
                _ = second.tick(), if self.notes.show_progress() => {
                    self.notes.progress(count, "events published");
                    continue;
                }
                line = lines.recv() => line,
            };
            let Some(line) = line else { break };
            let (number, line) = line?;
            let Some(event) = self.event(number, line)? else { continue };
            let position = tokio::select! {
                _ = interrupt.recv() => bail!(
                    "interrupted at line {number}, which may have been published; before it: {}",
                    done(count, last.as_deref())
                ),
                position = self.publish(number, event) => position,
            };
            match position {
                Ok(position) => last = Some(position),
                Err(error) => bail!(
                    "{}; before it: {}; continue with line {number}, for example: tail -n +{number} FILE | thalweg pub …",
                    failure(number, &error),
                    done(count, last.as_deref())
                ),
            }
            count += 1;
        }
        self.notes.clear();
        Ok(done(count, last.as_deref()))
    }

    async fn publish(&self, number: u64, event: Bytes) -> Result<String, Error> {
        let retry = |error: &Error, delay: Duration| {
            let seconds = delay.as_secs_f64();
            self.notes.say(&format!("retrying line {number} in {seconds:.1} s: {error}"));
        };
        let published = self.client.publish_notify(&self.topic, event, retry).await?;
        Ok(published.position)
    }

    /// Returns the event of a line. An empty line is an event only with `--text`.
    fn event(&self, number: u64, line: Bytes) -> anyhow::Result<Option<Bytes>> {
        if self.is_text {
            let text = std::str::from_utf8(&line);
            let text =
                text.with_context(|| format!("line {number} is not UTF-8; convert it first"))?;
            return Ok(Some(text_event(text).into()));
        }
        Ok((!line.trim_ascii().is_empty()).then_some(line))
    }

    /// Publishes all lines in one request.
    async fn fast(self, interrupt: &mut Signal) -> anyhow::Result<String> {
        let (sender, pieces) = channel(PIECES_MAX);
        let (trouble, mut troubles) = channel(1);
        let mut stdin = Lines::from_stdin();
        let is_text = self.is_text;
        std::thread::spawn(move || {
            while let Some(piece) = stdin.piece(is_text) {
                let sent = match piece {
                    Ok(piece) => sender.blocking_send(piece).is_ok(),
                    Err(error) => trouble.blocking_send(error).is_err(),
                };
                if !sent {
                    return;
                }
            }
        });
        let published = tokio::select! {
            _ = interrupt.recv() => {
                bail!("interrupted: lines that were sent may have been published")
            }
            published = self.send(pieces) => published,
        };
        self.notes.clear();
        if let Ok(error) = troubles.try_recv() {
            let so_far = published.unwrap_or_else(|error| error.to_string());
            return Err(error.context(so_far));
        }
        published
    }

    async fn send(&self, pieces: Receiver<Bytes>) -> anyhow::Result<String> {
        let answer = self.client.publish_lines(&self.topic, pieces).await;
        let refusal = match answer {
            Ok(published) => return Ok(done(published.count, Some(&published.position))),
            Err(Error::Refused(refusal)) => refusal,
            Err(error) => {
                let remedy = "lines that were sent may have been published; without --fast, pub can repeat lines safely";
                return Err(anyhow!(error).context(remedy));
            }
        };
        let before = refusal.published.as_ref();
        let (count, last) = before.map_or((0, None), |done| (done.count, Some(&*done.position)));
        Err(anyhow!("{refusal}").context(done(count, last)))
    }
}

/// Describes why a line was not published. For a line that is not JSON, the server suggests a header; this
/// program suggests its option `--text`.
fn failure(number: u64, error: &Error) -> String {
    match error {
        Error::Refused(refusal) if refusal.code.as_deref() == Some("bad_event") => {
            format!(
                "line {number} is not a JSON value; correct it, or publish lines as strings with --text"
            )
        }
        error => format!("line {number}: {error}"),
    }
}

/// Returns a text such as `1,000 events published, last position 9f3c21.1042`.
fn done(count: u64, last: Option<&str>) -> String {
    match last {
        Some(last) if count > 0 => format!("{} published, last position {last}", events(count)),
        _ => "nothing published".to_owned(),
    }
}

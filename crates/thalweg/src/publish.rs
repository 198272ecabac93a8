//! `thalweg pub`: the lines of stdin as events of a topic.

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

/// Publish the lines of stdin: each a JSON value, and one event.
///
/// Each line is published with an idempotency key and tried again, through cuts and
/// restarts of the server, until it is answered, for up to four minutes; then the
/// next one, so their order is kept. Exits with 0 when all are published, otherwise
/// with 1, and says where to go on.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  echo '{\"hello\":\"world\"}' | thalweg pub http://127.0.0.1:8080/v1/topics/greetings
  journalctl -f | thalweg pub http://127.0.0.1:8080/v1/topics/journal --text
  thalweg pub https://push.example --topic rows --fast < rows.ndjson")]
pub(crate) struct PublishArgs {
    #[command(flatten)]
    reach: ReachArgs,
    /// The topic, if the URL names none.
    #[arg(long, value_name = "TOPIC")]
    topic: Option<Topic>,
    /// Publishes each line as a string, whatever is in it.
    #[arg(long)]
    text: bool,
    /// One long request: many times as fast, but not tried again when it is cut.
    #[arg(long)]
    fast: bool,
}

/// Lines, or pieces of several, between stdin and the server.
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
    /// One after the other, each until it is answered.
    async fn safely(mut self, interrupt: &mut Signal) -> anyhow::Result<String> {
        let (sender, mut lines) = channel(PIECES_MAX);
        let mut stdin = Lines::of_stdin();
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
                    "interrupted at line {number}, which may or may not be published; before it {}",
                    done(count, last.as_deref())
                ),
                position = self.publish(number, event) => position,
            };
            match position {
                Ok(position) => last = Some(position),
                Err(error) => bail!(
                    "{}; before it {}; go on with: tail -n +{number}",
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
            self.notes.say(&format!("line {number} again in {seconds:.1} s because {error}"));
        };
        let published = self.client.publish_notify(&self.topic, event, retry).await?;
        Ok(published.position)
    }

    /// What a line publishes; an empty one is only an event if it is text.
    fn event(&self, number: u64, line: Bytes) -> anyhow::Result<Option<Bytes>> {
        if self.is_text {
            let text = std::str::from_utf8(&line);
            let text = text.with_context(|| format!("line {number} is not UTF-8"))?;
            return Ok(Some(text_event(text).into()));
        }
        Ok((!line.trim_ascii().is_empty()).then_some(line))
    }

    /// All on one request.
    async fn fast(self, interrupt: &mut Signal) -> anyhow::Result<String> {
        let (sender, pieces) = channel(PIECES_MAX);
        let (trouble, mut troubles) = channel(1);
        let mut stdin = Lines::of_stdin();
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
            _ = interrupt.recv() => bail!("interrupted: what was sent may be published"),
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
                let what = "what was sent may or may not be published: without --fast it is safe to repeat";
                return Err(anyhow!(error).context(what));
            }
        };
        let before = refusal.published.as_ref();
        let (count, last) = before.map_or((0, None), |done| (done.count, Some(&*done.position)));
        Err(anyhow!("{refusal}").context(done(count, last)))
    }
}

/// One clause. The server's remedy for what is no JSON is a header, this program's
/// an option.
fn failure(number: u64, error: &Error) -> String {
    match error {
        Error::Refused(refusal) if refusal.code.as_deref() == Some("bad_event") => {
            format!("line {number} is not a JSON value: mend it, or publish strings with --text")
        }
        error => format!("line {number}: {error}"),
    }
}

/// `1,000 events published, last position 9f3c21.1042`.
fn done(count: u64, last: Option<&str>) -> String {
    match last {
        Some(last) if count > 0 => format!("{} published, last position {last}", events(count)),
        _ => "nothing published".to_owned(),
    }
}

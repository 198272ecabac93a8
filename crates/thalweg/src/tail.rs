//! `thalweg tail`: a topic's events on stdout, for as long as one likes.

use std::{
    borrow::Cow,
    io::{ErrorKind, IsTerminal, Write, stdout},
    time::Duration,
};

use anyhow::bail;
use clap::{Args, ValueEnum};
use thalweg_client::{
    Error, Events, Gap, GapReason, NEWEST_MAX, Policy, StartAt, Subscribe, Subscription, Topic,
    Transport, Update,
};
use thalweg_lab::run::printable;
use thalweg_server::config::{parse_bytes, parse_duration};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};

use crate::reach::{Notes, ReachArgs, events, grouped, one_line, topics};

/// Follow topics: events to stdout, one a line.
///
/// Comes back by itself where it was, through cuts and restarts, and says on stderr
/// what it could not get. Ctrl-C ends it: that is how following ends, so it is
/// success, unless --count was not reached.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  thalweg tail http://127.0.0.1:8080/v1/topics/car_live_data
  thalweg tail http://127.0.0.1:8080 --topic car_live_data --topic ticker --format messages
  thalweg tail http://127.0.0.1:8080 --query 'SELECT car FROM car_live_data WHERE speed_kmh > 90'
  thalweg tail http://127.0.0.1:8080/v1/topics/cars --from earliest --count 100 | jq .id
  THALWEG_TOKEN=… thalweg tail https://push.example/v1/topics/cars --transport sse --http2")]
pub(crate) struct TailArgs {
    #[command(flatten)]
    reach: ReachArgs,
    /// Follows this topic; may stand several times.
    #[arg(long = "topic", value_name = "TOPIC")]
    topics: Vec<Topic>,
    /// Follows the rows of a query, made by the server for as long as somebody follows them.
    #[arg(long, value_name = "SELECT …", conflicts_with = "topics")]
    query: Option<String>,
    /// Where to begin: latest, earliest, newest.50 or a position, as 9f3c21.1042.
    #[arg(long, visible_alias = "cursor", value_name = "CURSOR", default_value = "latest")]
    from: StartAt,
    /// Begin with this many of the newest events of each topic.
    #[arg(long, value_name = "N", conflicts_with = "from", value_parser = newest())]
    newest: Option<u32>,
    /// The way to come [default: websocket, or http-streaming where that is not to be had].
    #[arg(long, value_name = "TRANSPORT")]
    transport: Option<TransportArg>,
    /// Print of each event: its JSON; the text, if it is a string (line breaks as \n); or its whole envelope.
    #[arg(long, value_name = "FORMAT", default_value = "json")]
    format: Format,
    /// Ends after so many events.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// What happens when it falls behind the history.
    #[arg(long, value_name = "POLICY", default_value = "skip")]
    policy: PolicyArg,
    /// Having everything, waits at least so long for the next of a topic.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = parse_duration)]
    interval: Duration,
    /// WebSocket only: how much may be under way and not printed yet.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    window: Option<usize>,
}

/// How many events a subscription may begin with from the newest one backwards.
fn newest() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(NEWEST_MAX))
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum TransportArg {
    // One word, which clap would write with a hyphen.
    #[value(name = "websocket")]
    WebSocket,
    Sse,
    HttpStreaming,
    LongPolling,
    ForeverFrame,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PolicyArg {
    Skip,
    Latest,
    Close,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Json,
    Plain,
    Messages,
}

/// Follows until a signal, the count, the reader's end or the server's says so.
pub(crate) fn run(args: &TailArgs) -> anyhow::Result<()> {
    let client = args.reach.client()?;
    let subscribe = Subscribe {
        from: args.newest.map_or(args.from, StartAt::Newest),
        transport: args.transport.map(Transport::from),
        policy: args.policy.into(),
        interval: args.interval,
        query: args.query.clone(),
        window: args.window.map(|window| window as u64),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(async {
        let topics = match &args.query {
            Some(query) => vec![client.explain(query).await?.topic],
            None => topics(&client, &args.topics)?,
        };
        let mut tail = Tail {
            subscription: client.subscribe(topics, subscribe)?,
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            // Among the events themselves it would only be in their way.
            notes: args.reach.notes(!stdout().is_terminal()),
            format: args.format,
            is_terminal: stdout().is_terminal(),
            count: args.count,
            printed: 0,
        };
        let done = tail.follow().await;
        tail.notes.clear();
        tail.subscription.close().await;
        done
    });
    // Somebody who does not read stdout must not keep it from ending.
    runtime.shutdown_background();
    done
}

struct Tail {
    subscription: Subscription,
    interrupt: Signal,
    terminate: Signal,
    notes: Notes,
    format: Format,
    /// Whether stdout is a terminal.
    is_terminal: bool,
    count: Option<u64>,
    printed: u64,
}

/// Whether to go on.
#[derive(PartialEq, Eq)]
enum Next {
    GoOn,
    Stop,
}

impl Tail {
    async fn follow(&mut self) -> anyhow::Result<()> {
        let mut second = interval(Duration::from_secs(1));
        second.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let update = tokio::select! {
                _ = self.interrupt.recv() => return self.stop("interrupted"),
                _ = self.terminate.recv() => return self.stop("interrupted"),
                _ = second.tick(), if self.notes.show_progress() => {
                    self.notes.progress(self.printed, "events");
                    continue;
                }
                update = self.subscription.next() => match update {
                    Err(Error::Ended) => return self.stop("all topics have ended"),
                    update => update?,
                },
            };
            match update {
                Update::Events(events) => {
                    if self.print(events).await? == Next::Stop {
                        return Ok(());
                    }
                }
                Update::Gap(gap) => self.notes.say(&gap_sentence(&gap)),
                Update::Connected(connected) => self.notes.say(&format!(
                    "subscribed to {} at {} over {}",
                    connected.topic,
                    connected.position,
                    connected.transport.name()
                )),
                Update::Ended(end) => {
                    self.notes.say(&format!("{} has ended: {}", end.topic, end.reason));
                }
                Update::Disconnected(end) => self.notes.say(&format!(
                    "reconnecting in {:.1} s because {}",
                    end.again_in.as_secs_f64(),
                    end.why
                )),
                Update::Closed(closed) => {
                    bail!("the server ended it: {} ({})", closed.reason, closed.code)
                }
            }
        }
    }

    async fn print(&mut self, mut events: Events) -> anyhow::Result<Next> {
        if let Some(count) = self.count {
            events.truncate(usize::try_from(count - self.printed).unwrap_or(usize::MAX));
        }
        self.printed += events.count() as u64;
        let lines = lines(&events, self.format, self.is_terminal);
        let writing = spawn_blocking(move || {
            let mut stdout = stdout().lock();
            stdout.write_all(&lines).and_then(|()| stdout.flush())
        });
        let written = tokio::select! {
            _ = self.interrupt.recv() => return self.stop("interrupted").map(|()| Next::Stop),
            _ = self.terminate.recv() => return self.stop("interrupted").map(|()| Next::Stop),
            written = writing => written?,
        };
        match written {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Next::Stop),
            Err(error) => Err(error.into()),
            Ok(()) if self.count == Some(self.printed) => Ok(Next::Stop),
            Ok(()) => Ok(Next::GoOn),
        }
    }

    /// Stops because of `what`, which is a failure if more was asked for.
    fn stop(&self, what: &str) -> anyhow::Result<()> {
        match self.count {
            None => Ok(()),
            Some(count) => {
                bail!("{what} after {} of {}", grouped(self.printed), grouped(count))
            }
        }
    }
}

/// The lines of events, one for each. On a terminal, characters that would act on it are escaped.
fn lines(events: &Events, format: Format, is_terminal: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let mut push = |line: &str| {
        let shown = if is_terminal { printable(line) } else { Cow::Borrowed(line) };
        out.extend_from_slice(shown.as_bytes());
        out.push(b'\n');
    };
    if let Format::Messages = format {
        push(&json_on_one_line(&events.to_envelope()));
        return out;
    }
    for (_, event) in events.iter() {
        let text = match format {
            Format::Plain => serde_json::from_str::<String>(event).ok(),
            _ => None,
        };
        match text {
            Some(text) => push(&one_line(&text)),
            None => push(&json_on_one_line(event)),
        }
    }
    out
}

/// JSON has line breaks between its tokens only: strings have them escaped.
fn json_on_one_line(json: &str) -> Cow<'_, str> {
    match json.contains(['\n', '\r']) {
        true => Cow::Owned(json.replace(['\n', '\r'], " ")),
        false => Cow::Borrowed(json),
    }
}

fn gap_sentence(gap: &Gap) -> String {
    if gap.reason == GapReason::Unknown {
        let why = gap.reason.text();
        return format!("{}: the value is unknown from here on, because {why}", gap.topic);
    }
    let missed = match gap.missed {
        Some(missed) => events(missed),
        None => "events, nobody knows how many,".to_owned(),
    };
    let why = gap.reason.text();
    format!("{}: {missed} missed, because {why}; on after {}", gap.topic, gap.position)
}

impl From<TransportArg> for Transport {
    fn from(transport: TransportArg) -> Self {
        match transport {
            TransportArg::WebSocket => Self::WebSocket,
            TransportArg::Sse => Self::Sse,
            TransportArg::HttpStreaming => Self::HttpStreaming,
            TransportArg::LongPolling => Self::LongPolling,
            TransportArg::ForeverFrame => Self::ForeverFrame,
        }
    }
}

impl From<PolicyArg> for Policy {
    fn from(policy: PolicyArg) -> Self {
        match policy {
            PolicyArg::Skip => Self::Skip,
            PolicyArg::Latest => Self::Latest,
            PolicyArg::Close => Self::Close,
        }
    }
}

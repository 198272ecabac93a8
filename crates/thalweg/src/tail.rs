//! `thalweg tail`: subscribes to topics and prints their events.

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
use thalweg_server::{
    config::{parse_bytes, parse_duration},
    parse_start,
};
use thalweg_terminal::printable;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::spawn_blocking,
    time::{MissedTickBehavior, interval},
};

use crate::reach::{Notes, ReachArgs, events, grouped, one_line, topics};

/// Subscribe to topics and print their events, one per line.
///
/// `tail` reconnects after a failure and resumes at its position. It reports missing events
/// as a gap, on stderr. Press Ctrl-C to stop: the exit status is 0, or 1 if --count is not reached.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  thalweg tail http://127.0.0.1:8080/v1/topics/car_live_data
  thalweg tail http://127.0.0.1:8080 --topic car_live_data --topic ticker
  thalweg tail http://127.0.0.1:8080 \\
    --query 'SELECT car FROM car_live_data WHERE speed_kmh > 90'
  thalweg tail http://127.0.0.1:8080/v1/topics/cars --from earliest | jq .id
  thalweg tail https://push.example/v1/topics/cars --compress
  THALWEG_TOKEN=… thalweg tail https://push.example/v1/topics/cars --http2")]
pub(crate) struct TailArgs {
    /// Subscribe to this topic. Repeat the flag for several topics.
    #[arg(long = "topic", value_name = "TOPIC")]
    topics: Vec<Topic>,
    /// Subscribe to the rows of this SQL query. The server runs the query while it has subscribers.
    #[arg(long, value_name = "SELECT …", conflicts_with = "topics")]
    query: Option<String>,
    /// Start at latest, earliest, newest.50 (the newest 50 events), since.10m (those of the last ten minutes), since. and
    /// a time as 2026-11-29T17:00:00Z, or a position such as 9f3c21.1042.
    #[arg(
        long,
        visible_alias = "cursor",
        value_name = "CURSOR",
        default_value = "latest",
        value_parser = parse_start
    )]
    from: StartAt,
    /// Start with this many of the newest events of each topic.
    #[arg(long, value_name = "N", conflicts_with = "from", value_parser = newest())]
    newest: Option<u32>,
    /// Use this transport [default: websocket, or http-streaming if no WebSocket can be opened].
    #[arg(long, value_name = "TRANSPORT")]
    transport: Option<TransportArg>,
    /// Ask for compressed messages (gzip), from a server with `compression`. The transport is then http-streaming, or
    /// sse if --transport names it.
    #[arg(long)]
    compress: bool,
    /// Print events in this format.
    #[arg(long, value_name = "FORMAT", default_value = "json")]
    format: LineFormat,
    /// Exit after this many events.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Choose what happens if this client falls behind the history.
    #[arg(long, value_name = "POLICY", default_value = "skip")]
    policy: PolicyArg,
    /// Wait at least this long between two deliveries of a topic, e.g. 250ms. A client that is behind gets
    /// the older events without this delay.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = parse_duration)]
    interval: Duration,
    /// Let the server send at most this much data before it is printed, e.g. 64KiB. WebSocket only.
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    window: Option<usize>,
    /// Print only the events of this key of keyed topics. Repeat the flag for several keys.
    #[arg(long = "key", value_name = "KEY", conflicts_with = "query")]
    keys: Vec<String>,
    /// Print only the events of keys with this prefix, and those of --key.
    #[arg(long, value_name = "PREFIX", conflicts_with = "query")]
    prefix: Option<String>,
    #[command(flatten)]
    reach: ReachArgs,
}

fn newest() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=i64::from(NEWEST_MAX))
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum TransportArg {
    // Without this, clap would name it `web-socket`.
    #[value(name = "websocket")]
    WebSocket,
    Sse,
    HttpStreaming,
    LongPolling,
    ForeverFrame,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum PolicyArg {
    /// Continue in the middle of the history, after a gap.
    Skip,
    /// Continue with the newest events, after a gap.
    Latest,
    /// End the subscription.
    Close,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LineFormat {
    /// The JSON of each event.
    Json,
    /// The text of string events (line breaks as \n), and the JSON of other events.
    Plain,
    /// Whole messages, with topic and position.
    Messages,
}

/// Prints events until a signal, `--count`, a closed stdout or the server ends the output.
pub(crate) fn run(args: &TailArgs) -> anyhow::Result<()> {
    if let (true, Some(transport)) = (args.compress, args.transport)
        && !matches!(transport, TransportArg::HttpStreaming | TransportArg::Sse)
    {
        let name = Transport::from(transport).name();
        bail!("--compress is not possible over {name}: use --transport http-streaming or sse");
    }
    let client = args.reach.client()?;
    let subscribe = Subscribe {
        from: args.newest.map_or(args.from, StartAt::Newest),
        transport: args.transport.map(Transport::from),
        policy: args.policy.into(),
        interval: args.interval,
        query: args.query.clone(),
        window: args.window.map(|window| window as u64),
        compress: args.compress,
        keys: args.keys.clone(),
        prefix: args.prefix.clone(),
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
            // Progress is shown only if stdout is not a terminal, because it would mix with the events.
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
    // Does not wait for a blocked write to stdout.
    runtime.shutdown_background();
    done
}

struct Tail {
    subscription: Subscription,
    interrupt: Signal,
    terminate: Signal,
    notes: Notes,
    format: LineFormat,
    /// Whether stdout is a terminal.
    is_terminal: bool,
    count: Option<u64>,
    printed: u64,
}

#[derive(PartialEq, Eq)]
enum Next {
    Continue,
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
                    "reconnecting in {:.1} s: {}",
                    end.retry_in.as_secs_f64(),
                    end.why
                )),
                Update::Closed(closed) => {
                    bail!("the server closed the connection: {} ({})", closed.reason, closed.code)
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
            Ok(()) => Ok(Next::Continue),
        }
    }

    /// Stops for this reason. Fails if `--count` is not reached.
    fn stop(&self, reason: &str) -> anyhow::Result<()> {
        match self.count {
            None => Ok(()),
            Some(count) => {
                bail!("{reason} after {} of {}", grouped(self.printed), grouped(count))
            }
        }
    }
}

/// Formats events, one per line. For a terminal, control characters are escaped.
fn lines(events: &Events, format: LineFormat, is_terminal: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let mut push = |line: &str| {
        let shown = if is_terminal { printable(line) } else { Cow::Borrowed(line) };
        out.extend_from_slice(shown.as_bytes());
        out.push(b'\n');
    };
    if let LineFormat::Messages = format {
        push(&json_on_one_line(&events.to_envelope()));
        return out;
    }
    for (_, event) in events.iter() {
        let text = match format {
            LineFormat::Plain => serde_json::from_str::<String>(event).ok(),
            _ => None,
        };
        match text {
            Some(text) => push(&one_line(&text)),
            None => push(&json_on_one_line(event)),
        }
    }
    out
}

/// Replaces line breaks with spaces. In valid JSON they occur only between tokens, so the value stays the same.
fn json_on_one_line(json: &str) -> Cow<'_, str> {
    match json.contains(['\n', '\r']) {
        true => Cow::Owned(json.replace(['\n', '\r'], " ")),
        false => Cow::Borrowed(json),
    }
}

fn gap_sentence(gap: &Gap) -> String {
    if gap.reason == GapReason::Unknown {
        let why = gap.reason.text();
        return format!("{}: the value is unknown now: {why}", gap.topic);
    }
    let missed = match gap.missed {
        Some(missed) => events(missed),
        None => "an unknown number of events".to_owned(),
    };
    let why = gap.reason.text();
    format!("{}: {missed} missed: {why}; continuing after {}", gap.topic, gap.position)
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

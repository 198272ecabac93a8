//! `thalweg doctor`: reports what the path between clients and a server does to streams, and the remedies.

mod finding;
mod remedies;
mod server;
mod streams;

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

use clap::Args;
use thalweg_client::{Client, Options, Topic, Transport};
use thalweg_server::config::parse_duration;
use thalweg_terminal::say;
use tokio::signal::unix::{SignalKind, signal};

use crate::reach::ConnectionArgs;
use finding::Report;
use server::{ServerChecks, milliseconds};
use streams::{StreamCheck, Trouble};

/// Check whether proxies in front of a server buffer, cut or strip its streams.
///
/// Each line is one finding: ok, note or problem, and the remedy. If the token may publish, `doctor` publishes some
/// events to topics below `thalweg-doctor/`, and deletes these topics. Otherwise, and for the topic of a URL, it only subscribes.
/// Exit status: 0 if no problem was found, otherwise 1.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  thalweg doctor https://push.example
  thalweg doctor https://push.example/live/v1/topics/cars --idle 2m
  thalweg doctor https://push.example --origin https://app.example --json")]
pub(crate) struct DoctorArgs {
    /// URL of the server as clients use it, e.g. https://push.example. If it names a topic, nothing is published.
    #[arg(value_name = "URL")]
    url: String,
    /// Check that pages of this origin may use the server, e.g. https://app.example.
    #[arg(long, value_name = "ORIGIN")]
    origin: Option<String>,
    /// Report an answer or a message as late after this time.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    wait: Duration,
    /// Keep streams open without events for this long. It must be longer than the heartbeat of the server
    /// (25s by default); 0 skips this check.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    idle: Duration,
    /// Print the findings as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

const TRANSPORTS: [Transport; 4] =
    [Transport::WebSocket, Transport::Sse, Transport::HttpStreaming, Transport::LongPolling];

/// Missing heartbeats after which a client takes a connection for dead.
const HEARTBEATS_MISSED_MAX: u32 = 3;

/// Runs the checks. Fails if there are problems.
pub(crate) fn run(args: &DoctorArgs) -> anyhow::Result<()> {
    let client = args.connection.client(&args.url)?;
    let mut report = Report::new(args.json);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(check(args, &client, &mut report));
    runtime.shutdown_background();
    done?;
    report.finish(&args.url)
}

async fn check(args: &DoctorArgs, client: &Client, report: &mut Report) -> anyhow::Result<()> {
    let topics = topics(client)?;
    let mut server = ServerChecks { client, wait: args.wait, report };
    if !server.check(args.origin.as_deref()).await? || !server.may_subscribe(&topics[0]).await? {
        return Ok(());
    }
    // Before the first publish, SIGINT ends the process at once.
    let mut interrupt = signal(SignalKind::interrupt())?;
    let publishes = client.topic().is_none() && server.may_publish(&topics[0]).await?;
    let checking = check_streams(args, client, &topics, publishes, server.report);
    let done = tokio::select! {
        done = checking => done,
        _ = interrupt.recv() => Err(anyhow::anyhow!("interrupted")),
    };
    if publishes {
        server.delete(&topics).await?;
    }
    done
}

/// Returns a topic for each transport: that of the URL, or new ones.
fn topics(client: &Client) -> anyhow::Result<[Topic; TRANSPORTS.len()]> {
    if let Some(topic) = client.topic() {
        return Ok(TRANSPORTS.map(|_| topic.clone()));
    }
    // The standard library seeds the state from the operating system.
    let random = RandomState::new().hash_one(0);
    let topic = |transport: Transport| {
        format!("thalweg-doctor/{random:016x}/{}", transport.name()).parse::<Topic>()
    };
    let [a, b, c, d] = TRANSPORTS.map(topic);
    Ok([a?, b?, c?, d?])
}

async fn check_streams(
    args: &DoctorArgs,
    client: &Client,
    topics: &[Topic; TRANSPORTS.len()],
    publishes: bool,
    report: &mut Report,
) -> anyhow::Result<()> {
    let check = |index: usize| StreamCheck {
        client: client.clone(),
        topic: topics[index].clone(),
        transport: TRANSPORTS[index],
        wait: args.wait,
        publishes,
    };
    let checks = [0, 1, 2, 3].map(check);
    let [a, b, c, d] = checks.each_ref().map(StreamCheck::carry);
    let (a, b, c, d) = tokio::join!(a, b, c, d);
    let carried = [a, b, c, d];
    for (check, carried) in checks.iter().zip(&carried) {
        match carried {
            Ok(slowest) => {
                let what = if publishes { "each event" } else { "the confirmation" };
                let slowest_ms = milliseconds(*slowest);
                let sentence = format!("{what} arrives within {slowest_ms} ms");
                report.ok(check.transport.name(), sentence)?;
            }
            Err(trouble) => add(report, check, "", trouble)?,
        }
    }
    if args.idle.is_zero() {
        return Ok(());
    }
    if !report.is_json() {
        say(format_args!("Keeping streams open without events for {:?} (--idle) …", args.idle));
    }
    let heartbeat = args.idle / HEARTBEATS_MISSED_MAX;
    let patient = Client::new(&args.url, Options { heartbeat, ..args.connection.options() })?;
    let rest = async |index: usize| match carried[index] {
        Ok(_) => Some(checks[index].rest(&patient, args.idle).await),
        Err(_) => None,
    };
    let (a, b, c, d) = tokio::join!(rest(0), rest(1), rest(2), rest(3));
    for (check, rested) in checks.iter().zip([a, b, c, d]) {
        let name = format!("{} idle", check.transport.name());
        match rested {
            None => {}
            Some(Ok(false)) => {
                let sentence = format!("a stream without events stays open for {:?}", args.idle);
                report.ok(&name, sentence)?;
            }
            Some(Ok(true)) => {
                let sentence = "the stream stays open, but events arrived in between";
                report.note(
                    &name,
                    sentence,
                    "name a topic without events to check idle streams",
                )?;
            }
            Some(Err(trouble)) => add(report, check, " idle", &trouble)?,
        }
    }
    Ok(())
}

fn add(
    report: &mut Report,
    check: &StreamCheck,
    suffix: &str,
    trouble: &Trouble,
) -> anyhow::Result<()> {
    let (sentence, remedy) = trouble.explain(check.transport, check.wait);
    report.problem(&format!("{}{suffix}", check.transport.name()), sentence, remedy)
}

//! `thalweg serve`: the command line as a configuration, and the first screen.

use std::{net::SocketAddr, time::Duration};

use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueEnum};
use thalweg_server::config::{Config, Options, SourceConfig, parse_bytes, parse_duration};
use tokio::signal::unix::{SignalKind, signal};

/// The push server: any topic, over WebSocket, SSE and HTTP streaming.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  thalweg serve --demo
  thalweg serve --source cars=cars,cars=1000,interval=50ms
  thalweg serve --topic orders,flush=5ms,history-age=10m

Sources: cars (cars, seed), constant (batch), dummy (size, seed); each with interval, start.")]
pub(crate) struct ServeArgs {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// Threads that serve, each with its own sockets [default: the cores it may run on].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    shards: Option<u16>,
    /// Adds the demo's topics: cars, ticker.
    #[arg(long)]
    demo: bool,
    /// Adds a source: TOPIC=KIND,key=value,…
    #[arg(long = "source", value_name = "SOURCE", value_parser = SourceConfig::parse)]
    sources: Vec<SourceConfig>,
    /// Sets one topic's bounds: TOPIC,flush=…,batch-events=…,batch-bytes=…,history-…=…
    #[arg(long = "topic", value_name = "TOPIC,…")]
    topics: Vec<String>,
    /// Memory of each topic's history.
    #[arg(long, value_name = "SIZE", default_value = "8MiB", value_parser = parse_bytes)]
    history_bytes: usize,
    /// Events in each topic's history.
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    history_events: usize,
    /// Age of each topic's history.
    #[arg(long, value_name = "TIME", default_value = "5m", value_parser = parse_duration)]
    history_age: Duration,
    /// How long events may wait for others to share a batch with.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = parse_duration)]
    flush: Duration,
    /// Sends a heartbeat to whom nothing else was sent for so long.
    #[arg(long, value_name = "TIME", default_value = "25s", value_parser = parse_duration)]
    heartbeat: Duration,
    /// Kernel memory for what is on its way to one subscriber.
    #[arg(long, value_name = "SIZE", default_value = "512KiB", value_parser = parse_bytes)]
    send_buffer: usize,
    /// How much of it may be unsent: what a subscriber that stops reading holds.
    #[arg(long, value_name = "SIZE", default_value = "16KiB", value_parser = parse_bytes)]
    unsent: usize,
    /// How long a request's head may take to arrive.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    head_wait: Duration,
    /// How long a shutdown may take.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    drain: Duration,
    /// What is logged.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log: Level,
    /// How it is logged.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    log_format: LogFormat,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Level {
    Error,
    Warn,
    Info,
    Debug,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    Text,
    Json,
}

/// Shorter intervals would be a load, not a sign of life.
const HEARTBEAT_MIN: Duration = Duration::from_millis(10);

/// What `--demo` adds.
const DEMO_SOURCES: [&str; 2] = ["cars=cars,cars=100,interval=100ms", "ticker=dummy,interval=1s"];

/// Serves until a signal asks for the end.
pub(crate) fn run(args: ServeArgs) -> anyhow::Result<()> {
    log_to_stderr(args.log, args.log_format);
    let demo = args.demo;
    let server = thalweg_server::serve(config(args)?)?;
    let address = server.address();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        // Not before it can be asked to stop: who reads this line may ask at once.
        println!("listening on http://{address}");
        if demo {
            print!("{}", first_screen(address));
        }
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = server.broken() => bail!("a shard has ended by itself: please report this"),
        }
        tracing::info!("draining: subscribers are told to reconnect");
        server.drain().await;
        tracing::info!("drained");
        Ok(())
    })
}

fn config(args: ServeArgs) -> anyhow::Result<Config> {
    let mut config = Config { listen: args.listen, ..Config::default() };
    if let Some(shards) = args.shards {
        config.shards = shards.into();
    }
    if args.demo {
        for source in DEMO_SOURCES {
            config.sources.push(SourceConfig::parse(source).map_err(|error| anyhow!(error))?);
        }
    }
    config.sources.extend(args.sources);
    let defaults = &mut config.topic_defaults;
    defaults.history.bytes_max = args.history_bytes;
    defaults.history.events_max = args.history_events;
    defaults.history.age_us_max = args.history_age.as_micros() as u64;
    defaults.batch.flush_us = args.flush.as_micros() as u64;
    if args.heartbeat < HEARTBEAT_MIN {
        bail!("--heartbeat: at least 10ms, or heartbeats are all there is to send");
    }
    config.heartbeat = args.heartbeat;
    config.drain = args.drain;
    config.limits.send_buffer_bytes = args.send_buffer;
    config.limits.unsent_bytes = args.unsent;
    config.limits.head_wait = args.head_wait;
    for named in &args.topics {
        let (topic, options) = named.split_once(',').unwrap_or((named, ""));
        let settings = Options::parse(options)
            .and_then(|options| config.topic_defaults.apply(&options))
            .map_err(|error| anyhow!("--topic {named}: {error}"))?;
        let topic = topic.parse().with_context(|| format!("--topic {named}"))?;
        config.topics.push((topic, settings));
    }
    Ok(config)
}

fn first_screen(address: SocketAddr) -> String {
    format!(
        "\n\
         topics    cars (100 cars, 10 times a second), ticker (once a second)\n\
         health    http://{address}/healthz\n\
         metrics   http://{address}/metrics\n\
         \n\
         SSE             curl -N -H 'Accept: text/event-stream' http://{address}/v1/topics/cars\n\
         HTTP streaming  curl -N -H 'Accept: application/x-ndjson' http://{address}/v1/topics/cars\n\
         WebSocket       curl -N --http1.1 -H 'Connection: Upgrade' -H 'Upgrade: websocket' \
         -H 'Sec-WebSocket-Version: 13' -H 'Sec-WebSocket-Key: dGhhbHdlZyBzYXlzIGhpIQ==' \
         --output - http://{address}/v1/topics/ticker\n\
         publish         curl -d '{{\"hello\":\"world\"}}' http://{address}/v1/topics/greetings\n\
         \n\
         Ctrl-C ends it.\n"
    )
}

fn log_to_stderr(level: Level, format: LogFormat) {
    let level = match level {
        Level::Error => tracing::Level::ERROR,
        Level::Warn => tracing::Level::WARN,
        Level::Info => tracing::Level::INFO,
        Level::Debug => tracing::Level::DEBUG,
    };
    let logs = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => {
            logs.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).init();
        }
        LogFormat::Json => logs.json().init(),
    }
}

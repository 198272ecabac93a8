//! `thalweg serve`: what a user set, as a configuration, and the first screen.
//!
//! ```text
//! flags, variables ─┐
//!                   ├─► settings ─► config ─► server
//! file ─────────────┘
//! ```
//!
//! - `settings`: all there are, once
//! - `values`: how one is written, and refused
//! - `file`: those of a TOML file
//! - `cluster`: servers that share topics
//! - `config`: what they come to, and what does not go together
//! - `pages`: what browsers are shown
//! - `logs`: what it says while it serves
//! - `screen`: what the server says of itself

mod cluster;
mod config;
#[cfg(test)]
mod documents;
mod file;
mod logs;
mod pages;
mod screen;
mod settings;
#[cfg(test)]
mod tests;
mod values;

use std::{
    io::{self, Write as _},
    path::PathBuf,
    pin::pin,
    time::Duration,
};

use anyhow::{anyhow, bail};
use clap::{Args, builder::UnknownArgumentValueParser};
use sd_notify::NotifyState;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::sleep,
};

use thalweg_lab::run::print;
use thalweg_server::{
    Server,
    config::{Config, UpstreamConfig},
};

use crate::demo_provider;
use cluster::Cluster;
use settings::Settings;
use values::{Level, LogFormat};

/// The push server: any topic, over every web transport.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  thalweg serve --demo
  thalweg serve --source cars=cars,cars=1000,interval=50ms
  thalweg serve --topic orders,flush=5ms,history-age=10m
  thalweg serve --runs thalweg-runs
  thalweg serve --nats nats://n1,nats://n2,nats://n3 --stream live=live/**
  thalweg serve --config thalweg.toml --check

Sources: cars (cars, seed), constant (batch), dummy (size, seed);
         each with interval, start, when=subscribed: only while somebody subscribes to it.
         runner (ack=TOPIC): the next event when the last one is acked.")]
pub(crate) struct ServeArgs {
    /// Reads a TOML file with the names below as keys; what is said here wins
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Says what would be served, or what is wrong, and ends
    #[arg(long)]
    check: bool,
    /// Refused with the right word: what many another server calls it.
    #[arg(long, hide = true, value_parser = UnknownArgumentValueParser::suggest_arg("--listen"))]
    port: Option<()>,
    #[command(flatten)]
    settings: Settings,
}

/// Serves until a signal asks for the end.
pub(crate) fn run(args: ServeArgs) -> anyhow::Result<()> {
    let ServeArgs { config: path, check, settings: flags, .. } = args;
    // Again on SIGHUP: files of tokens may be others then.
    let read = || -> anyhow::Result<Settings> {
        let flags = flags.clone();
        let Some(path) = &path else { return Ok(flags) };
        Ok(flags.over(file::read(path).map_err(|error| anyhow!(error))?))
    };
    let settings = read()?;
    let level = settings.log.unwrap_or(Level::Info);
    let format = settings.log_format.unwrap_or(LogFormat::Text);
    let has_demo = settings.demo;
    let cluster = Cluster::of(&settings).map_err(|error| anyhow!(error))?;
    let mut config = config::config(settings).map_err(|error| anyhow!(error))?;
    if let Some(cluster) = &cluster {
        cluster.settle(&mut config).map_err(|error| anyhow!(error))?;
    }
    config.pages = pages::pages();
    config.version = env!("THALWEG_VERSION");
    if check {
        thalweg_server::check(&config)?;
        print(&screen::check_screen(&config))?;
        return Ok(());
    }
    logs::begin(level, format);
    if has_demo {
        // Behind those of the user.
        let matches = format!("matchesfeed/**=http://{}/{{topic}}", demo_provider::beside()?);
        config.upstreams.push(UpstreamConfig::parse(&matches).map_err(|error| anyhow!(error))?);
    }
    let backend = cluster.map(|cluster| cluster.open(&config)).transpose();
    let backend = backend.map_err(|error| anyhow!(error))?;
    let mut server = thalweg_server::serve(config.clone(), backend)?;
    let read = || config::config(read()?).map_err(|error| anyhow!(error));
    let address = server.address();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut signals = Signals::listen()?;
        // Not before it can be asked to stop: who reads this line may ask at once.
        let screen = screen::first_screen(&config, address, server.admin_address());
        let said = format!("listening on {}://{address}\n{screen}", screen::scheme(&config));
        // In one piece, because who waits for the first line may hang up after it.
        if let Err(error) = io::stdout().write_all(said.as_bytes()) {
            tracing::warn!(%error, "nobody reads what is said on standard output");
        }
        tell_systemd(&[NotifyState::Ready]);
        // No wait is so long.
        signals.wait(&mut server, &read, Duration::MAX).await?;
        server.announce_end();
        tell_systemd(&[NotifyState::Stopping]);
        if !config.drain_delay.is_zero() {
            let delay = config.drain_delay;
            tracing::info!(?delay, "not ready any more, and serving: a second signal ends that");
            signals.wait(&mut server, &read, delay).await?;
        }
        tracing::info!("draining: subscribers are told to reconnect");
        server.drain().await;
        tracing::info!("drained");
        Ok(())
    })
}

/// What the process is told.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hang_up: Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Waits until one asks for the end, at most so long.
    ///
    /// # Errors
    /// When a shard has ended by itself.
    async fn wait(
        &mut self,
        server: &mut Server,
        read: &impl Fn() -> anyhow::Result<Config>,
        most: Duration,
    ) -> anyhow::Result<()> {
        let mut over = pin!(sleep(most));
        loop {
            tokio::select! {
                () = &mut over => return Ok(()),
                _ = self.terminate.recv() => return Ok(()),
                _ = self.interrupt.recv() => return Ok(()),
                _ = self.hang_up.recv() => reload(server, read).await,
                () = server.broken() => bail!("a shard has ended by itself: please report this"),
            }
        }
    }
}

/// Tells systemd how far the service is, if it was started by systemd with `Type=notify` (sd_notify(3)).
fn tell_systemd(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "systemd cannot be told how far the server is");
    }
}

/// Loads again what may change while it serves.
async fn reload(server: &mut Server, read: &impl Fn() -> anyhow::Result<Config>) {
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        tell_systemd(&[NotifyState::Reloading, now]);
    }
    match server.reload_certificate() {
        Ok(true) => tracing::info!("loaded the certificate again"),
        Ok(false) => {}
        Err(error) => tracing::error!(%error, "the certificate stays as it was"),
    }
    let reloaded = match read() {
        Ok(config) => server.reload(&config).await,
        Err(error) => Err(format!("{error:#}")),
    };
    match reloaded {
        Ok(()) => tracing::info!("loaded tokens, origins, names and limits again"),
        Err(error) => {
            tracing::error!(%error, "tokens, origins, names and limits stay as they were");
        }
    }
    tell_systemd(&[NotifyState::Ready]);
}

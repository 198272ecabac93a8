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
//! - `config`: what they come to, and what does not go together
//! - `pages`: what browsers are shown
//! - `screen`: what the server says of itself

mod config;
#[cfg(test)]
mod documents;
mod file;
mod pages;
mod screen;
mod settings;
#[cfg(test)]
mod tests;
mod values;

use std::{
    io::{self, Write as _},
    path::PathBuf,
};

use anyhow::{anyhow, bail};
use clap::Args;
use tokio::signal::unix::{SignalKind, signal};

use thalweg_server::Server;

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
  thalweg serve --config thalweg.toml --check

Sources: cars (cars, seed, max-speed=TOPIC), constant (batch), dummy (size, seed);
         each with interval, start, when=subscribed: only while somebody subscribes to it.
         runner (ack): the next event when the last one is acked.")]
pub(crate) struct ServeArgs {
    /// Reads a TOML file with the names below as keys; what is said here wins
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Says what would be served, or what is wrong, and ends
    #[arg(long)]
    check: bool,
    #[command(flatten)]
    settings: Settings,
}

/// Serves until a signal asks for the end.
pub(crate) fn run(args: ServeArgs) -> anyhow::Result<()> {
    let ServeArgs { config, check, mut settings } = args;
    if let Some(path) = config {
        let file = file::read(&path).map_err(|error| anyhow!(error))?;
        settings = settings.over(file);
    }
    let level = settings.log.unwrap_or(Level::Info);
    let format = settings.log_format.unwrap_or(LogFormat::Text);
    let mut config = config::config(settings).map_err(|error| anyhow!(error))?;
    config.pages = pages::pages();
    if check {
        thalweg_server::check(&config)?;
        print!("{}", screen::check_screen(&config));
        return Ok(());
    }
    log_to_stderr(level, format);
    let server = thalweg_server::serve(config.clone())?;
    let address = server.address();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hang_up = signal(SignalKind::hangup())?;
        // Not before it can be asked to stop: who reads this line may ask at once.
        let screen = screen::first_screen(&config, address);
        let said = format!("listening on {}://{address}\n{screen}", screen::scheme(&config));
        // In one piece, because who waits for the first line may hang up after it.
        if let Err(error) = io::stdout().write_all(said.as_bytes()) {
            tracing::warn!(%error, "nobody reads what is said on standard output");
        }
        loop {
            tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                _ = hang_up.recv() => reload(&server),
                () = server.broken() => bail!("a shard has ended by itself: please report this"),
            }
        }
        tracing::info!("draining: subscribers are told to reconnect");
        server.drain().await;
        tracing::info!("drained");
        Ok(())
    })
}

/// Loads again what may change while it serves.
fn reload(server: &Server) {
    match server.reload_certificate() {
        Ok(()) => tracing::info!("loaded the certificate again"),
        Err(error) => tracing::error!(%error, "the certificate stays as it was"),
    }
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

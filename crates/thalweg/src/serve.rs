//! `thalweg serve`: settings of flags, variables and a file, the server's configuration, and the first screen.
//!
//! ```text
//! flags, variables ─┐
//!                   ├─► settings ─► config ─► server
//! file ─────────────┘
//! ```

mod brokers;
mod cluster;
mod config;
mod configured_broker;
mod data;
mod document;
#[cfg(test)]
mod documents;
mod file;
mod limits;
mod logs;
mod merge;
mod pages;
mod renamed;
mod screen;
mod settings;
mod short;
mod signalr;
mod store;
mod stream;
mod tables;
#[cfg(test)]
mod tests;
mod tokens;
mod values;

use std::{
    env,
    error::Error as _,
    io::{self, Write as _},
    path::{Path, PathBuf},
    pin::pin,
    time::Duration,
};

use anyhow::{anyhow, bail};
use clap::{
    Args,
    builder::UnknownArgumentValueParser,
    error::{ContextKind, ContextValue, ErrorKind},
};
use sd_notify::NotifyState;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    time::sleep,
};

use thalweg_server::{Server, config::Config};
use thalweg_terminal::print;

use crate::{demo_answers, demo_provider};
use merge::Over as _;
use settings::Settings;
use tables::UpstreamTable;
use values::{Level, LogFormat};

/// Settings of the push server.
#[derive(Args, Debug)]
#[command(mut_args = settings::with_variable, after_help = "\
Each flag is also a key of the settings file and an environment variable:
--tls-cert, tls-cert and THALWEG_TLS_CERT. In a variable, line breaks separate
the values of a list. The variable of --token is THALWEG_TOKENS, because
`thalweg tail` and `thalweg pub` read THALWEG_TOKEN. Flags win over variables,
and variables over the file. docs/thalweg.toml lists all keys.

Units: us, ms, s, m, h, d for TIME; KiB, MiB, GiB for SIZE.

Examples:
  thalweg serve --demo
  thalweg serve --source cars=cars,cars=1000,interval=50ms
  thalweg serve --topic orders,flush=5ms,history-age=10m
  thalweg serve --listen :8080 --token app=@secret,subscribe=**,publish=**
  thalweg serve --data /var/lib/thalweg --store orders/**,age=7d
  thalweg serve --nats nats://n1,nats://n2,nats://n3 --stream live=live/**
  thalweg serve --config thalweg.toml --check")]
pub(crate) struct ServeArgs {
    /// Read settings from this TOML file
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Check the settings, print what the server would do, and exit
    #[arg(long)]
    check: bool,
    /// Refused with the name of our flag, because many other servers have `--port`.
    #[arg(long, hide = true, value_parser = UnknownArgumentValueParser::suggest_arg("--listen"))]
    port: Option<()>,
    #[command(flatten)]
    settings: Settings,
}

/// Flags whose values may hold a secret. Errors go to logs, and must not repeat it.
const SECRET_FLAGS: [&str; 6] =
    ["--token", "--jwt-key", "--jwt-secret", "--jwks-url", "--upstream", "--nats"];

/// Explains a flag of a former version, which clap does not know any more, and leaves secrets out of other errors.
pub(crate) fn explain(error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else { return error };
    let name = flag.split(' ').next().unwrap_or_default();
    match error.kind() {
        ErrorKind::UnknownArgument => match renamed::flag(flag) {
            Some(message) => clap::Error::raw(ErrorKind::UnknownArgument, format!("{message}\n")),
            None => error,
        },
        kind @ ErrorKind::ValueValidation if SECRET_FLAGS.contains(&name) => {
            let reason = error.source().map(ToString::to_string).unwrap_or_default();
            clap::Error::raw(kind, format!("invalid value for '{flag}': {reason}\n"))
        }
        _ => error,
    }
}

/// Serves until a signal ends the server.
pub(crate) fn run(args: ServeArgs) -> anyhow::Result<()> {
    let ServeArgs { config: path, check, settings: flags, .. } = args;
    renamed::check_variables(|name| env::var_os(name), tokens::has_rights)
        .map_err(|error| anyhow!(error))?;
    // SIGHUP reads the settings again, because files of tokens may have changed.
    let read = || -> anyhow::Result<Settings> {
        let set = file::parse_set(&flags.set).map_err(|error| anyhow!(error))?;
        let flags = flags.clone().over(set);
        let Some(path) = &path else { return Ok(flags) };
        over_file(flags, path)
    };
    let settings = read()?;
    let level = settings.log.unwrap_or(Level::Info);
    let format = settings.log_format.unwrap_or(LogFormat::Text);
    let has_demo = settings.demo;
    let (mut config, brokers) = config::config(settings).map_err(|error| anyhow!(error))?;
    brokers.check(&config).map_err(|error| anyhow!(error))?;
    config.pages = pages::pages();
    config.version = env!("THALWEG_VERSION");
    if check {
        thalweg_server::check(&config, &brokers.topics())?;
        print(&screen::check_screen(&config, &brokers))?;
        return Ok(());
    }
    logs::begin(level, format);
    if has_demo {
        // The user's upstreams come first.
        let matches = format!("matchesfeed/**=http://{}/{{topic}}", demo_provider::beside()?);
        let matches = matches.parse().and_then(|table: UpstreamTable| table.upstream());
        config.upstreams.push(matches.map_err(|error| anyhow!(error))?);
    }
    let services = brokers.open(&config).map_err(|error| anyhow!(error))?;
    let mut server = thalweg_server::serve(config.clone(), services)?;
    let read = || config::config(read()?).map(|(config, _)| config).map_err(|error| anyhow!(error));
    let address = server.address();
    // One server of a cluster answers: the one that runs the sources.
    if has_demo && config.runs_sources {
        let rights = config.access.rights_of_all(config.listen);
        demo_answers::beside(&screen::url(&config, address), &rights)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut signals = Signals::listen()?;
        // The first line comes after the signals are handled, because its reader may send a signal at once.
        let screen = screen::first_screen((&config, &brokers), address, server.admin_address());
        let said = format!("listening on {}://{address}\n{screen}", screen::scheme(&config));
        // One write, because a reader may close the pipe after the first line.
        if let Err(error) = io::stdout().write_all(said.as_bytes()) {
            tracing::warn!(%error, "standard output is closed");
        }
        tell_systemd(&[NotifyState::Ready]);
        signals.wait(&mut server, &read, Duration::MAX).await?;
        server.announce_end();
        tell_systemd(&[NotifyState::Stopping]);
        if !config.shutdown_delay.is_zero() {
            let delay = config.shutdown_delay;
            tracing::info!(
                ?delay,
                "shutdown delay: /readyz answers 503; a second signal ends the delay"
            );
            signals.wait(&mut server, &read, delay).await?;
        }
        tracing::info!("draining: telling subscribers to reconnect");
        server.drain().await;
        tracing::info!("drained");
        Ok(())
    })
}

/// Returns the settings of flags and variables, and of the file where those are unset. Fails like [`file::read`], and if both
/// have tokens, because those of the file would be ignored.
fn over_file(flags: Settings, path: &Path) -> anyhow::Result<Settings> {
    let file = file::read(path).map_err(|error| anyhow!(error))?;
    if !flags.token.is_empty() && !file.token.is_empty() {
        bail!(
            "token: {} has tokens, and flags or THALWEG_TOKENS would replace them: write all tokens in one place",
            path.display()
        );
    }
    Ok(flags.over(file))
}

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

    /// Waits for a signal to shut down, for at most `most`. Fails if a shard has ended by itself.
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
                () = server.broken() => bail!("a shard ended unexpectedly: please report this"),
            }
        }
    }
}

/// Reports the state of the service to systemd, if systemd started the server with `Type=notify` (sd_notify(3)).
fn tell_systemd(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "cannot report the state to systemd");
    }
}

/// Reloads the settings that may change while the server runs.
async fn reload(server: &mut Server, read: &impl Fn() -> anyhow::Result<Config>) {
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        tell_systemd(&[NotifyState::Reloading, now]);
    }
    match server.reload_certificate() {
        Ok(true) => tracing::info!("reloaded the certificate"),
        Ok(false) => {}
        Err(error) => tracing::error!(%error, "cannot reload the certificate: keeping the old one"),
    }
    let reloaded = match read() {
        Ok(config) => server.reload(&config).await,
        Err(error) => Err(format!("{error:#}")),
    };
    match reloaded {
        Ok(()) => tracing::info!("reloaded tokens, origins, host names and limits"),
        Err(error) => {
            tracing::error!(%error, "cannot reload tokens, origins, host names and limits: keeping the old ones");
        }
    }
    tell_systemd(&[NotifyState::Ready]);
}

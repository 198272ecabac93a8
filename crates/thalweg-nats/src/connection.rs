//! The one connection to NATS, which reconnects by itself.

use std::{
    error::Error,
    io,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event, ServerAddr, connection::State};
use percent_encoding::percent_decode_str;
use tokio::{sync::watch, time::Instant};

use crate::settings::Settings;

/// The time for which a start waits for the servers, which may be starting, too.
pub(crate) const START_TIMEOUT: Duration = Duration::from_secs(30);

const START_PAUSE: Duration = Duration::from_millis(500);

/// The timeout of an attempt to connect. After it, the next server is tried.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

const RECONNECT_PAUSE_MS_MAX: u64 = 500;

/// The time without data after which the client pings the server. The connection counts as lost when three pings
/// are not answered, because a machine that fails does not close its connections.
const PING_INTERVAL: Duration = Duration::from_secs(1);

/// Maximum number of messages that wait in a subscription. Flow control bounds them earlier: JetStream leaves at most 32 MiB of a
/// consumer unconfirmed, and a message counts there with its inbox, reply subject and headers, never less than 64 bytes. With
/// a lower maximum, small messages would be dropped when the reader blocks, and each drop costs a new consumer. A blocked reader may
/// hold 32 MiB of bodies, or a third of a million tiny messages (100 MiB); any other reader holds a hundredth.
const SUBSCRIPTION_MESSAGES_MAX: usize = (32 << 20) / 64;

/// Size of the read buffer. The client library reads 128 times before another task runs, and all these bytes then wait
/// in subscriptions.
const READ_BYTES: u16 = 16 << 10;

/// A connection, and the number of its losses. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    pub(crate) client: Client,
    losses: watch::Receiver<u64>,
}

impl Connection {
    /// Connects. Waits up to [`START_TIMEOUT`] for a server. Fails with one sentence with the remedy.
    pub(crate) async fn open(settings: &Settings, deadline: Instant) -> Result<Self, String> {
        let servers = settings.server_addresses()?;
        loop {
            let (losses_seen, losses) = watch::channel(0);
            let options = options(settings, &servers, losses_seen).await?;
            let error = match options.connect(&servers).await {
                Ok(client) => return Ok(Self { client, losses }),
                Err(error) => error,
            };
            let names = settings.server_names();
            match error.kind() {
                ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication => {
                    return Err(format!(
                        "NATS ({names}) rejected this server: check its credentials"
                    ));
                }
                kind if is_tls_error(kind, &error) => {
                    return Err(format!(
                        "cannot connect to NATS ({names}): {error}; check the addresses, and the file of authorities for tls://"
                    ));
                }
                _ if Instant::now() + START_PAUSE > deadline => {
                    return Err(format!(
                        "no NATS server answered in {} s ({names}; the last error: {error}): start one, or correct the addresses",
                        START_TIMEOUT.as_secs()
                    ));
                }
                _ => tokio::time::sleep(START_PAUSE).await,
            }
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Returns a receiver that changes when the connection is lost from now on.
    pub(crate) fn losses(&self) -> watch::Receiver<u64> {
        let mut losses = self.losses.clone();
        losses.mark_unchanged();
        losses
    }
}

/// Returns whether TLS failed. The client library reports a certificate that is not trusted as invalid data.
fn is_tls_error(kind: ConnectErrorKind, error: &dyn Error) -> bool {
    let io = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    let is_invalid = io.is_some_and(|error| error.kind() == io::ErrorKind::InvalidData);
    kind == ConnectErrorKind::Tls || is_invalid
}

async fn options(
    settings: &Settings,
    servers: &[ServerAddr],
    losses_seen: watch::Sender<u64>,
) -> Result<ConnectOptions, String> {
    // The callback is shared by calls that never overlap; it must be Sync nevertheless.
    let losses_seen = Arc::new(Mutex::new(losses_seen));
    let mut options = ConnectOptions::new()
        .name("thalweg")
        .connection_timeout(CONNECT_TIMEOUT)
        .ping_interval(PING_INTERVAL)
        .read_buffer_capacity(READ_BYTES)
        .subscription_capacity(SUBSCRIPTION_MESSAGES_MAX)
        .reconnect_delay_callback(reconnect_pause)
        .event_callback(move |event| {
            if event == Event::Disconnected
                && let Ok(losses_seen) = losses_seen.lock()
            {
                losses_seen.send_modify(|losses| *losses += 1);
            }
            std::future::ready(())
        });
    if let Some(path) = &settings.ca_file {
        options = options.add_root_certificates(path.clone());
    }
    if let Some(path) = &settings.credentials {
        options = options.credentials_file(path).await.map_err(|error| {
            format!(
                "cannot read the NATS credentials {} ({error}): name a .creds file",
                path.display()
            )
        })?;
    }
    if let Some((user, password)) = servers.iter().find_map(user_and_password) {
        options = options.user_and_password(user, password);
    }
    Ok(options)
}

/// Returns user and password of an address, which the client library ignores.
fn user_and_password(server: &ServerAddr) -> Option<(String, String)> {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    Some((decoded(server.username()?), decoded(server.password().unwrap_or_default())))
}

/// Returns the pause before an attempt: none before the first two, then 2 ms, 4 ms and so on.
fn reconnect_pause(attempts: usize) -> Duration {
    let doublings = u32::try_from(attempts.saturating_sub(1)).unwrap_or(u32::MAX);
    let pause_ms = if attempts <= 1 { 0 } else { 2u64.saturating_pow(doublings) };
    Duration::from_millis(pause_ms.min(RECONNECT_PAUSE_MS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_and_are_bounded() {
        let pauses = [0, 1, 2, 3, 9, 10, 11, usize::MAX].map(|n| reconnect_pause(n).as_millis());
        assert_eq!(pauses, [0, 0, 2, 4, 256, 500, 500, 500]);
    }

    #[test]
    fn a_user_is_read_from_an_address() {
        let user = |url: &str| user_and_password(&url.parse().unwrap());
        assert_eq!(user("nats://h:4222"), None);
        assert_eq!(user("nats://me:p%40ss@h"), Some(("me".to_owned(), "p@ss".to_owned())));
    }
}

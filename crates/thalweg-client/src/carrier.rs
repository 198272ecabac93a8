//! A transport on one connection: messages in, acks out, and a watchdog.

mod body;
mod gunzip;
mod pongs;
mod socket;

use std::time::Duration;

use thalweg_wire::{Position, Topic};
use tokio::time::{Instant, timeout_at};

use crate::{Error, Transport, ending::Ending, exchange::Exchange};

#[derive(Debug)]
pub(crate) struct Carrier {
    kind: Kind,
    /// A connection that is silent for this long counts as dead.
    quiet_max: Duration,
    /// The end of the current wait, if the carrier waits.
    deadline: Option<Instant>,
}

#[derive(Debug)]
enum Kind {
    Body(Box<body::Streaming>),
    Socket(socket::Socket),
}

#[derive(Debug)]
pub(crate) struct CarrierRequest {
    pub(crate) path: String,
    /// The timeout of a long poll.
    pub(crate) wait: Duration,
    /// Whether a response's body may be gzip.
    pub(crate) compress: bool,
}

#[derive(Debug)]
pub(crate) enum Received {
    Message(String),
    /// A part of a message, or a heartbeat.
    Something,
    Ended(Ending),
}

impl Carrier {
    /// Opens a transport with this request.
    pub(crate) async fn open(
        exchange: &Exchange,
        transport: Transport,
        request: CarrierRequest,
        quiet_max: Duration,
    ) -> Result<Self, Error> {
        let kind = match transport {
            Transport::WebSocket => {
                Kind::Socket(socket::Socket::open(exchange, &request.path).await?)
            }
            _ => Kind::Body(Box::new(body::Streaming::open(exchange, transport, request).await?)),
        };
        Ok(Self { kind, quiet_max, deadline: None })
    }

    /// Returns the next input. Cancel safe: dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> Received {
        loop {
            let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + self.quiet_max);
            let next = async {
                match &mut self.kind {
                    Kind::Body(body) => body.next().await,
                    Kind::Socket(socket) => socket.next().await,
                }
            };
            let received = timeout_at(deadline, next).await;
            self.deadline = None;
            match received {
                Ok(Received::Something) => {}
                Ok(received) => return received,
                Err(_) => return Received::Ended(Ending::Cut(silence(self.quiet_max))),
            }
        }
    }

    /// Acknowledges everything up to a position; the next [`Self::next`] sends the ack. Only a WebSocket has acks.
    pub(crate) fn ack(&mut self, topic: Topic, position: Position) {
        if let Kind::Socket(socket) = &mut self.kind {
            socket.ack(topic, position);
        }
    }

    pub(crate) async fn leave(self) {
        if let Kind::Socket(socket) = self.kind {
            socket.leave().await;
        }
    }

    /// Gives back a connection whose answer was read to its end, for the next request.
    pub(crate) fn give_back(self, exchange: &Exchange) {
        if let Kind::Body(body) = self.kind {
            body.give_back(exchange);
        }
    }
}

fn silence(quiet_max: Duration) -> String {
    format!("nothing received for {quiet_max:?}")
}

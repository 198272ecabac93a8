//! A transport on one connection: messages in, acks out, and a watchdog.

mod body;
mod pongs;
mod socket;

use std::time::Duration;

use thalweg_wire::{Position, Topic};
use tokio::time::{Instant, timeout_at};

use crate::{Error, Transport, ending::Ending, exchange::Exchange};

/// A subscription's connection.
#[derive(Debug)]
pub(crate) struct Carrier {
    kind: Kind,
    /// Silence that long is the connection's death.
    quiet_max: Duration,
    /// Since it is waited for something: until when.
    deadline: Option<Instant>,
}

#[derive(Debug)]
enum Kind {
    Body(body::Streaming),
    Socket(socket::Socket),
}

/// What came.
#[derive(Debug)]
pub(crate) enum Received {
    /// A whole message.
    Message(String),
    /// A part of one, or a sign of life.
    Something,
    /// The end.
    Ended(Ending),
}

impl Carrier {
    /// Asks for `path` over a transport. `wait` is a long poll's.
    pub(crate) async fn open(
        exchange: &Exchange,
        transport: Transport,
        path: String,
        wait: Duration,
        quiet_max: Duration,
    ) -> Result<Self, Error> {
        let kind = match transport {
            Transport::WebSocket => Kind::Socket(socket::Socket::open(exchange, &path).await?),
            _ => Kind::Body(body::Streaming::open(exchange, transport, path, wait).await?),
        };
        Ok(Self { kind, quiet_max, deadline: None })
    }

    /// What comes next. May be dropped and called again: nothing is lost.
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

    /// Tells the server that everything up to a position is processed; it is said
    /// with the next [`Self::next`]. Only a WebSocket has a way to.
    pub(crate) fn ack(&mut self, topic: Topic, position: Position) {
        if let Kind::Socket(socket) = &mut self.kind {
            socket.ack(topic, position);
        }
    }

    /// Ends the connection in good order.
    pub(crate) async fn leave(self) {
        if let Kind::Socket(socket) = self.kind {
            socket.leave().await;
        }
    }

    /// A connection whose answer was read to its end is of use for the next.
    pub(crate) fn give_back(self, exchange: &Exchange) {
        if let Kind::Body(body) = self.kind {
            body.give_back(exchange);
        }
    }
}

fn silence(quiet_max: Duration) -> String {
    format!("nothing received for {quiet_max:?}")
}

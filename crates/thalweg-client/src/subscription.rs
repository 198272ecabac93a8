//! The loop of a subscription: connect, receive, reconnect and resume.

use std::{collections::VecDeque, fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until};

use crate::{
    Error, Refusal, Subscribe, Topic, Transport,
    backoff::Backoff,
    carrier::{Carrier, CarrierRequest, Received},
    cursors::Cursors,
    ending::Ending,
    exchange::Exchange,
    limits::{POLL_WAIT, SHORT_LIFE},
    message::Message,
    update::{Closed, Disconnected, Update},
};

/// A subscription that resumes by itself, until the caller drops or closes it or the server ends it.
///
/// The subscription has no task of its own: it connects, reads and waits only while the caller awaits [`Self::next`].
/// If the caller rarely awaits, the server sees a slow subscriber, and may send a gap or close the connection. To do
/// something else at the same time, use `tokio::select!` or spawn a task:
///
/// ```no_run
/// # async fn example(mut subscription: thalweg_client::Subscription) -> Result<(), thalweg_client::Error> {
/// use std::time::Duration;
/// use thalweg_client::Update;
///
/// let mut second = tokio::time::interval(Duration::from_secs(1));
/// let mut count = 0;
/// loop {
///     tokio::select! {
///         update = subscription.next() => match update? {
///             Update::Events(events) => count += events.count(),
///             Update::Closed(closed) => break println!("ended: {}", closed.reason),
///             _ => {}
///         },
///         _ = second.tick() => println!("{} events", std::mem::take(&mut count)),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Subscription {
    exchange: Arc<Exchange>,
    subscribe: Subscribe,
    transport: Transport,
    quiet_max: Duration,
    cursors: Cursors,
    updates: VecDeque<Update>,
    state: State,
    backoff: Backoff,
    /// The backoff between polls, for a server or a cache that answers at once and without events.
    polls: Backoff,
    /// The time of the first update on the current connection, or in the current series of polls.
    first_update: Option<Instant>,
    begun: Instant,
    /// Whether the connection has delivered an update.
    has_delivered: bool,
}

type Opening = Pin<Box<dyn Future<Output = Result<Carrier, Error>> + Send>>;

enum State {
    Waiting(Instant),
    Opening(Opening),
    Open(Box<Carrier>),
    Ended,
}

impl Subscription {
    pub(crate) fn new(
        exchange: Arc<Exchange>,
        topics: Vec<Topic>,
        subscribe: Subscribe,
        quiet_max: Duration,
    ) -> Self {
        let now = Instant::now();
        let default = match subscribe.compress {
            true => Transport::HttpStreaming,
            false => Transport::WebSocket,
        };
        Self {
            exchange,
            transport: subscribe.transport.unwrap_or(default),
            quiet_max,
            cursors: Cursors::new(topics, subscribe.from),
            subscribe,
            updates: VecDeque::new(),
            state: State::Waiting(now),
            backoff: Backoff::default(),
            polls: Backoff::default(),
            first_update: None,
            begun: now,
            has_delivered: false,
        }
    }

    /// Returns the next update. With a window, the call acknowledges everything returned before. Cancel safe: dropping
    /// the future loses nothing.
    ///
    /// # Errors
    /// Returns permanent errors: the server refused the subscription, the certificate is not trusted, or the
    /// answer is not from a Thalweg server. The subscription has then ended; after such an error, and after
    /// [`Update::Closed`], the result is [`Error::Ended`]. A temporary problem (no connection, a server that
    /// restarts or is busy) is not an error: the call returns [`Update::Disconnected`]. After the end of the last
    /// topic ([`Update::Ended`]) the result is [`Error::Ended`], too.
    pub async fn next(&mut self) -> Result<Update, Error> {
        loop {
            if let Some(update) = self.updates.pop_front() {
                self.ack_when_processed(&update);
                return Ok(update);
            }
            match &mut self.state {
                State::Ended => return Err(Error::Ended),
                State::Waiting(until) => {
                    sleep_until(*until).await;
                    self.state = State::Opening(self.opening());
                    self.begun = Instant::now();
                }
                State::Opening(opening) => match opening.await {
                    Ok(carrier) => self.state = State::Open(Box::new(carrier)),
                    Err(error) => self.opening_failed(error)?,
                },
                State::Open(carrier) => match carrier.next().await {
                    Received::Message(text) => self.receive(text)?,
                    Received::Something => {}
                    Received::Ended(ending) => self.ended(&ending),
                },
            }
        }
    }

    /// Closes the subscription and waits until the server is told. Dropping the subscription cuts the connection.
    pub async fn close(self) {
        if let State::Open(carrier) = self.state {
            carrier.leave().await;
        }
    }

    fn opening(&self) -> Opening {
        // The server answers the first poll at once with the cursors.
        let wait = if self.cursors.are_confirmed() { POLL_WAIT } else { Duration::ZERO };
        let (transport, subscribe) = (self.transport, &self.subscribe);
        let starts = self.cursors.starts();
        let takes_patches = self.cursors.takes_patches();
        let server = &self.exchange.server;
        let path = server.subscription(&starts, transport, subscribe, wait, takes_patches);
        let request = CarrierRequest { path, wait, compress: subscribe.compress };
        let (exchange, quiet_max) = (Arc::clone(&self.exchange), self.quiet_max);
        Box::pin(async move { Carrier::open(&exchange, transport, request, quiet_max).await })
    }

    fn opening_failed(&mut self, error: Error) -> Result<(), Error> {
        if matches!(error, Error::NoWebSocket(_)) && self.subscribe.transport.is_none() {
            self.transport = Transport::HttpStreaming;
            self.state = State::Waiting(Instant::now());
            return Ok(());
        }
        if error.is_transient() {
            self.reconnect_later(error.retry_after(), error.to_string());
            return Ok(());
        }
        self.state = State::Ended;
        Err(error)
    }

    fn receive(&mut self, text: String) -> Result<(), Error> {
        let received = self.cursors.receive(text, self.transport, &mut self.updates);
        if !self.updates.is_empty() {
            self.has_delivered = true;
            self.first_update.get_or_insert_with(Instant::now);
        }
        match received {
            Ok(Some(Message::Close(ending))) => self.ended(&ending),
            Ok(Some(Message::Refused(error))) => {
                // The client sends no commands other than acks, so the server has refused an ack, and the window
                // would stay closed.
                self.state = State::Ended;
                return Err(Refusal::from_command(&error).into());
            }
            Ok(_) if self.cursors.have_ended() => self.leave(),
            Ok(_) => {}
            Err(why) => self.ended(&Ending::Cut(why)),
        }
        Ok(())
    }

    fn ended(&mut self, ending: &Ending) {
        if *ending == Ending::Answered {
            return self.poll_again();
        }
        self.leave();
        if let (false, Ending::Close { code, reason, .. }) = (ending.reconnects(), ending) {
            self.state = State::Ended;
            self.updates.push_back(Update::Closed(Closed { code: *code, reason: reason.clone() }));
            return;
        }
        self.reconnect_later(None, ending.why());
    }

    /// Polls again. If the server answered at once and without events, the client waits first, so that it does not poll in a tight loop.
    fn poll_again(&mut self) {
        let is_early = !self.has_delivered && self.begun.elapsed() < SHORT_LIFE;
        let delay = if is_early {
            self.polls.next(Duration::ZERO, None, fastrand::f64())
        } else {
            self.polls = Backoff::default();
            Duration::ZERO
        };
        self.has_delivered = false;
        let again = State::Waiting(Instant::now() + delay);
        if let State::Open(carrier) = std::mem::replace(&mut self.state, again) {
            carrier.give_back(&self.exchange);
        }
    }

    fn reconnect_later(&mut self, retry_after: Option<Duration>, why: String) {
        let lived = self.first_update.take().map_or(Duration::ZERO, |since| since.elapsed());
        let delay = self.backoff.next(lived, retry_after, fastrand::f64());
        self.has_delivered = false;
        self.cursors.disconnected();
        self.state = State::Waiting(Instant::now() + delay);
        self.updates.push_back(Update::Disconnected(Disconnected { why, retry_in: delay }));
    }

    fn leave(&mut self) {
        if let State::Open(carrier) = std::mem::replace(&mut self.state, State::Ended) {
            tokio::spawn(carrier.leave());
        }
    }

    /// Queues the ack of `update`. The next call sends it, after the caller has processed the update.
    fn ack_when_processed(&mut self, update: &Update) {
        let (topic, position) = match update {
            Update::Events(events) => (&events.topic, events.position),
            Update::Gap(gap) => (&gap.topic, gap.position),
            _ => return,
        };
        if let (Some(_), State::Open(carrier)) = (self.subscribe.window, &mut self.state) {
            carrier.ack(topic.clone(), position);
        }
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Waiting(_) => "Waiting",
            Self::Opening(_) => "Opening",
            Self::Open(_) => "Open",
            Self::Ended => "Ended",
        })
    }
}

//! A server that follows a test's script.

use thalweg_client::{Client, Error, Options, Subscribe, Subscription, Transport, Update};
use thalweg_testing::{ReservedPort, patiently};
use thalweg_wire::{Close, Format, websocket::accept_key};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// A listener; a test accepts one connection after the other.
pub(crate) struct Fake {
    listener: TcpListener,
    /// Reserved: no client of another test, whose server has ended, reconnects here.
    _port: ReservedPort,
}

pub(crate) struct Peer<S = TcpStream> {
    pub(crate) socket: S,
    pub(crate) head: String,
}

impl Fake {
    pub(crate) async fn start() -> Self {
        let port = ReservedPort::new();
        let listener = TcpListener::bind(("127.0.0.1", port.number())).await;
        Self { listener: listener.expect("a free port"), _port: port }
    }

    pub(crate) fn client(&self) -> Client {
        self.client_with(Options::default())
    }

    pub(crate) fn client_with(&self, options: Options) -> Client {
        Client::new(&self.url("http"), options).expect("a client")
    }

    pub(crate) fn url(&self, scheme: &str) -> String {
        format!("{scheme}://localhost:{}", self.listener.local_addr().expect("its address").port())
    }

    /// A subscription to `cars`.
    pub(crate) fn subscribe(&self, transport: impl Into<Option<Transport>>) -> Subscription {
        let subscribe = Subscribe { transport: transport.into(), ..Subscribe::default() };
        let topics = vec!["cars".parse().expect("a topic")];
        self.client().subscribe(topics, subscribe).expect("a subscription")
    }

    pub(crate) async fn socket(&self) -> TcpStream {
        patiently("a connection", self.listener.accept()).await.expect("a connection").0
    }

    /// Accepts the next connection, and reads its request's head.
    pub(crate) async fn accept(&self) -> Peer {
        let mut peer = Peer { socket: self.socket().await, head: String::new() };
        peer.read_head().await;
        peer
    }
}

impl<S: AsyncReadExt + AsyncWriteExt + Unpin> Peer<S> {
    pub(crate) async fn read_head(&mut self) {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let byte = patiently("a head", self.socket.read_u8()).await;
            head.push(byte.expect("a whole head"));
        }
        self.head = String::from_utf8(head).expect("a head is text");
    }

    /// Reads a body of known length.
    pub(crate) async fn read_body(&mut self) -> String {
        let length = self.header("content-length").parse().expect("a length");
        let mut body = vec![0; length];
        self.socket.read_exact(&mut body).await.expect("the whole body");
        String::from_utf8(body).expect("text")
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let found = lines.find(|(key, _)| key.eq_ignore_ascii_case(name));
        found.unwrap_or_else(|| panic!("no {name} in {}", self.head)).1
    }

    pub(crate) fn asked(&self) -> &str {
        self.head.lines().next().expect("a request line")
    }

    pub(crate) async fn say(&mut self, bytes: impl AsRef<[u8]>) {
        self.socket.write_all(bytes.as_ref()).await.expect("a client that listens");
        self.socket.flush().await.expect("a client that listens");
    }

    /// Sends the head of a response that ends with the connection.
    pub(crate) async fn stream(&mut self, content_type: &str) {
        self.say(format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n\r\n")).await;
    }

    pub(crate) async fn answer(&mut self, status: u16, headers: &str, body: &str) {
        let length = body.len();
        let head = format!("HTTP/1.1 {status} X\r\nContent-Length: {length}\r\n{headers}\r\n");
        self.say(head + body).await;
    }

    pub(crate) async fn upgrade(&mut self) {
        let accept = accept_key(self.header("sec-websocket-key")).expect("a good key");
        self.say(format!(
            "HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Accept: {accept}\r\n\r\n"
        ))
        .await;
    }

    /// Sends a text message, under 64 KiB.
    pub(crate) async fn frame(&mut self, text: &str) {
        let length = u16::try_from(text.len()).expect("a short message");
        let mut frame = vec![0x81];
        match u8::try_from(length) {
            Ok(length @ ..126) => frame.push(length),
            _ => {
                frame.push(126);
                frame.extend(length.to_be_bytes());
            }
        }
        frame.extend(text.as_bytes());
        self.say(frame).await;
    }

    pub(crate) async fn close(&mut self, close: Close) {
        let mut frame = Vec::new();
        Format::WEBSOCKET.close(close, &mut frame);
        self.say(frame).await;
    }

    /// Reads the client's next text message, under 126 bytes.
    pub(crate) async fn read_frame(&mut self) -> String {
        let mut head = [0; 6];
        self.socket.read_exact(&mut head).await.expect("a frame's head");
        assert_eq!((head[0], head[1] & 0x80), (0x81, 0x80), "a whole masked text frame");
        let mut payload = vec![0; usize::from(head[1] & 0x7f)];
        self.socket.read_exact(&mut payload).await.expect("a frame");
        for (index, byte) in payload.iter_mut().enumerate() {
            *byte ^= head[2 + index % 4];
        }
        String::from_utf8(payload).expect("text")
    }
}

/// Returns an envelope of `cars` whose events are their own offsets; an empty range gives a confirmation.
pub(crate) fn envelope(offsets: std::ops::Range<u64>) -> String {
    let (first, last) = (offsets.start, offsets.end - 1);
    let events: Vec<String> = offsets.map(|offset| offset.to_string()).collect();
    let events = events.join(",");
    format!(r#"{{"topic":"cars","position":"9f.{last}","first":{first},"events":[{events}]}}"#)
}

/// Returns the next update in short form.
pub(crate) async fn next(subscription: &mut Subscription) -> String {
    let update = patiently("an update", subscription.next()).await;
    update.map_or_else(|error| format!("error: {error}"), |update| short(&update))
}

fn short(update: &Update) -> String {
    match update {
        Update::Connected(connected) => {
            format!("connected {} {}", connected.transport.name(), connected.position)
        }
        Update::Events(events) => {
            let events: Vec<&str> = events.iter().map(|(_, event)| event).collect();
            format!("events {}", events.join(" "))
        }
        Update::Gap(gap) => format!("{:?} gap of {:?} to {}", gap.reason, gap.missed, gap.position),
        Update::Ended(end) => format!("ended {} {} {}", end.topic, end.position, end.code),
        Update::Disconnected(end) => format!("disconnected {}", end.why),
        Update::Closed(closed) => format!("closed {} {}", closed.code, closed.reason),
    }
}

pub(crate) async fn expect(subscription: &mut Subscription, expected: &[&str]) {
    for expected in expected {
        let update = next(subscription).await;
        assert!(update.starts_with(expected), "{expected:?} was due, not {update:?}");
    }
}

pub(crate) async fn both(server: impl Future<Output = ()>, client: impl Future<Output = ()>) {
    let both = async { tokio::join!(server, client) };
    patiently("both to end", both).await;
}

pub(crate) fn refused(error: &Error) -> u16 {
    match error {
        Error::Refused(refusal) => refusal.status,
        other => panic!("a refusal was due, not {other}"),
    }
}

//! An HTTP/2 connection in cleartext with prior knowledge (RFC 9113). A stream is a socket with an HTTP/1
//! head and the body. The connection reads only what the test reads: flow control limits the rest.

use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use h2::client::{ResponseFuture, SendRequest};
use h2::ext::Protocol;
use h2::{Ping, RecvStream, SendStream};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::socket::Channel;
use super::{Response, Socket, wait_for};

/// A stream that is not read must not block others.
const CONNECTION_WINDOW_BYTES: u32 = 64 << 20;

#[derive(Clone, Debug)]
pub(crate) struct Http2 {
    requests: UnboundedSender<Job>,
}

/// A request, and the channels between its stream and the test.
#[derive(Debug)]
struct Job {
    request: http::Request<()>,
    body: Bytes,
    /// The body ends with `body`.
    is_whole: bool,
    pieces: Sender<io::Result<Vec<u8>>>,
    orders: UnboundedReceiver<Order>,
}

#[derive(Debug)]
enum Order {
    Read,
    Write(Vec<u8>),
    Finish,
}

/// One stream. Dropping it cancels it.
#[derive(Debug)]
struct Stream {
    orders: UnboundedSender<Order>,
    pieces: Receiver<io::Result<Vec<u8>>>,
    /// Received bytes that the test has not read yet.
    rest: Vec<u8>,
    is_reading: bool,
}

impl Http2 {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let (requests, jobs) = unbounded_channel();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(serve(address, jobs));
        });
        Self { requests }
    }

    pub(crate) fn start(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Socket {
        self.start_with(method, target, headers, body, true)
    }

    /// Does the same without ending the body: writes to the socket continue it.
    pub(crate) fn start_open(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
    ) -> Socket {
        self.start_with(method, target, headers, b"", false)
    }

    /// Asks for a tunnel (RFC 8441). The socket is its stream, once the answer is read.
    pub(crate) fn tunnel(
        &self,
        protocol: &'static str,
        target: &str,
        headers: &[(&str, &str)],
    ) -> Socket {
        let mut request = request("CONNECT", target, headers);
        request.extensions_mut().insert(Protocol::from_static(protocol));
        self.start_request(request, b"", false)
    }

    fn start_with(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
        is_whole: bool,
    ) -> Socket {
        self.start_request(request(method, target, headers), body, is_whole)
    }

    fn start_request(&self, request: http::Request<()>, body: &[u8], is_whole: bool) -> Socket {
        let (orders, taken) = unbounded_channel();
        let (pieces, given) = channel();
        let body = Bytes::copy_from_slice(body);
        let job = Job { request, body, is_whole, pieces, orders: taken };
        self.requests.send(job).expect("the connection's thread");
        Socket::new(Stream { orders, pieces: given, rest: Vec::new(), is_reading: false })
    }

    pub(crate) fn ask(
        &self,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: impl AsRef<[u8]>,
    ) -> Response {
        self.start(method, target, headers, body.as_ref()).response()
    }

    /// Waits until the server accepts no more streams (GOAWAY, RFC 9113 §6.8).
    pub(crate) fn await_retired(&self) {
        wait_for("a connection that takes no more streams", || {
            let mut socket = self.start("GET", "/healthz", &[], b"");
            socket.response_if_open().is_none().then_some(())
        });
    }
}

fn request(method: &str, target: &str, headers: &[(&str, &str)]) -> http::Request<()> {
    let host = headers.iter().find(|(key, _)| key.eq_ignore_ascii_case("host"));
    let host = host.map_or("localhost", |(_, host)| host);
    let mut request = http::Request::builder().method(method).uri(format!("http://{host}{target}"));
    for (key, value) in headers.iter().filter(|(key, _)| !key.eq_ignore_ascii_case("host")) {
        request = request.header(*key, *value);
    }
    request.body(()).expect("a request")
}

async fn serve(address: SocketAddr, mut jobs: UnboundedReceiver<Job>) {
    let stream = tokio::net::TcpStream::connect(address).await.expect("connect");
    let mut builder = h2::client::Builder::new();
    builder.initial_connection_window_size(CONNECTION_WINDOW_BYTES).enable_push(false);
    let (mut requests, mut connection) = builder.handshake(stream).await.expect("a handshake");
    let mut pings = connection.ping_pong().expect("the first use");
    tokio::spawn(connection);
    // The settings of the server come before its answer. Without them there are no tunnels.
    pings.ping(Ping::opaque()).await.expect("a pong");
    while let Some(job) = jobs.recv().await {
        match open(&mut requests, job.request, job.body, job.is_whole).await {
            Ok((response, body)) => {
                tokio::spawn(carry(response, body, job.pieces, job.orders));
            }
            Err(error) => {
                let _ = job.pieces.send(Err(io::Error::other(error)));
            }
        }
    }
}

async fn open(
    requests: &mut SendRequest<Bytes>,
    request: http::Request<()>,
    body: Bytes,
    is_whole: bool,
) -> Result<(ResponseFuture, SendStream<Bytes>), h2::Error> {
    std::future::poll_fn(|context| requests.poll_ready(context)).await?;
    let is_empty = body.is_empty() && is_whole;
    let (response, mut sending) = requests.send_request(request, is_empty)?;
    if !is_empty {
        sending.send_data(body, is_whole)?;
    }
    Ok((response, sending))
}

async fn carry(
    response: ResponseFuture,
    mut sending: SendStream<Bytes>,
    pieces: Sender<io::Result<Vec<u8>>>,
    mut orders: UnboundedReceiver<Order>,
) {
    let mut response = Some(response);
    let mut receiving: Option<RecvStream> = None;
    // A blocked read must not block writes.
    let mut reads = 0;
    loop {
        tokio::select! {
            order = orders.recv() => match order {
                Some(Order::Read) => reads += 1,
                Some(Order::Write(bytes)) => drop(sending.send_data(bytes.into(), false)),
                Some(Order::Finish) => drop(sending.send_data(Bytes::new(), true)),
                None => return,
            },
            piece = piece(&mut response, &mut receiving), if reads > 0 => {
                reads -= 1;
                if pieces.send(piece.map_err(io::Error::other)).is_err() {
                    return;
                }
            }
        }
    }
}

/// Returns the head, in the form of HTTP/1, then pieces of the body, and an empty one at the end.
async fn piece(
    response: &mut Option<ResponseFuture>,
    receiving: &mut Option<RecvStream>,
) -> Result<Vec<u8>, h2::Error> {
    if let Some(waiting) = response {
        let answer = waiting.await;
        *response = None;
        let (head, body) = answer?.into_parts();
        *receiving = Some(body);
        let mut text = format!("HTTP/2 {} \r\n", head.status.as_u16());
        for (key, value) in &head.headers {
            text += &format!("{key}: {}\r\n", value.to_str().expect("a visible value"));
        }
        return Ok((text + "\r\n").into_bytes());
    }
    let Some(body) = receiving else { return Ok(Vec::new()) };
    loop {
        match body.data().await {
            // An empty frame is not the end.
            Some(Ok(data)) if data.is_empty() => {}
            Some(Ok(data)) => {
                body.flow_control().release_capacity(data.len())?;
                return Ok(data.to_vec());
            }
            Some(Err(error)) => return Err(error),
            None => return Ok(Vec::new()),
        }
    }
}

impl Channel for Stream {
    fn read(&mut self, piece: &mut [u8], wait: Duration) -> io::Result<usize> {
        if self.rest.is_empty() {
            if !self.is_reading {
                let _ = self.orders.send(Order::Read);
                self.is_reading = true;
            }
            match self.pieces.recv_timeout(wait) {
                Ok(read) => {
                    self.is_reading = false;
                    self.rest = read?;
                }
                Err(RecvTimeoutError::Timeout) => return Err(io::ErrorKind::TimedOut.into()),
                Err(RecvTimeoutError::Disconnected) => return Ok(0),
            }
        }
        let count = self.rest.len().min(piece.len());
        piece[..count].copy_from_slice(&self.rest[..count]);
        self.rest.drain(..count);
        Ok(count)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let order = Order::Write(bytes.to_vec());
        self.orders.send(order).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    fn finish(&mut self) {
        let _ = self.orders.send(Order::Finish);
    }
}

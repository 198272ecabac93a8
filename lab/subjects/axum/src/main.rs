//! axum with its WebSockets (tokio-tungstenite) and its Server-Sent Events, in the common form: a `tokio::sync::broadcast`
//! channel for each topic, and a task for each subscriber. `--feed true` flushes a WebSocket only when its channel is empty,
//! and not after each message. `--read-buffer BYTES` sets the read buffer of each WebSocket, which is 128 KiB by default.

use axum::Router;
use axum::body::Body;
use axum::extract::ws::{Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::extract::{FromRequestParts, Path, Request, State};
use axum::http::StatusCode;
use axum::http::header::ACCEPT;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::serve::ListenerExt;
use futures_util::{SinkExt, StreamExt};
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_stream::wrappers::BroadcastStream;

/// Number of events that may wait for a subscriber, which otherwise loses the oldest ones.
const WAITING_MAX: usize = 100;
const ROW_TAIL: &str = r#",1,116.9232297,40.676318,4745,"c00070",78,"32.07","1970-01-01T00:00:00Z","column 1","another field"]"#;
const TICKS_IN_A_TURN_MAX: u64 = 16;

#[derive(Clone)]
struct App {
    topics: Arc<Mutex<HashMap<String, Sender<Utf8Bytes>>>>,
    source: Arc<Source>,
    feeds: bool,
    read_buffer: Option<usize>,
}

struct Source {
    kind: String,
    of: HashMap<String, String>,
}

#[tokio::main]
async fn main() {
    let (mut listen, mut source) = ("127.0.0.1:8080".to_owned(), "none".to_owned());
    let (mut feeds, mut read_buffer) = (false, None);
    let mut words = std::env::args().skip(1);
    while let (Some(name), Some(value)) = (words.next(), words.next()) {
        match name.as_str() {
            "--listen" => listen = value,
            "--source" => source = value,
            "--feed" => feeds = value == "true",
            "--read-buffer" => read_buffer = Some(value.parse().expect("a number of bytes")),
            other => panic!("there is no option {other}"),
        }
    }
    let source = Arc::new(Source::read(&source));
    let app = App { topics: Arc::default(), source, feeds, read_buffer };
    if app.source.kind == "constant" {
        tokio::spawn(send_rows(app.clone()));
    }
    let router = Router::new()
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/{*topic}", get(subscribe).post(publish))
        .with_state(app);
    let listener = TcpListener::bind(&listen).await.expect("an address to listen at");
    // Send answers at once, without waiting for TCP acknowledgements, as the documentation of axum shows.
    let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
    axum::serve(listener, router).await.expect("a server");
}

impl Source {
    fn read(text: &str) -> Source {
        let mut words = text.split(',');
        let kind = words.next().unwrap_or_default().to_owned();
        let pairs = words.filter_map(|pair| pair.split_once('='));
        Source { kind, of: pairs.map(|(a, b)| (a.to_owned(), b.to_owned())).collect() }
    }

    fn number(&self, name: &str) -> u64 {
        self.of.get(name).and_then(|found| found.parse().ok()).expect("--source has its numbers")
    }
}

impl App {
    fn topic(&self, name: &str) -> Sender<Utf8Bytes> {
        let mut topics = self.topics.lock().expect("no panic while it is held");
        topics
            .entry(name.to_owned())
            .or_insert_with(|| tokio::sync::broadcast::channel(WAITING_MAX).0)
            .clone()
    }
}

/// Subscribes before the answer that confirms the subscription.
async fn subscribe(
    State(app): State<App>,
    Path(topic): Path<String>,
    request: Request,
) -> Response {
    let events = app.topic(&topic).subscribe();
    let (mut parts, _) = request.into_parts();
    match WebSocketUpgrade::from_request_parts(&mut parts, &app).await {
        Ok(upgrade) => match app.read_buffer {
            Some(bytes) => upgrade.read_buffer_size(bytes),
            None => upgrade,
        }
        .on_upgrade(move |socket| converse(socket, events, app)),
        // A browser also requests an icon on its own.
        Err(_) if parts.headers.get(ACCEPT).is_none_or(|header| header != "text/event-stream") => {
            StatusCode::NOT_FOUND.into_response()
        }
        Err(_) => {
            let events = BroadcastStream::new(events)
                .filter_map(|event| async move { event.ok() })
                .map(|event| Ok::<_, Infallible>(Event::default().data(event.as_str())));
            Sse::new(events).into_response()
        }
    }
}

async fn converse(socket: WebSocket, mut events: Receiver<Utf8Bytes>, app: App) {
    let (mut sink, mut incoming) = socket.split();
    let is_firehose = app.source.kind == "dummy";
    let us = if is_firehose { app.source.number("interval_us") } else { u64::MAX >> 16 };
    let size = if is_firehose { app.source.number("size") as usize } else { 0 };
    let dummy = Utf8Bytes::from("x".repeat(size));
    let interval = Duration::from_micros(us);
    let mut due = Instant::now() + interval;
    loop {
        let message = tokio::select! {
            event = events.recv() => match event {
                Ok(event) => Message::Text(event),
                // The receiver continues with the oldest event that is left.
                Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return,
            },
            message = incoming.next() => match message {
                Some(Ok(message @ (Message::Text(_) | Message::Binary(_)))) => message,
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => continue,
                _ => return,
            },
            // A timer of tokio rounds up to a millisecond, so the ticks of one turn are caught up.
            // Ticks that pass while a dummy waits for the client are skipped.
            () = sleep_until(due), if is_firehose => {
                let late = Instant::now().saturating_duration_since(due);
                due += interval * (late.as_micros() as u64 / us).saturating_sub(TICKS_IN_A_TURN_MAX) as u32;
                due += interval;
                Message::Text(dummy.clone())
            }
        };
        let fed = match app.feeds && !events.is_empty() {
            true => sink.feed(message).await,
            false => sink.send(message).await,
        };
        if fed.is_err() {
            return;
        }
    }
}

async fn publish(State(app): State<App>, Path(topic): Path<String>, body: Body) -> String {
    let topic = app.topic(&topic);
    let (mut rest, mut searched, mut count) = (Vec::new(), 0, 0);
    let mut pieces = body.into_data_stream();
    while let Some(Ok(piece)) = pieces.next().await {
        rest.extend_from_slice(&piece);
        let mut begin = 0;
        while let Some(length) = memchr::memchr(b'\n', &rest[searched..]) {
            let end = searched + length;
            let line = String::from_utf8_lossy(&rest[begin..end]);
            if !line.is_empty() {
                // There may be no subscriber.
                let _ = topic.send(Utf8Bytes::from(line.into_owned()));
                count += 1;
            }
            (begin, searched) = (end + 1, end + 1);
        }
        rest.drain(..begin);
        searched = rest.len();
    }
    format!("{{\"count\":{count}}}")
}

fn monotonic_us() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1_000
}

/// Sends a batch of rows at each tick. A late timer catches up, but lets other tasks run in between.
async fn send_rows(app: App) {
    let topic = app.topic(&app.source.of["topic"]);
    let (batch, interval_us) = (app.source.number("batch"), app.source.number("interval_us"));
    let mut due_us = app.source.number("start_us");
    due_us += monotonic_us().saturating_sub(due_us).div_ceil(interval_us) * interval_us;
    let mut sequence = 0;
    loop {
        for _ in 0..TICKS_IN_A_TURN_MAX {
            if due_us > monotonic_us() {
                break;
            }
            let mut text = String::with_capacity(batch as usize * (ROW_TAIL.len() + 32) + 2);
            for row in 0..batch {
                sequence += 1;
                let comma = if row == 0 { "[" } else { "," };
                text += &format!("{comma}[{sequence},{due_us}{ROW_TAIL}");
            }
            // There may be no subscriber.
            let _ = topic.send(Utf8Bytes::from(text + "]"));
            due_us += interval_us;
        }
        let wait = Duration::from_micros(due_us.saturating_sub(monotonic_us()));
        sleep(wait).await;
    }
}

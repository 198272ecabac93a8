//! A bare consumer: the simplest program that reads a JetStream stream with `async-nats`. The lab compares a node with it.
//!
//! The stream and the consumer have the settings of a node. The program answers flow control and counts messages, but checks
//! no sequence and reads no event. With `--times` it records when each message was due (by the first event) and arrived.
//!
//! Over HTTP the program serves `/readyz`, `/metrics` and `/times`.

use std::{cell::RefCell, error::Error, rc::Rc, time::Duration};

use async_nats::{Client, HeaderName, Message, StatusCode};
use bytes::Bytes;
use futures_util::StreamExt;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};
use thalweg_core::stream::FeedKind;
use thalweg_nats::{StreamSettings, config_of};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::LocalSet,
};

/// The heartbeat of a node's consumer.
const HEARTBEAT: Duration = Duration::from_secs(1);
/// The default age of a node's streams.
const AGE: Duration = Duration::from_secs(3600);
/// Number of attempts, because JetStream may not be ready yet.
const ATTEMPTS: u32 = 100;
const PAUSE: Duration = Duration::from_millis(100);
const CONSUMER_STALLED: HeaderName = HeaderName::from_static("Nats-Consumer-Stalled");

type Failure = Box<dyn Error>;

#[derive(Debug, Default)]
struct State {
    messages: u64,
    /// The times when messages were due and arrived, since the last request for them, µs.
    times: Vec<(u64, u64)>,
    notes_times: bool,
}

struct Arguments {
    listen: String,
    nats: String,
    stream: StreamSettings,
    notes_times: bool,
}

fn main() -> Result<(), Failure> {
    if std::env::args().nth(1).is_some_and(|word| word == "--version") {
        println!("consumer {}", env!("CARGO_PKG_VERSION"));
        return Ok(());
    }
    let arguments = arguments()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, run(arguments))
}

fn arguments() -> Result<Arguments, Failure> {
    let (mut listen, mut nats, mut name) = (None, None, None);
    let mut notes_times = false;
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let into = match word.as_str() {
            "--times" => {
                notes_times = true;
                continue;
            }
            "--listen" => &mut listen,
            "--nats" => &mut nats,
            "--stream" => &mut name,
            _ => return Err(format!("there is no option {word}").into()),
        };
        *into = Some(words.next().ok_or_else(|| format!("{word} needs a value"))?);
    }
    let name = name.ok_or("--stream is missing, e.g. --stream bench")?;
    let stream = StreamSettings {
        pattern: format!("{name}/**").parse()?,
        name,
        kind: FeedKind::Log,
        replicas: 1,
        age: AGE,
        bytes: None,
        warm: AGE,
    };
    let listen = listen.ok_or("--listen is missing, e.g. --listen 127.0.0.1:8080")?;
    let nats = nats.ok_or("--nats is missing, e.g. --nats nats://127.0.0.1:4222")?;
    Ok(Arguments { listen, nats, stream, notes_times })
}

async fn run(arguments: Arguments) -> Result<(), Failure> {
    let Arguments { listen, nats, stream, notes_times } = arguments;
    let client = async_nats::connect(&nats).await?;
    let name = format!("thalweg-{}", stream.name);
    create(&client, &format!("STREAM.CREATE.{name}"), &config_of(&stream)).await?;
    let inbox = client.new_inbox();
    let mut messages = client.subscribe(inbox.clone()).await?;
    let consumer = json!({
        "stream_name": name,
        "config": {
            "name": "bare",
            "deliver_subject": inbox,
            "deliver_policy": "all",
            "ack_policy": "none",
            "replay_policy": "instant",
            "idle_heartbeat": HEARTBEAT.as_nanos() as u64,
            "flow_control": true,
            "mem_storage": true,
            "num_replicas": 1,
        },
    });
    create(&client, &format!("CONSUMER.CREATE.{name}.bare"), &consumer).await?;
    let state = Rc::new(RefCell::new(State { notes_times, ..State::default() }));
    // Listen only now, so that every client that can connect gets an answer.
    tokio::task::spawn_local(answer(TcpListener::bind(listen).await?, Rc::clone(&state)));
    while let Some(message) = messages.next().await {
        match message.status {
            None => take(&message, &mut state.borrow_mut())?,
            Some(StatusCode::IDLE_HEARTBEAT) => {
                let headers = message.headers.as_ref();
                let stalled = headers.and_then(|headers| headers.get(CONSUMER_STALLED));
                let stalled = stalled.map(|reply| reply.as_str().to_owned());
                if let Some(reply) = message.reply.map(|reply| reply.to_string()).or(stalled) {
                    client.publish(reply, Bytes::new()).await?;
                }
            }
            Some(status) => return Err(format!("the consumer has ended: {status}").into()),
        }
    }
    Err("the connection to NATS has ended".into())
}

fn take(message: &Message, state: &mut State) -> Result<(), Failure> {
    state.messages += 1;
    if state.notes_times {
        let came_us = now_us();
        state.times.push((due_us(&message.payload).ok_or("an event without a time")?, came_us));
    }
    Ok(())
}

/// Returns the due time of the first event: `{"seq":1,"due":98273,…`.
fn due_us(events: &[u8]) -> Option<u64> {
    let head = std::str::from_utf8(events.get(..64)?).ok()?;
    let digits = head.split_once("\"due\":")?.1;
    digits.split_once(',')?.0.parse().ok()
}

/// Returns the time of the clock that all processes share, µs.
fn now_us() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}

/// Creates a stream or a consumer. Repeats the request until JetStream answers.
async fn create(client: &Client, what: &str, config: &Value) -> Result<(), Failure> {
    let mut last = String::new();
    for _ in 0..ATTEMPTS {
        let body = serde_json::to_vec(config)?;
        let answer = client.request(format!("$JS.API.{what}"), body.into()).await;
        match answer.map(|answer| serde_json::from_slice::<Value>(&answer.payload)) {
            Ok(Ok(answer)) if answer["error"].is_null() => return Ok(()),
            Ok(Ok(answer)) => last = answer["error"].to_string(),
            Ok(Err(error)) => last = error.to_string(),
            Err(error) => last = error.to_string(),
        }
        tokio::time::sleep(PAUSE).await;
    }
    Err(format!("JetStream rejected {what}: {last}").into())
}

async fn answer(listener: TcpListener, state: Rc<RefCell<State>>) {
    while let Ok((socket, _)) = listener.accept().await {
        // A client may disconnect before it gets an answer.
        let _ = answer_one(socket, &state).await;
    }
}

async fn answer_one(mut socket: TcpStream, state: &RefCell<State>) -> std::io::Result<()> {
    let (mut request, mut room) = (Vec::new(), [0; 1024]);
    while !request.ends_with(b"\r\n\r\n") {
        match socket.read(&mut room).await? {
            0 => return Ok(()),
            length => request.extend_from_slice(&room[..length]),
        }
    }
    let body = match request.split(|byte| *byte == b' ').nth(1) {
        Some(b"/readyz") => String::new(),
        Some(b"/metrics") => format!("thalweg_nats_messages_total {}\n", state.borrow().messages),
        Some(b"/times") => {
            let times = std::mem::take(&mut state.borrow_mut().times);
            times.iter().map(|(due_us, came_us)| format!("{due_us} {came_us}\n")).collect()
        }
        _ => return socket.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").await,
    };
    let length = body.len();
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    socket.write_all(format!("{head}{body}").as_bytes()).await
}

//! A server of every dialect, small and slow: a thread per connection, one message per event, and a fault of one's choice.

use crate::fossil::delta_between;
use crate::listen::{
    header, lines_in_chunks, listen, read_head, read_message, text_frame, upgraded,
};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Turns one subscriber's next event, by its number, into events, whole envelopes, or `END`, which ends its connection.
pub(crate) type Fault = Box<dyn FnMut(u64, &str) -> Vec<String> + Send>;

/// A document is to be loaded again after so many envelopes.
pub(crate) const DOCUMENT_ENVELOPES: usize = 10;
/// A poll waits this long: short, so that some have no events.
const WAIT: Duration = Duration::from_millis(1);

pub(crate) const RELOAD: &str = r#"{"close":{"code":4003,"reason":"reload","reconnect":true}}"#;

const ENGINE_IO_OPEN: &str =
    r#"0{"sid":"e","upgrades":[],"pingInterval":25000,"pingTimeout":20000}"#;

const SUBSCRIBE_TO_DELTAS: &str =
    r#"{"id":2,"subscribe":{"channel":"deltas:bench/0","delta":"fossil"}}"#;

pub(crate) fn serve(
    fault: impl FnMut(u64, &str) -> Vec<String> + Send + 'static,
) -> std::io::Result<SocketAddr> {
    let topic = Arc::new(Topic {
        state: Mutex::default(),
        has_more: Condvar::new(),
        fault: Mutex::new(Box::new(fault)),
    });
    listen(move |connection| topic.attend(connection))
}

struct Topic {
    state: Mutex<State>,
    has_more: Condvar,
    fault: Mutex<Fault>,
}

#[derive(Default)]
struct State {
    subscribers: Vec<Subscriber>,
    /// The events so far; the first has number 1.
    history: Vec<String>,
    polling: usize,
}

struct Subscriber {
    framing: Framing,
    socket: TcpStream,
    sent: usize,
}

#[derive(Clone, Copy, PartialEq)]
enum Framing {
    Websocket,
    SocketIo,
    EngineIo,
    SockJs,
    /// Also the form of Primus for an object.
    Raw,
    RawSse,
    Nats,
    Centrifugo,
    CentrifugoDeltas,
    Sse,
    Ndjson,
    Script,
}

impl Topic {
    fn attend(&self, connection: TcpStream) -> std::io::Result<()> {
        connection.set_nodelay(true)?;
        let mut reader = BufReader::new(connection.try_clone()?);
        if reader.fill_buf()?.starts_with(b"CONNECT ") {
            return self.nats_messages(&mut reader);
        }
        let head = read_head(&mut reader)?;
        if head.starts_with("POST") && head.contains("Content-Length") {
            return self.requests(head, &mut reader, connection);
        }
        if head.starts_with("POST") {
            return lines_in_chunks(&mut reader, |event| self.fan_out(event));
        }
        if head.contains("transport=long-polling") {
            return self.polls(head, &mut reader, connection);
        }
        let target = head.split(' ').nth(1).unwrap_or_default();
        let is_wire = target.starts_with("/v1/");
        let framing = if target.starts_with("/socket.io/") {
            Framing::SocketIo
        } else if target.starts_with("/engine.io/") {
            Framing::EngineIo
        } else if target.starts_with("/sockjs/") {
            Framing::SockJs
        } else if target.starts_with("/connection/") {
            Framing::Centrifugo
        } else if target == "/" {
            Framing::Nats
        } else if !is_wire && head.contains("text/event-stream") {
            Framing::RawSse
        } else if !is_wire {
            Framing::Raw
        } else if head.contains("Upgrade: websocket") {
            Framing::Websocket
        } else if head.contains("text/event-stream") {
            Framing::Sse
        } else if head.contains("transport=forever-frame") {
            Framing::Script
        } else {
            Framing::Ndjson
        };
        self.subscribe(framing, &head, &mut reader, connection)
    }

    fn subscribe(
        &self,
        framing: Framing,
        head: &str,
        reader: &mut impl BufRead,
        mut socket: TcpStream,
    ) -> std::io::Result<()> {
        let answer = match framing {
            _ if head.contains("Upgrade: websocket") => upgraded(head, ""),
            Framing::Sse | Framing::RawSse => {
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n".to_owned()
            }
            _ => "HTTP/1.1 200 OK\r\n\r\n".to_owned(),
        };
        // Where only the answer confirms the subscription, it begins before that.
        let head_before = locked(&self.state).history.len();
        socket.write_all(answer.as_bytes())?;
        let framing = open(framing, reader, &mut socket)?;
        let mut state = locked(&self.state);
        let from = cursor(head).unwrap_or(head_before);
        if let Some(confirmation) = confirmation(framing, from as u64) {
            socket.write_all(&frame(framing, &confirmation))?;
        }
        let mut subscriber = Subscriber { framing, socket, sent: 0 };
        let missed: Vec<String> = state.history[from..].to_vec();
        for (number, event) in (from as u64 + 1..).zip(missed) {
            if !subscriber.send(number, &[event], before(&state.history, number)) {
                return Ok(());
            }
        }
        state.subscribers.push(subscriber);
        Ok(())
    }

    fn requests(
        &self,
        mut head: String,
        reader: &mut impl BufRead,
        mut socket: TcpStream,
    ) -> std::io::Result<()> {
        loop {
            let mut body = vec![0; header(&head, "Content-Length").parse().unwrap_or(0)];
            reader.read_exact(&mut body)?;
            let body = String::from_utf8_lossy(&body);
            let beginnings =
                [r#"{"channel":"bench/0","data":"#, r#"{"channel":"deltas:bench/0","data":"#];
            let json = beginnings.iter().find_map(|begin| body.strip_prefix(begin));
            let form = body.strip_prefix("topic=bench/0&data=");
            match (json.and_then(|json| json.strip_suffix('}')), form) {
                (Some(event), _) => self.fan_out(event),
                (_, Some(event)) => self.fan_out(&percent_decoded(event)),
                _ => self.fan_out(&body),
            }
            socket.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")?;
            head = read_head(reader)?;
        }
    }

    fn nats_messages(&self, reader: &mut impl BufRead) -> std::io::Result<()> {
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            let Some(publish) = line.strip_prefix("PUB bench/0 ") else { continue };
            let mut event = vec![0; publish.trim().parse().unwrap_or(0) + 2];
            reader.read_exact(&mut event)?;
            self.fan_out(String::from_utf8_lossy(&event).trim_end());
        }
    }

    /// Answers poll after poll, by turns with a length and in chunks.
    fn polls(
        &self,
        mut head: String,
        reader: &mut impl BufRead,
        mut socket: TcpStream,
    ) -> std::io::Result<()> {
        let is_first = {
            let mut state = locked(&self.state);
            state.polling += 1;
            state.polling == 1
        };
        for answer in 0.. {
            let (from, events) = self.wait(&head);
            let mut lines = format!("{}\n", envelope(from as u64, ""));
            for (number, event) in (from as u64 + 1..).zip(events) {
                let outgoing =
                    if is_first { locked(&self.fault)(number, &event) } else { vec![event] };
                for event in outgoing {
                    if event == "END" {
                        return socket.shutdown(std::net::Shutdown::Both);
                    }
                    lines += &format!("{}\n", envelope(number, &event));
                }
            }
            let body = match answer % 2 {
                0 => format!("Content-Length: {}\r\n\r\n{lines}", lines.len()),
                _ => format!("Transfer-Encoding: chunked\r\n\r\n{}", in_chunks(&lines)),
            };
            socket.write_all(format!("HTTP/1.1 200 OK\r\n{body}").as_bytes())?;
            head = read_head(reader)?;
        }
        Ok(())
    }

    /// Answer to a poll: from where on, and the events, perhaps none.
    fn wait(&self, head: &str) -> (usize, Vec<String>) {
        let mut state = locked(&self.state);
        let from = cursor(head).unwrap_or(state.history.len());
        if state.history.len() <= from && !head.contains("wait=0") {
            let waited = self.has_more.wait_timeout(state, WAIT);
            state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
        (from, state.history[from..].to_vec())
    }

    fn fan_out(&self, event: &str) {
        let mut state = locked(&self.state);
        let State { subscribers, history, .. } = &mut *state;
        history.push(event.to_owned());
        let number = history.len() as u64;
        let mut index = 0;
        subscribers.retain_mut(|subscriber| {
            index += 1;
            let events =
                if index == 1 { locked(&self.fault)(number, event) } else { vec![event.into()] };
            if events.iter().any(|event| event == "END") {
                let _ = subscriber.socket.shutdown(std::net::Shutdown::Write);
                return true;
            }
            subscriber.send(number, &events, before(history, number))
        });
        self.has_more.notify_all();
    }
}

impl Subscriber {
    /// Sends events as this number. A delta is one of the event that was published `before`, whatever the subscriber got.
    fn send(&mut self, number: u64, events: &[String], before: Option<&str>) -> bool {
        for event in events {
            let message = match (self.framing, before.filter(|_| self.sent > 0)) {
                (Framing::CentrifugoDeltas, before) => in_string(number, event, before),
                (framing, _) => message(framing, number, event),
            };
            self.sent += 1;
            // A peer may be gone.
            let _ = self.socket.write_all(&frame(self.framing, &message));
        }
        let is_full = self.framing == Framing::Script && self.sent >= DOCUMENT_ENVELOPES;
        if is_full {
            let _ = self.socket.write_all(&frame(self.framing, RELOAD));
            let _ = self.socket.shutdown(std::net::Shutdown::Write);
        }
        !is_full
    }
}

/// Returns the event that was published before the one with this number.
fn before(history: &[String], number: u64) -> Option<&str> {
    let index = (number as usize).checked_sub(2)?;
    history.get(index).map(String::as_str)
}

/// Returns a publication for a subscriber that takes deltas, whole if there is no event `before` it.
fn in_string(number: u64, event: &str, before: Option<&str>) -> String {
    if event.starts_with("{\"push\"") {
        return event.to_owned();
    }
    let (data, mark) = match before {
        Some(before) => {
            let delta = delta_between(before.as_bytes(), event.as_bytes());
            (String::from_utf8_lossy(&delta).into_owned(), ",\"delta\":true")
        }
        None => (event.to_owned(), ""),
    };
    let data = serde_json::Value::from(data);
    format!(
        r#"{{"push":{{"channel":"deltas:bench/0","pub":{{"data":{data},"offset":{number}{mark}}}}}}}"#
    )
}

pub(crate) fn cursor(request: &str) -> Option<usize> {
    let (_, rest) = request.split_once("cursor=1.")?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// Cut within lines.
fn in_chunks(lines: &str) -> String {
    let mut chunks = String::new();
    for chunk in lines.as_bytes().chunks(67) {
        chunks += &format!("{:x}\r\n{}\r\n", chunk.len(), String::from_utf8_lossy(chunk));
    }
    chunks + "0\r\n\r\n"
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Exchanges the opening bytes, before the subscription is established; returns the framing that the subscriber requests.
fn open(
    framing: Framing,
    reader: &mut impl BufRead,
    socket: &mut TcpStream,
) -> std::io::Result<Framing> {
    let (greeting, answer) = match framing {
        Framing::SocketIo => (ENGINE_IO_OPEN, "40"),
        Framing::SockJs => ("o", "[\"bench/0\"]"),
        Framing::Nats => ("INFO {\"headers\":true}\r\n", "\r\nSUB bench/0 1\r\nPING\r\n"),
        // Two commands in a frame.
        Framing::Centrifugo => ("", r#"{"id":2,"subscribe":{"channel":"bench/0"}}"#),
        _ => return Ok(framing),
    };
    if !greeting.is_empty() {
        socket.write_all(&text_frame(greeting))?;
    }
    let message = read_message(reader)?;
    match framing {
        Framing::Centrifugo if message.ends_with(SUBSCRIBE_TO_DELTAS) => {
            Ok(Framing::CentrifugoDeltas)
        }
        _ if message.ends_with(answer) => Ok(framing),
        _ => Err(std::io::ErrorKind::InvalidData.into()),
    }
}

/// Confirmation of a subscription, where there is one.
fn confirmation(framing: Framing, number: u64) -> Option<String> {
    let outgoing = match framing {
        Framing::SocketIo => r#"40{"sid":"s"}"#,
        Framing::EngineIo => ENGINE_IO_OPEN,
        Framing::SockJs => r#"a["subscribed"]"#,
        Framing::Nats => "PONG\r\n",
        Framing::Centrifugo => "{\"id\":1,\"connect\":{}}\n{\"id\":2,\"subscribe\":{}}",
        Framing::CentrifugoDeltas => {
            "{\"id\":1,\"connect\":{}}\n{\"id\":2,\"subscribe\":{\"positioned\":true,\"delta\":true}}"
        }
        Framing::Raw | Framing::RawSse => return None,
        _ => return Some(envelope(number, "")),
    };
    Some(outgoing.to_owned())
}

fn message(framing: Framing, number: u64, event: &str) -> String {
    match framing {
        Framing::SocketIo => format!(r#"42["event","bench/0",{event}]"#),
        Framing::EngineIo => format!("4{event}"),
        Framing::SockJs => format!("a[{}]", serde_json::Value::from(event)),
        Framing::Raw | Framing::RawSse => event.to_owned(),
        Framing::Nats => format!("MSG bench/0 1 {}\r\n{event}\r\n", event.len()),
        Framing::Centrifugo => {
            format!(r#"{{"push":{{"channel":"bench/0","pub":{{"data":{event}}}}}}}"#)
        }
        _ => envelope(number, event),
    }
}

fn percent_decoded(text: &str) -> String {
    let mut pieces = text.split('%');
    let mut decoded = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (digits, rest) = piece.split_at(2);
        decoded.push(char::from(u8::from_str_radix(digits, 16).unwrap_or(b'?')));
        decoded += rest;
    }
    decoded
}

pub(crate) fn envelope(number: u64, event: &str) -> String {
    if event.starts_with("{\"topic\"") {
        return event.to_owned();
    }
    let first = if event.is_empty() { number + 1 } else { number };
    format!(r#"{{"topic":"bench/0","position":"1.{number}","first":{first},"events":[{event}]}}"#)
}

fn frame(framing: Framing, envelope: &str) -> Vec<u8> {
    match framing {
        Framing::Sse | Framing::RawSse => format!("data:{envelope}\nid:1.1\n\n").into_bytes(),
        Framing::Ndjson => format!("{envelope}\n").into_bytes(),
        Framing::Script => {
            format!("<script nonce=\"x\">receive('{envelope}')</script>\n").into_bytes()
        }
        _ => text_frame(envelope),
    }
}

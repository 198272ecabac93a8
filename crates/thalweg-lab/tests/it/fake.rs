//! A server of Thalweg's wire and of Socket.IO, small and slow: a thread per connection, one
//! message per event, and a fault of one's choice.

use crate::listen::{lines_in_chunks, listen, read_head, read_message, text_frame, upgraded};
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// Makes of one subscriber's next event, by its number, what it really gets:
/// events, whole envelopes, or `END`, which ends its connection.
pub(crate) type Fault = Box<dyn FnMut(u64, &str) -> Vec<String> + Send>;

/// A document is to be loaded again after so many envelopes.
pub(crate) const DOCUMENT_ENVELOPES: usize = 10;
/// So long a poll waits: short, so that some have nothing to say.
const WAIT: Duration = Duration::from_millis(1);

pub(crate) const RELOAD: &str = r#"{"close":{"code":4003,"reason":"reload","reconnect":true}}"#;

/// What opens a subscription over Socket.IO: what the server says, and is answered with.
const SOCKETIO_OPENING: [(&str, &str); 2] = [
    (r#"0{"sid":"e","upgrades":[],"pingInterval":25000,"pingTimeout":20000}"#, "40"),
    (r#"40{"sid":"s"}"#, r#"420["subscribe",["bench/0"]]"#),
];

/// Serves until the process ends.
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
    /// Connections that poll.
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
    Sse,
    Ndjson,
    Script,
}

impl Topic {
    fn attend(&self, connection: TcpStream) -> std::io::Result<()> {
        connection.set_nodelay(true)?;
        let mut reader = BufReader::new(connection.try_clone()?);
        let head = read_head(&mut reader)?;
        if head.starts_with("POST") {
            return lines_in_chunks(&mut reader, |event| self.fan_out(event));
        }
        if head.contains("transport=long-polling") {
            return self.polls(head, &mut reader, connection);
        }
        let framing = if head.contains("/socket.io/") {
            Framing::SocketIo
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
            Framing::Websocket | Framing::SocketIo => upgraded(head, ""),
            Framing::Sse => "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n".to_owned(),
            _ => "HTTP/1.1 200 OK\r\n\r\n".to_owned(),
        };
        socket.write_all(answer.as_bytes())?;
        if framing == Framing::SocketIo {
            for (said, expected) in SOCKETIO_OPENING {
                socket.write_all(&text_frame(said))?;
                if read_message(reader)? != expected {
                    return Err(std::io::ErrorKind::InvalidData.into());
                }
            }
        }
        let mut state = locked(&self.state);
        let from = cursor(head).unwrap_or(state.history.len());
        socket.write_all(&frame(framing, &message(framing, from as u64, "")))?;
        let mut subscriber = Subscriber { framing, socket, sent: 0 };
        let missed: Vec<String> = state.history[from..].to_vec();
        for (number, event) in (from as u64 + 1..).zip(missed) {
            if !subscriber.send(number, &[event]) {
                return Ok(());
            }
        }
        state.subscribers.push(subscriber);
        Ok(())
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
                let said = if is_first { locked(&self.fault)(number, &event) } else { vec![event] };
                for event in said {
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

    /// What a poll is told: from where on, and the events, perhaps none.
    fn wait(&self, head: &str) -> (usize, Vec<String>) {
        let mut state = locked(&self.state);
        let from = cursor(head).unwrap_or(state.history.len());
        if state.history.len() <= from && !head.contains("wait=0") {
            let waited = self.has_more.wait_timeout(state, WAIT);
            state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
        (from, state.history[from..].to_vec())
    }

    /// The first subscriber gets what the fault makes of the event.
    fn fan_out(&self, event: &str) {
        let mut state = locked(&self.state);
        state.history.push(event.to_owned());
        let number = state.history.len() as u64;
        let mut index = 0;
        state.subscribers.retain_mut(|subscriber| {
            index += 1;
            let events =
                if index == 1 { locked(&self.fault)(number, event) } else { vec![event.into()] };
            if events.iter().any(|event| event == "END") {
                let _ = subscriber.socket.shutdown(std::net::Shutdown::Write);
                return true;
            }
            subscriber.send(number, &events)
        });
        self.has_more.notify_all();
    }
}

impl Subscriber {
    /// Whether it is to be sent more.
    fn send(&mut self, number: u64, events: &[String]) -> bool {
        for event in events {
            self.sent += 1;
            let message = message(self.framing, number, event);
            // Whoever has gone, has gone.
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

/// The offset that a request names.
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

/// What says an event; without one, that a subscription stands.
fn message(framing: Framing, number: u64, event: &str) -> String {
    match (framing, event) {
        (Framing::SocketIo, "") => "430[]".to_owned(),
        (Framing::SocketIo, event) => format!(r#"42["event","bench/0",{event}]"#),
        _ => envelope(number, event),
    }
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
        Framing::Sse => format!("data:{envelope}\nid:1.1\n\n").into_bytes(),
        Framing::Ndjson => format!("{envelope}\n").into_bytes(),
        Framing::Script => {
            format!("<script nonce=\"x\">receive('{envelope}')</script>\n").into_bytes()
        }
        Framing::Websocket | Framing::SocketIo => text_frame(envelope),
    }
}

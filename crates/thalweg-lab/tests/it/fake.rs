//! A server of Thalweg's wire, small and slow: a thread per connection, one
//! envelope per event, and a fault of one's choice.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Makes of one subscriber's next event, by its number, what it really gets:
/// events, whole envelopes, or `END`, which ends its connection.
type Fault = Box<dyn FnMut(u64, &str) -> Vec<String> + Send>;

/// Serves until the process ends.
pub(crate) fn serve(
    fault: impl FnMut(u64, &str) -> Vec<String> + Send + 'static,
) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let topic =
        Arc::new(Topic { subscribers: Mutex::new(Vec::new()), fault: Mutex::new(Box::new(fault)) });
    thread::spawn(move || {
        for connection in listener.incoming() {
            let topic = Arc::clone(&topic);
            // A connection that ends is the end of its thread, not of the test.
            thread::spawn(move || topic.attend(connection?));
        }
        std::io::Result::Ok(())
    });
    Ok(address)
}

struct Topic {
    subscribers: Mutex<Vec<(Framing, TcpStream)>>,
    fault: Mutex<Fault>,
}

#[derive(Clone, Copy)]
enum Framing {
    Websocket,
    Sse,
    Ndjson,
}

impl Topic {
    fn attend(&self, connection: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(connection.try_clone()?);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            reader.read_line(&mut head)?;
        }
        if head.starts_with("POST") {
            return self.publish(&mut reader);
        }
        let framing = if head.contains("Upgrade: websocket") {
            Framing::Websocket
        } else if head.contains("text/event-stream") {
            Framing::Sse
        } else {
            Framing::Ndjson
        };
        self.subscribe(framing, connection)
    }

    fn subscribe(&self, framing: Framing, mut connection: TcpStream) -> std::io::Result<()> {
        let answer = match framing {
            Framing::Websocket => {
                "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\
                 Connection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"
            }
            Framing::Sse | Framing::Ndjson => "HTTP/1.1 200 OK\r\n\r\n",
        };
        connection.write_all(answer.as_bytes())?;
        connection.write_all(&frame(framing, &envelope(0, "")))?;
        locked(&self.subscribers).push((framing, connection));
        Ok(())
    }

    /// Chunk by chunk; the lab sends whole lines in each.
    fn publish(&self, reader: &mut impl BufRead) -> std::io::Result<()> {
        let mut number = 0;
        loop {
            let mut size = String::new();
            reader.read_line(&mut size)?;
            let length = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
            let mut chunk = vec![0; length + 2];
            reader.read_exact(&mut chunk)?;
            if length == 0 {
                return Ok(());
            }
            for event in String::from_utf8_lossy(&chunk[..length]).lines() {
                number += 1;
                self.fan_out(number, event);
            }
        }
    }

    /// The first subscriber gets what the fault makes of the event.
    fn fan_out(&self, number: u64, event: &str) {
        for (index, (framing, socket)) in locked(&self.subscribers).iter_mut().enumerate() {
            let events =
                if index == 0 { locked(&self.fault)(number, event) } else { vec![event.into()] };
            for event in events {
                if event == "END" {
                    let _ = socket.shutdown(std::net::Shutdown::Write);
                    continue;
                }
                // Whoever has gone, has gone.
                let _ = socket.write_all(&frame(*framing, &envelope(number, &event)));
            }
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn envelope(number: u64, event: &str) -> String {
    if event.starts_with("{\"topic\"") {
        return event.to_owned();
    }
    format!(r#"{{"topic":"bench/0","position":"1.{number}","first":{number},"events":[{event}]}}"#)
}

fn frame(framing: Framing, envelope: &str) -> Vec<u8> {
    match framing {
        Framing::Sse => format!("data:{envelope}\nid:1.1\n\n").into_bytes(),
        Framing::Ndjson => format!("{envelope}\n").into_bytes(),
        Framing::Websocket => {
            let length = (envelope.len() as u16).to_be_bytes();
            [&[0x81, 126], &length[..], envelope.as_bytes()].concat()
        }
    }
}

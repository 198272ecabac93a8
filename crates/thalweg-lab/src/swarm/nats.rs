//! Publishes to NATS with the needed part of its text protocol: messages in the form that nodes of Thalweg store
//! (docs/how-to/cluster.md), and JetStream's acknowledgements.

use super::dialer::Dialer;
use super::link::LinkRead;
use super::socket::Poller;
use super::writer::Writer;
use anyhow::{Context, bail};

/// Enables headers, and an immediate answer if no stream stores a message.
const CONNECT: &str = "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true,\
                       \"no_responders\":true,\"lang\":\"rust\",\"version\":\"0\",\"protocol\":1}\r\n";
/// Marks messages that a node has checked, so that other nodes accept them unchecked.
const HEADERS: &str = "NATS/1.0\r\nThalweg: 1\r\n\r\n";
const ACKS: &str = "_INBOX.thalweg-lab";
const READ_BYTES: usize = 64 * 1024;

/// Returns the NATS subject of a topic, with `/` and `.` swapped.
fn subject_of(topic: &str) -> String {
    let swap = |c| match c {
        '/' => '.',
        '.' => '/',
        other => other,
    };
    format!("thalweg.{}", topic.chars().map(swap).collect::<String>())
}

#[derive(Debug)]
pub(super) struct NatsPublisher {
    writer: Writer,
    subject: String,
    /// Whether messages have the form that nodes store, and are acknowledged.
    is_stored: bool,
    events_max: u32,
    /// Events of the next message, one per line.
    lines: Vec<u8>,
    count: u32,
    sent: u64,
    incoming: ServerCommands,
    room: Vec<u8>,
}

impl NatsPublisher {
    /// Connects for messages that are stored. A message is sent once it has `events_max` events. The poller will report `key`.
    pub(super) fn stored(
        dialer: &Dialer,
        topic: &str,
        events_max: u32,
        key: u64,
        poller: &Poller,
    ) -> anyhow::Result<NatsPublisher> {
        let first = format!("{CONNECT}SUB {ACKS} 1\r\n");
        let plain = NatsPublisher::open(dialer, first, subject_of(topic), key, poller)?;
        Ok(NatsPublisher { is_stored: true, events_max, ..plain })
    }

    /// Connects to publish one message per event, neither stored nor acknowledged. The poller will report `key`.
    pub(super) fn plain(
        dialer: &Dialer,
        subject: String,
        key: u64,
        poller: &Poller,
    ) -> anyhow::Result<NatsPublisher> {
        NatsPublisher::open(dialer, CONNECT.to_owned(), subject, key, poller)
    }

    fn open(
        dialer: &Dialer,
        first: String,
        subject: String,
        key: u64,
        poller: &Poller,
    ) -> anyhow::Result<NatsPublisher> {
        Ok(NatsPublisher {
            writer: Writer::open(dialer, key, first.into_bytes(), poller)?,
            subject,
            is_stored: false,
            events_max: 1,
            lines: Vec::new(),
            count: 0,
            sent: 0,
            incoming: ServerCommands::default(),
            room: vec![0; READ_BYTES],
        })
    }

    /// Publishes these lines, each with its line end. Lines that do not fill a message wait for more.
    pub(super) fn post(&mut self, lines: &[u8], poller: &Poller) -> anyhow::Result<()> {
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            self.lines.extend_from_slice(line);
            self.count += 1;
            if self.count == self.events_max {
                self.send_rest(poller)?;
            }
        }
        Ok(())
    }

    /// Sends the lines that wait for more.
    pub(super) fn send_rest(&mut self, poller: &Poller) -> anyhow::Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        let NatsPublisher { subject, is_stored, lines, .. } = self;
        // Line ends separate events; there is none after the last.
        let body = lines.strip_suffix(b"\n").unwrap_or(lines);
        self.writer.send(poller, |out| {
            if !*is_stored {
                out.extend_from_slice(format!("PUB {subject} {}\r\n", body.len()).as_bytes());
                out.extend_from_slice(body);
                out.extend_from_slice(b"\r\n");
                return;
            }
            let (head, all) = (HEADERS.len(), HEADERS.len() + body.len());
            out.extend_from_slice(format!("HPUB {subject} {ACKS} {head} {all}\r\n").as_bytes());
            out.extend_from_slice(HEADERS.as_bytes());
            out.extend_from_slice(body);
            out.extend_from_slice(b"\r\n");
        })?;
        self.lines.clear();
        self.count = 0;
        self.sent += 1;
        Ok(())
    }

    pub(super) fn sent_and_acked(&self) -> (u64, u64) {
        (self.sent, self.incoming.acked)
    }

    pub(super) fn pending_bytes(&self) -> usize {
        self.writer.pending_bytes()
    }

    /// Reads available bytes, and writes as many as the kernel takes. Fails if NATS refuses something.
    pub(super) fn continue_transfer(&mut self, poller: &Poller) -> anyhow::Result<()> {
        loop {
            match self.writer.link.receive(&mut self.room, READ_BYTES, &mut Vec::new())? {
                LinkRead::End => bail!("the NATS server ended the connection"),
                LinkRead::Nothing => break,
                LinkRead::Bytes { length, is_all, .. } => {
                    self.incoming.take(&self.room[..length])?;
                    if is_all {
                        break;
                    }
                }
            }
        }
        for _ in 0..std::mem::take(&mut self.incoming.pings) {
            self.writer.send(poller, |out| out.extend_from_slice(b"PONG\r\n"))?;
        }
        self.writer.flush(poller)
    }
}

/// Parses the server's bytes. Pure.
#[derive(Debug, Default)]
struct ServerCommands {
    /// The beginning of an incomplete command.
    bytes: Vec<u8>,
    acked: u64,
    pings: u32,
}

impl ServerCommands {
    fn take(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.bytes.extend_from_slice(bytes);
        let mut used = 0;
        while let Some(length) = self.take_one(used)? {
            used += length;
        }
        self.bytes.drain(..used);
        Ok(())
    }

    /// Takes the command at this index; returns its length, or `None` while it is incomplete.
    fn take_one(&mut self, from: usize) -> anyhow::Result<Option<usize>> {
        let rest = &self.bytes[from..];
        let Some(end) = memchr::memmem::find(rest, b"\r\n") else { return Ok(None) };
        let line =
            std::str::from_utf8(&rest[..end]).context("NATS sent a line that is not text")?;
        let mut length = end + 2;
        let word = line.split(' ').next().unwrap_or_default();
        match word {
            "PING" => self.pings += 1,
            "INFO" | "PONG" | "+OK" => {}
            "MSG" | "HMSG" => {
                let bytes = line.rsplit(' ').next().and_then(|bytes| bytes.parse::<usize>().ok());
                let bytes = bytes.context("a message of NATS without a size")?;
                let Some(body) = rest.get(length..length + bytes + 2) else { return Ok(None) };
                let body = String::from_utf8_lossy(&body[..bytes]);
                // `{"stream":"thalweg-bench", "seq":1}`; without a stream, a head with status 503.
                if word == "HMSG" || body.contains("\"error\"") {
                    bail!("NATS has not stored a message: {}", body.trim());
                }
                self.acked += 1;
                length += bytes + 2;
            }
            _ => bail!("NATS says {line}"),
        }
        Ok(Some(length))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_images_of_topics() {
        assert_eq!(subject_of("bench/0"), "thalweg.bench.0");
        assert_eq!(subject_of("live/a.b"), "thalweg.live.a/b");
    }

    #[test]
    fn messages_of_a_server_are_read_wherever_they_are_cut() {
        let sent_bytes =
            b"INFO {\"a\":1}\r\nPING\r\nMSG i 1 31\r\n{\"stream\":\"thalweg-x\", \"seq\":1}\r\n\
                     PONG\r\nMSG i 1 3\r\n{}\n\r\nPING\r\n";
        for cut in 0..sent_bytes.len() {
            let mut incoming = ServerCommands::default();
            incoming.take(&sent_bytes[..cut]).unwrap();
            incoming.take(&sent_bytes[cut..]).unwrap();
            assert_eq!((incoming.acked, incoming.pings, incoming.bytes.len()), (2, 2, 0), "{cut}");
        }
    }

    #[test]
    fn events_that_are_not_stored_are_reported() {
        let refused =
            |sent_bytes: &[u8]| ServerCommands::default().take(sent_bytes).unwrap_err().to_string();
        let full = b"MSG i 1 30\r\n{\"error\":{\"description\":\"x\"}} \r\n";
        assert!(refused(full).contains("has not stored a message: {\"error\""));
        let nobody = b"HMSG i 1 16 16\r\nNATS/1.0 503\r\n\r\n\r\n";
        assert_eq!(refused(nobody), "NATS has not stored a message: NATS/1.0 503");
        assert_eq!(
            refused(b"-ERR 'Authorization Violation'\r\n"),
            "NATS says -ERR 'Authorization Violation'"
        );
    }
}

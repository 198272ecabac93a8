//! A server in this process, and plain requests to it.

use std::net::SocketAddr;

use thalweg_server::{Server, broker::BrokerService, config::Config, serve};
use thalweg_testing::{connect, read_to_end, write_all};

pub(crate) use thalweg_testing::wait_for;

/// A server, until the test is over.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    server: Option<Server>,
}

impl Running {
    pub(crate) fn start(config: Config, brokers: impl IntoIterator<Item = BrokerService>) -> Self {
        let listen = SocketAddr::from(([127, 0, 0, 1], 0));
        let brokers = brokers.into_iter().collect();
        let server = serve(Config { listen, ..config }, brokers).expect("a server");
        Self { address: server.address(), server: Some(server) }
    }

    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[&str], body: &str) -> Answer {
        let mut socket = connect(self.address);
        let headers: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        write_all(&mut socket, request.as_bytes()).expect("send");
        Answer::read(&read_to_end(&socket).expect("an answer"))
    }

    pub(crate) fn get(&self, path: &str, headers: &[&str]) -> Answer {
        self.ask("GET", path, headers, "")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(self.server.take().expect("a server").drain());
    }
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    fn read(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("a head");
        let head = String::from_utf8(bytes[..end].to_vec()).expect("text");
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.expect("a status");
        let body = &bytes[end + 4..];
        let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
        let body = if is_chunked { unchunked(body) } else { body.to_vec() };
        Self { status, head, body }
    }

    /// Returns all values of a header, joined.
    pub(crate) fn header(&self, name: &str) -> String {
        let pairs = self.head.lines().filter_map(|line| line.split_once(": "));
        let values: Vec<&str> =
            pairs.filter(|(key, _)| *key == name).map(|(_, value)| value).collect();
        values.join(", ")
    }

    /// Returns the body of a text answer.
    pub(crate) fn text(&self) -> &str {
        str::from_utf8(&self.body).expect("UTF-8")
    }
}

/// Returns the content of a chunked body (RFC 9112, section 7.1).
fn unchunked(mut bytes: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    while let Some(end) = bytes.windows(2).position(|bytes| bytes == b"\r\n") {
        let size = std::str::from_utf8(&bytes[..end]).expect("a size");
        let size = usize::from_str_radix(size, 16).expect("a size");
        body.extend_from_slice(&bytes[end + 2..end + 2 + size]);
        bytes = &bytes[end + 2 + size + 2..];
    }
    body
}

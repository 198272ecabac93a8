//! An HTTP server whose responses the test chooses, also invalid ones. It records requests.

use std::fmt::Display;
use std::io::{BufRead, BufReader, Write, copy, sink};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use crate::{wait_for, wait_for_value};

/// A request.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Its path.
    pub path: String,
    /// Names are lower-case.
    headers: Vec<(String, String)>,
    /// When it arrived.
    pub at: Instant,
    /// The number of earlier requests for this path.
    pub before: usize,
}

/// A response, and what follows it.
#[derive(Debug)]
pub enum Reply {
    /// Sends these bytes, then reads the next request.
    Bytes(Vec<u8>),
    /// Sends these bytes, then closes the connection.
    Last(Vec<u8>),
    /// Sends these bytes, then waits until the client gives up.
    Never(Vec<u8>),
}

/// A running server. Its threads end with the test's process.
#[derive(Debug)]
pub struct Upstream {
    /// Where it listens.
    pub address: SocketAddr,
    log: Arc<Log>,
}

type Log = Mutex<Vec<Asked>>;

impl Upstream {
    /// Starts a server that answers so.
    pub fn start(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let log = Arc::new(Log::default());
        let (kept, answer) = (Arc::clone(&log), Arc::new(answer));
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (log, answer) = (Arc::clone(&kept), Arc::clone(&answer));
                thread::spawn(move || serve(&client, &log, &*answer));
            }
        });
        Self { address, log }
    }

    /// Returns the flag of `thalweg serve`, with these settings.
    pub fn flag(&self, pattern: &str, settings: &str) -> String {
        format!("{pattern}=http://{}/{{topic}}{settings}", self.address)
    }

    /// Returns the URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Returns the requests for a path so far.
    pub fn asked(&self, path: &str) -> Vec<Asked> {
        let all = self.log.lock().expect("the log");
        all.iter().filter(|asked| asked.path == path).cloned().collect()
    }

    /// Returns the number of requests so far.
    pub fn count(&self) -> usize {
        self.log.lock().expect("the log").len()
    }

    /// Waits for a request whose path begins so. Returns the first one.
    pub fn await_first(&self, prefix: &str) -> Asked {
        wait_for(&format!("a request for {prefix}…"), || {
            let all = self.log.lock().expect("the log");
            all.iter().find(|asked| asked.path.starts_with(prefix)).cloned()
        })
    }

    /// Waits for this many requests for a path, and returns them.
    pub fn await_asked(&self, path: &str, times: usize) -> Vec<Asked> {
        let what = format!("{times} requests for {path}");
        wait_for_value(&what, || self.asked(path), |asked| asked.len() >= times)
    }
}

impl Asked {
    /// Returns a header by its lower-case name.
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }
}

impl Reply {
    /// A response with the length of its body.
    pub fn with(status: u16, headers: &str, body: impl AsRef<[u8]>) -> Self {
        let body = body.as_ref();
        let length = format!("Content-Length: {}\r\n{headers}", body.len());
        Self::Bytes(response(status, &length, body))
    }

    /// A response with a JSON body.
    pub fn json(headers: &str, body: &dyn Display) -> Self {
        Self::with(200, headers, body.to_string())
    }
}

/// Encodes a response. Each header ends with a line break.
pub fn response(status: u16, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status} So\r\n{headers}\r\n");
    [head.as_bytes(), body].concat()
}

/// Serves until either side closes the connection.
fn serve(client: &TcpStream, log: &Log, answer: &dyn Fn(&Asked) -> Reply) -> Option<()> {
    let mut reader = BufReader::new(client);
    let mut writer = client;
    loop {
        let asked = request(&mut reader, log)?;
        let (bytes, goes_on) = match answer(&asked) {
            Reply::Bytes(bytes) => (bytes, Some(true)),
            Reply::Last(bytes) => (bytes, Some(false)),
            Reply::Never(bytes) => (bytes, None),
        };
        writer.write_all(&bytes).ok()?;
        match goes_on {
            Some(true) => {}
            Some(false) => return None,
            None => {
                // This waits for the end of the connection, or an error. A body may come before it.
                let _ = copy(&mut reader, &mut sink());
                return None;
            }
        }
    }
}

fn request(reader: &mut BufReader<&TcpStream>, log: &Log) -> Option<Asked> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let path = lines.first()?.split(' ').nth(1)?.to_owned();
    let headers = lines.iter().skip(1).filter_map(|line| {
        let (name, value) = line.split_once(':')?;
        Some((name.to_ascii_lowercase(), value.trim().to_owned()))
    });
    let headers = headers.collect();
    let mut all = log.lock().expect("the log");
    let before = all.iter().filter(|asked| asked.path == path).count();
    let asked = Asked { path, headers, at: Instant::now(), before };
    all.push(asked.clone());
    Some(asked)
}

//! Servers of anything: a thread per connection, and a script.

use crate::listen;
use rustls::pki_types::PrivateKeyDer;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// The server's side of one connection.
pub(crate) type Script = Arc<dyn Fn(Peer) -> io::Result<()> + Send + Sync>;

pub(crate) trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

pub(crate) struct Peer {
    pub(crate) socket: Box<dyn Stream>,
    pub(crate) head: String,
    pub(crate) number: usize,
}

pub(crate) fn script(script: impl Fn(Peer) -> io::Result<()> + Send + Sync + 'static) -> Script {
    Arc::new(script)
}

pub(crate) fn serve(script: Script) -> SocketAddr {
    serve_at("127.0.0.1:0", None, script).expect("a free port")
}

/// The same inside TLS, with a certificate for `localhost` that is returned.
pub(crate) fn serve_tls(script: Script) -> (SocketAddr, String) {
    let made =
        rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a usable certificate");
    let key =
        PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a usable certificate");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("a usable certificate")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("a usable certificate");
    let address = serve_at("127.0.0.1:0", Some(Arc::new(config)), script).expect("a free port");
    (address, made.cert.pem())
}

pub(crate) fn serve_at(
    address: &str,
    tls: Option<Arc<ServerConfig>>,
    script: Script,
) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for (number, connection) in listener.incoming().enumerate() {
            let (tls, script) = (tls.clone(), Arc::clone(&script));
            // A client that leaves ends its thread, not the test.
            thread::spawn(move || attend(connection?, tls, number, &script));
        }
        io::Result::Ok(())
    });
    Ok(address)
}

fn attend(
    connection: TcpStream,
    tls: Option<Arc<ServerConfig>>,
    number: usize,
    script: &Script,
) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut socket: Box<dyn Stream> = match tls {
        None => Box::new(connection),
        Some(config) => {
            let session = ServerConnection::new(config).map_err(io::Error::other)?;
            Box::new(StreamOwned::new(session, connection))
        }
    };
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        socket.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    script(Peer { socket, head: String::from_utf8_lossy(&head).into_owned(), number })
}

impl Peer {
    /// A header of the request; empty if there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        listen::header(&self.head, name)
    }

    pub(crate) fn say(&mut self, text: &str) -> io::Result<()> {
        self.socket.write_all(text.as_bytes())?;
        self.socket.flush()
    }

    /// Opens the WebSocket, with more lines of the head.
    pub(crate) fn upgrade(&mut self, more: &str) -> io::Result<()> {
        self.say(&listen::upgraded(&self.head, more))
    }

    /// Opens the WebSocket, and returns each message until the client closes.
    pub(crate) fn echo(&mut self) -> io::Result<()> {
        self.upgrade("")?;
        loop {
            let (first, _, message) = self.read_frame()?;
            if first & 0x0F == 8 {
                return Ok(());
            }
            self.frame(0x81, &message)?;
        }
    }

    /// Sends a frame; `first` is its first byte.
    pub(crate) fn frame(&mut self, first: u8, payload: &[u8]) -> io::Result<()> {
        let length = (payload.len() as u16).to_be_bytes();
        let head = match payload.len() {
            short @ ..126 => vec![first, short as u8],
            _ => vec![first, 126, length[0], length[1]],
        };
        self.socket.write_all(&[&head, payload].concat())?;
        self.socket.flush()
    }

    /// A client's frame: its first byte, its mask and its payload.
    pub(crate) fn read_frame(&mut self) -> io::Result<(u8, [u8; 4], Vec<u8>)> {
        listen::read_frame(&mut self.socket)
    }
}

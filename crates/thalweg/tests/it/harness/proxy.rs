//! A proxy between a client and the server that breaks connections.

use std::io::{ErrorKind, copy};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// A proxy on its own port. Its threads end with the test's process.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    pub(crate) fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("its address");
        let open = Arc::new(Mutex::new(Vec::new()));
        let connections = Arc::clone(&open);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = match TcpStream::connect(server) {
                    Ok(server) => server,
                    Err(error) if error.kind() == ErrorKind::ConnectionRefused => continue,
                    Err(error) => panic!("{error}"),
                };
                let mut open = connections.lock().expect("the connections");
                for socket in [&client, &server] {
                    open.push(socket.try_clone().expect("a handle"));
                }
                pump(&client, &server);
                pump(&server, &client);
            }
        });
        Self { address, open }
    }

    /// Breaks every connection, also inside of a message.
    pub(crate) fn cut(&self) {
        for socket in self.open.lock().expect("the connections").drain(..) {
            // The client may have disconnected already.
            let _ = socket.shutdown(Shutdown::Both);
        }
    }
}

fn pump(from: &TcpStream, to: &TcpStream) {
    let mut from = from.try_clone().expect("a handle");
    let mut to = to.try_clone().expect("a handle");
    thread::spawn(move || {
        let _ = copy(&mut from, &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
}

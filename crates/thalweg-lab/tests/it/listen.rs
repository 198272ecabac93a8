//! What subjects in a test have in common: a thread for each connection, and bodies
//! chunk by chunk.

use std::io::{BufRead, Result};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;

/// Attends to every connection until the process ends. One that ends is the end of its
/// thread, not of the test.
pub(crate) fn listen(
    attend: impl Fn(TcpStream) -> Result<()> + Send + Sync + 'static,
) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let attend = Arc::new(attend);
    thread::spawn(move || {
        for connection in listener.incoming() {
            let attend = Arc::clone(&attend);
            thread::spawn(move || attend(connection?));
        }
        Result::Ok(())
    });
    Ok(address)
}

/// Hands on every line of a body in chunks; the lab sends whole lines in each.
pub(crate) fn lines_in_chunks(reader: &mut impl BufRead, mut take: impl FnMut(&str)) -> Result<()> {
    loop {
        let mut size = String::new();
        reader.read_line(&mut size)?;
        let length = usize::from_str_radix(size.trim(), 16).unwrap_or(0);
        let mut chunk = vec![0; length + 2];
        reader.read_exact(&mut chunk)?;
        if length == 0 {
            return Ok(());
        }
        String::from_utf8_lossy(&chunk[..length]).lines().for_each(&mut take);
    }
}

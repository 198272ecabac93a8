//! Ports that belong to one test while other tests run.

use std::{
    fs::File,
    io,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener},
    os::fd::OwnedFd,
};

use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket};

/// Ports below those that the system assigns.
const RESERVABLE: std::ops::Range<u16> = 14222..14722;

/// A port for a program that cannot choose a free one itself and report it. No other test on this machine gets the port meanwhile.
#[derive(Debug)]
pub struct ReservedPort {
    port: u16,
    /// The locked file of the port.
    _file: File,
}

impl ReservedPort {
    /// Reserves a port on which nobody listens.
    ///
    /// # Panics
    /// If all ports are taken, or no file can be created in the temporary folder.
    #[must_use]
    pub fn new() -> Self {
        let folder = std::env::temp_dir().join("thalweg-ports");
        std::fs::create_dir_all(&folder).expect("make a folder");
        let reserve = |port: u16| {
            let path = folder.join(port.to_string());
            let file = File::options().create(true).append(true).open(path).expect("open a file");
            let is_ours = file.try_lock().is_ok();
            let is_free = || TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
            (is_ours && is_free()).then_some(Self { port, _file: file })
        };
        RESERVABLE.into_iter().find_map(reserve).expect("a free port")
    }

    /// Returns the number of the port.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.port
    }
}

impl Default for ReservedPort {
    fn default() -> Self {
        Self::new()
    }
}

/// An address that refuses connections until this is dropped: its port is bound, and nobody listens there.
#[derive(Debug)]
pub struct RefusingAddress {
    address: SocketAddr,
    _socket: OwnedFd,
}

impl RefusingAddress {
    /// Takes a loopback address.
    ///
    /// # Errors
    /// If the system has no socket or port left.
    pub fn new() -> io::Result<Self> {
        let socket = socket(AddressFamily::INET, SocketType::STREAM, None)?;
        bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
        let address = SocketAddr::try_from(getsockname(&socket)?)?;
        Ok(Self { address, _socket: socket })
    }

    /// Returns the address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::HashSet, io::ErrorKind, net::TcpStream};

    use super::*;

    #[test]
    fn a_reserved_port_is_nobody_elses() {
        let ports: Vec<_> = (0..20).map(|_| ReservedPort::new()).collect();
        let numbers: HashSet<_> = ports.iter().map(ReservedPort::number).collect();
        assert_eq!(numbers.len(), ports.len());
        assert!(ports.iter().all(|port| TcpListener::bind(("127.0.0.1", port.number())).is_ok()));
    }

    #[test]
    fn a_refusing_address_refuses() {
        let refusing = RefusingAddress::new().expect("an address");
        let refused = TcpStream::connect(refusing.address()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        assert!(TcpListener::bind(refusing.address()).is_err());
    }
}

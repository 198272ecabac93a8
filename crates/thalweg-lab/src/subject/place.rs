//! Command and address of a subject: usually on loopback, or in a network namespace with a slow link, e.g. `ip netns exec
//! NAME` and that namespace's address.

use std::ffi::OsStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::ops::Range;
use std::process::Command;

/// Command and address of a subject.
#[derive(Clone, Debug)]
pub struct Place {
    /// Prefix of the subject's command. It must `exec` the subject, so that the started process is the subject.
    pub under: Vec<String>,
    /// Address at which the subject listens.
    pub address: IpAddr,
}

impl Default for Place {
    fn default() -> Self {
        Place { under: Vec::new(), address: Ipv4Addr::LOCALHOST.into() }
    }
}

impl Place {
    /// Returns the beginning of a command that runs `program` at this place.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let Some((first, rest)) = self.under.split_first() else {
            return Command::new(program);
        };
        let mut command = Command::new(first);
        command.args(rest).arg(program);
        command
    }

    /// Returns whether the address is this machine's loopback.
    pub fn is_loopback(&self) -> bool {
        self.address.is_loopback()
    }

    /// Returns an address with a port that was free a moment ago. Another namespace has its own ports, nearly all free.
    pub(super) fn free_address(&self) -> io::Result<SocketAddr> {
        let here = if self.under.is_empty() { self.address } else { Ipv4Addr::LOCALHOST.into() };
        Ok(SocketAddr::new(self.address, free_port(here)?))
    }
}

/// Ports below the ephemeral ports of Linux (`net.ipv4.ip_local_port_range`), so that no outgoing connection
/// takes one before the subject does.
const PORTS: Range<u16> = 20_000..32_000;

/// Returns a port of `PORTS` that was free at this address a moment ago.
pub(super) fn free_port(here: IpAddr) -> io::Result<u16> {
    let mut tried = PORTS.map(|_| fastrand::u16(PORTS));
    let free = tried.find_map(|port| match TcpListener::bind((here, port)) {
        Ok(_) => Some(Ok(port)),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => None,
        Err(error) => Some(Err(error)),
    });
    free.unwrap_or_else(|| Err(io::ErrorKind::AddrInUse.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_runs_under_a_command() {
        let line = |place: &Place| format!("{:?}", place.command("thalweg").arg("serve"));
        assert_eq!(line(&Place::default()), r#""thalweg" "serve""#);
        let under = ["ip", "netns", "exec", "far"].map(str::to_owned).to_vec();
        let far = Place { under, ..Place::default() };
        assert_eq!(line(&far), r#""ip" "netns" "exec" "far" "thalweg" "serve""#);
    }
}

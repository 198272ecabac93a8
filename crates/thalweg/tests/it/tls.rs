//! TLS from outside: versions, cleartext, certificates that change, readers that stop.
//!
//! - `speaking`: versions, protocols, all transports
//! - `handshakes`: incomplete handshakes
//! - `reloading`: another certificate while connections are open
//! - `stopping`: readers that stop
//! - `trusting`: how the client checks certificates

mod handshakes;
mod reloading;
mod speaking;
mod stopping;
mod trusting;

use crate::harness::{Server, TlsClient, ticking, unharmed_over};

const FAILURES: &str = "thalweg_tls_failures_total";

fn secure(arguments: &[&str]) -> Server {
    ticking(&[&["--tls-self-signed"], arguments].concat())
}

/// Returns the result of `attack`, after a bystander over TLS has not noticed it.
fn unharmed<T>(server: &Server, attack: impl FnOnce() -> T) -> T {
    unharmed_over(server, TlsClient::raw(server.address), attack)
}

fn count(server: &Server, name: &str) -> u64 {
    server.count_over(TlsClient::raw(server.address), name)
}

fn has_counted(server: &Server, name: &str, expected: u64) {
    crate::harness::wait_for(&format!("{name} to be {expected}"), || {
        (count(server, name) == expected).then_some(())
    });
}

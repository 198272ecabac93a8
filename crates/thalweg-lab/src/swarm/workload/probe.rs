//! An echo probe: small requests on a separate connection, on a schedule set in advance, beside the load. The time from a request's due
//! time to its answer is the delay of the subject's event loop, plus the swarm's own reading.

use crate::measure::RoundTrips;
use crate::subject::tls;
use crate::swarm::Load;
use crate::swarm::dialer::Dialer;
use crate::swarm::http_client::HttpClient;
use crate::swarm::socket::{Poller, Ready, now_us};

/// Interval of requests. An answer costs a subject about 50 µs: at most 0.1 % of its core, of which a keyed load takes a few percent.
const EVERY_US: u64 = 100_000;
/// Every subject answers this path without work.
const TARGET: &str = "/healthz";

#[derive(Debug)]
pub(super) struct Probe {
    dialer: Dialer,
    /// `None` once the subject has ended the connection, as it may while the load pauses.
    client: Option<HttpClient>,
    request: Vec<u8>,
    key: u64,
    /// Due time of the request that is answered next.
    due_us: u64,
    /// Times from due to answered, since the span began.
    each_us: Vec<u64>,
}

impl Probe {
    /// Connects. The poller will report `key`.
    pub(super) fn open(load: &Load<'_>, key: u64, poller: &Poller) -> anyhow::Result<Probe> {
        let dialer = Dialer::to_subject(load.address, load.settings, tls::HTTP_1)?;
        let request = format!("GET {TARGET} HTTP/1.1\r\nHost: {}\r\n\r\n", dialer.address());
        Ok(Probe {
            client: Some(HttpClient::open(&dialer, key, poller)?),
            dialer,
            request: request.into_bytes(),
            key,
            due_us: now_us(),
            each_us: Vec::new(),
        })
    }

    /// Sends a due request; returns how long to wait then, at most `timeout_us`.
    #[inline]
    pub(super) fn ask(&mut self, timeout_us: u64, poller: &Poller) -> anyhow::Result<u64> {
        let is_waiting = self.client.as_ref().is_some_and(HttpClient::is_waiting);
        if is_waiting {
            return Ok(timeout_us);
        }
        let now_us = now_us();
        if self.due_us > now_us {
            return Ok(timeout_us.min(self.due_us - now_us));
        }
        let client = match &mut self.client {
            Some(client) => client,
            none => none.insert(HttpClient::open(&self.dialer, self.key, poller)?),
        };
        client.send(&self.request, poller)?;
        Ok(timeout_us)
    }

    /// Handles a ready socket, if it is the probe's; returns whether it is.
    pub(super) fn take_ready(&mut self, ready: Ready, poller: &Poller) -> anyhow::Result<bool> {
        if ready.key != self.key {
            return Ok(false);
        }
        let Some(client) = &mut self.client else { return Ok(true) };
        client.flush(poller)?;
        if !ready.readable {
            return Ok(true);
        }
        match client.receive() {
            Ok(Some(_)) => {
                self.each_us.push(now_us().saturating_sub(self.due_us));
                // Requests that fell due meanwhile are sent now, and late from then on.
                self.due_us += EVERY_US;
            }
            Ok(None) => {}
            // The request is sent again on another connection; its time includes this attempt.
            Err(_) => self.client = None,
        }
        Ok(true)
    }

    pub(super) fn begin(&mut self, now_us: u64) {
        self.each_us.clear();
        // Delay caused by the observer's look is not the subject's.
        self.due_us = self.due_us.max(now_us);
    }

    pub(super) fn end(&mut self, span_us: u64) -> Option<RoundTrips> {
        RoundTrips::new(std::mem::take(&mut self.each_us), span_us)
    }
}

//! HTTP on one shard, and one of its connections, as requests see them.

use std::{
    cell::Cell,
    rc::Rc,
    sync::{Arc, atomic::AtomicBool},
};

use tokio::sync::{Mutex, Semaphore};

use super::{
    body::RequestBody, body_permits::BodyPermits, coalescing::SharedBuffer, repolls::Repolls,
    tickets::TicketStore,
};
use crate::{
    access::{AccessPolicy, Allowed, ViewRuns},
    answers::AnswerAccount,
    clock::now_us,
    config::{Config, DISCARDED_BODIES, Limits},
    connection_limits::{Address, ConnectionPermit},
    protocol::{Mount, Sessions},
    refusal::Refusal,
    runs::Runs,
    shard::Handle,
    transport::Certificate,
};

pub(crate) struct Http {
    pub(crate) shard: Rc<Handle>,
    pub(crate) shared: Shared,
    /// The shared send buffer of HTTP/2 connections.
    pub(super) spare: SharedBuffer,
    /// Bounds how many bodies are discarded at a time.
    pub(super) discards: Semaphore,
    /// Locked while a token is verified.
    pub(super) verifying: Mutex<()>,
}

/// The state of HTTP that all shards share.
#[derive(Clone)]
pub(crate) struct Shared {
    /// The access policy of the admin listener, if there is one.
    pub(crate) admin: Option<Arc<AccessPolicy>>,
    /// The certificate, if sockets use TLS. Sockets of the admin listener do not.
    pub(crate) tls: Option<Certificate>,
    /// The lab's runs, if they are shown.
    pub(crate) runs: Option<Arc<Runs>>,
    pub(crate) tickets: Arc<TicketStore>,
    /// Protocols besides Thalweg's own.
    pub(crate) mounts: Arc<[Mount]>,
    /// Connections of these protocols whose clients send in separate requests.
    pub(crate) sessions: Arc<Sessions>,
    /// Permits for reading request bodies. Clients that may publish and all others have separate limits.
    pub(crate) requests_of_publishers: Arc<BodyPermits>,
    pub(crate) requests_of_others: Arc<BodyPermits>,
    pub(crate) shutdown: Arc<ShutdownState>,
}

/// The progress of the server's shutdown, on all shards.
#[derive(Debug, Default)]
pub(crate) struct ShutdownState {
    /// The shutdown is announced: the server is no longer ready, but still serves.
    pub(crate) is_announced: AtomicBool,
    /// New connections are rejected.
    pub(crate) is_closed: AtomicBool,
}

impl Http {
    pub(crate) fn new(shard: Rc<Handle>, shared: Shared) -> Rc<Self> {
        let (spare, discards) = (SharedBuffer::default(), Semaphore::new(DISCARDED_BODIES));
        Rc::new(Self { shard, shared, spare, discards, verifying: Mutex::default() })
    }

    pub(super) fn config(&self) -> &Config {
        &self.shard.common.config
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.config().limits
    }

    pub(super) fn runs(&self, _: &Allowed<ViewRuns>) -> Option<&Arc<Runs>> {
        self.shared.runs.as_ref()
    }

    /// Reads a whole body. Fails like [`RequestBody::whole`].
    pub(super) async fn whole(
        &self,
        body: &mut RequestBody,
        bytes_max: usize,
        too_large: impl Fn() -> Refusal,
    ) -> Result<Vec<u8>, Refusal> {
        body.whole(bytes_max, too_large, self.limits(), &self.shard.counts.body_bytes).await
    }

    pub(super) fn access(&self) -> Arc<AccessPolicy> {
        self.shard.access()
    }
}

pub(super) struct RequestConnection {
    pub(super) permit: ConnectionPermit,
    pub(super) account: Arc<AnswerAccount>,
    /// The address of its client. Through a proxy, each request may have a different address.
    pub(super) address: Cell<Address>,
    pub(super) repolls: Repolls,
    pub(super) opened_us: u64,
    /// Whether the connection ends after its answers. The client should then open another one, which may reach another server.
    pub(super) retired: Rc<Cell<bool>>,
}

impl RequestConnection {
    pub(super) fn new(permit: ConnectionPermit, account: &Arc<AnswerAccount>) -> Self {
        let address = Cell::new(permit.address());
        Self {
            permit,
            account: Arc::clone(account),
            address,
            repolls: Repolls::default(),
            opened_us: now_us(),
            retired: Rc::default(),
        }
    }
}

/// Wakes a connection's task when the shard drains, and when the connection must end. Poll this future once, in that task, to
/// register the waker. Then check the two flags, which are set before the wake-up. Polling it every time would slow every request.
pub(super) async fn notified(http: &Http, account: &AnswerAccount) {
    tokio::join!(http.shard.drain(), account.evicted());
}

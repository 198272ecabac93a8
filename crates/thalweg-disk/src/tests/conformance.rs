//! The suite that any broker must pass.

use std::{
    ops::Range,
    path::PathBuf,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use thalweg_broker::{
    Append, AppendError, BoxFuture, Broker, CompareAndSet, Follower, OFFSET_FIRST, ReadPage,
    ReadRange, Stored, Stream, TicketDigest, TicketError, Tickets, TopicIndex, TopicRange,
    Unreadable,
};
use thalweg_broker_tests::{Rig, conformance};
use thalweg_core::stream::FeedKind;
use thalweg_wire::{Offset, Topic};
use tokio::sync::watch;

use crate::{
    batch::Job,
    broker::Handle,
    disk::{Directory, Disk as _},
    group::scan,
    log::Bounds,
    settings::{Settings, StoreSettings, SyncMode},
    wal::WalFile,
};

/// A log that is opened again while servers use it.
struct DiskRig {
    directory: PathBuf,
    current: watch::Sender<Current>,
}

#[derive(Clone)]
struct Current {
    handle: Option<Arc<Handle<Directory>>>,
    is_cut: bool,
}

/// A server of a log. In a program the log ends with its server.
struct Server {
    current: watch::Receiver<Current>,
    streams: Vec<Stream>,
    next: Mutex<Offset>,
}

fn settings(directory: &std::path::Path) -> Settings {
    let store = |pattern: &str, kind: FeedKind| StoreSettings {
        pattern: pattern.parse().expect("a pattern"),
        kind,
        age: None,
        bytes: None,
        sync: SyncMode::Always,
    };
    Settings {
        directory: directory.to_owned(),
        stores: vec![
            store("log/**", FeedKind::Log),
            store("values/**", FeedKind::Value),
            store("keys/**", FeedKind::Keyed),
        ],
        bytes: None,
        log_bytes: None,
        event_bytes: 1 << 20,
        ticket_life: Some(Duration::from_secs(30)),
    }
}

fn open(directory: &std::path::Path) -> Handle<Directory> {
    let bounds = Bounds {
        wal_bytes: 4 << 20,
        wal_files: 64,
        kept_from: Some(OFFSET_FIRST),
        ..Bounds::default()
    };
    let disk = Directory::open(directory).expect("a directory");
    Handle::open(disk, bounds, &settings(directory)).expect("a log")
}

/// Returns a new directory.
pub(crate) fn temporary() -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = format!("thalweg-disk-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
    std::env::temp_dir().join(name)
}

impl DiskRig {
    fn new() -> Self {
        let directory = temporary();
        let handle = Some(Arc::new(open(&directory)));
        Self { directory, current: watch::Sender::new(Current { handle, is_cut: false }) }
    }

    /// Ends the log without closing it.
    fn crash(&mut self) -> (Vec<String>, Directory) {
        let handle = self.current.send_replace(Current { handle: None, is_cut: false }).handle;
        let mut handle = handle.expect("open");
        handle.log().fail("it has crashed");
        let handle = loop {
            match Arc::try_unwrap(handle) {
                Ok(handle) => break handle,
                Err(shared) => handle = shared,
            }
            std::thread::yield_now();
        };
        drop(handle);
        let disk = Directory::open(&self.directory).expect("the lock is free");
        (disk.list().expect("names"), disk)
    }

    fn reopen(&mut self) {
        let handle = Some(Arc::new(open(&self.directory)));
        self.current.send_replace(Current { handle, is_cut: false });
    }
}

impl Drop for DiskRig {
    fn drop(&mut self) {
        self.current.send_replace(Current { handle: None, is_cut: true });
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

impl Rig for DiskRig {
    type Broker = Server;

    fn open(&self) -> impl Future<Output = Result<Server, String>> + Send + 'static {
        let current = self.current.subscribe();
        async move {
            let handle = current.borrow().handle.clone().ok_or("it is closed")?;
            let (head, starts) = handle.log().with(|shared| {
                let start = |place| shared.store_at(place).map_or(0, |store| store.start);
                (shared.head, [start(0), start(1), start(2)])
            });
            let streams = handle.streams.iter().zip(starts);
            let streams =
                streams.map(|(stream, start)| Stream { from: head.max(start), ..stream.clone() });
            Ok(Server { current, streams: streams.collect(), next: Mutex::new(head) })
        }
    }

    fn restart(&mut self) {
        let (names, disk) = self.crash();
        // Half a group is at the end.
        let last =
            names.iter().filter_map(|name| name.strip_prefix("wal-")?.parse::<u64>().ok()).max();
        let name = WalFile::name_of(last.expect("a file"));
        let bytes = disk.read_at(&name, 0, 4 << 20).expect("a file");
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |at| (at + 64) / 64 * 64);
        disk.write_at(&name, end as u64, &bytes[..40]).expect("written");
        drop(disk);
        self.reopen();
    }

    fn trim(&mut self) {
        let handle = self.current.borrow().handle.clone().expect("open");
        handle.threads.trim();
    }

    fn lose(&mut self, records: Range<Offset>) -> bool {
        let (names, disk) = self.crash();
        for name in names.iter().filter(|name| name.starts_with("wal-")) {
            let length = disk.length(name).expect("a file") as usize;
            let bytes = disk.read_at(name, 0, length).expect("a file");
            let lost = scan(&bytes).into_iter().filter(|(_, head)| records.contains(&head.first));
            for (position, _) in lost {
                disk.write_at(name, position as u64 + 64, b"damage").expect("written");
            }
        }
        drop(disk);
        self.reopen();
        true
    }

    fn renew(&mut self) {
        let (names, disk) = self.crash();
        drop(disk);
        for name in names {
            std::fs::remove_file(self.directory.join(name)).expect("removed");
        }
        self.reopen();
    }

    fn cut(&mut self, is_cut: bool) {
        self.current.send_modify(|current| current.is_cut = is_cut);
    }
}

impl Server {
    fn handle(&self) -> Option<Arc<Handle<Directory>>> {
        let current = self.current.borrow();
        current.handle.clone().filter(|_| !current.is_cut)
    }

    async fn append(&self, append: Append, newest: Option<Offset>) -> Result<Stored, AppendError> {
        let handle = self.handle().ok_or(AppendError::Unavailable)?;
        handle.append(append, newest).await
    }

    async fn read(&self, range: ReadRange, is_newest: bool) -> Result<ReadPage, Unreadable> {
        self.handle().ok_or(Unreadable)?.read(range, is_newest).await
    }

    /// Follows one log, and returns the next offset when it has ended.
    async fn follow_log<F: Follower>(&self, handle: &Handle<Directory>, follower: &F) {
        let next = *self.next.lock().expect("no panic");
        let mut cursor = handle.cursor(next, &self.streams);
        let mut current = self.current.clone();
        let is_over = |current: &Current| current.handle.is_none() || current.is_cut;
        tokio::select! {
            _ = cursor.follow(follower) => {}
            _ = current.wait_for(is_over) => {}
        }
        *self.next.lock().expect("no panic") = cursor.next;
    }
}

impl Broker for Server {
    fn streams(&self) -> Vec<Stream> {
        self.streams.clone()
    }

    async fn append(&self, append: Append) -> Result<Stored, AppendError> {
        self.append(append, None).await
    }

    async fn read(&self, range: ReadRange) -> Result<ReadPage, Unreadable> {
        self.read(range, false).await
    }

    async fn newest(&self, range: ReadRange) -> Result<ReadPage, Unreadable> {
        self.read(range, true).await
    }

    async fn follow<F: Follower>(&self, follower: F) -> String {
        let mut current = self.current.clone();
        let mut epoch = self.streams[0].epoch;
        loop {
            match self.handle() {
                Some(handle) => {
                    if handle.streams[0].epoch != epoch {
                        epoch = handle.streams[0].epoch;
                        *self.next.lock().expect("no panic") = OFFSET_FIRST;
                        for (number, stream) in handle.streams.iter().enumerate() {
                            follower.restarted(number, stream.epoch, OFFSET_FIRST).await;
                        }
                    }
                    self.follow_log(&handle, &follower).await;
                }
                None => {
                    follower.set_ready(false);
                    if current.changed().await.is_err() {
                        return "the rig has ended".to_owned();
                    }
                }
            }
        }
    }

    fn compare_and_set(&self) -> Option<&dyn CompareAndSet> {
        Some(self)
    }

    fn topic_index(&self) -> Option<&dyn TopicIndex> {
        Some(self)
    }

    fn tickets(&self) -> Option<&dyn Tickets> {
        Some(self)
    }
}

impl TopicIndex for Server {
    fn topics(&self, range: TopicRange) -> BoxFuture<'_, Result<Vec<Topic>, Unreadable>> {
        Box::pin(async move { self.handle().ok_or(Unreadable)?.topics(range).await })
    }
}

impl CompareAndSet for Server {
    fn append_after(
        &self,
        append: Append,
        newest: Offset,
    ) -> BoxFuture<'_, Result<Stored, AppendError>> {
        Box::pin(self.append(append, Some(newest)))
    }
}

impl Tickets for Server {
    fn keep(&self, ticket: TicketDigest, holder: String) -> BoxFuture<'_, Result<(), TicketError>> {
        Box::pin(async move {
            self.handle().ok_or(TicketError::Unavailable)?.keep(ticket, holder).await
        })
    }

    fn redeem(&self, ticket: TicketDigest) -> BoxFuture<'_, Result<Option<String>, TicketError>> {
        Box::pin(async move {
            let handle = self.handle().ok_or(TicketError::Unavailable)?;
            handle.ticket(Job::Redeem(ticket.to_string())).await
        })
    }
}

conformance!(|| Some(DiskRig::new()));

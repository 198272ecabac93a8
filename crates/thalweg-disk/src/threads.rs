//! The threads of a log: the committer's and the keeper's.

use std::{
    collections::VecDeque,
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{Builder, JoinHandle},
    time::{Duration, SystemTime},
};

use tokio::sync::oneshot;

use crate::{
    batch::{Job, Outcome, Request},
    commit::{Committed, Committer},
    disk::Disk,
    keeper::Keeper,
    log::Log,
    recovery::Opened,
};

/// The time after which the keeper looks for old records, and tries again what failed.
const KEEPER_INTERVAL: Duration = Duration::from_secs(1);

/// How long an append waits for room before it is refused.
const ROOM_WAIT: Duration = Duration::from_secs(10);

/// How often the committer looks whether a request has waited too long for room.
const ROOM_INTERVAL: Duration = Duration::from_millis(200);

/// The longest wait of a committer that has nothing to do.
const IDLE: Duration = Duration::from_secs(3600);

/// Returns the time in ms since 1970.
fn now_ms() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default().as_millis() as u64
}

/// A log and its threads. Dropping it ends them, after what was asked for is done.
#[derive(Debug)]
pub(crate) struct Threads<D: Disk> {
    link: Arc<Link<D>>,
    committer: Option<JoinHandle<()>>,
    keeper: Option<JoinHandle<()>>,
}

/// The queue of requests, and the signals between threads.
#[derive(Debug)]
struct Link<D: Disk> {
    log: Arc<Log<D>>,
    requests: Mutex<Requests>,
    /// Signals the committer: a request, or room.
    work: Condvar,
    keeper: Mutex<Keeper<D>>,
    keeping: Mutex<Keeping>,
    /// Signals the keeper.
    keep: Condvar,
}

#[derive(Debug, Default)]
struct Requests {
    queue: VecDeque<Request>,
    is_closed: bool,
}

#[derive(Debug, Default)]
struct Keeping {
    is_due: bool,
    is_closed: bool,
}

/// Ends the log if its thread panics: otherwise requests would wait forever.
struct EndOnPanic<D: Disk>(Arc<Link<D>>);

impl<D: Disk> Drop for EndOnPanic<D> {
    fn drop(&mut self) {
        let has_panicked = std::thread::panicking();
        if has_panicked || self.0.log.with(|shared| shared.failed.is_some()) {
            // Dropped requests are answered "unknown".
            let mut requests = lock(&self.0.requests);
            requests.is_closed = true;
            requests.queue.clear();
        }
        if has_panicked {
            self.0.log.fail("a thread of the log on disk has panicked: please report this");
        }
        // The other thread ends, too.
        self.0.work.notify_one();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<D: Disk> Threads<D> {
    /// Starts the threads of a log. `sync_interval`: the time after which records of stores that do not wait for the disk are
    /// durable; `None` if nobody wants that.
    pub(crate) fn start(opened: Opened<D>, sync_interval: Option<Duration>) -> io::Result<Self> {
        let Opened { log, committer, keeper } = opened;
        let link = Arc::new(Link {
            log,
            requests: Mutex::default(),
            work: Condvar::new(),
            keeper: Mutex::new(keeper),
            keeping: Mutex::default(),
            keep: Condvar::new(),
        });
        let mut threads = Self { link: Arc::clone(&link), committer: None, keeper: None };
        let of_keeper = Arc::clone(&link);
        let run = move || run_keeper(&of_keeper);
        threads.keeper = Some(Builder::new().name("disk-keeper".into()).spawn(run)?);
        let run = move || run_committer(&link, committer, sync_interval);
        threads.committer = Some(Builder::new().name("disk-committer".into()).spawn(run)?);
        Ok(threads)
    }

    pub(crate) fn log(&self) -> &Arc<Log<D>> {
        &self.link.log
    }

    /// Queues a request. `waited`: how long its publisher has waited. The answer is dropped if the log has ended.
    pub(crate) fn request(&self, job: Job, waited: Duration) -> oneshot::Receiver<Outcome> {
        let (reply, answer) = oneshot::channel();
        let room_wait = ROOM_WAIT.saturating_sub(waited).as_millis() as u64;
        let request = Request { job, reply, until_ms: now_ms() + room_wait };
        let mut requests = lock(&self.link.requests);
        if !requests.is_closed {
            requests.queue.push_back(request);
            self.link.work.notify_one();
        }
        answer
    }

    /// Deletes all records but those of value topics.
    #[cfg(test)]
    pub(crate) fn trim(&self) {
        lock(&self.link.keeper).trim();
        self.log().changes.send_replace(());
    }

    /// Returns whether the log has ended, so that no request is taken any more.
    pub(crate) fn is_closed(&self) -> bool {
        lock(&self.link.requests).is_closed
    }
}

impl<D: Disk> Drop for Threads<D> {
    fn drop(&mut self) {
        lock(&self.link.requests).is_closed = true;
        self.link.work.notify_one();
        // A panic was reported by its thread.
        let _ = self.committer.take().map(JoinHandle::join);
        lock(&self.link.keeping).is_closed = true;
        self.link.keep.notify_one();
        let _ = self.keeper.take().map(JoinHandle::join);
    }
}

fn run_committer<D: Disk>(
    link: &Arc<Link<D>>,
    mut committer: Committer<D>,
    sync_interval: Option<Duration>,
) {
    let _end = EndOnPanic(Arc::clone(link));
    let mut queue = VecDeque::new();
    let mut committed = Committed::Idle;
    loop {
        let due = committer
            .unsynced()
            .zip(sync_interval)
            .map(|(since, interval)| interval.saturating_sub(since.elapsed()));
        if due.is_some_and(|due| due.is_zero()) {
            committer.sync_all();
            if link.log.with(|shared| shared.failed.is_some()) {
                break;
            }
            continue;
        }
        let most = match committed {
            Committed::NoRoom => ROOM_INTERVAL,
            Committed::Idle | Committed::Some => due.unwrap_or(IDLE),
        };
        let mut requests = lock(&link.requests);
        let must_wait = |requests: &mut Requests| {
            requests.queue.is_empty() && committed != Committed::Some && !requests.is_closed
        };
        if committed == Committed::NoRoom {
            if link.log.with(|shared| !shared.ready.is_empty()) {
                committed = Committed::Some;
                drop(requests);
                continue;
            }
            requests =
                link.work.wait_timeout(requests, most).unwrap_or_else(PoisonError::into_inner).0;
        } else {
            let waited = link.work.wait_timeout_while(requests, most, must_wait);
            requests = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        queue.append(&mut requests.queue);
        let is_closed = requests.is_closed;
        drop(requests);
        committed = committer.commit(&mut queue, now_ms());
        let needs_file = link.log.with(|shared| shared.ready.is_empty());
        if needs_file {
            link.wake_keeper();
        }
        if committed == Committed::NoRoom {
            committer.refuse(&mut queue, now_ms());
        }
        let has_failed = link.log.with(|shared| shared.failed.is_some());
        if has_failed || (is_closed && committed != Committed::Some) {
            break;
        }
    }
    committer.sync_all();
}

fn run_keeper<D: Disk>(link: &Arc<Link<D>>) {
    let _end = EndOnPanic(Arc::clone(link));
    loop {
        // A step may be a slice of a long merge.
        while lock(&link.keeper).step(now_ms()) && !lock(&link.keeping).is_closed {
            link.work.notify_one();
        }
        link.work.notify_one();
        // A committer that waits for room must not make it try again at once.
        let has_failed = lock(&link.keeper).has_failed;
        let keeping = lock(&link.keeping);
        let must_wait =
            |keeping: &mut Keeping| (!keeping.is_due || has_failed) && !keeping.is_closed;
        let waited = link.keep.wait_timeout_while(keeping, KEEPER_INTERVAL, must_wait);
        let mut keeping = waited.unwrap_or_else(PoisonError::into_inner).0;
        keeping.is_due = false;
        if keeping.is_closed {
            break;
        }
    }
    lock(&link.keeper).close();
}

impl<D: Disk> Link<D> {
    fn wake_keeper(&self) {
        lock(&self.keeping).is_due = true;
        self.keep.notify_one();
    }
}

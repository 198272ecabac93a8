//! Delivers the records of the write-ahead log to a server, group by group.

use std::{io, sync::Arc, time::Duration};

use thalweg_broker::{Delivery, Follower};
use thalweg_wire::{Epoch, Offset};

use crate::{
    counts::Counts,
    disk::{self, Disk, damaged},
    group::{GROUP_HEAD, GroupHead},
    log::{Log, Shared},
    run::each_record,
    wal::{Group, WalFile},
};

/// The number of undelivered offsets, in more than one group, from which on a server is behind.
const BEHIND_OFFSETS: u64 = 64;

/// The time after which a read is tried again that failed for a reason that passes.
const RETRY: Duration = Duration::from_millis(100);

/// A server's place in the log. The log keeps the records after it.
pub(crate) struct FollowCursor<D: Disk> {
    log: Arc<Log<D>>,
    number: u64,
    pub(crate) next: Offset,
    /// The epoch and the start of each store that the server knows, by its place.
    pub(crate) known: Vec<(Epoch, Offset)>,
}

impl<D: Disk> Drop for FollowCursor<D> {
    fn drop(&mut self) {
        self.log.with(|shared| shared.followers.remove(&self.number));
    }
}

/// The next call to a follower.
enum FollowStep {
    Failed(String),
    /// Records of a store were deleted before they were delivered.
    Restarted(usize, Epoch, Offset),
    /// Records up to an offset are gone.
    Lost(Offset),
    /// Read this group of a file.
    Read(u64, Group),
    CaughtUp,
}

impl<D: Disk> FollowCursor<D> {
    /// Begins to follow from an offset on. The server knows the epochs and starts of `known`.
    pub(crate) fn new(log: &Arc<Log<D>>, next: Offset, known: Vec<(Epoch, Offset)>) -> Self {
        let number = log.with(|shared| {
            let number = shared.followers.keys().max().map_or(0, |number| number + 1);
            shared.followers.insert(number, next);
            number
        });
        Self { log: Arc::clone(log), number, next, known }
    }

    /// Delivers records until the log fails, and returns the reason.
    pub(crate) async fn follow<F: Follower>(&mut self, follower: &F) -> String {
        let mut changes = self.log.changes.subscribe();
        loop {
            changes.borrow_and_update();
            let log = Arc::clone(&self.log);
            match log.with(|shared| self.step(shared)) {
                FollowStep::Failed(reason) => return reason,
                FollowStep::Restarted(place, epoch, from) => {
                    follower.restarted(place, epoch, from).await;
                }
                FollowStep::Lost(from) => {
                    for (place, (epoch, _)) in self.known.iter().enumerate() {
                        follower.restarted(place, *epoch, from).await;
                    }
                    self.next = from;
                }
                FollowStep::Read(generation, group) => self.read(follower, generation, group).await,
                FollowStep::CaughtUp => {
                    follower.set_ready(true);
                    // `self` holds the sender, so the wait cannot fail.
                    let _ = changes.changed().await;
                }
            }
        }
    }

    fn step(&mut self, shared: &mut Shared) -> FollowStep {
        if let Some(reason) = &shared.failed {
            return FollowStep::Failed(reason.clone());
        }
        for (place, known) in self.known.iter_mut().enumerate() {
            let Some(store) = shared.store_at(place) else { continue };
            let has_missed = store.start > known.1 && store.start > self.next;
            *known = (store.epoch, store.start);
            if has_missed {
                return FollowStep::Restarted(place, store.epoch, store.start);
            }
        }
        if self.next < shared.freed {
            return FollowStep::Lost(shared.freed);
        }
        shared.followers.insert(self.number, self.next);
        let file = shared.wal.iter().find(|file| file.end().is_some_and(|end| end > self.next));
        let Some(file) = file else { return FollowStep::CaughtUp };
        let group = file.groups.partition_point(|group| group.end <= self.next);
        FollowStep::Read(file.generation, file.groups[group])
    }

    async fn read<F: Follower>(&mut self, follower: &F, generation: u64, group: Group) {
        let read = self.read_group(generation, group);
        let (head, deliveries) = match read.and_then(|bytes| self.deliveries(&bytes)) {
            Ok(read) => read,
            Err(error) if disk::is_damage(&error) || error.kind() == io::ErrorKind::NotFound => {
                self.log.warn("events were lost before they were delivered", Some(&error));
                Counts::add(&self.log.counts.damaged, 1);
                for (place, (epoch, _)) in self.known.iter().enumerate() {
                    follower.restarted(place, *epoch, group.end).await;
                }
                self.next = group.end;
                return;
            }
            Err(error) => {
                self.log.warn("it cannot be read now", Some(&error));
                follower.set_ready(false);
                tokio::time::sleep(RETRY).await;
                return;
            }
        };
        for delivery in deliveries {
            let end = delivery.end();
            // A single large group is no reason to take a server out of service.
            if group.end < head && head.saturating_sub(end) >= BEHIND_OFFSETS {
                follower.set_ready(false);
            }
            follower.deliver(delivery).await;
            self.next = end;
        }
        self.next = group.end;
    }

    /// Returns the head of the log and the deliveries of a group. A record that this version does not know is damage.
    fn deliveries(&self, bytes: &[u8]) -> io::Result<(Offset, Vec<Delivery>)> {
        let (head, places) = self.log.with(|shared| {
            let places =
                shared.state.stores.iter().map(|store| (store.id, store.place, store.start));
            (shared.head, places.collect::<Vec<_>>())
        });
        let mut deliveries = Vec::new();
        each_record(&bytes[GROUP_HEAD..], |record, _| {
            let known = places.iter().find(|(id, ..)| *id == record.store);
            let Some((_, Some(stream), start)) = known.copied() else { return Ok(()) };
            let is_new = record.first >= self.next && record.first >= start;
            if let (true, Some(topic), Some(content)) = (is_new, record.topic(), record.content()) {
                deliveries.push(Delivery { stream, first: record.first, topic, content });
            }
            Ok::<_, io::Error>(())
        })?;
        Ok((head, deliveries))
    }

    fn read_group(&self, generation: u64, group: Group) -> io::Result<Vec<u8>> {
        let name = WalFile::name_of(generation);
        let bytes = self.log.disk.read_at(&name, group.position.into(), group.length as usize)?;
        let head = GroupHead::parse(&bytes).ok_or_else(damaged)?;
        match head.end == group.end && head.generation == generation {
            true => Ok(bytes),
            false => Err(damaged()),
        }
    }
}

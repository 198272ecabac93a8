use std::collections::BTreeMap;

use fastrand::Rng;
use thalweg_wire::{Epoch, Position, StartAt};

use super::{conditions::magnitude, oracle::Received, published::Published};

pub(super) struct Acks {
    manner: Manner,
    /// Read and not acked, by topic.
    due: Vec<(usize, Position)>,
    /// The newest that was read of each topic.
    newest: BTreeMap<usize, Position>,
    /// Whether only these are acked.
    is_newest_only: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    Prompt,
    /// From time to time, only the newest or all.
    Late,
    /// In any order.
    Jumbled,
    /// With other epochs and future positions, too.
    Wild,
    Never,
}

impl Acks {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        use Manner::{Jumbled, Late, Never, Prompt, Wild};
        let manner = [Prompt, Late, Jumbled, Wild, Never][rng.usize(0..5)];
        Self { manner, due: Vec::new(), newest: BTreeMap::new(), is_newest_only: false }
    }

    pub(super) fn relax(&mut self) {
        self.manner = Manner::Prompt;
        self.is_newest_only = true;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    pub(super) fn remember(&mut self, received: &[Received]) {
        for Received { topic, resume_at, .. } in received {
            if let StartAt::After(position) = resume_at {
                self.due.push((*topic, *position));
                self.newest.insert(*topic, *position);
            }
        }
    }

    pub(super) fn take(
        &mut self,
        published: &[Published],
        rng: &mut Rng,
    ) -> Vec<(usize, Position)> {
        let now_and_then = rng.u8(0..6) == 0;
        if self.is_newest_only && !std::mem::take(&mut self.due).is_empty() {
            return self.newest.iter().map(|(topic, position)| (*topic, *position)).collect();
        }
        match self.manner {
            Manner::Prompt => std::mem::take(&mut self.due),
            Manner::Late if now_and_then && rng.bool() => std::mem::take(&mut self.due),
            Manner::Late if now_and_then => self.due.pop().into_iter().collect(),
            Manner::Jumbled if !self.due.is_empty() && rng.bool() => {
                vec![self.due.swap_remove(rng.usize(0..self.due.len()))]
            }
            Manner::Wild => {
                let topic = rng.usize(0..published.len());
                let Published { epoch, .. } = published[topic];
                let other = Epoch::new(epoch.get() ^ 1).unwrap_or(epoch);
                let offset = match rng.u8(0..8) {
                    0 => published[topic].end() + magnitude(rng, 100) as u64,
                    1 => thalweg_wire::limits::OFFSET_MAX,
                    2 => 0,
                    _ => return if rng.bool() { std::mem::take(&mut self.due) } else { vec![] },
                };
                vec![(topic, Position { epoch: [epoch, other][rng.usize(0..2)], offset })]
            }
            Manner::Late | Manner::Jumbled | Manner::Never => Vec::new(),
        }
    }
}

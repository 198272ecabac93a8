use std::{
    borrow::Cow,
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use thalweg_wire::Offset;

/// Maximum number of patches in a chain. A subscriber that is further behind gets the document.
const PATCHES_MAX: usize = 32;

/// A patch from one version to the next.
#[derive(Debug)]
pub struct VersionPatch {
    /// The offset of the version before.
    pub previous: Offset,
    /// The offset of the version.
    pub offset: Offset,
    /// The operations of a JSON Patch, joined by commas.
    pub operations: Box<[u8]>,
}

/// The patches that lead to one version, each from the version before. Together they are smaller than the version's document.
#[derive(Debug, Default, Clone)]
pub(super) struct Patches {
    all: VecDeque<Arc<VersionPatch>>,
    bytes: usize,
}

impl Patches {
    /// Adds a version of `document_bytes` after `previous`. Without a patch from `previous`, the chain begins again.
    pub(super) fn push(
        &mut self,
        patch: Option<&Arc<VersionPatch>>,
        previous: Offset,
        document_bytes: usize,
    ) {
        match patch.filter(|patch| patch.previous == previous) {
            Some(patch) => {
                self.bytes += patch.operations.len();
                self.all.push_back(Arc::clone(patch));
            }
            None => *self = Self::default(),
        }
        while self.all.len() > PATCHES_MAX || self.bytes > document_bytes {
            let Some(oldest) = self.all.pop_front() else { return };
            self.bytes -= oldest.operations.len();
        }
    }

    pub(super) fn begin_at(&self, previous: Offset) -> bool {
        self.from(previous).next().is_some()
    }

    pub(super) fn bytes_from(&self, previous: Offset) -> usize {
        self.from(previous).map(|patch| patch.operations.len()).sum()
    }

    /// Returns the operations that lead from one version to another, joined by commas.
    pub(super) fn joined(&self, previous: Offset, offset: Offset) -> Option<Cow<'_, [u8]>> {
        let mut patches = self.from(previous).take_while(|patch| patch.offset <= offset);
        let first = patches.next()?;
        if first.offset == offset {
            return Some(Cow::Borrowed(&first.operations));
        }
        let mut joined = first.operations.to_vec();
        let mut last = first.offset;
        for patch in patches {
            if !joined.is_empty() && !patch.operations.is_empty() {
                joined.push(b',');
            }
            joined.extend_from_slice(&patch.operations);
            last = patch.offset;
        }
        (last == offset).then_some(Cow::Owned(joined))
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn from(&self, previous: Offset) -> impl Iterator<Item = &VersionPatch> {
        let at = self.all.iter().rposition(|patch| patch.previous == previous);
        self.all.range(at.unwrap_or(self.all.len())..).map(|patch| &**patch)
    }
}

/// Patches that led to a version when it was the newest. They outlive the chain while frames made from them are partly sent.
#[derive(Debug, Default)]
pub(super) struct PatchPins(BTreeMap<Offset, PatchPin>);

#[derive(Debug)]
struct PatchPin {
    patches: Patches,
    holders: u32,
}

impl PatchPins {
    pub(super) fn pin(&mut self, offset: Offset, patches: &Patches) {
        let make = || PatchPin { patches: patches.clone(), holders: 0 };
        self.0.entry(offset).or_insert_with(make).holders += 1;
    }

    pub(super) fn unpin(&mut self, offset: Offset) {
        let Some(pin) = self.0.get_mut(&offset) else { return };
        pin.holders -= 1;
        if pin.holders == 0 {
            self.0.remove(&offset);
        }
    }

    pub(super) fn find(&self, offset: Offset) -> Option<&Patches> {
        self.0.get(&offset).map(|pin| &pin.patches)
    }

    /// Returns the memory for versions before this one, in bytes.
    pub(super) fn bytes_before(&self, newest: Offset) -> usize {
        self.0.range(..newest).map(|(_, pin)| pin.patches.bytes).sum()
    }
}

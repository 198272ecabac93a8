//! The oldest records that stores keep. Pure.

use thalweg_wire::Offset;

use crate::state::StoreState;

/// Returns the numbers of the stores that lose records at `now_ms`, and their new starts. `groups` are the ends and times of groups
/// that are not in runs. `bytes_max`: the most bytes of the runs of all log stores.
pub(crate) fn starts(
    stores: &[StoreState],
    groups: &[(Offset, u64)],
    now_ms: u64,
    bytes_max: Option<u64>,
) -> Vec<(u16, Offset)> {
    let mut starts: Vec<Offset> =
        stores.iter().map(|store| start_of(store, groups, now_ms)).collect();
    let mut runs = Vec::new();
    for (nth, store) in stores.iter().enumerate().filter(|(_, store)| !store.kind.is_state()) {
        let kept = store.runs.iter().filter(|run| run.end > starts[nth]);
        runs.extend(kept.map(|run| (run.end, run.bytes(), nth)));
    }
    // All stores share offsets, so the lowest ones are the oldest.
    runs.sort_unstable();
    let mut bytes: u64 = runs.iter().map(|(_, bytes, _)| bytes).sum();
    for (end, of_run, nth) in runs {
        if bytes_max.is_none_or(|bytes_max| bytes <= bytes_max) {
            break;
        }
        bytes -= of_run;
        starts[nth] = end;
    }
    let changed = stores.iter().zip(starts).filter(|(store, start)| *start > store.start);
    changed.map(|(store, start)| (store.id, start)).collect()
}

/// Returns where a store begins after retention at `now_ms`. `groups` are the ends and times of groups that are not in runs.
fn start_of(store: &StoreState, groups: &[(Offset, u64)], now_ms: u64) -> Offset {
    if store.kind.is_state() {
        return store.start;
    }
    let oldest_ms = store.age_ms.map(|age_ms| now_ms.saturating_sub(age_ms));
    let is_old = |time_ms: u64| oldest_ms.is_some_and(|oldest_ms| time_ms < oldest_ms);
    let (mut start, mut bytes) = (store.start, store.run_bytes());
    let mut are_old = true;
    for run in &store.runs {
        are_old = is_old(run.newest_ms);
        if !are_old && store.bytes.is_none_or(|most| bytes <= most) {
            break;
        }
        bytes -= run.bytes();
        start = start.max(run.end);
    }
    if are_old {
        let old = groups.iter().take_while(|(_, time_ms)| is_old(*time_ms)).last();
        start = start.max(old.map_or(0, |(end, _)| *end));
    }
    start
}

//! The filters of keys that the subscriptions of a shard have.

use std::{collections::HashMap, sync::Arc};

use thalweg_wire::KeyFilter;

use crate::{
    config::{FILTERS_BYTES_MAX, FILTERS_SHARE},
    connection_limits::Address,
};

/// The filters in use. Subscriptions with equal filters share one.
#[derive(Debug, Default)]
pub(in crate::shard) struct KeyFilters {
    /// Each filter, and the address that it counts for: that of its first subscription.
    all: HashMap<Arc<KeyFilter>, Option<Address>>,
    bytes: usize,
    bytes_of: HashMap<Address, usize>,
    /// The number of filters at which unused ones are dropped.
    crowded: usize,
    /// When unused filters may be dropped next because there is no room, in µs.
    next_sweep_us: u64,
}

/// The least number of filters at which unused ones are dropped.
const CROWDED_MIN: usize = 64;

/// The minimum time between two searches for unused filters because there is no room, in µs.
const SWEEP_US: u64 = 1_000_000;

/// The same for each filter that the last search looked at, in µs. An address may ask for more than its share all the time, so searches
/// must take a small part of the time.
const SWEEP_US_PER_FILTER: u64 = 20;

impl KeyFilters {
    /// Returns the filter that equal subscriptions share. `None` if there is no room for another one of this address, or of all.
    pub(in crate::shard) fn share(
        &mut self,
        filter: &Arc<KeyFilter>,
        address: Option<Address>,
        now_us: u64,
    ) -> Option<Arc<KeyFilter>> {
        if let Some((shared, _)) = self.all.get_key_value(filter) {
            return Some(Arc::clone(shared));
        }
        let bytes = filter.memory_bytes();
        if self.all.len() >= self.crowded.max(CROWDED_MIN)
            || !self.has_room(bytes, address) && now_us >= self.next_sweep_us
        {
            self.drop_unused(now_us);
        }
        if !self.has_room(bytes, address) {
            return None;
        }
        self.add(bytes, address);
        self.all.insert(Arc::clone(filter), address);
        Some(Arc::clone(filter))
    }

    fn has_room(&self, bytes: usize, address: Option<Address>) -> bool {
        let of_address = address.and_then(|address| self.bytes_of.get(&address)).copied();
        self.bytes + bytes <= FILTERS_BYTES_MAX
            && (address.is_none()
                || of_address.unwrap_or(0) + bytes <= FILTERS_BYTES_MAX / FILTERS_SHARE)
    }

    fn add(&mut self, bytes: usize, address: Option<Address>) {
        self.bytes += bytes;
        if let Some(address) = address {
            *self.bytes_of.entry(address).or_default() += bytes;
        }
    }

    fn drop_unused(&mut self, now_us: u64) {
        self.next_sweep_us = now_us + SWEEP_US.max(self.all.len() as u64 * SWEEP_US_PER_FILTER);
        self.all.retain(|filter, _| Arc::strong_count(filter) > 1);
        self.bytes = 0;
        self.bytes_of.clear();
        let used: Vec<_> =
            self.all.iter().map(|(filter, of)| (filter.memory_bytes(), *of)).collect();
        used.into_iter().for_each(|(bytes, address)| self.add(bytes, address));
        // A search looks at all filters, so the next one waits until there are twice as many.
        self.crowded = 2 * self.all.len();
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    fn filter(key: &str) -> Arc<KeyFilter> {
        Arc::new(KeyFilter::new(&[key], None).expect("valid").expect("not empty"))
    }

    #[test]
    fn equal_filters_are_one_and_unused_ones_are_dropped() {
        let mut filters = KeyFilters::default();
        let own = filters.share(&filter("own"), None, 1).expect("room");
        assert!(Arc::ptr_eq(&own, &filters.share(&filter("own"), None, 1).expect("room")));
        for number in 0..10_000 {
            assert!(filters.share(&filter(&number.to_string()), None, 1).is_some());
            assert!(filters.all.len() <= CROWDED_MIN + 1);
        }
        assert!(filters.all.contains_key(&own));
    }

    #[test]
    fn filters_in_use_have_a_limit() {
        let mut filters = KeyFilters::default();
        let long = |number: usize| filter(&format!("{number:0>256}"));
        let mut used: Vec<_> =
            (0..).map_while(|number| filters.share(&long(number), None, 1)).collect();
        assert!(filters.bytes <= FILTERS_BYTES_MAX && filters.bytes > FILTERS_BYTES_MAX - 1024);
        assert!(filters.share(&used[7], None, 1).is_some(), "one in use needs no room");
        let mut looks = 0;
        for second in 1..=20 {
            let due_us = filters.next_sweep_us;
            assert!(filters.share(&long(usize::MAX), None, second * SWEEP_US).is_none());
            looks += if filters.next_sweep_us > due_us { used.len() as u64 } else { 0 };
        }
        assert!(looks > 0 && looks * SWEEP_US_PER_FILTER <= 21 * SWEEP_US, "{looks} filters");
        used.truncate(10);
        let due_us = filters.next_sweep_us;
        assert!(filters.share(&long(usize::MAX), None, due_us - 1).is_none());
        assert!(filters.share(&long(usize::MAX), None, due_us).is_some());
        assert_eq!(filters.all.len(), 11);
    }

    #[test]
    fn one_address_leaves_room_for_others() {
        let mut filters = KeyFilters::default();
        let [one, other] =
            [[192, 0, 2, 1], [192, 0, 2, 2]].map(|ip| Some(Address::from_ip(IpAddr::from(ip))));
        let long = |number: usize| filter(&format!("{number:0>256}"));
        let used: Vec<_> = (0..).map_while(|number| filters.share(&long(number), one, 1)).collect();
        assert!(filters.bytes <= FILTERS_BYTES_MAX / FILTERS_SHARE);
        assert!(filters.share(&filter("own"), other, 1).is_some());
        assert!(filters.share(&used[0], other, 1).is_some(), "it counts for the first address");
        drop(used);
        assert!(filters.share(&filter("another"), one, 2 + SWEEP_US).is_some());
    }
}

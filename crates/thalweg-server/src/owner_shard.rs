//! Maps each topic to its owner shard.

use thalweg_wire::Topic;

/// Returns the topic's owner shard, which assigns its offsets and seals its batches. The result
/// is the same on every shard and machine and in every release. It is not secret: a publisher can
/// choose topics that all have the same owner shard, whose limits bound what this costs.
pub(crate) fn owner_shard(topic: &Topic, shards: usize) -> usize {
    if shards == 1 {
        return 0;
    }
    owner_shard_of_hash(hash_of(topic), shards)
}

pub(crate) fn hash_of(topic: &Topic) -> u64 {
    mix(fnv1a(topic.as_str().as_bytes()))
}

pub(crate) fn owner_shard_of_hash(hash: u64, shards: usize) -> usize {
    (hash % shards as u64) as usize
}

/// Returns the FNV-1a hash of 64 bits, as its authors publish it (Fowler, Noll, Vo:
/// <http://www.isthe.com/chongo/tech/comp/fnv/>). Names are short, and few are hashed.
fn fnv1a(bytes: &[u8]) -> u64 {
    const OFFSET_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(PRIME);
    bytes.iter().fold(OFFSET_BASIS, step)
}

/// Mixes a hash with `fmix64` of MurmurHash3 (Austin Appleby, public domain): every bit depends
/// on every other. Without it the lowest bits depend on the lowest bits of the name's characters
/// alone, and with two shards all names like `7/7` have the same owner shard.
fn mix(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_equals_the_published_values() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn owner_shards_stay_the_same() {
        let check = |topic: &str, owners: [usize; 4]| {
            let topic = topic.parse().unwrap();
            assert_eq!([2, 3, 4, 64].map(|shards| owner_shard(&topic, shards)), owners, "{topic}");
            assert_eq!(owner_shard(&topic, 1), 0);
        };
        check("a", [1, 2, 3, 27]);
        check("b", [0, 1, 0, 16]);
        check("cars", [0, 2, 2, 14]);
        check("cars/max-speed", [0, 2, 2, 6]);
        check("matchesfeed/8/matchcentre", [1, 2, 1, 13]);
    }

    #[test]
    fn owner_shards_are_spread_evenly() {
        let named = |make: &dyn Fn(u32) -> String| -> Vec<Topic> {
            (0..10_000).map(|number| make(number).parse().unwrap()).collect()
        };
        let kinds: [Vec<Topic>; 4] = [
            named(&|number| format!("topic/{number}")),
            named(&|number| format!("matchesfeed/{number}/matchcentre")),
            named(&|number| format!("{number}/{number}")),
            named(&|number| "a".repeat(1 + number as usize % 90) + &number.to_string()),
        ];
        for shards in [2, 3, 4, 8, 16] {
            for topics in &kinds {
                let mut counts = vec![0_u32; shards];
                topics.iter().for_each(|topic| counts[owner_shard(topic, shards)] += 1);
                let due = topics.len() as f64 / shards as f64;
                // With random names, one in 10,000 shards would have a larger deviation.
                let deviation = 4.0 * due.sqrt();
                let is_even = |count: &u32| (f64::from(*count) - due).abs() < deviation;
                assert!(counts.iter().all(is_even), "{counts:?} of {}", topics[1]);
            }
        }
    }
}

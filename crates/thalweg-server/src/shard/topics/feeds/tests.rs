use thalweg_wire::Format;

use super::*;
use crate::{metrics::Metrics, shard::topics::Moved};

#[test]
fn every_subscription_is_found_at_its_place() {
    let shares = Arc::new(AddressCounts::new(1));
    let streams = BrokerStreams::new(&[]);
    let metrics = Metrics::new("", 1, vec![Pattern::all()], std::iter::empty(), Vec::new());
    let mut feeds = FeedTable::new(
        (Arc::default(), metrics.patterns()),
        streams,
        shares,
        ColumnMemory::default(),
        Arc::default(),
        metrics.shard_counts(0),
    );
    let topic = "cars".parse().unwrap();
    let key = feeds.open(&topic, true, Creator::Publisher).unwrap();
    let feed = feeds.get_mut(key).unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    // Each connection and the place that its subscription knows.
    let mut places: Vec<(u32, u32)> = Vec::new();
    for connection in 0..10_000 {
        places.push((connection, feed.join(connection, Format::SSE)));
        while random.bool() && !places.is_empty() {
            let (leaving, place) = places.swap_remove(random.usize(..places.len()));
            assert_eq!(feed.subscribers[place as usize], leaving);
            if let Some(Moved { connection, from }) = feed.leave(place, Format::SSE) {
                let moved = places.iter_mut().find(|known| **known == (connection, from));
                moved.expect("one that is there").1 = place;
            }
        }
        assert_eq!(feed.subscribers.len(), places.len());
        let users = feed.format_users.get(Format::SSE).map_or(0, |users| *users as usize);
        assert_eq!(users, places.len());
    }
    assert!(feed.leave(u32::MAX, Format::SSE).is_none(), "it was never listed");
}

use std::time::{Duration, Instant};

use thalweg_client::{Client, Events, Options, Position, StartAt, Subscribe, Update};
use thalweg_testing::try_patiently;
use tokio::time::sleep;

use super::{LAST, SUBSCRIBERS, Shared, TOPIC};

/// After one of this many messages the subscriber reconnects without a reason.
const RECONNECT_ONE_OF: u32 = 128;

/// The pause after an error from which the client does not recover.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

/// Receives everything from the beginning to the last event. It changes its node after each failure, and sometimes anyway.
pub(super) fn run(shared: &Shared, subscriber: usize, mut rng: fastrand::Rng) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let mut at = shared.begin;
        while let Some(next) = connection(shared, subscriber, &mut rng, at).await {
            at = next;
        }
    });
}

/// Receives events on one connection, from a position on. Returns the position for the next connection, if there is more.
async fn connection(
    shared: &Shared,
    subscriber: usize,
    rng: &mut fastrand::Rng,
    mut at: Position,
) -> Option<Position> {
    let transport = SUBSCRIBERS[subscriber];
    let address = {
        let mut state = shared.state();
        let own = &mut state.subscribers[subscriber];
        let (node, address) = shared.nodes.any(rng);
        own.node = node;
        own.connections += 1;
        address
    };
    let client = Client::new(&format!("http://{address}"), Options::default()).expect("a client");
    let from = StartAt::After(at);
    let subscribe = Subscribe { from, transport: Some(transport), ..Subscribe::default() };
    let topic = TOPIC.parse().expect("a topic");
    let mut subscription = client.subscribe(vec![topic], subscribe).expect("a topic");
    loop {
        match try_patiently(subscription.next()).await {
            Some(Ok(Update::Events(events))) => {
                if take(shared, subscriber, &events) {
                    return None;
                }
                at = events.position;
                if rng.u32(..RECONNECT_ONE_OF) == 0 {
                    return Some(at);
                }
            }
            Some(Ok(Update::Connected(_))) => {}
            Some(Ok(Update::Gap(gap))) => {
                shared.state().ledger.gap(&format!("{gap:?} over {transport:?}"));
                at = gap.position;
            }
            // The client would wait for this time, and then connect to the same address again. Behind a load
            // balancer that is another node.
            Some(Ok(Update::Disconnected(end))) => {
                sleep(end.retry_in).await;
                return Some(at);
            }
            Some(Ok(Update::Ended(_) | Update::Closed(_)) | Err(_)) => {
                sleep(ERROR_PAUSE).await;
                return Some(at);
            }
            None => {
                shared.state().ledger.lose(&format!("{transport:?} waits for events at {at}"));
                return None;
            }
        }
    }
}

/// Records events. Returns whether the last one is among them.
fn take(shared: &Shared, subscriber: usize, events: &Events) -> bool {
    let mut state = shared.state();
    let last = format!("[{LAST},0]");
    let mut is_last = false;
    for (offset, event) in events.iter() {
        // Events after the last one were stored late, and only some subscribers receive them.
        if !is_last {
            state.ledger.get(subscriber, offset, event);
        }
        is_last |= event == last;
    }
    let now = Instant::now();
    let own = &mut state.subscribers[subscriber];
    own.events.beat(now);
    if let Some(cut) = &mut own.cut
        && own.connections > cut.connection
    {
        cut.back.get_or_insert(now - cut.at);
    }
    is_last
}

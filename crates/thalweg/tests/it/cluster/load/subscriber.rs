use std::time::{Duration, Instant};

use thalweg_client::{Client, Events, Options, Position, StartAt, Subscribe, Update};
use thalweg_testing::try_patiently;
use tokio::time::sleep;

use super::{LAST, SUBSCRIBERS, Shared, TOPIC};

/// Of so many messages one is followed by another connection, for no reason.
const RECONNECT_ONE_OF: u32 = 128;

/// After an error that the client does not come back from by itself.
const ERROR_PAUSE: Duration = Duration::from_millis(100);

/// Gets everything from the beginning on, until the last event; goes to another node whenever it
/// loses one, and now and then without a reason.
pub(super) fn run(shared: &Shared, subscriber: usize, mut rng: fastrand::Rng) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let mut at = shared.begin;
        while let Some(next) = connection(shared, subscriber, &mut rng, at).await {
            at = next;
        }
    });
}

/// What comes on one connection, from a position on. Returns where the next one has to go on, if
/// there is more.
async fn connection(
    shared: &Shared,
    subscriber: usize,
    rng: &mut fastrand::Rng,
    mut at: Position,
) -> Option<Position> {
    let transport = SUBSCRIBERS[subscriber];
    let address = {
        let mut state = shared.state();
        let it = &mut state.subscribers[subscriber];
        let (node, address) = shared.nodes.any(rng);
        it.node = node;
        it.connections += 1;
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
            // The client would wait for so long, and then try the same address again. Behind a load balancer
            // that is another node.
            Some(Ok(Update::Disconnected(it))) => {
                sleep(it.again_in).await;
                return Some(at);
            }
            Some(Ok(Update::Ended(_) | Update::Closed(_)) | Err(_)) => {
                sleep(ERROR_PAUSE).await;
                return Some(at);
            }
            None => {
                shared
                    .state()
                    .ledger
                    .lose(&format!("{transport:?} waits for events in vain at {at}"));
                return None;
            }
        }
    }
}

/// Takes events. Says whether the last one is among them.
fn take(shared: &Shared, subscriber: usize, events: &Events) -> bool {
    let mut state = shared.state();
    let last = format!("[{LAST},0]");
    let mut is_last = false;
    for (offset, event) in events.iter() {
        // What comes after the last one was stored late, and comes to some only.
        if !is_last {
            state.ledger.get(subscriber, offset, event);
        }
        is_last |= event == last;
    }
    let now = Instant::now();
    let it = &mut state.subscribers[subscriber];
    it.events.beat(now);
    if let Some(cut) = &mut it.cut
        && it.connections > cut.connection
    {
        cut.back.get_or_insert(now - cut.at);
    }
    is_last
}

//! Whether a message may have gone to a former leader, which does not answer: a leader that is replaced loses messages that it
//! has not stored. As long as messages are unanswered, this server asks the stream since when it has its leader.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{api::Api, stream_state::StreamState};

/// The longest time that an answer usually takes.
const USUAL: Duration = Duration::from_millis(250);

/// The time in which a new leader answers messages that the former one has passed on.
const GRACE: Duration = Duration::from_millis(250);

/// A message that is sent within this time after a change may still go to the former leader.
const MARGIN: Duration = Duration::from_millis(250);

/// Asks for the leader while an append waits. Never returns.
pub(crate) async fn watch(api: Api, state: Arc<StreamState>) {
    loop {
        state.unanswered.notified().await;
        if let Ok(info) = api.stream_info(&state.name).await
            && let Some(age) = info.leader_age()
        {
            state.set_leader_since(Instant::now().checked_sub(age));
        }
        tokio::time::sleep(USUAL).await;
    }
}

/// Waits until it is certain that a message that was sent at this time will not be answered.
pub(crate) async fn changed(state: &StreamState, sent: Instant) {
    loop {
        tokio::time::sleep(USUAL).await;
        if state.leader_since().is_some_and(|since| since + MARGIN > sent) {
            return tokio::time::sleep(GRACE).await;
        }
        state.unanswered.notify_one();
    }
}

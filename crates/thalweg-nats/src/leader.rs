//! Whether a message may have gone to a leader that leads no more: then nobody answers it.
//!
//! A stream's leader that is replaced forgets what it was sent and has not stored. So as long as
//! messages are unanswered, the stream is asked since when it has its leader.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::{api::Api, stream_state::StreamState};

/// How long an answer takes at most while nothing is wrong.
const USUAL: Duration = Duration::from_millis(250);

/// A new leader answers what the one before has handed on, in this time.
const GRACE: Duration = Duration::from_millis(250);

/// What is sent so soon after a change may still go to the leader before.
const MARGIN: Duration = Duration::from_millis(250);

/// Asks while somebody waits. For ever.
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

/// Returns when a message that was sent at this time, and has no answer, will not get any.
pub(crate) async fn changed(state: &StreamState, sent: Instant) {
    loop {
        tokio::time::sleep(USUAL).await;
        if state.leader_since().is_some_and(|since| since + MARGIN > sent) {
            return tokio::time::sleep(GRACE).await;
        }
        state.unanswered.notify_one();
    }
}

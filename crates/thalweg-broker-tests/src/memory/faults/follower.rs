//! A server whose broker has faults and bugs.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_broker::{Content, Delivery, Follower};
use thalweg_core::stream::Payloads;
use thalweg_wire::{Epoch, Offset};
use tokio::sync::watch;

use super::control::{Bug, Control};

/// Passes the calls of the broker on to a server, with the bug of the broker.
#[derive(Clone)]
pub(super) struct FaultyFollower<F> {
    follower: F,
    control: watch::Sender<Control>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    has_caught_up: bool,
    /// A record that is delivered after the next one, for [`Bug::Reorder`].
    delayed: Option<Delivery>,
    epoch: Option<Epoch>,
}

impl<F: Follower> FaultyFollower<F> {
    /// `epoch` is the one that the server knows.
    pub(super) fn new(follower: F, control: watch::Sender<Control>, epoch: Option<Epoch>) -> Self {
        let state = State { epoch, ..State::default() };
        Self { follower, control, state: Arc::new(Mutex::new(state)) }
    }

    pub(super) fn show_ready(&self) {
        let is_ready = {
            let control = self.control.borrow();
            let is_ready = control.is_ready && !control.is_cut && self.state().has_caught_up;
            is_ready || control.bug == Some(Bug::AlwaysReady)
        };
        self.follower.set_ready(is_ready);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: Follower> Follower for FaultyFollower<F> {
    async fn deliver(&self, mut delivery: Delivery) {
        let bug = {
            let mut control = self.control.subscribe();
            // `self` holds the sender, so the wait cannot fail.
            let connected = control.wait_for(|control| !control.is_cut).await;
            connected.ok().and_then(|control| control.bug)
        };
        match (bug, delivery.content) {
            (Some(Bug::ForgetTime), Content::Events(payloads)) => {
                delivery.content = Content::Events(without_time(payloads));
            }
            (_, content) => delivery.content = content,
        }
        if bug == Some(Bug::DeliverTwice) {
            self.follower.deliver(delivery.clone()).await;
        }
        if bug == Some(Bug::Reorder) {
            let delayed = self.state().delayed.take();
            let Some(delayed) = delayed else {
                self.state().delayed = Some(delivery);
                return;
            };
            self.follower.deliver(delivery).await;
            return self.follower.deliver(delayed).await;
        }
        self.follower.deliver(delivery).await;
    }

    async fn restarted(&self, stream: usize, epoch: Epoch, from: Offset) {
        let bug = self.control.borrow().bug;
        let known = self.state().epoch;
        match (bug, known) {
            (Some(Bug::SilentGap), _) => {}
            (Some(Bug::KeepEpoch), Some(known)) => {
                self.follower.restarted(stream, known, from).await;
            }
            _ => self.follower.restarted(stream, epoch, from).await,
        }
    }

    fn set_ready(&self, is_ready: bool) {
        self.state().has_caught_up = is_ready;
        self.show_ready();
    }
}

/// Returns the same events, which do not say when they were stored.
pub(super) fn without_time(payloads: Payloads) -> Payloads {
    Payloads::from_lines(payloads.into_lines()).expect("at least one event")
}

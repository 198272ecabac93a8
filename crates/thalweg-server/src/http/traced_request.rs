//! The line of a request in the trace of its subject.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{Method, request::Parts};

use super::{context::Http, paths::topics_path};
use crate::{access::Holder, refusal::Refusal, traces::Action, transport::parameter};

/// A request that arrived while a subject was traced: an extension of the request, because its holder is known only later.
#[derive(Debug, Clone)]
pub(super) struct TracedRequest(Arc<Mutex<RequestLine>>);

#[derive(Debug)]
struct RequestLine {
    holder: Option<Arc<Holder>>,
    action: Action,
}

impl TracedRequest {
    /// Follows a request, if any subject is traced.
    #[inline]
    pub(super) fn begin(http: &Http, parts: &mut Parts) -> Option<Self> {
        if !http.shard.common.traces.has_any() {
            return None;
        }
        let line = RequestLine { holder: None, action: action(parts) };
        let traced = Self(Arc::new(Mutex::new(line)));
        parts.extensions.insert(traced.clone());
        Some(traced)
    }

    /// Returns the request of these parts, if it is followed.
    #[inline]
    pub(super) fn find<'a>(http: &Http, parts: &'a Parts) -> Option<&'a Self> {
        if !http.shard.common.traces.has_any() {
            return None;
        }
        parts.extensions.get()
    }

    pub(super) fn identified(&self, holder: &Arc<Holder>) {
        self.line().holder = Some(Arc::clone(holder));
    }

    /// Replaces the action, which the head of the request only begins to tell.
    pub(super) fn set(&self, action: Action) {
        self.line().action = action;
    }

    /// Changes the action.
    pub(super) fn complete(&self, step: impl FnOnce(&mut Action)) {
        step(&mut self.line().action);
    }

    /// Leaves the lines of the request to others.
    pub(super) fn leave(&self) {
        self.line().holder = None;
    }

    /// Adds the line, if the holder of the request is known.
    pub(super) fn finish(&self, http: &Http, refusal: Option<&Refusal>) {
        let RequestLine { holder, action } = &mut *self.line();
        let Some(holder) = holder.take() else { return };
        if let Some(refusal) = refusal {
            action.refuse(refusal);
        }
        http.shard.common.traces.note(holder.subject(), || std::mem::take(action));
    }

    fn line(&self) -> MutexGuard<'_, RequestLine> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the action of a request, as far as its head tells.
fn action(parts: &Parts) -> Action {
    let path = parts.uri.path();
    let Some(topic) = topics_path(path) else {
        return match path {
            "/v1/tickets" => Action::new("ticket"),
            _ => Action { path: Some(path.to_owned()), ..Action::new("request") },
        };
    };
    let what = match parts.method {
        Method::POST => "publish",
        Method::DELETE => "delete",
        _ if parameter(parts, "query").or_else(|| parameter(parts, "explain")).is_some() => "query",
        _ => "read",
    };
    let topic = topic.map(str::to_owned).or_else(|| parameter(parts, "topic").map(Into::into));
    Action { topic, key: parameter(parts, "key").map(Into::into), ..Action::new(what) }
}

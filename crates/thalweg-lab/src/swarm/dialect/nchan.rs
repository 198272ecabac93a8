//! nchan, nginx's module for push (<https://nchan.io>): messages without an envelope below `/sub/`; a POST below `/pub/` publishes one.

use super::{Dialect, Wanted};
use crate::subject::topic_name;
use crate::swarm::publishing::{Publishing, Requests};

#[derive(Debug)]
pub(super) struct Nchan;

impl Dialect for Nchan {
    fn target(&self, wanted: &Wanted<'_>) -> String {
        format!("/sub/{}", topic_name(wanted.topics.start))
    }

    fn confirms(&self) -> bool {
        false
    }

    fn publishing(&self, topic: u32) -> Publishing {
        let target = format!("/pub/{}", topic_name(topic));
        Publishing::Requests(Requests { target, ..Requests::default() })
    }
}

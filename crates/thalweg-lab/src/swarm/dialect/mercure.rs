//! Mercure (<https://mercure.rocks/spec>): Server-Sent Events from a hub. Updates are forms that are posted to the hub with a token.

use super::{Dialect, Wanted};
use crate::subject::topic_name;
use crate::swarm::publishing::{Publishing, Requests};

const HUB: &str = "/.well-known/mercure";
/// Token, signed (HS256) with the demonstration key in `lab/subjects/mercure` and valid for every topic.
const TOKEN: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJtZXJjdXJlIjp7InB1Ymxpc2giOlsiKiJdfX0.Y4jF_vRHBEgybNkniLAcIpH2ukteEHNjG0YZ3TtTEmk";

#[derive(Debug)]
pub(super) struct Mercure;

impl Dialect for Mercure {
    fn target(&self, wanted: &Wanted<'_>) -> String {
        format!("{HUB}?topic={}", topic_name(wanted.topics.start))
    }

    fn confirms(&self) -> bool {
        false
    }

    fn publishing(&self, topic: u32) -> Publishing {
        Publishing::Requests(Requests {
            target: HUB.to_owned(),
            fields: vec![format!("Authorization: Bearer {TOKEN}")],
            before: format!("topic={}&data=", topic_name(topic)),
            is_form: true,
            ..Requests::default()
        })
    }
}

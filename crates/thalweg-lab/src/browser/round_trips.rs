//! Round trips of a page: the page acks an event, and the subject sends the next.

use super::tabs::{Tabs, wait_until};
use crate::load_generator::{Load, Moment, Observer, Outcome, Session, monotonic_us};
use crate::measure::{Counts, Latency, Negotiated, Reported, RoundTrips, Traffic};
use crate::scenario::Program;
use crate::subject::topic_name;
use anyhow::Context;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;

/// Round trips before the span, so that hot code is compiled.
const WARMING: u32 = 100;
/// Time to settle after a long look of the observer, µs.
const CALM_US: u64 = 20_000;

/// Number of newest acks that are compared with their Runners after a span.
const ACKS_COMPARED: u32 = 100;

/// One page, and the subject that waits for its acks.
pub(super) struct BrowserConversation<'a> {
    load: Load<'a>,
    observer: &'a mut dyn Observer,
    tabs: Tabs,
    open_us: u64,
    reported: Reported,
}

#[derive(Debug, Deserialize)]
struct PageTrips {
    /// Duration of each round trip, ms.
    each: Vec<f64>,
    counts: super::tabs::PageCounts,
    why: String,
}

/// Events of a topic, as a page reads them.
#[derive(Debug, Deserialize)]
struct History {
    events: Vec<Value>,
}

impl<'a> BrowserConversation<'a> {
    /// Opens the page and warms up page and subject.
    pub(super) fn open(
        load: &Load<'a>,
        observer: &'a mut dyn Observer,
        mut tabs: Tabs,
    ) -> anyhow::Result<BrowserConversation<'a>> {
        let begun_us = monotonic_us();
        let wanted = json!({
            "transport": load.settings.transport,
            "dialect": load.program.dialect(),
            "topic": topic_name(0),
        });
        tabs.each(|_| format!("lab.talk({wanted})"))?;
        let open_us = monotonic_us() - begun_us;
        observer.at(Moment::Open);
        let (load, reported) = (load.clone(), Reported::default());
        let mut conversation = BrowserConversation { load, observer, tabs, open_us, reported };
        let until_us = monotonic_us() + conversation.load.warm_up.as_micros() as u64;
        conversation.trips(WARMING)?;
        wait_until(until_us, conversation.observer, 1)?;
        Ok(conversation)
    }

    fn trips(&mut self, count: u32) -> anyhow::Result<PageTrips> {
        let trips: PageTrips = self.tabs.first(&format!("lab.roundTrips({count})"))?;
        match trips.why.as_str() {
            "" => Ok(trips),
            why => anyhow::bail!("the page's connection ended unexpectedly: {why}"),
        }
    }
}

impl Session for BrowserConversation<'_> {
    fn span(&mut self, _: Duration) -> anyhow::Result<Outcome> {
        self.observer.at(Moment::Warm);
        wait_until(monotonic_us() + CALM_US, self.observer, 1)?;
        let begin = {
            let BrowserConversation { load, observer, tabs, .. } = self;
            tabs.edge(load, true, || observer.at(Moment::Begin))
        };
        let trips = self.trips(self.load.settings.requests)?;
        let BrowserConversation { load, observer, tabs, reported, .. } = self;
        let end = tabs.edge(load, false, || observer.at(Moment::End));
        let reports = tabs.reports(begin.at_us, end.at_us)?;
        observer.at(Moment::Over { stopped_ports: &[] });
        let mut facts = tabs.facts(&reports, &end);
        facts.extend(compared_acks(load, tabs)?);
        let each_us: Vec<u64> = trips.each.iter().map(|ms| (ms * 1000.0) as u64).collect();
        let mut latency = Latency::default();
        each_us.iter().for_each(|us| latency.record(*us, 1));
        let events = each_us.len() as u64;
        Ok(Outcome {
            traffic: Traffic { events, envelopes: events, ..Traffic::default() },
            latency,
            round_trips: RoundTrips::new(each_us, end.at_us - begin.at_us),
            browser: Some(tabs.used(&begin, &end, &reports)),
            negotiated: Negotiated { facts },
            ledger: reported.new_in(trips.counts.into()),
            span_us: end.at_us - begin.at_us,
            open_us: self.open_us,
            ..Outcome::default()
        })
    }

    fn pause(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    fn close(self: Box<Self>) -> anyhow::Result<Counts> {
        self.tabs.stop();
        Ok(Counts::default())
    }
}

/// Compares the page's newest acks, which are events of a topic, with the Runners: the subject itself reads
/// only their ids. Returns a fact, or `None` for a subject that echoes. The page reads both topics, so that
/// both have numbers as JavaScript writes them: 12.0 is 12.
fn compared_acks(load: &Load<'_>, tabs: &mut Tabs) -> anyhow::Result<Option<(String, String)>> {
    if *load.program != Program::Thalweg {
        return Ok(None);
    }
    let topic = topic_name(0);
    let read = |topic: &str| {
        format!(
            "fetch('/v1/topics/{topic}?newest={ACKS_COMPARED}').then((answer) => answer.json())"
        )
    };
    let both = format!("Promise.all([{}, {}])", read(&topic), read(&format!("{topic}/acks")));
    let [runners, acks]: [History; 2] =
        tabs.first(&both).context("the page cannot read its acks")?;
    expect_whole(&runners.events, &acks.events)?;
    Ok(Some(("acks".to_owned(), "whole Runners".to_owned())))
}

/// Refuses acks that are not the whole Runner of their id. Older Runners may be missing.
fn expect_whole(runners: &[Value], acks: &[Value]) -> anyhow::Result<()> {
    let mut compared = 0;
    for ack in acks {
        let Some(runner) = runners.iter().find(|runner| runner["id"] == ack["id"]) else {
            continue;
        };
        if ack != runner {
            anyhow::bail!("the page acked {ack} instead of {runner}");
        }
        compared += 1;
    }
    if compared == 0 {
        anyhow::bail!("the topic of acks has none of these Runners");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ack_is_the_whole_runner() {
        let runner = |id: u32| json!({ "id": id, "name": "x".repeat(190) });
        let runners: Vec<Value> = (5..8).map(runner).collect();
        let said = |acks: &[Value]| match expect_whole(&runners, acks) {
            Ok(()) => "whole".to_owned(),
            Err(error) => error.to_string(),
        };
        assert_eq!(said(&[runner(4), runner(5), runner(6)]), "whole");
        let short = said(&[runner(5), json!({ "id": 6 })]);
        assert!(short.starts_with("the page acked {\"id\":6} instead of {"), "{short}");
        assert_eq!(said(&[runner(4)]), "the topic of acks has none of these Runners");
    }
}

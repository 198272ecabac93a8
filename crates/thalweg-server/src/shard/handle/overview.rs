//! The activity of all topics, and the subscribers of one.

use tokio::{task::yield_now, time::timeout};

use super::{Handle, Shard};
use crate::{
    access::{Allowed, ViewTopic},
    clock::now_us,
    config::{FIGURES_PER_LOOKUP, SAMPLED_TOPICS_MAX},
    refusal::Refusal,
    shard::{
        message::Lookup,
        topic_ranking::{MatchingTopics, OverviewLimits, Ranking},
        topic_samples::TopicSamples,
        topic_subscribers::ShownSubscribers,
    },
};

/// The message of the refusal if the samples are not free in time.
const READERS: &str = "too many clients read the overview: try again";

impl Handle {
    /// Returns the topics of a ranking as the JSON of docs/reference/http.md, "Pages and runs". Requests share samples, so that many
    /// readers cost little more than one. Fails with `Draining` if the server ends, and with `Busy` if earlier requests take longer than
    /// `write-timeout`.
    pub(crate) async fn overview(
        &self,
        ranking: Allowed<Ranking>,
        limits: OverviewLimits,
    ) -> Result<Vec<u8>, Refusal> {
        let wait = self.common.config.limits.write_timeout;
        let locked = timeout(wait, self.common.samples.lock()).await;
        let mut samples = locked.map_err(|_| Refusal::busy(READERS))?;
        // Other work of the shard comes between two answers.
        yield_now().await;
        let begun_us = now_us();
        if samples.is_due(begun_us) {
            samples.begin(begun_us);
            for shard in 0..self.common.peers.len() {
                self.take_figures(shard, &mut samples).await?;
            }
            samples.end(now_us());
        }
        let (topics, is_cut) = samples.read(now_us());
        let mut matching = MatchingTopics::new(&ranking);
        for (nth, (topic, sample)) in topics.iter().enumerate() {
            if nth % FIGURES_PER_LOOKUP == FIGURES_PER_LOOKUP - 1 {
                yield_now().await;
            }
            matching.add(topic, sample);
        }
        Ok(matching.answer(is_cut, limits, now_us()))
    }

    /// Returns the subscribers of a topic at this server as JSON. Fails with `Draining` if the server ends.
    pub(crate) async fn topic_subscribers(
        &self,
        topic: &Allowed<ViewTopic>,
    ) -> Result<Vec<u8>, Refusal> {
        let ViewTopic(topic) = &**topic;
        let mut all = ShownSubscribers::default();
        for shard in 0..self.common.peers.len() {
            let lookup = |answer| Lookup::Subscribers { topic: topic.clone(), answer };
            all.add(self.look_up(shard, lookup).await?);
        }
        Ok(all.into_json())
    }

    /// Adds the figures of a shard's topics, in parts, so that other work of the shard continues in between.
    async fn take_figures(&self, shard: usize, samples: &mut TopicSamples) -> Result<(), Refusal> {
        let (mut next, mut taken) = (Some(0), 0);
        while let Some(from) = next {
            let part = self.look_up(shard, |answer| Lookup::Figures { from, answer }).await?;
            if taken >= SAMPLED_TOPICS_MAX && !part.topics.is_empty() {
                samples.cut();
                break;
            }
            taken += part.topics.len();
            samples.add(part.topics);
            next = part.next;
            yield_now().await;
        }
        Ok(())
    }
}

impl Shard {
    /// Answers a lookup. The receiver may be gone.
    pub(super) fn answer(&mut self, lookup: Lookup) {
        match lookup {
            Lookup::Subscribers { topic, answer } => {
                let shown = self.subscribers.shown(&self.topics, &topic, now_us());
                let _ = answer.send(shown);
            }
            lookup => self.topics.answer(lookup),
        }
    }
}

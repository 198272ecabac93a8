//! The activity of all topics.

use tokio::{task::yield_now, time::timeout};

use super::Handle;
use crate::{
    access::Allowed,
    clock::now_us,
    config::SAMPLED_TOPICS_MAX,
    refusal::Refusal,
    shard::{
        message::Lookup,
        topic_ranking::{OverviewLimits, Ranking},
        topic_samples::TopicFigures,
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
            let mut figures = Vec::new();
            for shard in 0..self.common.peers.len() {
                self.take_figures(shard, &mut figures).await?;
            }
            samples.take(figures, begun_us, now_us());
            // Merging takes time, too.
            samples.rest(begun_us, now_us());
        }
        let now_us = now_us();
        Ok(ranking.answer(samples.read(now_us), limits, now_us))
    }

    /// Adds the figures of a shard's topics, in parts, so that other work of the shard continues in between.
    async fn take_figures(
        &self,
        shard: usize,
        figures: &mut Vec<TopicFigures>,
    ) -> Result<(), Refusal> {
        let (mut next, full) = (Some(0), figures.len() + SAMPLED_TOPICS_MAX);
        while let Some(from) = next
            && figures.len() < full
        {
            let part = self.look_up(shard, |answer| Lookup::Figures { from, answer }).await?;
            figures.extend(part.topics);
            next = part.next;
            yield_now().await;
        }
        Ok(())
    }
}

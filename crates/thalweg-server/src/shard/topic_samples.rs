//! The activity of all topics, sampled while clients ask for it. Pure.

use std::collections::HashMap;

use thalweg_core::stream::FeedKind;
use thalweg_wire::Topic;

use crate::config::{SAMPLE_PART, SAMPLE_US, SAMPLES_KEPT_US};

/// The number of rates that a topic's trend has: a minute at one sample every two seconds, half a minute at one a second.
const TREND: usize = 30;

/// Samples further apart than this belong to different trends, in µs.
const TREND_GAP_US: u64 = 5_000_000;

/// One topic as one shard knows it.
#[derive(Debug)]
pub(crate) struct TopicFigures {
    pub(super) topic: Topic,
    /// Known to the owner shard.
    pub(super) published: Option<Published>,
    pub(super) subscribers: u64,
    pub(super) gaps: u64,
}

/// The figures of some topics of a shard, and the place of the next ones.
#[derive(Debug)]
pub(crate) struct FiguresPart {
    pub(super) topics: Vec<TopicFigures>,
    pub(super) next: Option<u32>,
}

/// The events of a topic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Published {
    pub(super) kind: FeedKind,
    /// Number and bytes of all events since the topic was opened.
    pub(super) events: u64,
    pub(super) bytes: u64,
    /// When the newest events came.
    pub(super) newest_us: Option<u64>,
    /// Number of events in memory, and their memory in bytes.
    pub(super) retained: u64,
    pub(super) memory_bytes: u64,
}

/// All topics of the server at one time, and their rates since the time before.
#[derive(Debug, Default)]
pub(crate) struct TopicSamples {
    topics: HashMap<Topic, Sample>,
    /// When the newest figures were begun. 0: there are none.
    begun_us: u64,
    /// Whether a shard has more topics than a sample covers.
    is_cut: bool,
    /// When the next ones may be taken.
    next_us: u64,
    asked_us: u64,
}

/// One topic.
#[derive(Debug, Default)]
pub(super) struct Sample {
    /// When the figures were begun that it is in.
    pub(super) begun_us: u64,
    pub(super) published: Option<Published>,
    /// When the figures were begun that have `published`.
    pub(super) published_us: u64,
    pub(super) subscribers: u64,
    pub(super) gaps: u64,
    /// Subscribers and gaps in the figures that have begun and not ended.
    pub(super) counted: (u64, u64),
    pub(super) rates: Option<SampledRates>,
    /// Events per second, the newest last.
    pub(super) trend: Vec<f32>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct SampledRates {
    pub(super) events_per_s: f64,
    pub(super) bytes_per_s: f64,
}

impl TopicSamples {
    /// Returns whether the figures are old enough to be taken again.
    pub(super) fn is_due(&self, now_us: u64) -> bool {
        now_us >= self.next_us
    }

    /// Begins new figures. If they are never ended, their topics keep the rates that they have got, and the counts before.
    pub(super) fn begin(&mut self, begun_us: u64) {
        self.begun_us = begun_us.max(1);
        self.is_cut = false;
        self.next_us = begun_us + SAMPLE_US;
    }

    /// Adds some topics of a shard.
    pub(super) fn add(&mut self, figures: Vec<TopicFigures>) {
        for TopicFigures { topic, published, subscribers, gaps } in figures {
            let sample = self.topics.entry(topic).or_default();
            if sample.begun_us != self.begun_us {
                sample.begun_us = self.begun_us;
                sample.counted = (0, 0);
            }
            if let Some(published) = published {
                sample.update(published, self.begun_us);
            }
            sample.counted.0 += subscribers;
            sample.counted.1 += gaps;
        }
    }

    /// Notes that a shard has more topics than were added.
    pub(super) fn cut(&mut self) {
        self.is_cut = true;
    }

    /// Ends the figures: topics that are not in them are gone.
    pub(super) fn end(&mut self, now_us: u64) {
        let begun_us = self.begun_us;
        self.topics.retain(|_, sample| {
            if sample.published_us != begun_us {
                (sample.published, sample.rates) = (None, None);
            }
            (sample.subscribers, sample.gaps) = sample.counted;
            sample.begun_us == begun_us
        });
        let pause_us = now_us.saturating_sub(begun_us) * SAMPLE_PART;
        self.next_us = begun_us + pause_us.max(SAMPLE_US);
    }

    /// Returns the topics for a client, and whether some are left out.
    pub(super) fn read(&mut self, now_us: u64) -> (&HashMap<Topic, Sample>, bool) {
        self.asked_us = now_us;
        (&self.topics, self.is_cut)
    }

    /// Forgets everything when no client has asked for a while.
    pub(super) fn sweep(&mut self, now_us: u64) {
        if self.begun_us > 0 && now_us.saturating_sub(self.asked_us) > SAMPLES_KEPT_US {
            *self = Self::default();
        }
    }
}

impl Sample {
    /// Takes the events that a topic has now, and computes the rates since the figures before.
    fn update(&mut self, now: Published, begun_us: u64) {
        let passed_us = begun_us.saturating_sub(self.published_us);
        let is_first = self.published_us == 0;
        let before = self.published.replace(now);
        self.published_us = begun_us;
        if is_first || passed_us == 0 {
            return;
        }
        // A topic with fewer events is another one.
        let before =
            before.filter(|before| before.events <= now.events && before.bytes <= now.bytes);
        let (events, bytes) = before.map_or((0, 0), |before| (before.events, before.bytes));
        let per_s = |count: u64| round(count as f64 * 1e6 / passed_us as f64);
        let rates = SampledRates {
            events_per_s: per_s(now.events - events),
            bytes_per_s: per_s(now.bytes - bytes),
        };
        if before.is_none() || passed_us >= TREND_GAP_US {
            self.trend.clear();
        } else if self.trend.len() == TREND {
            self.trend.remove(0);
        }
        self.trend.push(rates.events_per_s as f32);
        self.rates = Some(rates);
    }
}

/// Returns a rate with one decimal place, which is short as JSON.
fn round(per_s: f64) -> f64 {
    (per_s * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const START_US: u64 = 1_000_000_000;

    fn figures(events: u64, subscribers: u64) -> TopicFigures {
        let published = Published {
            kind: FeedKind::Log,
            events,
            bytes: events * 10,
            newest_us: Some(START_US),
            retained: events,
            memory_bytes: events * 20,
        };
        let topic = "a".parse().unwrap();
        TopicFigures { topic, published: Some(published), subscribers, gaps: 1 }
    }

    fn follower(subscribers: u64) -> TopicFigures {
        TopicFigures { published: None, ..figures(0, subscribers) }
    }

    fn sample(samples: &TopicSamples) -> &Sample {
        let topic: Topic = "a".parse().unwrap();
        &samples.topics[&topic]
    }

    fn events_per_s(samples: &TopicSamples) -> Option<f64> {
        sample(samples).rates.map(|rates| rates.events_per_s)
    }

    fn take(samples: &mut TopicSamples, figures: Vec<TopicFigures>, begun_us: u64, now_us: u64) {
        samples.begin(begun_us);
        figures.into_iter().for_each(|figures| samples.add(vec![figures]));
        samples.end(now_us);
    }

    #[test]
    fn rates_are_differences_of_two_samples() {
        let mut samples = TopicSamples::default();
        take(&mut samples, vec![figures(5, 2), follower(3)], START_US, START_US + 10);
        assert_eq!(events_per_s(&samples), None);
        assert_eq!((sample(&samples).subscribers, sample(&samples).gaps), (5, 2));
        let next_us = START_US + 2_000_000;
        take(&mut samples, vec![follower(4), figures(25, 2)], next_us, next_us + 10);
        assert_eq!(events_per_s(&samples), Some(10.0));
        assert_eq!(sample(&samples).rates.unwrap().bytes_per_s, 100.0);
        assert_eq!((sample(&samples).subscribers, &*sample(&samples).trend), (6, &[10.0][..]));
        take(&mut samples, Vec::new(), next_us + 1_000_000, next_us + 1_000_000);
        assert!(samples.topics.is_empty());
    }

    #[test]
    fn figures_that_were_not_ended_change_no_rate_and_no_count() {
        let mut samples = TopicSamples::default();
        take(&mut samples, vec![figures(5, 2)], START_US, START_US);
        samples.begin(START_US + 1_000_000);
        samples.add(vec![figures(15, 7)]);
        assert_eq!(sample(&samples).subscribers, 2);
        assert!(!samples.is_due(START_US + 1_000_000));
        take(&mut samples, vec![figures(35, 2)], START_US + 2_000_000, START_US + 2_000_000);
        assert_eq!((events_per_s(&samples), sample(&samples).subscribers), (Some(20.0), 2));
        // Its owner shard does not tell of it any more.
        take(&mut samples, vec![follower(1)], START_US + 3_000_000, START_US + 3_000_000);
        assert_eq!((events_per_s(&samples), sample(&samples).subscribers), (None, 1));
    }

    #[test]
    fn a_topic_that_began_again_has_only_its_new_events() {
        let mut samples = TopicSamples::default();
        take(&mut samples, vec![figures(50, 0)], START_US, START_US);
        take(&mut samples, vec![figures(8, 0)], START_US + 1_000_000, START_US + 1_000_000);
        assert_eq!(events_per_s(&samples), Some(8.0));
    }

    #[test]
    fn a_slow_sample_delays_the_next_one() {
        let mut samples = TopicSamples::default();
        assert!(samples.is_due(START_US));
        take(&mut samples, Vec::new(), START_US, START_US + 10);
        assert!(!samples.is_due(START_US + SAMPLE_US - 1) && samples.is_due(START_US + SAMPLE_US));
        take(&mut samples, Vec::new(), START_US, START_US + 500_000);
        assert!(!samples.is_due(START_US + 500_000 * SAMPLE_PART - 1));
        assert!(samples.is_due(START_US + 500_000 * SAMPLE_PART));
    }

    #[test]
    fn samples_are_forgotten_when_nobody_asks() {
        let mut samples = TopicSamples::default();
        take(&mut samples, vec![figures(5, 2)], START_US, START_US + 10);
        samples.read(START_US + 100);
        samples.sweep(START_US + 100 + SAMPLES_KEPT_US);
        assert_eq!(samples.topics.len(), 1);
        samples.sweep(START_US + 101 + SAMPLES_KEPT_US);
        assert!(samples.topics.is_empty() && samples.is_due(START_US));
    }

    #[test]
    fn a_trend_has_the_newest_rates() {
        let mut samples = TopicSamples::default();
        for second in 0..40 {
            let now_us = START_US + second * 1_000_000;
            take(&mut samples, vec![figures(second * second, 0)], now_us, now_us);
        }
        let trend = &sample(&samples).trend;
        assert_eq!((trend.len(), trend.last()), (TREND, Some(&77.0)));
        // After a pause the trend begins again.
        let now_us = START_US + 60_000_000;
        take(&mut samples, vec![figures(40 * 40, 0)], now_us, now_us);
        assert_eq!(sample(&samples).trend.len(), 1);
    }
}

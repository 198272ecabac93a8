//! The fetching thread: demands, fetches in flight, and results.

use std::{collections::HashMap, io, panic::resume_unwind, rc::Rc, sync::Arc, time::Duration};

use rustls::ClientConfig;
use slab::Slab;
use thalweg_wire::Topic;
use tokio::{
    runtime::{self, LocalOptions},
    sync::mpsc,
    task::{JoinSet, spawn_local},
    time::{interval, sleep},
};

use super::{
    FetchDemand, Fetched, Readers,
    exchange::{FetchOutcome, Known, Report, Unchanged, Upstream, Why},
    gone::Gone,
    host::UpstreamHost,
    schedule::{FetchLimits, Key, Next, Schedule},
    tls,
};
use crate::{
    clock::now_us,
    config::{Config, GONE_MAX, UpstreamConfig},
    metrics::UpstreamCounts,
};

const SWEEP: Duration = Duration::from_secs(1);

/// The fetcher of all shards. It is created where the server starts, and runs on its own thread.
pub(crate) struct Fetcher {
    config: Arc<Config>,
    tls: Option<Arc<ClientConfig>>,
    counts: Vec<Arc<UpstreamCounts>>,
}

struct Running {
    upstreams: Vec<Rc<Upstream>>,
    counts: Vec<Arc<UpstreamCounts>>,
    /// Whether an error of each upstream was logged in this second.
    has_complained: Vec<bool>,
    schedule: Schedule,
    jobs: Slab<Job>,
    by_topic: HashMap<Topic, Key>,
    gone: Gone,
    /// The destinations of documents, by shard.
    shards: Vec<mpsc::Sender<Fetched>>,
    under_way: JoinSet<(Key, Report)>,
}

/// A topic that is fetched repeatedly.
struct Job {
    topic: Topic,
    shard: usize,
    upstream: usize,
    /// The document that the owner shard has.
    known: Option<Known>,
    /// Whether the owner shard may lack the document, even one in flight, because it was evicted or nobody subscribed for a moment.
    is_lost: bool,
    /// The time of the last answer, or of the first demand, in µs.
    answered_us: u64,
    /// The time of the last request, in µs.
    asked_us: u64,
}

impl Fetcher {
    /// Returns a fetcher for the upstreams of a configuration; `None` if there are none. Fails when an upstream is https and this
    /// machine has no trusted authorities.
    pub(crate) fn new(
        config: &Arc<Config>,
        counts: Vec<Arc<UpstreamCounts>>,
    ) -> Result<Option<Self>, String> {
        if config.upstreams.is_empty() {
            return Ok(None);
        }
        let is_tls = config.upstreams.iter().any(|upstream| upstream.url.is_tls);
        let tls = is_tls.then(tls::config).transpose()?;
        Ok(Some(Self { config: Arc::clone(config), tls, counts }))
    }

    /// Fetches until all shards have ended. `shards` receive the documents. Fails when the system has no resources for a runtime.
    pub(crate) fn run(
        self,
        demands: mpsc::Receiver<FetchDemand>,
        shards: Vec<mpsc::Sender<Fetched>>,
    ) -> io::Result<()> {
        let mut builder = runtime::Builder::new_current_thread();
        let runtime = builder.enable_io().enable_time().build_local(LocalOptions::default())?;
        runtime.block_on(Running::new(self, shards).run(demands));
        Ok(())
    }
}

impl Running {
    fn new(fetcher: Fetcher, shards: Vec<mpsc::Sender<Fetched>>) -> Self {
        let Fetcher { config, tls, counts } = fetcher;
        let (mut hosts, mut of_hosts) = (Vec::<Rc<UpstreamHost>>::new(), Vec::<usize>::new());
        let upstreams: Vec<_> = config
            .upstreams
            .iter()
            .map(|upstream| {
                let known = hosts.iter().position(|host| host.is_of(&upstream.url));
                let index = known.unwrap_or_else(|| {
                    hosts.push(Rc::new(UpstreamHost::new(&upstream.url, tls.clone())));
                    of_hosts.push(upstream.in_flight);
                    hosts.len() - 1
                });
                // The smaller of two limits of one host counts.
                of_hosts[index] = of_hosts[index].min(upstream.in_flight);
                // A document is an event.
                let body_bytes = upstream.body_bytes.min(config.limits.event_bytes);
                let upstream = UpstreamConfig { body_bytes, ..upstream.clone() };
                Rc::new(Upstream::new(upstream, index, Rc::clone(&hosts[index])))
            })
            .collect();
        Self {
            has_complained: vec![false; upstreams.len()],
            upstreams,
            counts,
            schedule: Schedule::new(FetchLimits { in_flight: config.limits.fetches, of_hosts }),
            jobs: Slab::new(),
            by_topic: HashMap::new(),
            gone: Gone::new(GONE_MAX),
            shards,
            under_way: JoinSet::new(),
        }
    }

    async fn run(mut self, mut demands: mpsc::Receiver<FetchDemand>) {
        let mut sweep = interval(SWEEP);
        loop {
            while let Some(key) = self.schedule.take(now_us()) {
                self.begin(key);
            }
            let due = self
                .schedule
                .next_us()
                .map(|due_us| sleep(Duration::from_micros(due_us.saturating_sub(now_us()))));
            tokio::select! {
                demand = demands.recv() => match demand {
                    Some(demand) => self.take(demand),
                    None => return,
                },
                Some(finished) = self.under_way.join_next() => match finished {
                    Ok((key, report)) => self.finish(key, report),
                    Err(error) => resume_unwind(error.into_panic()),
                },
                () = async { due.unwrap_or_else(|| sleep(SWEEP)).await } => {}
                _ = sweep.tick() => self.sweep(),
            }
        }
    }

    fn take(&mut self, demand: FetchDemand) {
        match demand {
            FetchDemand::Start { shard, topic, upstream, readers } => {
                let Some(key) = self.by_topic.get(&topic).copied() else {
                    return self.start(shard, topic, upstream, readers);
                };
                // The owner shard does not have the document, so a 304 would not help.
                let job = &mut self.jobs[key as usize];
                (job.known, job.is_lost) = (None, true);
                let host = self.upstreams[upstream].host_index;
                self.schedule.start(key, host, readers, now_us());
            }
            FetchDemand::Share(topic) => {
                if let Some(key) = self.by_topic.get(&topic) {
                    self.schedule.share(*key);
                }
            }
            FetchDemand::Stop(topic) => {
                // The topic may have been removed meanwhile.
                let Some(key) = self.by_topic.get(&topic).copied() else { return };
                self.schedule.stop(key);
                if self.schedule.contains(key) {
                    // The topic is removed after the fetch in flight, unless it is in demand again by then.
                    let job = &mut self.jobs[key as usize];
                    (job.known, job.is_lost) = (None, true);
                } else {
                    self.remove(key);
                }
            }
        }
    }

    fn start(&mut self, shard: usize, topic: Topic, upstream: usize, readers: Readers) {
        let now_us = now_us();
        if self.gone.contains(&topic, now_us) {
            self.counts[upstream].upstream_gone_remembered.add(1);
            return self.tell_gone(shard, topic, now_us);
        }
        self.counts[upstream].upstream_topics.add(1);
        let job = Job {
            topic: topic.clone(),
            shard,
            upstream,
            known: None,
            is_lost: false,
            answered_us: now_us,
            asked_us: now_us,
        };
        let key = self.jobs.insert(job) as Key;
        self.by_topic.insert(topic, key);
        self.schedule.start(key, self.upstreams[upstream].host_index, readers, now_us);
    }

    /// Tells a topic's owner shard that there is no document, once the shard has room for the message.
    fn tell_gone(&self, shard: usize, topic: Topic, asked_us: u64) {
        let owner = self.shards[shard].clone();
        // A shard that has ended need not know.
        let fetched = Fetched { topic, document: None, asked_us };
        drop(spawn_local(async move { owner.send(fetched).await }));
    }

    fn begin(&mut self, key: Key) {
        let job = &mut self.jobs[key as usize];
        (job.is_lost, job.asked_us) = (false, now_us());
        let asked_us = job.asked_us;
        let upstream = Rc::clone(&self.upstreams[job.upstream]);
        let (topic, known) = (job.topic.clone(), job.known.clone());
        let owner = self.shards[job.shard].clone();
        let counts = &self.counts[job.upstream];
        counts.upstream_fetches.add(1);
        counts.upstream_in_flight.add(1);
        self.under_way.spawn_local(async move {
            let mut report = upstream.fetch(&topic, known.as_ref()).await;
            if let Ok(FetchOutcome::New(document, ..)) = &mut report.result {
                let document = Some(std::mem::take(document));
                // Sent within the task, because a shard without room should delay fetches.
                let _ = owner.send(Fetched { topic, document, asked_us }).await;
            }
            (key, report)
        });
    }

    fn finish(&mut self, key: Key, report: Report) {
        let now_us = now_us();
        let job = &mut self.jobs[key as usize];
        let (counts, upstream) = (&self.counts[job.upstream], &self.upstreams[job.upstream]);
        counts.upstream_in_flight.sub(1);
        counts.upstream_bytes.add(report.received as u64);
        if report.result.is_ok() {
            job.answered_us = now_us;
        }
        let next = match report.result {
            Ok(FetchOutcome::New(_, known, next)) => {
                job.known = Some(known);
                Next::In(next)
            }
            Ok(FetchOutcome::Unchanged(unchanged, known, next)) => {
                match unchanged {
                    Unchanged::NotModified => counts.upstream_not_modified.add(1),
                    Unchanged::Same => counts.upstream_unchanged.add(1),
                }
                job.known = Some(known);
                Next::In(next)
            }
            Ok(FetchOutcome::Gone) => {
                counts.upstream_gone.add(1);
                let until_us = now_us + upstream.config.remember.as_micros() as u64;
                self.gone.remember(&job.topic, until_us);
                Next::Never
            }
            Err(failure) => {
                count_failure(counts, &failure.why);
                if !std::mem::replace(&mut self.has_complained[job.upstream], true) {
                    tracing::warn!(topic = %job.topic, why = %failure.why, "not fetched");
                }
                Next::Later(failure.retry_after.map(|wait| wait.min(upstream.config.pace.most)))
            }
        };
        let next = match next {
            Next::In(_) if job.is_lost => {
                job.known = None;
                Next::In(upstream.config.pace.least)
            }
            next => next,
        };
        let (shard, topic, asked_us) = (job.shard, job.topic.clone(), job.asked_us);
        let is_wanted = self.schedule.finished(key, next, now_us, fastrand::f64());
        if is_wanted && next == Next::Never {
            self.tell_gone(shard, topic, asked_us);
        }
        if !self.schedule.contains(key) {
            self.remove(key);
        }
    }

    fn remove(&mut self, key: Key) {
        let job = self.jobs.remove(key as usize);
        self.by_topic.remove(&job.topic);
        self.counts[job.upstream].upstream_topics.sub(1);
    }

    fn sweep(&mut self) {
        let now_us = now_us();
        self.gone.sweep(now_us);
        self.upstreams.iter().for_each(|upstream| upstream.sweep(now_us));
        self.has_complained.fill(false);
        let mut seen = vec![(0, 0, 0); self.upstreams.len()];
        for (key, job) in &self.jobs {
            let (age_us, waiting, held_back) = &mut seen[job.upstream];
            *age_us = now_us.saturating_sub(job.answered_us).max(*age_us);
            *waiting += u64::from(self.schedule.is_waiting(key as Key));
            *held_back += u64::from(self.schedule.see_held_back(key as Key));
        }
        for (counts, (age_us, waiting, held_back)) in self.counts.iter().zip(seen) {
            counts.upstream_age_seconds_max.set(age_us);
            counts.upstream_waiting.set(waiting);
            counts.upstream_held_back.add(held_back);
        }
    }
}

fn count_failure(counts: &UpstreamCounts, why: &Why) {
    counts.upstream_errors.add(1);
    match why {
        Why::Late => counts.upstream_timeouts.add(1),
        Why::TooLarge => counts.upstream_too_large.add(1),
        Why::Redirect => counts.upstream_redirects_refused.add(1),
        Why::Host(_) | Why::Coding | Why::Json(_) | Why::Status(_) => {}
    }
}

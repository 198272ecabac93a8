//! The limit of a sample, or why it must not be trusted.

use crate::measure::{Counts, littles};
use serde::{Deserialize, Serialize};
use std::fmt;

/// From this share on a core counts as saturated.
const SATURATED: f64 = 0.95;
/// From this share on, time that subject or swarm had to wait for their core disturbs the sample. Stolen time is counted in ticks
/// of 10 ms, so half a second resolves 2 % at best.
pub(super) const DISTURBED: f64 = 0.10;
/// As [`SATURATED`], for a thread that shares its cores with busy threads: it waits for them now and then.
const SATURATED_BESIDE: f64 = 0.90;
/// A swarm that does not look at its sockets for this share of the span causes the p99 itself: one event in a hundred.
const AWAY: f64 = 0.01;
/// A browser that got less of the schedule has not kept up with it.
const BROWSER_CAME_MIN: f64 = 0.98;
/// Shorter absences are slices of the scheduler, which every program has.
const AWAY_US_MIN: u64 = 10_000;

/// The limit of a sample.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The subject's cores were saturated: its throughput counts.
    Subject,
    /// The swarm's core was saturated: the subject could do more.
    Swarm,
    /// The browser that is the load was saturated: its events per second are the maximum that it can process.
    Browser,
    /// Both were saturated: the subject may be able to do more, so its throughput is not ranked; CPU per event counts.
    Both,
    /// The subject could not keep up and announced gaps: CPU per event counts, throughput does not.
    Gaps,
    /// The subject dropped events without a gap, as documented: its figures are shown, but not compared.
    Drops,
    /// Other programs used a share of the cores, or the kernel dropped packets.
    Machine,
    /// Neither was saturated: the schedule or the window left time. CPU per event counts, throughput does
    /// not.
    #[default]
    Schedule,
    /// The sample does not count, for this reason.
    Invalid(String),
}

/// Where a subject could run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Room {
    /// On cores of its own, where the lab has put it.
    #[default]
    Own,
    /// On all cores, like the browser that loads it, with this many threads.
    WithBrowser(usize),
    /// On this many cores, which it shares: the lab did not start it.
    Shared(usize),
    /// Unknown: the lab cannot see it.
    Unseen,
}

/// Evidence for a verdict; shares are of the span.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evidence {
    /// Where the subject could run.
    pub room: Room,
    /// Mean over the cores that the subject could run on; beside a browser, over its threads.
    pub subject_busy: f64,
    /// The swarm's thread.
    pub swarm_busy: f64,
    /// Time for which others kept threads of the subject from its cores; of several threads, added up.
    pub subject_waited: f64,
    /// Time for which others kept the swarm from its core.
    pub swarm_waited: f64,
    /// Time that the hypervisor took from the cores of both, added up.
    pub stolen: f64,
    /// Packets the kernel dropped.
    pub dropped_packets: u64,
    /// The longest time between two looks of the swarm at its sockets.
    pub swarm_away_us: u64,
    /// The span.
    pub span_us: u64,
    /// The longest latency.
    pub latency_us_max: u64,
    /// Ratio of the number outstanding by Little's law to the actual number.
    pub littles_ratio: Option<f64>,
    /// Whether the swarm did not offer the schedule, or could not try the rates that the subject might have met.
    pub swarm_fell_short: bool,
    /// Why the sample failed, if it did.
    pub failure: Option<String>,
    /// Whether the subject is one of those that drop events by design.
    pub may_drop: bool,
    /// Whether the load grows until something fails. Packets that the kernel drops at that limit, and gaps, are a result: samples
    /// without them would be those that went well.
    pub is_search: bool,
    /// Set if the load is in a browser; replaces all evidence about the swarm.
    pub browser: Option<BrowserEvidence>,
}

/// Evidence about a browser that is the load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BrowserEvidence {
    /// Cores that it may run on.
    pub cores: usize,
    /// The share of them that it used.
    pub busy: f64,
    /// The thread that was busy most, and its share of a core.
    pub busiest: Option<(String, f64)>,
    /// The share of its cores that other programs than the subject used.
    pub others: f64,
    /// Share of the subject's schedule that arrived.
    pub came: Option<f64>,
}

impl Evidence {
    /// Returns the share of the span for which the subject or the swarm, whichever is worse off, was kept from its core.
    pub fn disturbed(&self) -> f64 {
        self.subject_waited.max(self.swarm_waited) + self.stolen
    }

    /// Returns the limit, and the reason with figures. The first of these applies: a broken sample, a disturbed one, a saturated part.
    pub fn judge(&self, ledger: &Counts) -> (Verdict, String) {
        let (verdict, mut why) = self.limit(ledger);
        if self.is_search && verdict.is_valid() {
            if self.dropped_packets > 0 {
                why += &format!("; the kernel dropped {} packets", self.dropped_packets);
            }
            if !ledger.is_whole() && self.browser.is_none() {
                why += &format!("; {ledger}");
            }
        }
        (verdict, why)
    }

    fn limit(&self, ledger: &Counts) -> (Verdict, String) {
        if let Some(failure) = self.broken(ledger) {
            return (Verdict::Invalid(failure.clone()), failure);
        }
        if let Some(browser) = &self.browser {
            return self.judge_browser(browser, ledger);
        }
        if ledger.missing > 0 {
            let delivered = ledger.delivered_share() * 100.0;
            return (Verdict::Drops, format!("{delivered:.2} % of the events were delivered"));
        }
        if self.is_starved() {
            let waited = percent(self.swarm_waited);
            let why = format!("the swarm was kept from its core for {waited} of the span");
            return (Verdict::Swarm, why);
        }
        if let Some(why) = self.disturbance() {
            return (Verdict::Machine, why);
        }
        if !ledger.is_whole() && !self.is_search {
            return (Verdict::Gaps, ledger.to_string());
        }
        if self.swarm_fell_short {
            return (Verdict::Swarm, "the swarm could not offer more".to_owned());
        }
        if self.subject_busy >= SATURATED && self.swarm_busy >= SATURATED {
            let why =
                format!("{}, and the swarm's for {}", self.saturation(), percent(self.swarm_busy));
            return (Verdict::Both, why);
        }
        if self.subject_busy >= SATURATED {
            return (Verdict::Subject, self.saturation());
        }
        if let Some(why) = self.swarm_bound() {
            return (Verdict::Swarm, why);
        }
        (Verdict::Schedule, self.idleness())
    }

    /// Judges load in a browser, which is meant to saturate first: events that it cannot process become gaps, or wait in it.
    fn judge_browser(&self, browser: &BrowserEvidence, ledger: &Counts) -> (Verdict, String) {
        if let Some(why) = self.disturbance() {
            return (Verdict::Machine, why);
        }
        if browser.others >= DISTURBED {
            let why = format!("others used {} of the browser's cores", percent(browser.others));
            return (Verdict::Machine, why);
        }
        let (is_saturated, mut why) = browser.busyness(self.room);
        let came = browser.came.unwrap_or(1.0);
        if came < BROWSER_CAME_MIN {
            why += &format!("; {} of the schedule arrived", percent(came));
        }
        if !ledger.is_whole() {
            why += &format!("; {ledger}");
        }
        let is_subject = self.subject_busy >= SATURATED;
        if is_saturated && is_subject {
            return (Verdict::Both, format!("{}, and {why}", self.saturation()));
        }
        if is_subject {
            return (Verdict::Subject, format!("{}; {why}", self.saturation()));
        }
        let falls_short = came < BROWSER_CAME_MIN || !ledger.is_whole();
        match is_saturated || falls_short {
            true => (Verdict::Browser, why),
            false => (Verdict::Schedule, why),
        }
    }

    fn saturation(&self) -> String {
        let busy = percent(self.subject_busy);
        match self.room {
            Room::Shared(cores) => {
                format!("the server was busy for {busy} of the {cores} cores that it may run on")
            }
            Room::WithBrowser(1) => format!("the subject's thread was busy for {busy}"),
            Room::WithBrowser(_) => format!("the subject's threads were busy for {busy}"),
            Room::Own | Room::Unseen => format!("the subject's cores were busy for {busy}"),
        }
    }

    fn idleness(&self) -> String {
        let (subject, swarm) = (percent(self.subject_busy), percent(self.swarm_busy));
        match self.room {
            Room::Own | Room::WithBrowser(_) => {
                format!(
                    "nobody was saturated: the subject was busy for {subject}, the swarm for {swarm}"
                )
            }
            Room::Shared(cores) => format!(
                "nobody was saturated: the server was busy for {subject} of the {cores} cores that \
                 it may run on, the swarm for {swarm}"
            ),
            Room::Unseen => {
                format!("the swarm was busy for {swarm}; the server's CPU use cannot be seen")
            }
        }
    }

    fn broken(&self, ledger: &Counts) -> Option<String> {
        if self.failure.is_some() {
            return self.failure.clone();
        }
        let only_dropped = Counts { missing: 0, ..ledger.clone() }.is_honest();
        if !(ledger.is_honest() || self.may_drop && only_dropped) {
            return Some(ledger.to_string());
        }
        // With gaps it is not known how many were outstanding.
        let ratio = self.littles_ratio.filter(|_| ledger.is_whole())?;
        let slack_us = (self.swarm_away_us + self.latency_us_max) as f64;
        littles::broken(ratio, slack_us / self.span_us.max(1) as f64)
    }

    fn disturbance(&self) -> Option<String> {
        if self.dropped_packets > 0 && !self.is_search {
            return Some(format!("the kernel dropped {} packets", self.dropped_packets));
        }
        if self.stolen >= DISTURBED {
            let stolen = percent(self.stolen);
            return Some(format!("the hypervisor took {stolen} of a core's time"));
        }
        if self.subject_waited + self.stolen >= DISTURBED {
            let waited = percent(self.subject_waited + self.stolen);
            return Some(format!("others took {waited} of a core from the subject"));
        }
        None
    }

    /// Returns whether the disturbance is the swarm's, which was kept from its core: it wanted all of the core, or the subject was
    /// hardly disturbed in comparison, or most of the latency that the swarm saw was its own waiting.
    fn is_starved(&self) -> bool {
        let subject_disturbed = self.subject_waited + self.stolen;
        self.swarm_waited >= DISTURBED
            && self.dropped_packets == 0
            && (self.swarm_busy + self.swarm_waited >= SATURATED
                || subject_disturbed < DISTURBED
                || self.swarm_waited > 2.0 * subject_disturbed
                || self.swarm_waited > subject_disturbed.max(0.5))
    }

    fn swarm_bound(&self) -> Option<String> {
        // Time it used, and time it would have used.
        if self.swarm_busy + self.swarm_waited >= SATURATED {
            let busy = percent(self.swarm_busy);
            return Some(match self.swarm_waited {
                waited if waited >= 0.01 => {
                    let waited = percent(waited);
                    format!(
                        "the swarm's core was busy for {busy}, and the swarm waited {waited} for it"
                    )
                }
                _ => format!("the swarm's core was busy for {busy}"),
            });
        }
        let away_us_max = (self.span_us as f64 * AWAY).max(AWAY_US_MIN as f64);
        (self.swarm_away_us as f64 >= away_us_max).then(|| {
            let away = self.swarm_away_us / 1000;
            format!(
                "the swarm once did not look at its sockets for {away} ms, which determined the p99"
            )
        })
    }
}

impl BrowserEvidence {
    /// Returns whether the browser could not do more, and how busy it was, in words.
    fn busyness(&self, room: Room) -> (bool, String) {
        let cores = if self.cores == 1 { "core was" } else { "cores were" };
        let (all, saturated) = match room {
            Room::WithBrowser(_) => (
                format!("the browser was busy for {} of the shared cores", percent(self.busy)),
                SATURATED_BESIDE,
            ),
            _ => (
                format!("the browser's {cores} busy with it for {}", percent(self.busy)),
                SATURATED,
            ),
        };
        match &self.busiest {
            Some((name, share)) => (
                self.busy >= SATURATED || *share >= saturated,
                format!("{all}, {name} for {}", percent(*share)),
            ),
            None => (self.busy >= SATURATED, all),
        }
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

impl Verdict {
    /// Returns the verdict of an archive from before [`Verdict::Both`], beside a swarm that was busy for this share.
    pub fn beside(self, swarm_busy: f64) -> Verdict {
        match self {
            Verdict::Subject if swarm_busy >= SATURATED => Verdict::Both,
            verdict => verdict,
        }
    }

    /// Returns whether the sample's figures may be used at all.
    pub fn is_valid(&self) -> bool {
        !matches!(self, Verdict::Invalid(_))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Subject => f.write_str("subject"),
            Verdict::Gaps => f.write_str("gaps"),
            Verdict::Drops => f.write_str("drops"),
            Verdict::Swarm => f.write_str("swarm"),
            Verdict::Browser => f.write_str("browser"),
            Verdict::Both => f.write_str("both"),
            Verdict::Machine => f.write_str("machine"),
            Verdict::Schedule => f.write_str("schedule"),
            Verdict::Invalid(reason) => write!(f, "invalid: {reason}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(evidence: Evidence, verdict: &Verdict, why: &str) {
        let evidence = Evidence { span_us: 1_000_000, ..evidence };
        let (found, reason) = evidence.judge(&Counts::default());
        assert_eq!(&found, verdict, "{reason}");
        assert!(reason.contains(why), "{reason:?} should say {why:?}");
    }

    fn busy(subject_busy: f64, swarm_busy: f64) -> Evidence {
        Evidence { subject_busy, swarm_busy, ..Evidence::default() }
    }

    #[test]
    fn the_saturated_side_is_named() {
        check(busy(0.99, 0.5), &Verdict::Subject, "the subject's cores were busy for 99 %");
        check(busy(0.99, 0.99), &Verdict::Both, "were busy for 99 %, and the swarm's for 99 %");
        check(busy(0.94, 0.96), &Verdict::Swarm, "the swarm's core was busy for 96 %");
        check(busy(0.94, 0.50), &Verdict::Schedule, "busy for 94 %, the swarm for 50 %");
    }

    #[test]
    fn intended_drops_are_reported_and_other_losses_break_the_sample() {
        let dropped = Counts { delivered: 900, missing: 100, ..Counts::default() };
        let judge = |may_drop, ledger: &Counts| {
            Evidence { span_us: 1_000_000, may_drop, ..busy(0.99, 0.5) }.judge(ledger)
        };
        let (verdict, why) = judge(true, &dropped);
        assert_eq!((verdict, &*why), (Verdict::Drops, "90.00 % of the events were delivered"));
        let broken = Verdict::Invalid("100 missing".to_owned());
        assert_eq!(judge(false, &dropped).0, broken);
        let corrupt = Counts { corrupt: 1, ..dropped };
        let broken = Verdict::Invalid("100 missing, 1 corrupt".to_owned());
        assert_eq!(judge(true, &corrupt).0, broken);
        assert_eq!(judge(true, &Counts::default()).0, Verdict::Subject);
    }

    #[test]
    fn on_shared_cores_only_others_take_time_away() {
        let tab = |thread, others, came| {
            let busiest = Some(("the tab’s thread main".to_owned(), thread));
            let browser =
                BrowserEvidence { cores: 2, busy: 0.6, busiest, others, came: Some(came) };
            Evidence { room: Room::WithBrowser(1), browser: Some(browser), ..busy(0.5, 0.0) }
        };
        let why =
            "the browser was busy for 60 % of the shared cores, the tab’s thread main for 91 %";
        check(tab(0.91, 0.02, 1.0), &Verdict::Browser, why);
        check(tab(0.80, 0.02, 0.5), &Verdict::Browser, "50 % of the schedule arrived");
        check(tab(0.80, 0.02, 1.0), &Verdict::Schedule, "");
        check(tab(0.91, 0.2, 0.5), &Verdict::Machine, "others used 20 % of the browser's cores");
        let both = Evidence { subject_busy: 0.97, ..tab(0.95, 0.0, 0.5) };
        check(both, &Verdict::Both, "the subject's thread was busy for 97 %");
    }

    #[test]
    fn the_verdict_on_an_external_server_depends_on_its_cores() {
        let server = |room, subject_busy| Evidence { room, ..busy(subject_busy, 0.5) };
        let why = "the server was busy for 97 % of the 4 cores that it may run on";
        check(server(Room::Shared(4), 0.97), &Verdict::Subject, why);
        let why = "busy for 25 % of the 4 cores that it may run on, the swarm for 50 %";
        check(server(Room::Shared(4), 0.25), &Verdict::Schedule, why);
        check(server(Room::Unseen, 0.0), &Verdict::Schedule, "the server's CPU use cannot be seen");
    }

    #[test]
    fn the_side_kept_from_its_core_is_named() {
        let starved = Evidence { swarm_waited: 0.43, ..busy(0.1, 0.2) };
        check(starved, &Verdict::Swarm, "the swarm was kept from its core for 43 % of the span");
        let wants_more = Evidence { swarm_waited: 0.06, ..busy(0.1, 0.9) };
        check(wants_more, &Verdict::Swarm, "busy for 90 %, and the swarm waited 6 % for it");
        // Even if the subject is saturated: with the swarm its latency is not known.
        let both = Evidence { swarm_waited: 0.2, ..busy(0.99, 0.8) };
        check(both, &Verdict::Swarm, "20 %");
        let subject = Evidence { subject_waited: 0.2, swarm_waited: 0.4, ..busy(0.99, 0.5) };
        check(subject, &Verdict::Machine, "others took 20 % of a core from the subject");
        // The one that was kept away far more.
        let swarm = Evidence { subject_waited: 0.12, swarm_waited: 0.6, ..busy(0.5, 0.2) };
        check(swarm, &Verdict::Swarm, "60 %");
        let mostly = Evidence { subject_waited: 0.45, swarm_waited: 0.7, ..busy(0.1, 0.1) };
        check(mostly, &Verdict::Swarm, "70 %");
        let stolen = Evidence { stolen: 0.12, ..busy(0.99, 0.5) };
        check(stolen, &Verdict::Machine, "the hypervisor took 12 % of a core's time");
        let a_little = Evidence { subject_waited: 0.05, swarm_waited: 0.05, ..busy(0.5, 0.5) };
        check(a_little, &Verdict::Schedule, "");
    }

    #[test]
    fn dropped_packets_are_the_machines() {
        let evidence = Evidence { dropped_packets: 3, ..Evidence::default() };
        check(evidence, &Verdict::Machine, "the kernel dropped 3 packets");
    }

    #[test]
    fn a_search_includes_starts_in_which_packets_were_dropped() {
        let search = Evidence { is_search: true, dropped_packets: 3, ..busy(0.99, 0.5) };
        check(search, &Verdict::Subject, "; the kernel dropped 3 packets");
        let gaps = Counts { gaps: 2, ..Counts::default() };
        let search = Evidence { is_search: true, span_us: 1_000_000, ..busy(0.99, 0.5) };
        let (verdict, why) = search.judge(&gaps);
        assert_eq!(verdict, Verdict::Subject);
        assert!(why.contains("2 gaps"), "{why}");
    }

    #[test]
    fn latencies_of_a_swarm_that_was_away_are_its_own() {
        let away = |swarm_away_us| Evidence { swarm_away_us, ..busy(0.1, 0.1) };
        check(away(34_000), &Verdict::Swarm, "did not look at its sockets for 34 ms");
        check(away(9000), &Verdict::Schedule, "");
        // A saturated subject's throughput counts all the same.
        check(Evidence { swarm_away_us: 34_000, ..busy(0.99, 0.1) }, &Verdict::Subject, "");
    }

    #[test]
    fn a_schedule_not_offered_is_the_swarms() {
        let evidence = Evidence { swarm_fell_short: true, ..busy(1.0, 0.5) };
        check(evidence, &Verdict::Swarm, "could not offer more");
    }

    #[test]
    fn a_broken_clock_invalidates() {
        let why = "Little's law: throughput times latency is 1.32 of the number outstanding, \
                   so a clock or a count is wrong";
        let evidence = Evidence { littles_ratio: Some(1.32), ..busy(0.99, 0.5) };
        check(evidence, &Verdict::Invalid(why.to_owned()), why);
        check(Evidence { littles_ratio: Some(0.97), ..busy(0.99, 0.5) }, &Verdict::Subject, "");
    }

    #[test]
    fn a_hole_in_the_ledger_invalidates() {
        let counts = Counts { missing: 3, ..Counts::default() };
        let (verdict, why) = Evidence::default().judge(&counts);
        assert_eq!(
            (verdict.to_string().as_str(), why.as_str()),
            ("invalid: 3 missing", "3 missing")
        );
        assert!(!verdict.is_valid());
        assert_eq!(Verdict::Subject.beside(0.96), Verdict::Both);
        assert_eq!(Verdict::Subject.beside(0.94), Verdict::Subject);
    }

    #[test]
    fn an_announced_gap_only_costs_the_throughput() {
        let counts = Counts { gaps: 3, ..Counts::default() };
        // Little's law is not asked then.
        let evidence = Evidence { littles_ratio: Some(2.0), ..busy(1.0, 0.5) };
        let (verdict, why) = evidence.judge(&counts);
        assert_eq!((verdict.clone(), why.as_str()), (Verdict::Gaps, "3 gaps announced"));
        assert!(verdict.is_valid());
    }

    #[test]
    fn archived_verdicts_can_be_read() {
        for (text, verdict) in [
            ("\"swarm\"", Verdict::Swarm),
            ("{\"invalid\":\"3 missing\"}", Verdict::Invalid("3 missing".to_owned())),
        ] {
            assert_eq!(serde_json::from_str::<Verdict>(text).unwrap(), verdict);
            assert_eq!(serde_json::to_string(&verdict).unwrap(), text);
        }
    }
}

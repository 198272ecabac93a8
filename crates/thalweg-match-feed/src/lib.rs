//! Football matches as JSON documents, of the topics `matchesfeed/{id}/matchcentre` and `matchesfeed/all`. A match advances
//! second by second; between two versions some 1 to 5 % of the bytes change. Pure, and the same for the same seed.
//!
//! - `lib`: a match, second by second
//! - `document`: a match as JSON of a given length
//! - `team`, `player`: teams and players, and their statistics
//! - `phase`: first half, half time and so on
//! - `size`: the detail of a document
//! - `text`: pieces of JSON
//!
//! Teams and players are invented ("Reds", "Reds 9"). An example:
//!
//! ```
//! use thalweg_match_feed::{Match, Size};
//!
//! let mut game = Match::new(1, "8", Size::Medium);
//! let before = game.json().to_vec();
//! game.advance();
//! assert_ne!(game.json(), before);
//! ```

mod document;
mod phase;
mod player;
mod size;
mod team;
mod text;

use std::collections::VecDeque;

use phase::Phase;
use player::{Action, Player};
pub use size::Size;
use team::Team;
use text::{push, separate};

/// A match, and the newest version of its document.
#[derive(Debug, Clone)]
pub struct Match {
    id: String,
    size: Size,
    random: fastrand::Rng,
    /// Number of earlier matches of these teams, one per week.
    round: u32,
    phase: Phase,
    /// Seconds since the start of the phase.
    second: u32,
    attendance: u32,
    /// Home and away.
    teams: [Team; 2],
    players: Vec<Player>,
    timeline: VecDeque<Event>,
    /// Texts of the newest comments, newest first.
    commentary: VecDeque<String>,
    /// Number of events, comments and actions so far, for their ids.
    made: u32,
    json: Vec<u8>,
}

/// An entry of the timeline, newest first.
#[derive(Debug, Clone)]
struct Event {
    is_goal: bool,
    json: String,
}

/// Goals of a match: the smallest document has no room for more.
const GOALS_MAX: u32 = 5;

impl Match {
    /// Returns the match with this id, some minutes into its first half. `seed` and `id` determine the whole match. The document
    /// holds `id` unescaped: use letters, digits, `-` and `_` only.
    #[must_use]
    pub fn new(seed: u64, id: &str, size: Size) -> Self {
        let number = id.parse().unwrap_or_else(|_| hash(id.as_bytes()));
        let mut random = fastrand::Rng::with_seed(seed ^ hash(id.as_bytes()));
        let teams = [Team::new(number.wrapping_mul(2)), Team::new(number.wrapping_mul(2) + 1)];
        let attendance = random.u32(18_000..42_000);
        let mut game = Self {
            id: id.to_owned(),
            size,
            random,
            round: 0,
            phase: Phase::Scheduled,
            second: 0,
            attendance,
            players: Vec::new(),
            teams,
            timeline: VecDeque::new(),
            commentary: VecDeque::new(),
            made: 0,
            json: Vec::new(),
        };
        game.line_up();
        // Matches begin at different times.
        let begun = Phase::Scheduled.seconds() + game.random.u32(300..2_400);
        (0..begun).for_each(|_| game.step());
        game.fit();
        game
    }

    /// Advances by one second of match time. After the end of a match, the next match of the same teams is announced.
    pub fn advance(&mut self) {
        self.advance_by(1);
    }

    /// Advances by this many seconds. Documents in between are not written.
    pub fn advance_by(&mut self, seconds: u32) {
        (0..seconds).for_each(|_| self.step());
        self.fit();
    }

    /// Returns the document, `matchesfeed/{id}/matchcentre`.
    #[must_use]
    pub fn json(&self) -> &[u8] {
        &self.json
    }

    /// Returns the document of all matches, `matchesfeed/all`: teams, score, status and clock of each.
    #[must_use]
    pub fn list_json<'a>(matches: impl IntoIterator<Item = &'a Self>) -> Vec<u8> {
        let mut out = Vec::from(r#"{"matches":["#);
        for (index, game) in matches.into_iter().enumerate() {
            separate(index, &mut out);
            let [home, away] = game.teams.each_ref().map(Team::brief);
            let (id, status, clock) = (&game.id, game.phase.name(), game.clock());
            push(
                &mut out,
                format_args!(
                    r#"{{"id":"{id}","home":{home},"away":{away},"status":"{status}","clock":{clock}}}"#
                ),
            );
        }
        out.extend_from_slice(b"]}");
        out
    }

    fn line_up(&mut self) {
        for team in &mut self.teams {
            team.clear();
        }
        self.players =
            (0..2).flat_map(|side| Player::from_team(&self.teams[side], side, self.size)).collect();
        self.add_records();
        self.timeline.clear();
        self.phase = Phase::Scheduled;
        self.second = 0;
    }

    fn step(&mut self) {
        self.second += 1;
        if self.second >= self.phase.seconds() {
            self.change_phase();
        }
        // Statistics continue to come while play rests.
        self.count();
        if matches!(self.phase, Phase::FirstHalf | Phase::SecondHalf) {
            self.play();
        }
        if self.one_in(30) {
            let side = self.random.usize(0..2);
            let name = self.teams[side].name;
            let text = self.random.choice(WORDS).map_or("", |text| text);
            self.comment(&format!("{name} {text}"));
        }
    }

    fn change_phase(&mut self) {
        self.second = 0;
        self.phase = match self.phase {
            Phase::Scheduled => Phase::FirstHalf,
            Phase::FirstHalf => Phase::HalfTime,
            Phase::HalfTime => Phase::SecondHalf,
            Phase::SecondHalf => Phase::FullTime,
            Phase::FullTime => {
                self.round += 1;
                return self.line_up();
            }
        };
        let [home, away] = self.teams.each_ref().map(|team| team.score);
        self.comment(match self.phase {
            Phase::HalfTime => "Half time",
            Phase::FullTime => "Full time",
            _ => "The ball rolls",
        });
        if self.phase == Phase::FullTime {
            self.comment(&format!("The match ends {home}:{away}"));
        }
    }

    /// Updates the statistics that change every second.
    fn count(&mut self) {
        let detail = self.size.detail();
        let share = if self.random.bool() { 1 } else { -1 };
        let home = (self.teams[0].possession as i32 + share).clamp(35, 65) as u32;
        // Reverses at a bound, which makes the value change every second.
        let home = if home == self.teams[0].possession { home.clamp(36, 64) } else { home };
        (self.teams[0].possession, self.teams[1].possession) = (home, 100 - home);
        let elapsed = self.elapsed();
        for nth in 0..detail.actions_per_s {
            let index = self.on_pitch(None);
            let id = self.next_id();
            let is_good = self.random.u32(0..100) < 82;
            let kind = match nth {
                0 => "pass",
                _ => self.random.choice(OTHER_ACTIONS).copied().unwrap_or("duel"),
            };
            let player = &mut self.players[index];
            if kind == "pass" {
                self.teams[player.side].add_pass(is_good);
            }
            let action = Action { id, second: elapsed, kind, is_good };
            player.act(&action, detail.has_actions, &mut self.random);
        }
        let rated = self.on_pitch(None);
        self.players[rated].rate(&mut self.random);
        if detail.is_tracked {
            for player in self.players.iter_mut().filter(|player| player.is_on_pitch) {
                player.run(&mut self.random);
            }
        }
    }

    fn play(&mut self) {
        let goals: u32 = self.teams.iter().map(|team| team.score).sum();
        if goals < GOALS_MAX && self.one_in(2_000) {
            let scorer = self.on_pitch(Some("FW"));
            let side = self.players[scorer].side;
            self.teams[side].score += 1;
            self.shoot(scorer, true);
            self.enter("goal", "Goal", scorer);
        } else if self.one_in(220) {
            let shooter = self.on_pitch(None);
            let is_on_target = self.one_in(3);
            self.shoot(shooter, is_on_target);
            let how = if is_on_target { "Shot on target" } else { "Shot wide" };
            let name = self.players[shooter].name.clone();
            self.comment(&format!("{how}: {name}"));
        } else if self.one_in(240) {
            let index = self.on_pitch(None);
            let player = &mut self.players[index];
            player.fouls += 1;
            self.teams[player.side].fouls += 1;
            if self.one_in(8) {
                self.enter("yellow_card", "Yellow card", index);
            } else {
                let name = self.players[index].name.clone();
                self.comment(&format!("Foul by {name}"));
            }
        } else if self.one_in(500) {
            let side = self.random.usize(0..2);
            self.teams[side].corners += 1;
            self.comment(&format!("Corner for {}", self.teams[side].name));
        } else if self.one_in(1_300) {
            let index = self.on_pitch(Some("FW"));
            let player = &self.players[index];
            self.teams[player.side].offsides += 1;
            self.comment(&format!("Offside: {}", player.name.clone()));
        } else if self.phase == Phase::SecondHalf && self.one_in(400) {
            self.substitute();
        }
    }

    fn shoot(&mut self, index: usize, is_on_target: bool) {
        let player = &mut self.players[index];
        player.shots += 1;
        let team = &mut self.teams[player.side];
        team.shots += 1;
        team.shots_on_target += u32::from(is_on_target);
    }

    fn substitute(&mut self) {
        let side = self.random.usize(0..2);
        let is_fresh = |player: &Player| player.side == side && player.is_fresh();
        let Some(comes) = self.players.iter().position(is_fresh) else { return };
        let is_tired = |player: &Player| player.side == side && player.is_on_pitch;
        let tired: Vec<usize> =
            (0..self.players.len()).filter(|index| is_tired(&self.players[*index])).collect();
        let goes = tired[self.random.usize(0..tired.len())];
        self.players[goes].is_on_pitch = false;
        self.players[comes].enter_pitch();
        let text = format!("{} for", self.players[comes].name);
        self.enter("substitution", &text, goes);
    }

    fn enter(&mut self, kind: &str, what: &str, index: usize) {
        let (id, minute, player) = (self.next_id(), self.minute(), &self.players[index]);
        let (team, of, name) = (&self.teams[player.side].id, &player.id, &player.name);
        let separator = if kind == "substitution" { "" } else { ":" };
        let text = format!("{what}{separator} {name}");
        let json = format!(
            r#"{{"id":"e{id}","minute":{minute},"type":"{kind}","team":"{team}","player":"{of}","text":"{text}"}}"#
        );
        self.timeline.push_front(Event { is_goal: kind == "goal", json });
        let others = self.timeline.iter().filter(|event| !event.is_goal).count();
        if others > self.size.detail().other_events_max {
            // A goal stays: the timeline must match the score.
            let oldest = self.timeline.iter().rposition(|event| !event.is_goal);
            oldest.and_then(|oldest| self.timeline.remove(oldest));
        }
        self.comment(&text);
    }

    fn comment(&mut self, text: &str) {
        let (id, minute) = (self.next_id(), self.minute());
        self.commentary
            .push_front(format!(r#"{{"id":"m{id}","minute":{minute},"text":"{text}"}}"#));
        self.commentary.truncate(self.size.detail().comments_max);
    }

    fn clock(&self) -> String {
        format!(r#"{{"minute":{},"second":{}}}"#, self.minute(), self.elapsed().rem_euclid(60))
    }

    fn minute(&self) -> u32 {
        u32::try_from(self.elapsed() / 60).unwrap_or(0)
    }

    /// Returns the seconds on the clock, which continues while play rests. Before the kick-off it is negative.
    fn elapsed(&self) -> i32 {
        self.second as i32
            + match self.phase {
                Phase::Scheduled => -(Phase::Scheduled.seconds() as i32),
                Phase::FirstHalf => 0,
                Phase::HalfTime | Phase::SecondHalf => 45 * 60,
                Phase::FullTime => 90 * 60,
            }
    }

    /// Returns a player on the pitch, in this position if given.
    fn on_pitch(&mut self, position: Option<&str>) -> usize {
        loop {
            let index = self.random.usize(0..self.players.len());
            let player = &self.players[index];
            // Each team has a forward on the pitch, or his substitute.
            if player.is_on_pitch && position.is_none_or(|position| player.position == position) {
                return index;
            }
            if position.is_some() && self.random.u8(..) == 0 {
                return self.on_pitch(None);
            }
        }
    }

    fn one_in(&mut self, times: u32) -> bool {
        self.random.u32(0..times) == 0
    }

    fn next_id(&mut self) -> u32 {
        self.made += 1;
        self.made
    }
}

const OTHER_ACTIONS: &[&str] = &["carry", "duel", "pressure", "reception"];

const WORDS: &[&str] = &[
    "keep the ball in their own half",
    "press high and win it back",
    "build from the back",
    "look for a gap on the left",
    "switch play to the right",
    "slow the game down",
    "are quick to every second ball",
    "leave space behind the defence",
];

fn hash(bytes: &[u8]) -> u64 {
    // FNV-1a.
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests;

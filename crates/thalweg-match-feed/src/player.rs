//! A player and his statistics.

use std::collections::VecDeque;
use std::fmt;

use super::{
    Size, Team,
    text::{join, push},
};

#[derive(Debug, Clone)]
pub(crate) struct Player {
    pub(crate) id: String,
    pub(crate) name: String,
    /// 0 home, 1 away.
    pub(crate) side: usize,
    pub(crate) position: &'static str,
    number: usize,
    is_starting: bool,
    pub(crate) is_on_pitch: bool,
    has_played: bool,
    rating_tenths: u32,
    passes_count: u32,
    pub(crate) shots: u32,
    touches: u32,
    tackles: u32,
    pub(crate) fouls: u32,
    track: Track,
    /// Records of earlier matches, as JSON, oldest first.
    pub(crate) records: VecDeque<String>,
    /// Latest actions in this match, as JSON, oldest first.
    pub(crate) actions: VecDeque<String>,
}

#[derive(Debug)]
pub(crate) struct Action {
    pub(crate) id: u32,
    /// Seconds on the clock.
    pub(crate) second: i32,
    /// `pass` or another action.
    pub(crate) kind: &'static str,
    pub(crate) is_good: bool,
}

#[derive(Debug, Clone, Default)]
struct Track {
    /// Decimetres along and across the pitch.
    x: i32,
    y: i32,
    speed_dm_per_s: i32,
    distance_dm: i32,
    heart_rate: u32,
}

/// Decimetres.
const PITCH: (i32, i32) = (1_050, 680);

impl Player {
    /// Returns the players of a team: eleven and its substitutes.
    pub(crate) fn from_team(team: &Team, side: usize, size: Size) -> impl Iterator<Item = Self> {
        (1..=11 + size.detail().bench).map(move |number| {
            let is_starting = number <= 11;
            Self {
                id: format!("p{}{number:02}", team.number() + 1),
                name: format!("{} {number}", team.name),
                side,
                position: match number {
                    1 | 12 => "GK",
                    2..=5 | 13 => "DF",
                    6 | 8 | 10 | 14 | 15 => "MF",
                    _ => "FW",
                },
                number,
                is_starting,
                is_on_pitch: is_starting,
                has_played: is_starting,
                rating_tenths: 65,
                passes_count: 0,
                shots: 0,
                touches: 0,
                tackles: 0,
                fouls: 0,
                track: Track {
                    x: PITCH.0 / 12 * (number as i32 % 12),
                    y: PITCH.1 / 5 * (number as i32 % 5),
                    heart_rate: 120,
                    ..Track::default()
                },
                records: VecDeque::new(),
                actions: VecDeque::new(),
            }
        })
    }

    /// Returns whether the player may still come on.
    pub(crate) fn is_fresh(&self) -> bool {
        // A goalkeeper stays on the bench.
        !self.has_played && self.position != "GK"
    }

    pub(crate) fn enter_pitch(&mut self) {
        self.is_on_pitch = true;
        self.has_played = true;
    }

    /// Adds a record of the match `ago` matches earlier; returns its bytes.
    pub(crate) fn add_record(&mut self, ago: u32, random: &mut fastrand::Rng) -> usize {
        let (minutes, rating) = (random.u32(20..=90), random.u32(52..=88));
        let (passes, shots) = (minutes * random.u32(3..=7) / 10, random.u32(0..4));
        let record = format!(
            r#"{{"id":"r{ago}","minutes":{minutes},"rating":{},"passes":{passes},"shots":{shots}}}"#,
            Tenths(rating),
        );
        let bytes = record.len() + 1;
        self.records.push_front(record);
        bytes
    }

    pub(crate) fn act(&mut self, action: &Action, is_told: bool, random: &mut fastrand::Rng) {
        let Action { id, second, kind, is_good } = action;
        self.passes_count += u32::from(*kind == "pass");
        self.tackles += u32::from(*kind == "duel" && random.u32(0..60) == 0);
        self.touches += 1;
        if is_told {
            let mut place = || (random.u32(0..=105), random.u32(0..=68));
            let ((a, b), (c, d)) = (place(), place());
            self.actions.push_back(format!(
                r#"{{"id":"a{id}","second":{second},"type":"{kind}","from":[{a},{b}],"to":[{c},{d}],"ok":{is_good}}}"#
            ));
        }
    }

    pub(crate) fn rate(&mut self, random: &mut fastrand::Rng) {
        let is_better =
            if random.bool() { self.rating_tenths < 98 } else { self.rating_tenths < 52 };
        self.rating_tenths =
            if is_better { self.rating_tenths + 1 } else { self.rating_tenths - 1 };
    }

    pub(crate) fn run(&mut self, random: &mut fastrand::Rng) {
        let track = &mut self.track;
        track.speed_dm_per_s = (track.speed_dm_per_s + random.i32(-12..=12)).clamp(4, 90);
        track.distance_dm += track.speed_dm_per_s;
        let step = track.speed_dm_per_s.min(60);
        track.x = (track.x + random.i32(-step..=step)).clamp(0, PITCH.0);
        track.y = (track.y + random.i32(-step..=step)).clamp(0, PITCH.1);
        track.heart_rate = (track.heart_rate + random.u32(0..3)).clamp(101, 195) - 1;
    }

    pub(crate) fn write(&self, team: &Team, size: Size, out: &mut Vec<u8>) {
        let detail = size.detail();
        push(
            out,
            format_args!(
                r#"{{"id":"{}","team":"{}","number":{},"name":"{}","position":"{}","starting":{},"on_pitch":{},"rating":{},"stats":{{"passes":{},"shots":{}"#,
                self.id,
                team.id,
                self.number,
                self.name,
                self.position,
                self.is_starting,
                self.is_on_pitch,
                Tenths(self.rating_tenths),
                self.passes_count,
                self.shots,
            ),
        );
        if detail.has_duels {
            push(
                out,
                format_args!(
                    r#","touches":{},"tackles":{},"fouls":{}"#,
                    self.touches, self.tackles, self.fouls,
                ),
            );
        }
        if detail.is_tracked {
            let Track { x, y, speed_dm_per_s: speed, distance_dm: distance, heart_rate } =
                self.track;
            let [x, y, speed, distance] =
                [x, y, speed, distance].map(|value| Tenths(value.unsigned_abs()));
            push(
                out,
                format_args!(
                    r#","x":{x},"y":{y},"speed":{speed},"distance":{distance},"heart_rate":{heart_rate}"#
                ),
            );
        }
        out.extend_from_slice(br#"},"actions":["#);
        join(self.actions.iter(), out);
        out.extend_from_slice(br#"],"earlier":["#);
        join(self.records.iter(), out);
        out.extend_from_slice(b"]}");
    }
}

/// A number of tenths, written like JavaScript (ECMA-262 §6.1.6.1.20): a JavaScript program that parses the document
/// writes the same bytes.
struct Tenths(u32);

impl fmt::Display for Tenths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0 / 10)?;
        match self.0 % 10 {
            0 => Ok(()),
            tenth => write!(f, ".{tenth}"),
        }
    }
}

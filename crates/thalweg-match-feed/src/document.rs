//! A match as JSON of a given length.

use std::collections::VecDeque;

use super::{
    Match, Player,
    text::{join, push, separate},
};

/// Saturdays.
const DAYS: &[&str] = &["11-21", "11-28", "12-05", "12-12", "12-19", "12-26"];

impl Match {
    /// Adds records of earlier matches to players until the document has its length. They are removed again as this
    /// match has more data.
    pub(crate) fn add_records(&mut self) {
        self.write();
        let mut missing = self.size.bytes().saturating_sub(self.json.len());
        for ago in 1.. {
            for player in &mut self.players {
                let bytes = player.add_record(ago, &mut self.random);
                missing = missing.saturating_sub(bytes);
                if missing == 0 {
                    return;
                }
            }
        }
    }

    /// Writes the document. Removes the oldest surplus data: records, then actions, then comments.
    pub(crate) fn fit(&mut self) {
        self.write();
        let mut excess = self.json.len().saturating_sub(self.size.bytes());
        let is_fitting = excess == 0;
        while excess > 0 {
            let gone = self
                .drop_longest(|player| &mut player.records)
                .or_else(|| self.drop_longest(|player| &mut player.actions))
                .or_else(|| self.commentary.pop_back());
            excess = excess.saturating_sub(gone.map_or(excess, |gone| gone.len() + 1));
        }
        if !is_fitting {
            self.write();
        }
    }

    /// Removes the oldest entry of the longest of the players' lists, which have the oldest first.
    fn drop_longest(&mut self, list: fn(&mut Player) -> &mut VecDeque<String>) -> Option<String> {
        self.players.iter_mut().map(list).max_by_key(|list| list.len())?.pop_front()
    }

    fn write(&mut self) {
        let mut out = std::mem::take(&mut self.json);
        out.clear();
        let (id, status, clock) = (&self.id, self.phase.name(), self.clock());
        push(
            &mut out,
            format_args!(
                r#"{{"id":"{id}","competition":{{"id":"c1","name":"Harbour League"}},"kickoff":"2026-{}T15:00:00Z","status":"{status}","clock":{clock},"venue":{{"name":"{}","attendance":{}}},"home":"#,
                DAYS[self.round as usize % DAYS.len()],
                self.teams[0].ground(),
                self.attendance,
            ),
        );
        self.teams[0].write(&mut out);
        out.extend_from_slice(br#","away":"#);
        self.teams[1].write(&mut out);
        out.extend_from_slice(br#","timeline":["#);
        join(self.timeline.iter().map(|event| &event.json), &mut out);
        out.extend_from_slice(br#"],"lineups":["#);
        for (index, player) in self.players.iter().enumerate() {
            separate(index, &mut out);
            player.write(&self.teams[player.side], self.size, &mut out);
        }
        out.extend_from_slice(br#"],"commentary":["#);
        join(self.commentary.iter(), &mut out);
        out.extend_from_slice(b"]}");
        self.json = out;
    }
}

use std::collections::BTreeMap;

use serde_json::Value;

use super::*;

fn document(game: &Match) -> Value {
    serde_json::from_slice(game.json()).unwrap()
}

/// Collects every value that is neither object nor array, by path; the path has an element's id, if any.
fn leaves(place: &str, value: &Value, out: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(members) => {
            members.iter().for_each(|(name, it)| leaves(&format!("{place}/{name}"), it, out));
        }
        Value::Array(items) => items.iter().enumerate().for_each(|(index, item)| {
            let key = item["id"].as_str().map_or(index.to_string(), str::to_owned);
            leaves(&format!("{place}/{key}"), item, out);
        }),
        leaf => drop(out.insert(place.to_owned(), leaf.to_string())),
    }
}

/// Returns the bytes of the changed members with their names, of both versions for new and removed ones.
fn changed(before: &BTreeMap<String, String>, after: &BTreeMap<String, String>) -> usize {
    let bytes = |(place, text): (&String, &String)| {
        place.len() - place.rfind('/').unwrap() + text.len() + 3
    };
    let new = after.iter().filter(|(place, text)| before.get(*place) != Some(text));
    let gone = before.iter().filter(|(place, _)| !after.contains_key(*place));
    new.map(bytes).sum::<usize>() + gone.map(bytes).sum::<usize>()
}

#[test]
fn a_seed_and_an_id_decide() {
    let texts = |seed, id| {
        let mut game = Match::new(seed, id, Size::Medium);
        (0..50)
            .map(|_| {
                game.advance();
                game.json().to_vec()
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(texts(1, "8"), texts(1, "8"));
    assert_ne!(texts(1, "8"), texts(2, "8"));
    assert_ne!(texts(1, "8"), texts(1, "9"));
}

#[test]
fn a_document_is_as_long_as_it_says_and_a_little_of_it_changes_every_second() {
    // A part of the largest: comparing all of its documents takes long.
    for (size, seconds) in [(Size::Small, 6_000), (Size::Medium, 1_000), (Size::Large, 60)] {
        let mut game = Match::new(3, "8", size);
        let (mut usual, mut before) = (0, BTreeMap::new());
        leaves("", &document(&game), &mut before);
        for second in 0..seconds {
            game.advance();
            let bytes = game.json().len();
            let off = bytes.abs_diff(size.bytes());
            assert!(off * 20 <= size.bytes(), "{bytes} of {size:?} in second {second}");
            let mut after = BTreeMap::new();
            leaves("", &document(&game), &mut after);
            let share = changed(&before, &after) as f64 / bytes as f64;
            // Between matches everything changes.
            assert!((0.005..0.2).contains(&share) || game.round > 0, "{share} of {size:?}");
            usual += usize::from((0.01..=0.05).contains(&share));
            before = after;
        }
        assert!(usual * 20 > seconds * 19, "{usual} of {seconds} of {size:?}");
    }
}

#[test]
fn the_score_is_what_the_timeline_says() {
    let mut game = Match::new(5, "8", Size::Small);
    let (mut goals, mut statuses) = (0, Vec::new());
    for _ in 0..8_000 {
        game.advance();
        let document = document(&game);
        for team in ["home", "away"].map(|side| &document[side]) {
            let timeline = document["timeline"].as_array().unwrap();
            let scored = timeline
                .iter()
                .filter(|event| event["type"] == "goal" && event["team"] == team["id"])
                .count();
            assert_eq!(team["score"], scored);
            goals = goals.max(scored);
        }
        let minutes: Vec<u64> = document["timeline"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| event["minute"].as_u64().unwrap())
            .collect();
        assert!(minutes.is_sorted_by(|newer, older| newer >= older), "{minutes:?}");
        if statuses.last() != document.get("status") {
            statuses.push(document["status"].clone());
        }
    }
    assert!(goals > 0);
    let match_through =
        ["first_half", "half_time", "second_half", "full_time", "scheduled", "first_half"];
    assert_eq!(statuses[..6], match_through);
}

#[test]
fn counts_agree_with_the_match() {
    for size in Size::ALL {
        let game = Match::new(1, "8", size);
        let document = document(&game);
        let seconds = 60 + 60 * document["clock"]["minute"].as_u64().unwrap();
        let passes: u64 = ["home", "away"]
            .map(|side| document[side]["stats"]["passes"].as_u64().unwrap())
            .iter()
            .sum();
        assert!(passes <= seconds + 120, "{passes} of {size:?} in {seconds} s");
        let comments = document["commentary"].as_array().unwrap();
        let told =
            |text: &Value| comments.iter().filter(|comment| comment["text"] == *text).count();
        let most = comments.iter().map(|comment| told(&comment["text"])).max().unwrap();
        assert!(most * 4 <= comments.len() + 8, "{most} of {} are one", comments.len());
    }
}

#[test]
fn ids_are_unique_in_their_lists_and_eleven_play() {
    let mut game = Match::new(7, "2", Size::Large);
    (0..4_000).for_each(|_| game.step());
    game.advance();
    let document = document(&game);
    let lineups = document["lineups"].as_array().unwrap();
    let mut lists: Vec<&Value> =
        lineups.iter().flat_map(|player| [&player["actions"], &player["earlier"]]).collect();
    lists.extend(["timeline", "lineups", "commentary"].map(|name| &document[name]));
    for list in lists {
        let mut ids: Vec<&str> =
            list.as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap()).collect();
        let all = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), all);
    }
    for team in ["home", "away"].map(|side| &document[side]["id"]) {
        let playing =
            lineups.iter().filter(|player| player["team"] == *team && player["on_pitch"] == true);
        assert_eq!(playing.count(), 11);
    }
}

#[test]
fn the_list_has_what_the_matches_have() {
    let games: Vec<Match> = ["1", "2", "x-y"].map(|id| Match::new(1, id, Size::Small)).into();
    let list: Value = serde_json::from_slice(&Match::list_json(&games)).unwrap();
    assert_eq!(list["matches"].as_array().unwrap().len(), 3);
    for (game, brief) in games.iter().zip(list["matches"].as_array().unwrap()) {
        let document = document(game);
        for place in ["/id", "/status", "/clock", "/away/score", "/away/name"] {
            assert_eq!(document.pointer(place), brief.pointer(place), "{place}");
        }
    }
}

#[test]
fn a_size_is_said_by_its_name() {
    for size in Size::ALL {
        assert_eq!(size.name().parse(), Ok(size));
    }
    assert_eq!("165kb".parse(), Ok(Size::Large));
    assert!("1GB".parse::<Size>().unwrap_err().contains("165KB"));
}

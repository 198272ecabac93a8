//! Bounds the time that clients' documents may keep the thread that makes patches.

use thalweg_core::patch::{NoPatch, PatchBudget, between};
use thalweg_testing::CpuTimer;

/// The CPU time between two checks of the time, compared with that of parsing both documents once. A cost that
/// grows with the square of a document is far more.
const PARSES_MAX: u32 = 20;

#[test]
fn a_hostile_document_is_given_up_in_time() {
    let mebibyte = |piece: &str| format!("[{}0]", piece.repeat((1 << 20) / piece.len()));
    let ids: String = (0..40_000).map(|id| format!("{{\"id\":{id}}},")).collect();
    let reversed: String = (0..40_000).rev().map(|id| format!("{{\"id\":{id}}},")).collect();
    let names = |first: u32| {
        let members: Vec<_> = (first..first + 80_000).map(|name| format!("\"{name}\":0")).collect();
        format!("{{{}}}", members.join(","))
    };
    let deep = |core: char| {
        format!("{}\"{}\"{}", "[".repeat(128), core.to_string().repeat(1 << 20), "]".repeat(128))
    };
    let pairs = [
        (mebibyte("0,"), mebibyte("1,")),
        (mebibyte("[],"), mebibyte("{},")),
        (format!("[{ids}{{\"id\":-1}}]"), format!("[{reversed}{{\"id\":-1}}]")),
        (names(0), names(1)),
        (deep('a'), deep('b')),
        ("[".repeat(4), "]".repeat(4)),
        (r#"["\"#.to_owned(), r#"{"a"}"#.to_owned()),
    ];
    for (before, after) in pairs {
        let parsing = CpuTimer::start();
        for document in [&before, &after] {
            let _ = serde_json::from_str::<&serde_json::value::RawValue>(document);
        }
        let allowed = parsing.used().max(CpuTimer::SHORTEST) * PARSES_MAX;
        let (mut timer, mut longest) = (CpuTimer::start(), std::time::Duration::ZERO);
        let is_over = || {
            longest = longest.max(timer.used());
            timer = CpuTimer::start();
            false
        };
        // Whatever the result, the next check of the time comes soon.
        let _ =
            between(before.as_bytes(), after.as_bytes(), PatchBudget::new(after.len(), is_over));
        longest = longest.max(timer.used());
        assert!(longest < allowed, "{longest:?}, not {allowed:?}, at {before:.40}");
    }
    // After that it ends.
    let (before, after) = (mebibyte("0,"), mebibyte("1,"));
    let mut left = 10;
    let is_over = || {
        left -= 1;
        left == 0
    };
    let given_up =
        between(before.as_bytes(), after.as_bytes(), PatchBudget::new(after.len(), is_over));
    assert_eq!((given_up, left), (Err(NoPatch::TooSlow), 0));
}

//! A test waits until progress stops, and not for a number of seconds, so that it passes on a busy machine.
//! `crates/thalweg-testing` has the waits for Rust, and Playwright those for pages.

use super::{finding::Finding, rust::code};
use crate::tree::Tree;

const IN_RUST: [(&str, &str); 5] = [
    ("sleep(", "await an event, or say `let_pass` or `paced` where time itself is tested"),
    ("recv_timeout(", "use `receive` or `try_receive` of thalweg-testing"),
    ("wait_timeout", "use `wait_for` of thalweg-testing"),
    ("connect_timeout(", "use `connect` of thalweg-testing"),
    (UPPER_BOUND, "compare CPU times (`CpuTimer`), or await the event that is due"),
];

/// A wrong bound in an assertion. A lower bound is harmless: a busy machine is never early.
const UPPER_BOUND: &str = "elapsed() <";

const IN_TYPESCRIPT: [(&str, &str); 2] = [
    ("waitForTimeout", "await what the page shows: `expect` waits for it"),
    ("timeout: ", "leave it to the configuration, which counts the time of an idle machine"),
];

/// A load generator with a schedule, and two files that wait in slices.
const EXEMPT: [&str; 3] = [
    "crates/thalweg/tests/it/cluster/load/",
    "crates/thalweg/tests/it/harness/http2.rs",
    "crates/thalweg-lab/tests/it/fake.rs",
];

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for (path, text) in tree.texts() {
        if EXEMPT.iter().any(|exempt| path.starts_with(exempt)) {
            continue;
        }
        if is_rust_test(path) {
            find(path, &code(text), &IN_RUST, findings);
        } else if [".spec.ts", ".test.ts"].iter().any(|end| path.ends_with(end)) {
            find(path, text, &IN_TYPESCRIPT, findings);
        }
    }
}

fn is_rust_test(path: &str) -> bool {
    let in_tests = path.contains("/tests/") || path.ends_with("/tests.rs");
    path.starts_with("crates/") && path.ends_with(".rs") && in_tests
}

fn find(path: &str, text: &str, banned: &[(&str, &str)], findings: &mut Vec<Finding>) {
    for (line, code) in (1..).zip(text.lines()) {
        let is_banned = |banned: &str| {
            code.contains(banned) && (banned != UPPER_BOUND || code.contains("assert"))
        };
        for (banned, remedy) in banned.iter().filter(|(banned, _)| is_banned(banned)) {
            findings.push(Finding::new(path, line, format!("{banned} in a test"), *remedy));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str, expected: &[&str]) {
        let mut findings = Vec::new();
        super::check(&Tree::from_files(&[(path, text)]), &mut findings);
        let found: Vec<&str> = findings.iter().map(|finding| &*finding.what).collect();
        assert_eq!(found, expected, "{path}: {text}");
    }

    #[test]
    fn fixed_times_are_found_in_tests() {
        let test = "crates/thalweg/tests/it/x.rs";
        check(test, "std::thread::sleep(second);", &["sleep( in a test"]);
        check(test, "answers.recv_timeout(second)", &["recv_timeout( in a test"]);
        check(test, "assert!(begun.elapsed() < second)", &["elapsed() < in a test"]);
        check(test, "wait_for(\"sleep(\", look); // sleep(1)", &[]);
        check("web/e2e/sdk/x.spec.ts", "page.waitForTimeout(1)", &["waitForTimeout in a test"]);
        check("web/sdk/test/x.test.ts", "it(\"x\", { timeout: 1 })", &["timeout:  in a test"]);
    }

    #[test]
    fn other_code_may_have_them() {
        check("crates/thalweg-lab/src/swarm.rs", "thread::sleep(second);", &[]);
        check("crates/thalweg-testing/src/waiting.rs", "thread::sleep(second);", &[]);
        check("web/sdk/src/page.ts", "timeout: 1", &[]);
    }
}

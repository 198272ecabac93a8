//! Every `--help`, as it is printed.

use std::process::Command;

/// The help of a command; with its commands, those of each.
fn helps(command: &[&str], found: &mut Vec<(String, String)>) {
    let output = Command::new(env!("CARGO_BIN_EXE_thalweg"))
        .args(command)
        .arg("--help")
        .output()
        .expect("run the binary");
    assert!(output.status.success(), "{command:?}");
    let help = String::from_utf8(output.stdout).expect("text");
    let commands = help.split("\nCommands:\n").nth(1).unwrap_or_default();
    let names = commands.lines().take_while(|line| line.starts_with("  "));
    let names: Vec<String> =
        names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
    found.push(([&["thalweg"], command].concat().join("-"), help));
    for name in names.iter().filter(|name| *name != "help") {
        helps(&[command, &[name.as_str()]].concat(), found);
    }
}

#[test]
fn every_help_is_as_it_was_looked_at() {
    let mut found = Vec::new();
    helps(&[], &mut found);
    // One that the list of commands does not show.
    helps(&["limit"], &mut found);
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    for known in ["thalweg", "thalweg-serve", "thalweg-bench-export", "thalweg-token-explain"] {
        assert!(names.contains(&known), "{names:?}");
    }
    for (name, help) in &found {
        insta::assert_snapshot!(name.as_str(), help);
    }
}

/// Each scenario of `bench --help` stands in a column of its own.
#[test]
fn no_name_runs_into_its_title() {
    let mut found = Vec::new();
    helps(&["bench"], &mut found);
    let scenarios = found[0].1.split("\nScenarios:\n").nth(1).expect("scenarios");
    let lines: Vec<&str> = scenarios.lines().filter(|line| !line.trim().is_empty()).collect();
    // Where its title begins; a longer title goes on there.
    let start = |line: &str| {
        let named =
            line.trim_start().find("  ").map(|end| line.len() - line.trim_start().len() + end);
        let rest = &line[named.filter(|_| !line.starts_with("   ")).unwrap_or_default()..];
        line.len() - rest.trim_start().len()
    };
    let starts: Vec<usize> = lines.iter().map(|line| start(line)).collect();
    assert!(starts.len() > 20 && starts.iter().all(|at| *at == starts[0]), "{scenarios}");
    assert!(lines.iter().all(|line| line.len() <= 100), "{scenarios}");
}

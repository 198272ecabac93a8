//! Snapshots of every `--help` and `-h`.

use std::process::Command;

struct Help {
    /// As in `bench export`.
    command: Vec<String>,
    text: String,
}

impl Help {
    /// Runs the command with this flag, as in a terminal of this width.
    fn run(command: &[&str], flag: &str, columns: u32) -> Self {
        let output = Command::new(env!("CARGO_BIN_EXE_thalweg"))
            .args(command)
            .arg(flag)
            .env("COLUMNS", columns.to_string())
            .output()
            .expect("run the binary");
        assert!(output.status.success(), "{command:?}");
        let text = String::from_utf8(output.stdout).expect("text");
        Self { command: command.iter().map(ToString::to_string).collect(), text }
    }

    fn name(&self) -> String {
        [&["thalweg".to_owned()], &self.command[..]].concat().join("-")
    }

    /// Returns the lines of the section with this heading.
    fn section(&self, heading: &str) -> Vec<&str> {
        let (_, section) = self.text.split_once(&format!("\n{heading}:\n")).unwrap_or_default();
        section.lines().take_while(|line| line.starts_with("  ")).collect()
    }
}

fn add_helps(command: &[&str], flag: &str, columns: u32, helps: &mut Vec<Help>) {
    let help = Help::run(command, flag, columns);
    let lines = help.section("Commands").into_iter();
    let names = lines.filter(|line| !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    let names: Vec<String> = names.filter(|name| *name != "help").map(str::to_owned).collect();
    helps.push(help);
    for name in names {
        add_helps(&[command, &[&*name]].concat(), flag, columns, helps);
    }
}

/// Returns the help of every command, hidden ones included.
fn helps(flag: &str, columns: u32) -> Vec<Help> {
    let mut helps = Vec::new();
    add_helps(&[], flag, columns, &mut helps);
    add_helps(&["limit"], flag, columns, &mut helps);
    helps
}

#[test]
fn every_help_matches_its_snapshot() {
    let (long, short) = (helps("--help", 100), helps("-h", 100));
    let names: Vec<String> = long.iter().map(Help::name).collect();
    for known in ["thalweg", "thalweg-serve", "thalweg-bench-export", "thalweg-token-explain"] {
        assert!(names.contains(&known.to_owned()), "{names:?}");
    }
    for (long, short) in long.iter().zip(&short) {
        insta::assert_snapshot!(long.name(), long.text);
        if short.text != long.text {
            insta::assert_snapshot!(format!("{}-short", short.name()), short.text);
        }
    }
}

#[test]
fn examples_fit_into_80_columns() {
    for help in ["--help", "-h"].into_iter().flat_map(|flag| helps(flag, 100)) {
        for line in help.section("Examples") {
            assert!(line.chars().count() <= 80, "{}: {line}", help.name());
        }
    }
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for help in ["--help", "-h"].into_iter().flat_map(|flag| helps(flag, 80)) {
        for line in help.text.lines() {
            assert!(line.chars().count() <= 80, "{}: {line}", help.name());
        }
    }
}

#[test]
fn titles_of_scenarios_are_one_column() {
    let help = Help::run(&["bench"], "--help", 80);
    let lines = help.section("Scenarios");
    // A title that is longer than its line continues in the column where it begins.
    let column = |line: &str| {
        let named =
            line.trim_start().find("  ").map(|end| line.len() - line.trim_start().len() + end);
        let rest = &line[named.filter(|_| !line.starts_with("   ")).unwrap_or_default()..];
        line.len() - rest.trim_start().len()
    };
    let columns: Vec<usize> = lines.iter().map(|line| column(line)).collect();
    assert!(columns.len() > 20 && columns.iter().all(|at| *at == columns[0]), "{lines:?}");
}

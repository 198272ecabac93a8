//! The help of a program and of all its commands.

use std::process::Command;

/// The help of a command.
#[derive(Debug)]
pub struct Help {
    /// Program and command, as in `thalweg-data-export`.
    pub name: String,
    /// Its text.
    pub text: String,
}

impl Help {
    /// Runs the command with this flag, as in a terminal of this width. `program` is the path of the program.
    pub fn run(program: &str, command: &[&str], flag: &str, columns: u32) -> Self {
        let output = Command::new(program)
            .args(command)
            .arg(flag)
            .env("COLUMNS", columns.to_string())
            .output()
            .expect("run the program");
        assert!(output.status.success(), "{command:?}");
        let text = String::from_utf8(output.stdout).expect("text");
        let program = program.rsplit('/').next().unwrap_or_default();
        Self { name: [&[program], command].concat().join("-"), text }
    }

    /// Returns the help of the program and of every command, and of these `hidden` ones.
    pub fn all(program: &str, hidden: &[&str], flag: &str, columns: u32) -> Vec<Self> {
        let mut helps = Vec::new();
        add(program, &[], flag, columns, &mut helps);
        for name in hidden {
            add(program, &[name], flag, columns, &mut helps);
        }
        helps
    }

    /// Returns the lines of the section with this heading.
    pub fn section(&self, heading: &str) -> Vec<&str> {
        let (_, section) = self.text.split_once(&format!("\n{heading}:\n")).unwrap_or_default();
        section.lines().take_while(|line| line.starts_with("  ")).collect()
    }
}

fn add(program: &str, command: &[&str], flag: &str, columns: u32, helps: &mut Vec<Help>) {
    let help = Help::run(program, command, flag, columns);
    let lines = help.section("Commands").into_iter();
    let names = lines.filter(|line| !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next());
    let names: Vec<String> = names.filter(|name| *name != "help").map(str::to_owned).collect();
    helps.push(help);
    for name in names {
        add(program, &[command, &[&*name]].concat(), flag, columns, helps);
    }
}

/// Checks that no line of any help is wider than the terminal, and that examples fit into 80 columns of any terminal.
pub fn assert_help_fits(program: &str, hidden: &[&str]) {
    for flag in ["--help", "-h"] {
        for help in Help::all(program, hidden, flag, 80) {
            assert_width(&help.name, help.text.lines());
        }
        for help in Help::all(program, hidden, flag, 100) {
            assert_width(&help.name, help.section("Examples").into_iter());
        }
    }
}

fn assert_width<'a>(name: &str, lines: impl Iterator<Item = &'a str>) {
    for line in lines {
        assert!(line.chars().count() <= 80, "{name}: {line}");
    }
}

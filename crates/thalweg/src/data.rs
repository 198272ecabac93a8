//! `thalweg data`: checks, exports, imports and copies a data directory, and moves the topics of servers.

mod server;

use std::{
    fmt::Write as _,
    io::{self, BufReader, BufWriter, ErrorKind, IsTerminal as _, Write, stderr, stdin, stdout},
    path::PathBuf,
    time::{Duration, UNIX_EPOCH},
};

use anyhow::{anyhow, bail};
use clap::{Args, Subcommand};
use thalweg_disk::{BackedUp, CheckReport, Damage, StoreReport};
use thalweg_terminal::{print, printable, say};
use thalweg_token::Pattern;

use crate::reach::{ConnectionArgs, events, grouped};

/// Bytes that are collected before they are written to stdout.
const WRITE_BYTES: usize = 1 << 20;

/// The end of the year 9999, the last that RFC 3339 can express.
const TIME_MAX_MS: u64 = 253_402_300_799_000;

/// Check, export, import or back up a data directory, or move topics between servers.
///
/// A server with --data keeps its topics there. Only backup works while the server runs. Export and import also take the URL of
/// a running server, whose topics may be on disk, in NATS or in memory.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  thalweg data backup /var/lib/thalweg /backup/monday
  thalweg data check /backup/monday
  thalweg data export /backup/monday --topic 'orders/**' > orders.ndjson
  thalweg data import /var/lib/thalweg-new < orders.ndjson
  thalweg data export http://old:8080 | thalweg data import http://new:8080")]
pub(crate) struct DataArgs {
    #[command(subcommand)]
    command: DataCommand,
}

#[derive(Subcommand, Debug)]
enum DataCommand {
    Check(CheckArgs),
    Export(ExportArgs),
    Import(ImportArgs),
    Backup(BackupArgs),
}

/// Verify each record and index of a directory, and change nothing.
///
/// Stop the server first, unless the directory is a backup. Exit status: 0 without damage, otherwise 1.
#[derive(Args, Debug)]
struct CheckArgs {
    /// The data directory.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Write the events of a directory or a server to stdout, one per line, as JSON.
///
/// Stop the server of a directory first, unless the directory is a backup. Keep the lines of stores, losses and ended topics:
/// an import needs them. Import the lines of a running server only into another running server. Exit status: 1 if damaged
/// or expired events are missing.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  thalweg data export /backup/monday > monday.ndjson
  thalweg data export /backup/monday --topic orders/7 | jq -c '.event // empty'
  thalweg data export http://old:8080 | thalweg data import http://new:8080")]
struct ExportArgs {
    /// The data directory, or the URL of a running server.
    #[arg(value_name = "DIR|URL")]
    source: PathBuf,
    /// Write only the events of topics that match this pattern.
    #[arg(long, value_name = "PATTERN", default_value = "**")]
    topic: Pattern,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Read the output of an export from stdin into a directory or a server.
///
/// A new directory keeps all positions. In a directory with topics the events get new positions and times, after the
/// existing events; stop its server first. A running server gets the events as from a publisher.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  thalweg data import /var/lib/thalweg-new < monday.ndjson
  thalweg data export /backup/monday | thalweg data import http://127.0.0.1:8080")]
struct ImportArgs {
    /// The data directory, which is created if it is missing, or the URL of a running server.
    #[arg(value_name = "DIR|URL")]
    target: PathBuf,
    /// Report a gap to all subscribers. Set this if the exported directory got more events after the export.
    #[arg(long)]
    new_epochs: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Copy a directory, even while its server runs.
///
/// The copy has all events that the server confirmed before. Files that never change are linked if both directories are on
/// one file system, so the copy takes little room. Subscribers of a server that runs on the copy get a gap.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  thalweg data backup /var/lib/thalweg /backup/monday
  thalweg data backup --copy /var/lib/thalweg /var/lib/thalweg-copy")]
struct BackupArgs {
    /// The data directory.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// The copy: a directory that is new or empty.
    #[arg(value_name = "TARGET")]
    target: PathBuf,
    /// Copy files instead of linking them. A fault of the disk damages both names of a link.
    #[arg(long)]
    copy: bool,
}

pub(crate) fn run(args: &DataArgs) -> anyhow::Result<()> {
    match &args.command {
        DataCommand::Check(args) => check(args),
        DataCommand::Export(args) => export(args),
        DataCommand::Import(args) => import(args),
        DataCommand::Backup(args) => backup(args),
    }
}

fn check(args: &CheckArgs) -> anyhow::Result<()> {
    let mut meter = Meter::new("checked");
    let report = thalweg_disk::check(&args.directory, &mut |done, total| meter.show(done, total));
    meter.clear();
    let report = report.map_err(|error| anyhow!(error))?;
    print(&printable(&table(&report)))?;
    match report.damage.len() {
        0 => Ok(()),
        1 => bail!(
            "one part is damaged: restore the directory from a backup, or continue without the part"
        ),
        count => bail!(
            "{count} parts are damaged: restore the directory from a backup, or continue without the parts"
        ),
    }
}

fn export(args: &ExportArgs) -> anyhow::Result<()> {
    let mut out = BufWriter::with_capacity(WRITE_BYTES, Output { is_closed: false });
    let damage = if let Some(url) = server::url(&args.source) {
        server::export(&args.connection.client(url)?, &args.topic, &mut out).map(|()| 0)
    } else {
        let mut meter = Meter::new("exported");
        let progress = &mut |done, total| meter.show(done, total);
        let exported = thalweg_disk::export(&args.source, &args.topic, &mut out, progress);
        meter.clear();
        exported.map(|exported| exported.damage).map_err(|error| anyhow!(error))
    };
    let flushed = if damage.is_ok() { out.flush() } else { Ok(()) };
    if out.get_ref().is_closed {
        // Dropping `out` would write the rest.
        let _ = out.into_parts();
        return Ok(());
    }
    let damage = damage?;
    flushed?;
    match damage {
        0 => Ok(()),
        _ => bail!("damaged events are missing: list them with thalweg data check"),
    }
}

fn import(args: &ImportArgs) -> anyhow::Result<()> {
    let mut input = BufReader::with_capacity(WRITE_BYTES, stdin().lock());
    if let Some(url) = server::url(&args.target) {
        if args.new_epochs {
            bail!("a server chooses its own epochs: remove --new-epochs");
        }
        let count = server::import(&args.connection.client(url)?, &mut input)?;
        say(format_args!("imported {} with new positions", events(count)));
        return Ok(());
    }
    let imported = thalweg_disk::import(&args.target, &mut input, args.new_epochs);
    let imported = imported.map_err(|error| anyhow!(error))?;
    let positions = match imported.keeps_positions {
        true => "with their positions",
        false => "with new positions",
    };
    say(format_args!("imported {} {positions}", events(imported.events)));
    Ok(())
}

fn backup(args: &BackupArgs) -> anyhow::Result<()> {
    let mut meter = Meter::new("backed up");
    let progress = &mut |done, total| meter.show(done, total);
    let done = thalweg_disk::backup(&args.directory, &args.target, args.copy, progress);
    meter.clear();
    let BackedUp { linked, linked_bytes, copied, copied_bytes } =
        done.map_err(|error| anyhow!(error))?;
    say(format_args!(
        "linked {linked} files ({}) and copied {copied} ({})",
        size(linked_bytes),
        size(copied_bytes)
    ));
    Ok(())
}

/// Stdout, which its reader may close early.
struct Output {
    is_closed: bool,
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = stdout().write(bytes);
        self.is_closed |=
            written.as_ref().is_err_and(|error| error.kind() == ErrorKind::BrokenPipe);
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        stdout().flush()
    }
}

/// Shows progress in the last line of a terminal.
struct Meter {
    done: &'static str,
    is_terminal: bool,
    /// The percentage that is shown.
    percent: Option<u64>,
}

impl Meter {
    fn new(done: &'static str) -> Self {
        // Progress would disturb the lines of an export on the same terminal.
        let is_terminal = stderr().is_terminal() && (done != "exported" || !stdout().is_terminal());
        Self { done, is_terminal, percent: None }
    }

    fn show(&mut self, done: u64, total: u64) {
        let percent = done.saturating_mul(100).checked_div(total).unwrap_or(100).min(100);
        if self.is_terminal && self.percent.replace(percent) != Some(percent) {
            let _ = write!(stderr(), "\r{} {percent} % of {}", self.done, size(total));
        }
    }

    fn clear(&mut self) {
        if self.percent.take().is_some() && self.is_terminal {
            let _ = write!(stderr(), "\r\x1b[K");
        }
    }
}

/// Returns the lines of a report.
fn table(report: &CheckReport) -> String {
    let heads = ["store", "kind", "topics", "events", "bytes", "oldest", "newest"];
    let mut rows = vec![heads.map(str::to_owned)];
    rows.extend(report.stores.iter().map(row));
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0);
    let widths: [usize; 7] = std::array::from_fn(width);
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        let _ = writeln!(text, "{}", line.trim_end());
    }
    report.damage.iter().for_each(|damage| _ = writeln!(text, "{}", damage_line(damage)));
    text
}

fn row(store: &StoreReport) -> [String; 7] {
    let time = |ms: u64| {
        let since = Duration::from_millis(ms.min(TIME_MAX_MS));
        humantime::format_rfc3339_seconds(UNIX_EPOCH + since).to_string()
    };
    let (oldest, newest) =
        store.times_ms.map_or(Default::default(), |(oldest, newest)| (time(oldest), time(newest)));
    let unused = if store.is_configured { "" } else { " (unused)" };
    [
        format!("{}{unused}", store.pattern),
        store.kind.name().to_owned(),
        grouped(store.topics),
        grouped(store.events),
        size(store.bytes),
        oldest,
        newest,
    ]
}

fn damage_line(damage: &Damage) -> String {
    let Damage { file, store, offsets, topics, effect } = damage;
    let mut line = format!("damage in {file}");
    if let Some(store) = store {
        let _ = write!(line, ", store {store}");
    }
    if let Some(offsets) = offsets {
        let last = offsets.end.saturating_sub(1);
        let _ = write!(line, ", offsets {} to {last}", offsets.start);
    }
    if !topics.is_empty() {
        let _ = write!(line, ", topics {}", topics.join(" "));
    }
    format!("{line}: {effect}")
}

/// Returns bytes with a unit.
fn size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.into_iter().find(|(shift, _)| bytes >= 1 << shift) {
        Some((shift, unit)) => format!("{:.1} {unit}", bytes as f64 / (1_u64 << shift) as f64),
        None => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use thalweg_core::stream::FeedKind;

    use super::*;

    #[test]
    fn a_report_is_a_table_and_a_line_for_each_damage() {
        let store = |pattern: &str, events| StoreReport {
            pattern: pattern.parse().expect("a pattern"),
            kind: if events == 0 { FeedKind::Value } else { FeedKind::Log },
            is_configured: events > 0,
            topics: 3,
            events,
            bytes: 5 << 20,
            times_ms: (events > 0).then_some((61_000, u64::MAX)),
        };
        let damage = Damage {
            file: "run-7".into(),
            store: Some("orders/**".parse().expect("a pattern")),
            offsets: Some(300..310),
            topics: vec!["orders/1".into()],
            effect: "subscribers get a gap",
        };
        let stores = vec![store("orders/**", 1234), store("old", 0)];
        let report = CheckReport { stores, damage: vec![damage] };
        assert_eq!(
            table(&report),
            "\
store         kind   topics  events  bytes    oldest                newest
orders/**     log    3       1,234   5.0 MiB  1970-01-01T00:01:01Z  9999-12-31T23:59:59Z
old (unused)  value  3       0       5.0 MiB
damage in run-7, store orders/**, offsets 300 to 309, topics orders/1: subscribers get a gap
"
        );
        assert_eq!([size(7), size(1536), size(3 << 30)], ["7 B", "1.5 KiB", "3.0 GiB"]);
    }
}

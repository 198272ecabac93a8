//! `thalweg-lab plan`: estimates the nodes for a load from the costs that a run of the lab has measured.

use anyhow::{Context, anyhow};
use clap::Args;
use std::path::PathBuf;
use thalweg_lab::run::{STORE, Store, StoredRun};
use thalweg_lab::scenario::Transport;
use thalweg_lab::sizing::{Basis, Demand, Node, size};
use thalweg_terminal::print;

/// The costs that are part of this release, written by `thalweg-lab bench export RUN --format cost`.
const BASIS: &str = include_str!("../../../lab/cost.json");

/// Estimate how many servers a load needs, and which resource runs out first.
///
/// The estimate uses the costs of connections, messages and bytes that a run of `thalweg-lab bench d-cost` has
/// measured: the run that ships with this release, or your own (--from). The output names the run, the
/// confidence interval, and every figure beyond the measured range. The plan loads servers to at
/// most 70 %.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PlanArgs {
    /// Plan for this many clients with one subscription each, e.g. 1M.
    #[arg(long, value_name = "COUNT", value_parser = count)]
    subscribers: f64,
    /// Assume documents of this size, e.g. 5KB.
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    size: f64,
    /// Assume a new version of each document after this time, e.g. 1s or 250ms.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = seconds)]
    every: f64,
    /// Assume patches with this share of a document's size, e.g. 5% [default: whole documents].
    #[arg(long, value_name = "SHARE", value_parser = share)]
    delta: Option<f64>,
    /// Assume this transport: websocket, sse, http-streaming, forever-frame or long-polling.
    #[arg(long, value_name = "NAME", default_value = "websocket", value_parser = transport)]
    transport: Transport,
    /// Assume servers with this many cores.
    #[arg(long, value_name = "COUNT", default_value = "8", value_parser = count)]
    cores: f64,
    /// Assume servers with this much memory.
    #[arg(long, value_name = "BYTES", default_value = "16GB", value_parser = bytes)]
    memory: f64,
    /// Assume servers with this outgoing bandwidth per second.
    #[arg(long, value_name = "BITS", default_value = "10Gbit", value_parser = bits)]
    network: f64,
    /// Use the costs of this run: `last`, a name, a part of a name, or a path.
    #[arg(long, value_name = "RUN")]
    from: Option<String>,
    /// Read runs from this folder.
    #[arg(long, value_name = "DIR", default_value = STORE)]
    store: PathBuf,
    /// Print the estimate as JSON.
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  thalweg-lab plan --subscribers 1M --size 5KB --every 1s
  thalweg-lab plan --subscribers 200k --size 165KB --every 1s \\
    --delta 5% --network 25Gbit
  thalweg-lab plan --from last --subscribers 50k --size 1KB --every 100ms";

pub(crate) fn run(args: &PlanArgs) -> anyhow::Result<()> {
    let basis = match &args.from {
        Some(run) => StoredRun::read(&Store::new(&args.store).find(run)?)?.basis(),
        None => serde_json::from_str(BASIS).context("the costs of this release cannot be read")?,
    };
    let text = answer(args, &basis)?;
    Ok(print(&text)?)
}

fn answer(args: &PlanArgs, basis: &Basis) -> anyhow::Result<String> {
    let demand = Demand {
        subscribers: args.subscribers,
        bytes: args.size,
        every_s: args.every,
        delta: args.delta.unwrap_or(1.0),
        transport: args.transport,
    };
    let node =
        Node { cores: args.cores, memory_bytes: args.memory, network_bits_per_s: args.network };
    let sizing = size(basis, &demand, &node).map_err(|error| anyhow!(error))?;
    Ok(match args.json {
        true => serde_json::to_string_pretty(&sizing)? + "\n",
        false => sizing.text(basis, &demand, &node),
    })
}

/// Parses a number above 0 with one of these units. The first unit that fits is used.
fn quantity(text: &str, units: &[(&str, f64)], example: &str) -> Result<f64, String> {
    let with = |(unit, scale): &(&str, f64)| {
        let number: f64 = text.strip_suffix(unit)?.trim_end().parse().ok()?;
        Some(number * scale)
    };
    units
        .iter()
        .find_map(with)
        .filter(|value| value.is_finite() && *value > 0.0)
        .ok_or_else(|| format!("not a number above 0 with a unit; write {example}"))
}

fn count(text: &str) -> Result<f64, String> {
    quantity(text, &[("k", 1e3), ("M", 1e6), ("G", 1e9), ("", 1.0)], "250k or 1M")
}

fn bytes(text: &str) -> Result<f64, String> {
    const UNITS: [(&str, f64); 9] = [
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
        ("kB", 1e3),
        ("KB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("B", 1.0),
        ("", 1.0),
    ];
    quantity(text, &UNITS, "5KB or 16GB")
}

fn bits(text: &str) -> Result<f64, String> {
    let text = text.strip_suffix("/s").unwrap_or(text);
    quantity(text, &[("Mbit", 1e6), ("Gbit", 1e9)], "10Gbit")
}

fn seconds(text: &str) -> Result<f64, String> {
    quantity(text, &[("ms", 1e-3), ("min", 60.0), ("s", 1.0)], "1s or 250ms")
}

fn share(text: &str) -> Result<f64, String> {
    quantity(text, &[("%", 0.01), ("", 1.0)], "10%").and_then(|share| match share {
        ..=1.0 => Ok(share),
        _ => Err("a patch cannot be larger than its document; write at most 100%".to_owned()),
    })
}

fn transport(text: &str) -> Result<Transport, String> {
    let name = serde_json::Value::String(text.to_owned());
    serde_json::from_value(name).map_err(|_| {
        "write websocket, sse, http-streaming, forever-frame or long-polling".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(clap::Parser)]
    struct Alone {
        #[command(flatten)]
        args: PlanArgs,
    }

    fn plan(words: &str) -> Result<PlanArgs, String> {
        let words = std::iter::once("plan").chain(words.split(' '));
        let alone = <Alone as clap::Parser>::try_parse_from(words);
        alone.map(|alone| alone.args).map_err(|error| error.to_string())
    }

    #[test]
    fn quantities_have_units() {
        let args = plan(
            "--subscribers 1.5M --size 5KB --every 250ms --delta 10% --cores 4 --memory 16GiB \
             --network 25Gbit/s --transport sse",
        )
        .unwrap();
        assert_eq!((args.subscribers, args.size, args.every), (1.5e6, 5e3, 0.25));
        assert_eq!((args.delta, args.cores, args.network), (Some(0.1), 4.0, 25e9));
        assert_eq!((args.memory, args.transport), (17_179_869_184.0, Transport::Sse));
        for wrong in ["--subscribers many", "--subscribers 0"] {
            let error = plan(&format!("{wrong} --size 1KB")).unwrap_err();
            assert!(error.contains("write 250k or 1M"), "{error}");
        }
        let error = plan("--subscribers 1 --size 1KB --delta 120%").unwrap_err();
        assert!(error.contains("write at most 100%"), "{error}");
    }

    #[test]
    fn the_costs_of_the_release_answer_for_the_published_shapes() {
        let basis: Basis = serde_json::from_str(BASIS).unwrap();
        for shape in ["--size 5KB --every 1s", "--size 10KB --every 1s", "--size 10KB --every 2s"] {
            let args = plan(&format!("--subscribers 1M {shape}")).unwrap();
            let text = answer(&args, &basis).unwrap();
            assert!(text.contains(&format!("from      run {} of ", basis.run)), "{text}");
        }
    }
}

//! A plan for endpoints that somebody runs: `thalweg bench --url`.

use super::cell_matrix::combinations_over;
use super::file::Block;
use super::plan::{Cell, Part, Plan, Subject};
use super::read::{Changes, forced_block};
use super::uses::expect_used;
use super::{Drive, Endpoint, Program, ScenarioError, Settings};

/// Samples of each endpoint, unless told otherwise.
const REPEATS: u32 = 3;
const WARM_UP_MS: u64 = 500;
const MEASURED_MS: u64 = 5000;
/// Somebody else's server is not to be surprised by many.
const CONNECTIONS: u32 = 10;

/// What is asked for by `--rate` and `--size`: to send so many messages of so many bytes a
/// second on each connection. That takes a workload of its own, which counts from when each
/// was due; until there is one they are refused.
const NOTHING_IS_SENT: &str = "an endpoint is listened to and not sent to, so --rate and --size \
    have no effect: what a WebSocket is to be told once it stands is --send-on-open";

/// Listens to each endpoint in turn; what they are compared with is the first.
/// `--connections` may say how many connections.
pub fn listen(endpoints: &[Endpoint], changes: &Changes) -> Result<Plan, ScenarioError> {
    let base = Settings { connections: CONNECTIONS, ..Settings::default() };
    let forced = forced_block(changes)?;
    if forced.rate.is_some() || forced.event_bytes.is_some() {
        return Err(ScenarioError::new(NOTHING_IS_SENT));
    }
    let drive = shape(&forced, changes)?;
    let own = forced.only(|key| !matches!(key, "arrivals" | "stay_ms"));
    expect_used(&own, Drive::Listen).map_err(ScenarioError::new)?;
    let all = combinations_over(&forced, &base);
    if all.iter().any(|settings| settings.connections == 0) {
        return Err(ScenarioError::new("connections are at least 1"));
    }
    let cells = all.into_iter().map(|settings| {
        let subjects = endpoints.iter().zip(names(endpoints)).map(|(endpoint, name)| Subject {
            name,
            program: Program::Url(Box::new(endpoint.clone())),
            settings: Settings { transport: endpoint.transport, ..settings.clone() },
        });
        let label = settings.label(drive);
        Cell { label, settings: settings.clone(), subjects: subjects.collect(), baseline: 0 }
    });
    let name = "url".to_owned();
    let title = "an endpoint as it is: what comes, how regularly, at what cost".to_owned();
    let mut part = Part {
        name: name.clone(),
        title: title.clone(),
        drive,
        figure: None,
        repeats: changes.repeats.unwrap_or(REPEATS),
        rounds: 1,
        budget_s: None,
        warm_up_ms: WARM_UP_MS,
        measured_ms: changes.measured_ms.unwrap_or(MEASURED_MS),
        concurrent: false,
        cells: cells.collect(),
    };
    if part.repeats == 0 || part.measured_ms == 0 {
        return Err(ScenarioError::new("at least one repeat and some time to measure are needed"));
    }
    part.tell_cells_apart();
    Ok(Plan { name, title, parts: vec![part] })
}

/// How connections come to the endpoint.
fn shape(forced: &Block, changes: &Changes) -> Result<Drive, ScenarioError> {
    match (forced.arrivals.is_some(), forced.stay_ms.is_some(), changes.stampede) {
        (false, false, false) => Ok(Drive::Listen),
        (true, false, false) => Ok(Drive::Ramp),
        (false, true, false) => Ok(Drive::Churn),
        (false, false, true) => Ok(Drive::Stampede),
        _ => Err(ScenarioError::new(
            "a run has one shape: take --arrivals, --stay or --stampede, one run for each",
        )),
    }
}

/// Each by its URL without the query, which may hold secrets; what is called the
/// same then is numbered.
fn names(endpoints: &[Endpoint]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for endpoint in endpoints {
        let name = endpoint.url.to_string();
        let numbered = (2..).map(|number| format!("{name} ({number})"));
        let mut free = std::iter::once(name.clone()).chain(numbered);
        names.extend(free.find(|name| !names.contains(name)));
    }
    names
}

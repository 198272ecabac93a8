//! A plan for endpoints that somebody runs: `thalweg-lab bench --url`.

use super::check::{EVENT_BYTES_MAX, RATE_MAX, connecting, slow};
use super::plan::{Cell, Part, Plan, Subject};
use super::read::{Changes, forced_block};
use super::settings::Block;
use super::uses::expect_used;
use super::{Drive, Endpoint, LoadIn, Program, ScenarioError, Settings, Transport};

/// Samples of each endpoint, unless told otherwise.
const REPEATS: u32 = 3;
const WARM_UP_MS: u64 = 500;
const MEASURED_MS: u64 = 5000;
/// A low default, to spare a server of somebody else.
const CONNECTIONS: u32 = 10;

/// The lab's own messages are JSON with an id.
const MESSAGE_BYTES_MIN: u32 = 33;

/// Listens to each endpoint in turn, and sends to it if there is a `--rate`; the first is the baseline.
pub fn listen(endpoints: &[Endpoint], changes: &Changes) -> Result<Plan, ScenarioError> {
    let mut base = Settings { connections: CONNECTIONS, ..Settings::default() };
    if endpoints.iter().any(|endpoint| !endpoint.data.is_empty()) {
        // Each line has its own size.
        base.event_bytes = 0;
    }
    let forced = forced_block(changes)?;
    let drive = shape(&forced, changes, endpoints)?;
    for endpoint in endpoints {
        sendable(&forced, drive, endpoint).map_err(ScenarioError::new)?;
    }
    let own = forced.only(|key| !matches!(key, "arrivals" | "stay_ms"));
    let sends = if drive == Drive::Send { Drive::Send } else { Drive::Listen };
    expect_used(&own, sends, false).map_err(ScenarioError::new)?;
    let all = forced.combinations(&base);
    for settings in &all {
        expect_possible(settings, drive, endpoints).map_err(ScenarioError::new)?;
    }
    let cells = all.into_iter().map(|settings| {
        let subjects = endpoints.iter().zip(names(endpoints)).map(|(endpoint, name)| Subject {
            name,
            program: Program::Url(Box::new(endpoint.clone())),
            settings: Settings { transport: endpoint.transport, ..settings.clone() },
            arguments: Vec::new(),
            processes: Vec::new(),
        });
        // A label names the transport of the endpoints, if they have one in common.
        let transport = endpoints.first().map(|endpoint| endpoint.transport);
        let transport = transport
            .filter(|transport| endpoints.iter().all(|endpoint| endpoint.transport == *transport));
        let label = match transport {
            Some(transport) => Settings { transport, ..settings.clone() }.label(drive),
            None => settings.label(drive).replacen(&format!("{} ", Transport::Websocket), "", 1),
        };
        Cell {
            label,
            settings: settings.clone(),
            subjects: subjects.collect(),
            baseline: 0,
            blanks: Vec::new(),
        }
    });
    let name = "url".to_owned();
    let title = "a running endpoint: its messages, their intervals, and the cost".to_owned();
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
    Ok(Plan { name, title, load: LoadIn::Swarm, parts: vec![part] })
}

/// Returns how connections come to the endpoint.
fn shape(
    forced: &Block,
    changes: &Changes,
    endpoints: &[Endpoint],
) -> Result<Drive, ScenarioError> {
    let thinks = endpoints.iter().any(Endpoint::sends_at_random);
    if thinks && forced.rate.is_some() {
        return Err(ScenarioError::new(
            "--think and --rate both determine when messages are sent: remove one of them",
        ));
    }
    let sends = forced.rate.is_some() || thinks;
    match (forced.arrivals.is_some(), forced.stay_ms.is_some(), changes.stampede, sends) {
        (false, false, false, false) => Ok(Drive::Listen),
        (true, false, false, false) => Ok(Drive::Ramp),
        (false, true, false, false) => Ok(Drive::Churn),
        (false, false, true, false) => Ok(Drive::Stampede),
        (_, false, false, true) => Ok(Drive::Send),
        _ => Err(ScenarioError::new(
            "a run can have only one of --arrivals, --stay and --stampede, and --rate only with \
             --arrivals: make one run for each",
        )),
    }
}

/// Refuses settings for messages if none are sent, or if other settings replace them.
fn sendable(forced: &Block, drive: Drive, endpoint: &Endpoint) -> Result<(), String> {
    if drive != Drive::Send {
        let of_messages = [
            ("--size", forced.event_bytes.is_some()),
            ("--data", !endpoint.data.is_empty()),
            ("--binary", endpoint.binary),
        ];
        return match of_messages.iter().find(|(_, is_set)| *is_set) {
            None => Ok(()),
            Some((option, _)) => Err(format!(
                "{option} is for messages that are sent: set --rate, or \
                 remove it"
            )),
        };
    }
    if endpoint.transport != Transport::Websocket {
        return Err("--rate needs a WebSocket, because SSE and HTTP streaming cannot \
                    send: write the URL with ws:// or wss://, or remove it"
            .to_owned());
    }
    if forced.event_bytes.is_some() && !endpoint.data.is_empty() {
        return Err("--data determines the size of messages: remove --size".to_owned());
    }
    if endpoint.timestamp.is_some() && endpoint.is_to_answer() {
        return Err("answers determine the latency, so --timestamp cannot: remove \
                    it, or send lines of --data without {id}"
            .to_owned());
    }
    Ok(())
}

fn expect_possible(
    settings: &Settings,
    drive: Drive,
    endpoints: &[Endpoint],
) -> Result<(), String> {
    let Settings { connections, rate, event_bytes, .. } = *settings;
    if connections == 0 {
        return Err("connections are at least 1".to_owned());
    }
    connecting(settings, drive)?;
    let all_stay = drive.is_of_endpoints() && settings.arrivals.are_at_once();
    if settings.slow > 0 && (!all_stay || endpoints.iter().any(Endpoint::renews)) {
        return Err("--slow is for connections that stay: remove --arrivals, --stay, --stampede \
                    and --dialect llm-stream"
            .to_owned());
    }
    if settings.slow >= connections {
        return Err(format!(
            "{} of {connections} connections are slow: nobody is left to read",
            settings.slow
        ));
    }
    slow(settings)?;
    if let Some(few) =
        endpoints.iter().map(|endpoint| endpoint.tokens.len()).find(|count| *count > 0)
        && few < connections as usize
    {
        return Err(format!(
            "--tokens has {few} lines for {connections} connections: each needs one of its own"
        ));
    }
    let thinks = endpoints.iter().any(Endpoint::sends_at_random);
    if drive == Drive::Send && !thinks && !(1..=RATE_MAX).contains(&rate) {
        return Err(format!("a rate is 1 to {RATE_MAX} messages a second on each connection"));
    }
    let has_size = MESSAGE_BYTES_MIN..=EVENT_BYTES_MAX;
    let makes_them = endpoints.iter().all(|endpoint| endpoint.data.is_empty());
    if drive == Drive::Send && makes_them && !has_size.contains(&event_bytes) {
        return Err(format!(
            "a message that is sent has {MESSAGE_BYTES_MIN} to {EVENT_BYTES_MAX} bytes; --data \
             may say something shorter"
        ));
    }
    Ok(())
}

/// Names each by its URL without the query, which may hold secrets; equal names are numbered.
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

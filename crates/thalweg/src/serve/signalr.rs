//! The section `[signalr]` of the file.

use serde::Deserialize;

use super::merge::over;

/// Hubs for clients of SignalR, whose methods subscribe to topics and publish to them.
#[derive(Clone, Debug, Default, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct SignalrTable {
    /// Serve a hub at each of these paths: ["/hub"]
    ///
    /// All hubs have the same methods and topics. Connections get a heartbeat after at most 15 s without data.
    pub(super) paths: Vec<String>,
}

over!(SignalrTable: paths);

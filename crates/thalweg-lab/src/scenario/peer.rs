//! A subject of somebody else's, as its `subject.toml` describes it: how it is built and started, and what it speaks.

use super::{Drive, ScenarioError, Settings, Transport};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The protocol of a subject on top of a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PeerDialect {
    /// Thalweg's wire (`docs/reference/messages.md`).
    Thalweg,
    /// The same for subscribers; messages that a WebSocket sends are echoed.
    Limit,
    /// Messages as they are, without an envelope; messages that a WebSocket sends are echoed.
    #[serde(alias = "bare")]
    Raw,
    /// No protocol: the peer has no subscribers. It reads a NATS stream. Like a node, it reports at
    /// `/metrics` how many messages it has read, and it reports at `/times` when each was due and came.
    Consumer,
    /// Socket.IO 5 over Engine.IO 4, as Socket.IO 3 and 4 speak them.
    Socketio,
    /// Engine.IO 4.
    Engineio,
    /// SockJS, over a WebSocket.
    Sockjs,
    /// Primus, with its JSON parser.
    Primus,
    /// The NATS client protocol in WebSocket frames.
    Nats,
    /// nginx with nchan.
    Nchan,
    /// Centrifugo's JSON protocol.
    Centrifugo,
    /// A Mercure hub.
    Mercure,
    /// A hub of SignalR, over a WebSocket.
    Signalr,
}

/// A server of another project.
///
/// In `install`, `command` and `version`, `{listen}` stands for address and port, `{source}` for what it is to send by itself,
/// `{folder}` for where the `subject.toml` lies, `{out}` for where installing is to leave its program, and the name of a setting,
/// e.g. `{mode}`, for its value. A `command` may begin with `{thalweg}`, the binary that is measured, or `{lab}`, the lab's own
/// program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// The peer's name in scenarios.
    pub name: String,
    /// A description in a line.
    pub title: String,
    /// Its licence (an SPDX expression).
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub licence: String,
    /// The peer's protocol.
    pub dialect: PeerDialect,
    /// The path of its WebSocket, in old archived plans only.
    #[serde(default, rename = "path", skip_serializing)]
    _path: Option<String>,
    /// The drives it can take part in.
    pub drives: Vec<Drive>,
    /// The transports that it supports. Empty: all.
    #[serde(default)]
    pub transports: Vec<Transport>,
    /// Why it lacks a transport or drive that one would expect.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cannot: BTreeMap<String, String>,
    /// Why its design drops events of subscribers that read: they are counted, and its figures are shown unranked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drops: Option<String>,
    /// Settings that matter for a comparison: name and value.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// Programs that must be on the PATH to install and to start it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// Installs it, in its folder. Empty: nothing to install.
    #[serde(default, alias = "build")]
    pub install: Vec<String>,
    /// File that installing leaves, if not `{out}`: it is installed again once a source is newer.
    #[serde(default, alias = "built")]
    pub installed: Option<String>,
    /// Starts it.
    pub command: Vec<String>,
    /// Path that is answered with 200 once it is ready; empty: any answer to `/`.
    #[serde(default = "ready", skip_serializing_if = "is_default_ready")]
    pub ready: String,
    /// Path that is answered with the delays of its event loop (`lab/subjects/node/peer.js`); empty: it does
    /// not report them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub loop_delay: String,
    /// Prints its version.
    #[serde(default)]
    pub version: Vec<String>,
    /// Where its `subject.toml` lies.
    #[serde(default)]
    pub folder: String,
    /// Arguments that a scenario adds to its command.
    #[serde(default)]
    pub arguments: Vec<String>,
}

fn ready() -> String {
    "/healthz".to_owned()
}

fn is_default_ready(path: &str) -> bool {
    path == ready()
}

impl Peer {
    /// Reads a `subject.toml` that lies in `folder`.
    pub fn read(text: &str, folder: &str) -> Result<Peer, ScenarioError> {
        let peer: Peer =
            toml::from_str(text).map_err(|error| ScenarioError::from_toml(text, &error))?;
        if peer.command.is_empty() {
            return Err(ScenarioError::new(
                "`command` is empty: write the command that starts the subject",
            ));
        }
        Ok(Peer { folder: folder.to_owned(), ..peer })
    }

    /// Returns why it cannot be measured with these settings, if it cannot.
    pub fn blank(&self, settings: &Settings, drive: Drive) -> Option<String> {
        let Settings { transport, topics, tls, streams, .. } = *settings;
        let reason = |name: String| self.cannot.get(&name).cloned();
        if !self.drives.contains(&drive) {
            let drive = drive.to_string();
            return reason(drive.clone()).or(Some(format!("it takes no part in `{drive}`")));
        }
        if !self.transports.is_empty() && !self.transports.contains(&transport) {
            let transport = transport.to_string();
            return reason(transport.clone()).or(Some(format!("not over {transport}")));
        }
        if tls || streams > 0 {
            return Some("peers are measured without TLS and HTTP/2".to_owned());
        }
        let has_several = self.dialect == PeerDialect::Nats;
        let is_ours = matches!(self.dialect, PeerDialect::Thalweg | PeerDialect::Limit);
        if topics > 1 && !has_several && !is_ours {
            return Some("a connection has one topic".to_owned());
        }
        None
    }

    /// Returns the path of the installed program.
    pub fn program(&self) -> String {
        format!("{}/build/{}", self.folder, self.name)
    }

    /// Returns a word of its commands, with folder and program filled in.
    pub fn fill(&self, word: &str) -> String {
        word.replace("{folder}", &self.folder).replace("{out}", &self.program())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
name = "echoes"
title = "says back what it hears"
dialect = "raw"
drives = ["echo"]
command = ["{folder}/echoes", "{listen}"]
"#;

    #[test]
    fn a_subject_describes_itself() {
        let peer = Peer::read(TEXT, "lab/subjects/echoes").unwrap();
        assert_eq!((peer.dialect, &*peer.folder), (PeerDialect::Raw, "lab/subjects/echoes"));
        assert_eq!(peer.drives, [Drive::Echo]);
    }

    #[test]
    fn mistakes_are_named() {
        let wrong =
            |from: &str, to: &str| Peer::read(&TEXT.replace(from, to), "").unwrap_err().to_string();
        assert_eq!(
            wrong("dialect", "dialekt"),
            "line 4: there is no key `dialekt`; did you mean `dialect`?"
        );
        assert_eq!(
            wrong("\"raw\"", "\"mercur\""),
            "line 4: there is no value `mercur`; did you mean `mercure`?"
        );
        assert!(wrong("command", "comand").contains("comand"));
    }
}

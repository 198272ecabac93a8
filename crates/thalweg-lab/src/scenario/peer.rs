//! A subject of somebody else's, as its `subject.toml` describes it: how it is
//! built and started, and what it speaks.

use super::{Drive, ScenarioError, Transport};
use serde::{Deserialize, Serialize};

/// What a subject says on top of a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// Thalweg's wire (`docs/wire.md`).
    Thalweg,
    /// The same towards subscribers; what a WebSocket says comes back as it is.
    Limit,
    /// Messages as they are, without an envelope; what a WebSocket says comes
    /// back as it is.
    Bare,
    /// None: it has no subscribers. It reads a stream of NATS, and says at `/metrics` how many
    /// messages it has read, as a node does, and at `/times` when each was due and came.
    Consumer,
    /// Socket.IO 5 over Engine.IO 4, as Socket.IO 3 and 4 speak them.
    Socketio,
}

/// A program that is none of Thalweg's.
///
/// In `build`, `command` and `version`, `{listen}` stands for address and port,
/// `{folder}` for where the `subject.toml` lies, `{out}` for where a build is to
/// leave its program, and the name of a setting, e.g. `{dummy_bytes}`, for its
/// value. A `command` may begin with `{thalweg}`: the binary that is measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Peer {
    /// What scenarios call it.
    pub name: String,
    /// What it is, in a line.
    pub title: String,
    /// What it speaks.
    pub dialect: Dialect,
    /// Where its WebSocket is, e.g. `/`; topics have Thalweg's paths.
    #[serde(default)]
    pub path: Option<String>,
    /// The drives it can take part in.
    pub drives: Vec<Drive>,
    /// The transports it speaks; none named: all.
    #[serde(default)]
    pub transports: Vec<Transport>,
    /// Builds it, in its folder. Empty: nothing to build.
    #[serde(default)]
    pub build: Vec<String>,
    /// What the build leaves behind, if not `{out}`: it is built again once a source is newer.
    #[serde(default)]
    pub built: Option<String>,
    /// Starts it.
    pub command: Vec<String>,
    /// Prints its version.
    #[serde(default)]
    pub version: Vec<String>,
    /// Where its `subject.toml` lies.
    #[serde(default)]
    pub folder: String,
    /// What a scenario adds to its command.
    #[serde(default)]
    pub arguments: Vec<String>,
}

impl Peer {
    /// Reads a `subject.toml` that lies in `folder`.
    pub fn read(text: &str, folder: &str) -> Result<Peer, ScenarioError> {
        let peer: Peer =
            toml::from_str(text).map_err(|error| ScenarioError::from_toml(text, &error))?;
        if peer.command.is_empty() {
            return Err(ScenarioError::new("`command` is empty: what starts the subject?"));
        }
        Ok(Peer { folder: folder.to_owned(), ..peer })
    }

    /// Where its build leaves it.
    pub fn program(&self) -> String {
        format!("{}/build/{}", self.folder, self.name)
    }

    /// A word of its commands, with folder and program filled in.
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
dialect = "bare"
path = "/"
drives = ["echo"]
command = ["{folder}/echoes", "{listen}"]
"#;

    #[test]
    fn a_subject_describes_itself() {
        let peer = Peer::read(TEXT, "lab/subjects/echoes").unwrap();
        assert_eq!((peer.dialect, &*peer.folder), (Dialect::Bare, "lab/subjects/echoes"));
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
            wrong("\"bare\"", "\"bear\""),
            "line 4: there is no value `bear`; did you mean `bare`?"
        );
        assert!(wrong("command", "comand").contains("comand"));
    }
}

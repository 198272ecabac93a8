//! Processes that a subject needs beside its own, as a scenario names them.

use serde::{Deserialize, Serialize};

/// A process that is started before the subject and ended with it.
///
/// In its command, and in the subject's `arguments`, `{port.NAME}` stands for a port that is
/// free, the same for the same name, `{dir}` for a fresh folder of the process, `{nats}` for the
/// NATS server that `make nats` installs, and `{thalweg}` for the binary that is measured. A
/// process listens at `{port.NAME}` of its own name, on loopback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Process {
    /// Name of the process, and of its port.
    pub name: String,
    /// Purpose of the process.
    pub role: Role,
    /// The command that starts the process.
    pub command: Vec<String>,
}

/// The purpose of a process, which decides how the lab knows that it is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// A NATS server, ready when it sends its greeting. The lab publishes to the first of them.
    Nats,
    /// Another node: ready when it answers `GET /readyz` with 200. With the `publish` drive,
    /// publishers are spread over the subject and these.
    Node,
}

/// Checks whether the processes of a subject can be started as they are written.
pub(super) fn check(processes: &[Process], arguments: &[String]) -> Result<(), String> {
    for (index, process) in processes.iter().enumerate() {
        let Process { name, command, .. } = process;
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        {
            return Err(format!("a process has a name of letters, digits and -, not `{name}`"));
        }
        if processes[..index].iter().any(|other| other.name == *name) {
            return Err(format!("two processes are called `{name}`"));
        }
        if command.is_empty() {
            return Err(format!(
                "the `command` of process `{name}` is empty: write what starts it"
            ));
        }
        // Otherwise the port of the process would be unknown.
        let port = format!("{{port.{name}}}");
        if !command.iter().any(|word| word.contains(&port)) {
            return Err(format!("the `command` of process `{name}` does not contain {port}"));
        }
    }
    if processes.is_empty() && arguments.iter().any(|word| word.contains("{port.")) {
        return Err("`arguments` name a port, and the subject has no processes".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_one(name: &str, command: &[&str]) -> String {
        let command = command.iter().map(|word| (*word).to_owned()).collect();
        let process = Process { name: name.to_owned(), role: Role::Nats, command };
        check(&[process], &[]).err().unwrap_or_default()
    }

    #[test]
    fn a_command_that_cannot_start_is_named() {
        assert_eq!(check_one("nats", &["{nats}", "-p", "{port.nats}"]), "");
        assert_eq!(
            check_one("nats", &["{nats}"]),
            "the `command` of process `nats` does not contain {port.nats}"
        );
        assert_eq!(
            check_one("nats", &[]),
            "the `command` of process `nats` is empty: write what starts it"
        );
        assert_eq!(
            check_one("../x", &["{port.../x}"]),
            "a process has a name of letters, digits and -, not `../x`"
        );
        let twice = Process {
            name: "a".to_owned(),
            role: Role::Node,
            command: vec!["{port.a}".to_owned()],
        };
        let refusal = check(&[twice.clone(), twice], &[]).unwrap_err();
        assert_eq!(refusal, "two processes are called `a`");
        assert!(check(&[], &["{port.nats}".to_owned()]).is_err());
    }
}

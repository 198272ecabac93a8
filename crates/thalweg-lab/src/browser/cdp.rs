//! The Chrome DevTools Protocol over a pair of pipes: each message is JSON, followed by a NUL. Responses are returned to the caller;
//! events of Chromium are read and dropped.

use anyhow::{Context, bail};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, ChildStdout};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// A tab under a flood of messages answers late.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// Limit of a message. The lab requests nothing longer, but an event of an observed tab has a whole message of the subject in it.
const MESSAGE_BYTES_MAX: u64 = 64 << 20;
/// Beginning of answers: Chromium writes `id` first, and in events `method`.
const ANSWER: &[u8] = b"{\"id\":";

#[derive(Debug)]
pub(super) struct Cdp {
    input: ChildStdin,
    answers: Receiver<Vec<u8>>,
    last_id: u64,
    /// Answers that arrived before the lab waited for them.
    early: HashMap<u64, Value>,
}

#[derive(Debug)]
pub(super) struct Asked {
    id: u64,
    method: &'static str,
}

impl Cdp {
    pub(super) fn new(input: ChildStdin, output: ChildStdout) -> Cdp {
        let (sender, answers) = mpsc::channel();
        thread::spawn(move || {
            let mut output = BufReader::with_capacity(1 << 20, output);
            let mut message = Vec::new();
            loop {
                message.clear();
                let read = output.by_ref().take(MESSAGE_BYTES_MAX).read_until(0, &mut message);
                let is_whole = matches!(read, Ok(1..)) && message.pop() == Some(0);
                // Chromium has ended, or the receiver is gone.
                if !is_whole || message.starts_with(ANSWER) && sender.send(message.clone()).is_err()
                {
                    return;
                }
            }
        });
        Cdp { input, answers, last_id: 0, early: HashMap::new() }
    }

    /// Sends a request to the browser or, with a session, to one of its targets.
    pub(super) fn ask(
        &mut self,
        session: Option<&str>,
        method: &'static str,
        params: &Value,
    ) -> anyhow::Result<Asked> {
        self.last_id += 1;
        let mut message = json!({ "id": self.last_id, "method": method, "params": params });
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let text = format!("{message}\0");
        self.input.write_all(text.as_bytes()).context("Chromium has ended")?;
        Ok(Asked { id: self.last_id, method })
    }

    pub(super) fn answer(&mut self, asked: &Asked) -> anyhow::Result<Value> {
        let Asked { id, method } = asked;
        let answer = loop {
            if let Some(answer) = self.early.remove(id) {
                break answer;
            }
            let message = match self.answers.recv_timeout(ANSWER_WITHIN) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => {
                    let seconds = ANSWER_WITHIN.as_secs();
                    bail!("Chromium did not answer {method} within {seconds} s");
                }
                Err(RecvTimeoutError::Disconnected) => bail!("Chromium has ended"),
            };
            let answer: Value =
                serde_json::from_slice(&message).context("Chromium's answer is not JSON")?;
            if let Some(id) = answer["id"].as_u64() {
                self.early.insert(id, answer);
            }
        };
        if let Some(error) = answer["error"]["message"].as_str() {
            bail!("Chromium refuses {method}: {error}");
        }
        Ok(answer["result"].clone())
    }

    pub(super) fn call(
        &mut self,
        session: Option<&str>,
        method: &'static str,
        params: &Value,
    ) -> anyhow::Result<Value> {
        let asked = self.ask(session, method, params)?;
        self.answer(&asked)
    }
}

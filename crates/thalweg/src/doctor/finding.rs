//! Findings of checks, as lines or as JSON.

use anyhow::bail;
use serde::Serialize;
use thalweg_terminal::{print, printable};

use crate::reach::one_line;

/// The longest part of a message: it may quote a server or a proxy.
const MESSAGE_CHARS_MAX: usize = 400;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    /// No problem, but something could be better or was not checked.
    Note,
    Problem,
}

/// The result of a check: one sentence, and the remedy if there is something to change.
#[derive(Debug, Serialize)]
struct Finding {
    check: String,
    verdict: Verdict,
    message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    remedy: String,
}

/// Prints each finding when it is known, or all of them at the end as JSON.
#[derive(Debug)]
pub(super) struct Report {
    is_json: bool,
    findings: Vec<Finding>,
}

#[derive(Serialize)]
struct Summary<'a> {
    url: &'a str,
    problems: usize,
    checks: &'a [Finding],
}

impl Report {
    pub(super) fn new(is_json: bool) -> Self {
        Self { is_json, findings: Vec::new() }
    }

    pub(super) fn is_json(&self) -> bool {
        self.is_json
    }

    pub(super) fn ok(&mut self, check: &str, message: impl Into<String>) -> anyhow::Result<()> {
        self.add(check, Verdict::Ok, message.into(), "")
    }

    pub(super) fn note(
        &mut self,
        check: &str,
        message: impl Into<String>,
        remedy: &str,
    ) -> anyhow::Result<()> {
        self.add(check, Verdict::Note, message.into(), remedy)
    }

    pub(super) fn problem(
        &mut self,
        check: &str,
        message: impl Into<String>,
        remedy: &str,
    ) -> anyhow::Result<()> {
        self.add(check, Verdict::Problem, message.into(), remedy)
    }

    fn add(
        &mut self,
        check: &str,
        verdict: Verdict,
        mut message: String,
        remedy: &str,
    ) -> anyhow::Result<()> {
        if let Some((end, _)) = message.char_indices().nth(MESSAGE_CHARS_MAX) {
            message.truncate(end);
            message.push('…');
        }
        let finding =
            Finding { check: check.to_owned(), verdict, message, remedy: remedy.to_owned() };
        if !self.is_json {
            print(&finding.line())?;
        }
        self.findings.push(finding);
        Ok(())
    }

    /// Prints the JSON. Fails if there are problems.
    pub(super) fn finish(&self, url: &str) -> anyhow::Result<()> {
        let problems =
            self.findings.iter().filter(|finding| finding.verdict == Verdict::Problem).count();
        if self.is_json {
            let summary = Summary { url, problems, checks: &self.findings };
            print(&(serde_json::to_string_pretty(&summary)? + "\n"))?;
        }
        match problems {
            0 => Ok(()),
            1 => bail!("one problem found"),
            _ => bail!("{problems} problems found"),
        }
    }
}

impl Finding {
    fn line(&self) -> String {
        let verdict = match self.verdict {
            Verdict::Ok => "ok",
            Verdict::Note => "note",
            Verdict::Problem => "problem",
        };
        let colon = if self.remedy.is_empty() { "" } else { ": " };
        let sentence = format!("{}{colon}{}", self.message, self.remedy);
        format!("{verdict:<9}{:<20}{}\n", self.check, printable(&one_line(&sentence)))
    }
}

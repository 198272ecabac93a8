//! A running Chromium: started with a profile of its own, ended with it.

use super::cdp::Cdp;
use super::program;
use crate::scenario::Settings;
use crate::subject::{Cores, OwnedChild, TemporaryFolder};
use anyhow::Context;
use serde_json::json;
use std::fs::File;
use std::path::Path;
use std::process::Command;

/// Chromium reads commands at descriptor 3 and answers at 4. A shell puts the pipes there, which would take unsafe code here.
const WITH_PIPES: &str = r#"exec "$0" "$@" 3<&0 4>&1 </dev/null >/dev/null"#;
/// Flags. Chromium's background work takes no part in a sample, tabs behind others are not slowed down, and the certificate that
/// a subject makes at its start is taken.
pub(super) const FLAGS: [&str; 16] = [
    "--headless=new",
    "--remote-debugging-pipe",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--disable-breakpad",
    "--disable-default-apps",
    "--disable-background-timer-throttling",
    "--disable-renderer-backgrounding",
    "--disable-backgrounding-occluded-windows",
    "--no-first-run",
    "--enable-precise-memory-info",
    "--ignore-certificate-errors",
    "--window-size=1280,900",
];
/// Chromium needs it to run as root.
const NO_SANDBOX: &str = "--no-sandbox";

/// Flags on this machine.
pub fn flags() -> Vec<&'static str> {
    let no_sandbox = program::is_root().then_some(NO_SANDBOX);
    FLAGS.into_iter().chain(no_sandbox).collect()
}

/// A running browser. Dropped, it is killed.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) cdp: Cdp,
    child: OwnedChild,
    // Last: by then no process writes to it.
    profile: TemporaryFolder,
}

impl Process {
    /// Starts it on the cores of a browser with these settings; its output goes to `log`.
    pub(super) fn start(
        program: &Path,
        cores: &Cores,
        settings: &Settings,
        log: &File,
    ) -> anyhow::Result<Process> {
        let profile = TemporaryFolder::new("chromium")
            .context("the folder for Chromium's profile cannot be made")?;
        let mut command = Command::new("sh");
        command.args(["-c", WITH_PIPES]).arg(program).args(flags());
        let mut folder = std::ffi::OsString::from("--user-data-dir=");
        folder.push(profile.path());
        command.arg(folder).arg("about:blank").stderr(log.try_clone()?);
        let spawn = || OwnedChild::spawn_piped(&mut command);
        let spawned = cores.spawn_on(cores.browser_cores(settings), settings.shards, spawn)?;
        let (child, input, output) =
            spawned.with_context(|| format!("{} cannot be started", program.display()))?;
        let mut process = Process { cdp: Cdp::new(input, output), child, profile };
        process.version()?;
        Ok(process)
    }

    pub(super) fn version(&mut self) -> anyhow::Result<String> {
        let said = self.cdp.call(None, "Browser.getVersion", &json!({}))?;
        Ok(program::version_of(said["product"].as_str().unwrap_or_default()))
    }

    /// Root of its processes.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    #[cfg(test)]
    pub(super) fn folder(&self) -> &Path {
        self.profile.path()
    }

    pub(super) fn stop(self) {
        let Process { mut cdp, mut child, profile } = self;
        // The browser may have ended already.
        let _ = cdp.call(None, "Browser.close", &json!({}));
        child.wait();
        // The browser's children end first: they write to the profile.
        drop(child);
        drop(profile);
    }
}

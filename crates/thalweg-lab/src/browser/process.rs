//! A running Chromium with its own profile, which is removed with it.

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
/// Flags: they disable background work and the throttling of hidden tabs, and accept the certificate that a subject makes at its start.
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
/// Chromium needs this flag to run as root.
const NO_SANDBOX: &str = "--no-sandbox";

/// Returns the flags for this machine.
pub fn flags() -> Vec<&'static str> {
    let no_sandbox = program::is_root().then_some(NO_SANDBOX);
    FLAGS.into_iter().chain(no_sandbox).collect()
}

/// A running browser, which is killed when dropped.
#[derive(Debug)]
pub(super) struct RunningBrowser {
    pub(super) cdp: Cdp,
    child: OwnedChild,
    // Dropped last, when no process writes to the folder any more.
    profile: TemporaryFolder,
}

impl RunningBrowser {
    /// Starts Chromium on the cores that these settings give a browser; its output goes to `log`.
    pub(super) fn start(
        program: &Path,
        cores: &Cores,
        settings: &Settings,
        log: &File,
    ) -> anyhow::Result<RunningBrowser> {
        let profile = TemporaryFolder::new("chromium")
            .context("the folder for Chromium's profile cannot be created")?;
        let mut command = Command::new("sh");
        command.args(["-c", WITH_PIPES]).arg(program).args(flags());
        let mut folder = std::ffi::OsString::from("--user-data-dir=");
        folder.push(profile.path());
        command.arg(folder).arg("about:blank").stderr(log.try_clone()?);
        let spawn = || OwnedChild::spawn_piped(&mut command);
        let spawned = cores.spawn_on(cores.browser_cores(settings), settings.shards, spawn)?;
        let (child, input, output) =
            spawned.with_context(|| format!("{} cannot be started", program.display()))?;
        let mut process = RunningBrowser { cdp: Cdp::new(input, output), child, profile };
        process.version()?;
        Ok(process)
    }

    pub(super) fn version(&mut self) -> anyhow::Result<String> {
        let reported = self.cdp.call(None, "Browser.getVersion", &json!({}))?;
        Ok(program::version_of(reported["product"].as_str().unwrap_or_default()))
    }

    /// Returns the id of the root process.
    pub(super) fn pid(&self) -> u32 {
        self.child.id()
    }

    #[cfg(test)]
    pub(super) fn folder(&self) -> &Path {
        self.profile.path()
    }

    pub(super) fn stop(self) {
        let RunningBrowser { mut cdp, mut child, profile } = self;
        // The browser may have ended already.
        let _ = cdp.call(None, "Browser.close", &json!({}));
        child.wait();
        // Kills the remaining children first, because they write to the profile.
        drop(child);
        drop(profile);
    }
}

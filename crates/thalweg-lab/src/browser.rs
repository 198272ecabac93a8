//! The browser load generator: subscribers in tabs of the system's Chromium.
//!
//! ```text
//! load ─► session (broadcast, round_trips) ─► tabs ─► tab ─► cdp ─► Chromium
//!                                                                     └─ web/lab/page
//! ```
//!
//! - `program`: finds Chromium; `process`: starts it with its own profile; `processes`: CPU by process kind
//! - `cdp`: the Chrome DevTools Protocol over pipes
//! - `tab`: a page of the subject's origin, that runs the page's half of the load; `tabs`: all tabs of a sample
//! - `broadcast`: subscribers of a subject that broadcasts; `round_trips`: a page that acks
//! - `timeline`: arrivals in a span, as pages report them afterwards
//!
//! DevTools domains are enabled only where needed: with Runtime or Network the browser gets every message, which slows the tab down.
//! `Runtime.evaluate` works without them.

mod broadcast;
mod cdp;
mod process;
mod processes;
mod program;
mod round_trips;
mod tab;
mod tabs;
#[cfg(test)]
mod tests;
mod timeline;

pub use process::flags;
pub use program::{PROGRAM, find};

use crate::load_generator::{Load, LoadGenerator, Observer, Session};
use crate::scenario::{Drive, Settings};
use crate::subject::Cores;
use broadcast::BrowserBroadcast;
use process::RunningBrowser;
use round_trips::BrowserConversation;
use std::fs::File;
use std::path::PathBuf;
use tabs::Tabs;

/// Chromium, started again for every sample.
#[derive(Debug)]
pub struct Chromium {
    program: PathBuf,
    cores: Cores,
    log: File,
}

impl Chromium {
    /// Returns a load generator that runs `program` on the cores that a sample's settings select from `cores`, with output to `log`.
    pub fn new(program: PathBuf, cores: Cores, log: File) -> Chromium {
        Chromium { program, cores, log }
    }

    /// Starts Chromium and returns its version.
    pub fn version(&self) -> anyhow::Result<String> {
        let mut process =
            RunningBrowser::start(&self.program, &self.cores, &Settings::default(), &self.log)?;
        let version = process.version();
        process.stop();
        version
    }
}

impl LoadGenerator for Chromium {
    fn open<'a>(
        &'a self,
        load: &Load<'a>,
        observer: &'a mut dyn Observer,
    ) -> anyhow::Result<Box<dyn Session + 'a>> {
        let settings = load.settings;
        let process = RunningBrowser::start(&self.program, &self.cores, settings, &self.log)?;
        let tabs = Tabs::open(process, load, self.cores.browser_cores(settings).to_vec())?;
        match load.drive {
            Drive::RoundTrip => Ok(Box::new(BrowserConversation::open(load, observer, tabs)?)),
            Drive::GeneratedLoad => Ok(Box::new(BrowserBroadcast::open(load, observer, tabs)?)),
            drive => anyhow::bail!("the drive {drive:?} cannot run in a browser"),
        }
    }
}

//! The load generator that is a browser: subscribers in tabs of the system's Chromium.
//!
//! ```text
//! load ─► session (broadcast, round_trips) ─► tabs ─► tab ─► cdp ─► Chromium
//!                                                                     └─ web/lab/page
//! ```
//!
//! - `program`: where Chromium is; `process`: started with a profile of its own
//! - `cdp`: the Chrome DevTools Protocol over pipes
//! - `tab`: a page of the subject's origin, with the page's half of the load; `tabs`: all of a
//!   sample
//! - `broadcast`: subscribers of a subject that broadcasts; `round_trips`: a page that acks
//! - `processes`: CPU by process kind
//! - `timeline`: what came in a span, as pages tell it afterwards
//!
//! A tab of which DevTools' Runtime or Network domain is enabled is slower, for the browser is
//! told of every message. So no domain is, unless that is what is measured: a page is asked by
//! `Runtime.evaluate`, which works without.

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
use broadcast::Broadcast;
use process::Process;
use round_trips::Conversation;
use std::fs::File;
use std::path::PathBuf;
use tabs::Tabs;

/// Chromium, started anew for every sample.
#[derive(Debug)]
pub struct Chromium {
    program: PathBuf,
    cores: Cores,
    /// Where it prints to.
    log: File,
}

impl Chromium {
    /// The browser at `program`, on those of `cores` that a sample's settings say; what it prints goes to `log`.
    pub fn new(program: PathBuf, cores: Cores, log: File) -> Chromium {
        Chromium { program, cores, log }
    }

    /// Its version, which it is started for.
    pub fn version(&self) -> anyhow::Result<String> {
        let mut process =
            Process::start(&self.program, &self.cores, &Settings::default(), &self.log)?;
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
        let process = Process::start(&self.program, &self.cores, settings, &self.log)?;
        let tabs = Tabs::open(process, load, self.cores.browser_cores(settings).to_vec())?;
        match load.drive {
            Drive::RoundTrip => Ok(Box::new(Conversation::open(load, observer, tabs)?)),
            Drive::GeneratedLoad => Ok(Box::new(Broadcast::open(load, observer, tabs)?)),
            drive => anyhow::bail!("a browser is no load of the drive {drive:?}"),
        }
    }
}

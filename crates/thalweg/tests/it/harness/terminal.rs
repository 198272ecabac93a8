//! A terminal, as a program sees one.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

#[derive(Debug)]
pub(crate) struct Terminal {
    ours: File,
    theirs: File,
}

impl Terminal {
    pub(crate) fn open() -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&ours).expect("the terminal's other end");
        unlockpt(&ours).expect("the terminal's other end");
        let name = ptsname(&ours, Vec::new()).expect("its name");
        let path = OsStr::from_bytes(name.as_bytes());
        let theirs = File::options().read(true).write(true).open(path).expect("its other end");
        Self { ours: File::from(ours), theirs }
    }

    /// Returns the program's end of it.
    pub(crate) fn stdio(&self) -> Stdio {
        self.theirs.try_clone().expect("another handle of it").into()
    }

    /// Reads all output, until no program has the terminal open.
    pub(crate) fn read_to_end(self) -> String {
        let Self { mut ours, theirs } = self;
        drop(theirs);
        let mut read = Vec::new();
        // The end is an error (EIO).
        let _ = ours.read_to_end(&mut read);
        String::from_utf8(read).expect("text")
    }
}

//! Adds the version and tree of the sources to the program, so that a run names the lab, and the page of a report, if it is
//! built.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
};

use thalweg_build::{name_version, watch};

/// The report without a summary, of `npm run build` in `web/`.
const PAGE: &str = "../../web/ui/dist/report.html";

fn main() -> io::Result<()> {
    name_version();
    let page = Path::new(PAGE);
    // Without pages, the folder in which they would appear is watched.
    watch(page.ancestors().take(4));
    let text = match page.is_file() {
        true => fs::read(page)?,
        false => Vec::new(),
    };
    println!("cargo::rustc-env=THALWEG_REPORT_BYTES={}", text.len());
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or(io::ErrorKind::NotFound)?);
    fs::write(out.join("report.html"), text)
}

//! The pages of this build; none, if they were not built before the binary (`build.rs`).

use bytes::Bytes;
use thalweg_server::pages::{Page, Pages};

/// Path in a URL, bytes, and the same as gzip where that is smaller.
type File = (&'static str, &'static [u8], Option<&'static [u8]>);

static FILES: &[File] = &include!(concat!(env!("OUT_DIR"), "/pages.rs"));

/// The lab's report without a summary: a file that `thalweg bench` writes, and no page of the server.
const REPORT: &str = "/report.html";

pub(super) fn pages() -> Pages {
    let served = FILES.iter().filter(|(path, ..)| *path != REPORT);
    Pages::new(served.map(|(path, bytes, gzip)| Page {
        path: (*path).to_owned(),
        bytes: Bytes::from_static(bytes),
        gzip: gzip.map(Bytes::from_static),
    }))
}

/// Returns the lab's report without a summary; `None` in a build without pages.
pub(crate) fn report_page() -> Option<&'static str> {
    let (_, bytes, _) = FILES.iter().find(|(path, ..)| *path == REPORT)?;
    std::str::from_utf8(bytes).ok()
}

//! The pages of this build; none, if they were not built before the binary (`build.rs`).

use bytes::Bytes;
use thalweg_server::pages::{Page, Pages};

/// Path in a URL, bytes, and the same as gzip where that is smaller.
type File = (&'static str, &'static [u8], Option<&'static [u8]>);

static FILES: &[File] = &include!(concat!(env!("OUT_DIR"), "/pages.rs"));

pub(super) fn pages() -> Pages {
    Pages::new(FILES.iter().map(|(path, bytes, gzip)| Page {
        path: (*path).to_owned(),
        bytes: Bytes::from_static(bytes),
        gzip: gzip.map(Bytes::from_static),
    }))
}

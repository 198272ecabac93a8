//! The pages: files for browsers. The binary decides which ones exist; this crate contains none. The exact path selects a page,
//! after all other routes, so a page never hides another path.

use std::{
    collections::BTreeMap,
    fmt,
    hash::{DefaultHasher, Hasher},
    sync::Arc,
};

use bytes::Bytes;

/// A file of the pages.
#[derive(Debug, Clone)]
pub struct Page {
    /// Its path in a URL: `/index.html`, `/assets/main-1a2b3c.js`.
    pub path: String,
    /// Its content.
    pub bytes: Bytes,
    /// The content as gzip, if smaller.
    pub gzip: Option<Bytes>,
}

/// All files of the pages by path; empty by default.
#[derive(Clone, Default)]
pub struct Pages(Arc<BTreeMap<String, File>>);

/// A served file.
pub(crate) struct File {
    pub(crate) content_type: &'static str,
    /// Whether the file at this path never changes, because its name contains a hash of its content.
    pub(crate) is_immutable: bool,
    plain: Representation,
    gzip: Option<Representation>,
}

/// A file in one content coding.
pub(crate) struct Representation {
    pub(crate) bytes: Bytes,
    /// Quoted, and different for each coding (RFC 9110 §8.8.3.3).
    pub(crate) etag: String,
    pub(crate) is_gzip: bool,
}

/// The document of most pages. Its view depends on the path of the request.
const INDEX: &str = "/index.html";

/// The document of the demo, which is seen before its scripts arrive.
const DEMO: (&str, &str) = ("/demo", "/demo.html");

/// The paths of pages besides `/`. At `/` clients that are not browsers get a text about the API.
pub(crate) const PAGE_PATHS: [&str; 5] = [DEMO.0, "/live", "/matches", "/lab", "/reports"];

/// The documentation's folder. A path there that ends with a slash is the folder's `index.html`.
pub(crate) const BOOK: &str = "/docs/";

/// File names in this folder contain a hash of the content.
const IMMUTABLE: &str = "/assets/";

impl Pages {
    /// Returns the pages with these files.
    pub fn new(pages: impl IntoIterator<Item = Page>) -> Self {
        let files = pages.into_iter().map(|page| {
            // The tag only shows whether a browser has the current version, so the hash need not be secure.
            let mut hasher = DefaultHasher::new();
            hasher.write(&page.bytes);
            let hash = hasher.finish();
            let file = File {
                content_type: content_type(&page.path),
                is_immutable: page.path.starts_with(IMMUTABLE),
                plain: Representation {
                    bytes: page.bytes,
                    etag: format!("\"{hash:016x}\""),
                    is_gzip: false,
                },
                gzip: page.gzip.map(|bytes| {
                    let etag = format!("\"{hash:016x}-gzip\"");
                    Representation { bytes, etag, is_gzip: true }
                }),
            };
            (page.path, file)
        });
        Self(Arc::new(files.collect()))
    }

    /// Returns whether there are no pages.
    pub fn is_empty(&self) -> bool {
        !self.0.contains_key(INDEX)
    }

    pub(crate) fn at(&self, path: &str) -> Option<&File> {
        if path.starts_with(BOOK) && path.ends_with('/') {
            return self.0.get(&format!("{path}index.html"));
        }
        self.0.get(match path {
            _ if path == DEMO.0 => DEMO.1,
            _ if path == "/" || PAGE_PATHS.contains(&path) => INDEX,
            _ => path,
        })
    }
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl File {
    pub(crate) fn form(&self, accepts_gzip: bool) -> &Representation {
        self.gzip.as_ref().filter(|_| accepts_gzip).unwrap_or(&self.plain)
    }
}

/// Returns the content type of the file's extension, because browsers are told not to guess.
fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, ending)| ending) {
        "css" => "text/css; charset=utf-8",
        "html" => "text/html; charset=utf-8",
        "ico" => "image/x-icon",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "json" => "application/json",
        "png" => "image/png",
        "svg" => "image/svg+xml",
        "txt" => "text/plain; charset=utf-8",
        "wasm" => "application/wasm",
        "webmanifest" => "application/manifest+json",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(path: &str, text: &'static str) -> Page {
        let gzip = Some(Bytes::from_static(b"smaller"));
        Page { path: path.into(), bytes: Bytes::from_static(text.as_bytes()), gzip }
    }

    #[test]
    fn a_view_is_the_document_and_everything_else_is_found_by_its_exact_path() {
        let pages = Pages::new([
            page(INDEX, "document"),
            page("/demo.html", "demo"),
            page("/assets/a.js", "script"),
        ]);
        let check = |path: &str, expected: Option<&str>| {
            let found = pages.at(path).map(|file| &*file.form(false).bytes);
            assert_eq!(found, expected.map(str::as_bytes), "{path}");
        };
        for view in ["/", "/live", "/matches", "/lab", "/reports", "/index.html"] {
            check(view, Some("document"));
        }
        check("/demo", Some("demo"));
        check("/assets/a.js", Some("script"));
        for other in
            ["", "/demo/", "/lab/", "/LAB", "/assets/", "/assets/a.js/", "/assets/../index.html"]
        {
            check(other, None);
        }
        let book =
            Pages::new([page("/docs/index.html", "book"), page("/docs/a/b.html", "chapter")]);
        for (path, expected) in [
            ("/docs/", Some("book")),
            ("/docs/a/b.html", Some("chapter")),
            ("/docs", None),
            ("/docs/a/", None),
        ] {
            let found = book.at(path).map(|file| &*file.form(false).bytes);
            assert_eq!(found, expected.map(str::as_bytes), "{path}");
        }
        assert!(!pages.is_empty() && Pages::default().is_empty());
        assert!(Pages::new([page("/assets/a.js", "script")]).is_empty());
    }

    #[test]
    fn changed_pages_and_each_coding_have_their_own_etag() {
        let form = |text, gzip| {
            Pages::new([page(INDEX, text)]).at("/").map(|file| file.form(gzip).etag.clone())
        };
        assert_eq!(form("a", false), form("a", false));
        assert_ne!(form("a", false), form("b", false));
        assert_ne!(form("a", false), form("a", true));
    }

    #[test]
    fn the_extension_of_a_file_sets_its_type() {
        assert_eq!(content_type("/assets/a.b.js"), "text/javascript; charset=utf-8");
        assert_eq!(content_type("/icon.svg"), "image/svg+xml");
        assert_eq!(content_type("/assets/none"), "application/octet-stream");
    }
}

//! Pages of the server, as a browser asks for them.

use bytes::Bytes;
use thalweg_server::{
    config::Config,
    pages::{Page, Pages},
};

use crate::running::Running;

const DOCUMENT: &[u8] = b"<!doctype html><title>shown</title>";
const SCRIPT: &[u8] = b"console.log('shown');";
/// The server passes it on unchanged.
const GZIPPED: &[u8] = b"not really gzip";

/// A browser's Accept of a document.
const HTML: &str = "Accept: text/html,application/xhtml+xml,*/*;q=0.8";

/// A server with pages.
fn start() -> Running {
    let page = |path: &str, bytes, gzip: Option<&'static [u8]>| Page {
        path: path.into(),
        bytes: Bytes::from_static(bytes),
        gzip: gzip.map(Bytes::from_static),
    };
    let pages = Pages::new([
        page("/index.html", DOCUMENT, None),
        page("/assets/main-1a2b3c.js", SCRIPT, Some(GZIPPED)),
        page("/icon.svg", b"<svg/>", None),
        // A path that a page must not replace.
        page("/healthz", b"ill", None),
        page("/v1/topics/t", b"forged", None),
        page("/runs", b"forged", None),
    ]);
    Running::start(Config { shards: 1, pages, ..Config::default() }, None)
}

#[test]
fn a_browser_is_shown_the_document_and_curl_is_told_of_the_api() {
    let shown = start();
    for path in ["/", "/live", "/matches", "/lab", "/reports", "/lab?topic=cars"] {
        let answer = shown.get(path, &[HTML]);
        assert_eq!((answer.status, &*answer.body), (200, DOCUMENT), "{path}");
        assert_eq!(answer.header("content-type"), "text/html; charset=utf-8");
        assert_eq!(answer.header("cache-control"), "no-cache");
    }
    for accept in ["Accept: */*", "Accept: application/json", "X: none"] {
        let answer = shown.get("/", &[accept]);
        assert_eq!(answer.status, 200, "{accept}");
        assert!(answer.body.starts_with(b"Thalweg pushes live data."), "{accept}");
        assert!(answer.header("vary").contains("Accept"), "{accept}");
    }
    assert_eq!(&*shown.get("/lab", &[]).body, DOCUMENT, "these are nothing but pages");
}

#[test]
fn every_page_is_hardened() {
    let shown = start();
    for path in ["/", "/assets/main-1a2b3c.js", "/icon.svg"] {
        let answer = shown.get(path, &[HTML]);
        let policy = answer.header("content-security-policy");
        let directives: Vec<&str> = policy.split("; ").collect();
        assert_eq!(
            directives,
            [
                "default-src 'none'",
                "script-src 'self'",
                "style-src 'self'",
                "connect-src 'self'",
                "img-src 'self' data:",
                "worker-src 'self' blob:",
                "frame-src 'self'",
                "base-uri 'none'",
                "form-action 'none'",
                "frame-ancestors 'self'",
            ]
        );
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert_eq!(answer.header("referrer-policy"), "no-referrer");
        assert_eq!(answer.header("cross-origin-resource-policy"), "same-origin");
    }
}

#[test]
fn files_with_a_hash_are_cached_and_others_are_revalidated() {
    let shown = start();
    let script = shown.get("/assets/main-1a2b3c.js", &[]);
    assert_eq!((script.status, &*script.body), (200, SCRIPT));
    assert_eq!(script.header("content-type"), "text/javascript; charset=utf-8");
    assert_eq!(script.header("cache-control"), "public, max-age=31536000, immutable");
    assert_eq!(shown.get("/icon.svg", &[]).header("cache-control"), "no-cache");
}

#[test]
fn clients_that_accept_gzip_get_it_with_another_etag() {
    let shown = start();
    let path = "/assets/main-1a2b3c.js";
    let plain = shown.get(path, &["Accept-Encoding: br, gzip;q=0"]);
    assert_eq!((&*plain.body, &*plain.header("content-encoding")), (SCRIPT, ""));
    let gzip = shown.get(path, &["Accept-Encoding: br, gzip"]);
    assert_eq!((&*gzip.body, &*gzip.header("content-encoding")), (GZIPPED, "gzip"));
    assert_ne!(plain.header("etag"), gzip.header("etag"));
    for answer in [plain, gzip] {
        assert!(answer.header("vary").contains("Accept-Encoding"), "{}", answer.head);
    }
    // A file that would not shrink is never compressed.
    let document = shown.get("/lab", &["Accept-Encoding: gzip"]);
    assert_eq!((&*document.body, &*document.header("content-encoding")), (DOCUMENT, ""));
}

#[test]
fn clients_with_the_current_page_get_304() {
    let shown = start();
    for (path, encoding) in [("/", "identity"), ("/assets/main-1a2b3c.js", "gzip")] {
        let encoding = format!("Accept-Encoding: {encoding}");
        let first = shown.get(path, &[HTML, &encoding]);
        let etag = first.header("etag");
        assert!(etag.starts_with('"') && etag.ends_with('"'), "{etag}");
        for known in [etag.clone(), format!("W/{etag}"), format!("\"x\", {etag}"), "*".into()] {
            let known = format!("If-None-Match: {known}");
            let again = shown.get(path, &[HTML, &encoding, &known]);
            assert_eq!((again.status, again.body.len()), (304, 0), "{path}: {known}");
            for name in ["etag", "cache-control", "vary"] {
                assert_eq!(again.header(name), first.header(name), "{path}: {name}");
            }
            assert_eq!(again.header("content-type"), "");
        }
        let other = shown.get(path, &[HTML, &encoding, "If-None-Match: \"x\""]);
        assert_eq!(other.status, 200, "{path}");
    }
}

#[test]
fn head_is_get_without_a_body() {
    let shown = start();
    for path in ["/", "/assets/main-1a2b3c.js", "/icon.svg"] {
        for encoding in ["Accept-Encoding: identity", "Accept-Encoding: gzip"] {
            let get = shown.get(path, &[HTML, encoding]);
            let head = shown.ask("HEAD", path, &[HTML, encoding], "");
            assert_eq!((head.status, head.body.len()), (200, 0), "{path}");
            assert_eq!(head.header("content-length"), get.body.len().to_string(), "{path}");
            for name in ["etag", "content-type", "content-encoding"] {
                assert_eq!(head.header(name), get.header(name), "{path}: {name}");
            }
        }
    }
    for path in ["/", "/lab", "/assets/main-1a2b3c.js"] {
        let answer = shown.ask("POST", path, &[HTML], "");
        assert_eq!((answer.status, &*answer.header("allow")), (405, "GET, HEAD"), "{path}");
    }
}

#[test]
fn a_page_takes_the_place_of_nothing_and_nothing_takes_a_pages() {
    let shown = start();
    assert_eq!(&*shown.get("/healthz", &[HTML]).body, b"ok\n");
    for path in ["/v1/topics/t?limit=1", "/runs"] {
        let answer = shown.get(path, &[HTML]);
        assert_eq!((answer.status, &*answer.header("content-type")), (404, "application/json"));
    }
    for path in [
        "/index.htm",
        "/assets",
        "/assets/",
        "/assets/main.js",
        "/assets/../index.html",
        "/assets/%2e%2e/index.html",
        "//index.html",
        "/lab/",
        "/icon.svg/",
        "/ICON.SVG",
    ] {
        let answer = shown.get(path, &[HTML]);
        assert_eq!((answer.status, &*answer.header("content-type")), (404, "application/json"));
    }
}

#[test]
fn pages_are_for_the_web_pages_and_hosts_that_everything_is_for() {
    let shown = start();
    let framed = [HTML, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Dest: iframe"];
    assert_eq!(shown.get("/", &framed).status, 403);
    let followed = [
        HTML,
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Mode: navigate",
        "Sec-Fetch-Dest: document",
    ];
    assert_eq!(shown.get("/", &followed).status, 200);
    assert_eq!(shown.get("/lab", &["Origin: https://evil.example"]).status, 403);
}

//! The pages in the binary, if it was built with them, and a server without pages. The server crate tests how pages are served.

use std::{collections::BTreeSet, io::Read};

use flate2::read::GzDecoder;

use crate::harness::{Response, Server, skipped};

const HTML: (&str, &str) = ("Accept", "text/html,application/xhtml+xml,*/*;q=0.8");
const GZIP: (&str, &str) = ("Accept-Encoding", "gzip, deflate, br");

fn embedded() -> usize {
    env!("THALWEG_PAGES").parse().expect("a number")
}

fn embedded_book() -> usize {
    env!("THALWEG_BOOK").parse().expect("a number")
}

fn is_html(response: &Response) -> bool {
    response.header("content-type") == Some("text/html; charset=utf-8")
}

#[test]
fn a_browser_gets_the_built_pages() {
    let server = Server::start(&[]);
    let root = server.ask("GET", "/", &[HTML], "");
    assert_eq!(root.status, 200);
    assert_eq!(is_html(&root), embedded() > 0, "{}", root.text());
    // A client that is not a browser gets a description of the API in both cases.
    assert!(server.get("/").text().contains("POST /v1/topics/{topic}"));
}

#[test]
fn a_server_without_pages_says_how_to_have_them() {
    if embedded() > 0 {
        return;
    }
    let server = Server::start(&[]);
    for path in ["/demo", "/live", "/matches", "/lab", "/reports"] {
        let said = server.ask("GET", path, &[HTML], "").refused(404, "not_found");
        assert!(said.contains("make run"), "{said}");
    }
    assert!(server.ask("GET", "/", &[HTML], "").text().contains("/v1/topics"));
}

/// Returns the files that a document in the server's root loads. They must have relative paths, because a
/// proxy may serve the root below a path.
pub(crate) fn references(document: &str) -> Vec<String> {
    let after = |mark| document.split(mark).skip(1).filter_map(|text: &str| text.split('"').next());
    let all = after("src=\"").chain(after("href=\""));
    all.map(|path| path.strip_prefix('.').expect("a relative path").to_owned()).collect()
}

/// Returns the paths of a document's links and files, as [`references`], but also those that begin without a dot.
fn links(document: &str) -> Vec<String> {
    let document = document.replace("href=\"./", "href=\"").replace("src=\"./", "src=\"");
    let after = |mark| document.split(mark).skip(1).filter_map(|text: &str| text.split('"').next());
    let all = after("src=\"").chain(after("href=\"")).filter(|path| !path.starts_with('#'));
    all.map(|path| {
        assert!(!path.starts_with('/') && !path.contains(':'), "{path} is not relative");
        format!("/{path}")
    })
    .collect()
}

#[test]
fn all_files_of_the_documents_exist_plain_and_compressed() {
    if embedded() == 0 {
        return;
    }
    let server = Server::start(&[]);
    let document = server.ask("GET", "/", &[HTML], "");
    for path in ["/live", "/matches", "/lab", "/reports"] {
        assert_eq!(server.ask("GET", path, &[HTML], "").body, document.body, "{path}");
    }
    let demo = server.ask("GET", "/demo", &[HTML], "");
    assert!(is_html(&demo) && demo.header("content-security-policy").is_some(), "{}", demo.text());
    let (document, demo) = (document.text(), demo.text());
    for document in [&document, &demo] {
        assert!(!document.contains("<script>") && !document.contains("<style"), "{document}");
    }
    let (files, views): (Vec<_>, Vec<_>) =
        links(&demo).into_iter().partition(|path| path.contains('.'));
    for referred in [references(&document), files.clone()] {
        assert!(referred.iter().any(|path| path.ends_with(".js")), "{referred:?}");
    }
    let book = "/docs/";
    for path in views.iter().filter(|path| *path != book || embedded_book() > 0) {
        assert!(is_html(&server.ask("GET", path, &[HTML], "")), "{path}");
    }
    let all: BTreeSet<String> = references(&document).into_iter().chain(files).collect();
    assert!(all.len() + 1 < embedded(), "and the two documents");
    for path in all {
        let plain = server.get(&path);
        assert_eq!(plain.status, 200, "{path}");
        assert!(plain.header("content-security-policy").is_some(), "{path}");
        let kept = plain.header("cache-control") == Some("public, max-age=31536000, immutable");
        assert_eq!(kept, path.starts_with("/assets/"), "{path}");
        let answer = server.ask("GET", &path, &[GZIP], "");
        if answer.header("content-encoding") == Some("gzip") {
            assert!(answer.body.len() < plain.body.len(), "{path}");
            let mut inflated = Vec::new();
            GzDecoder::new(&*answer.body).read_to_end(&mut inflated).expect("gzip");
            assert!(inflated == plain.body, "{path}");
        } else {
            assert!(!path.ends_with(".js"), "{path} would be smaller");
        }
        let etag = answer.header("etag").expect("an etag");
        let again = server.ask("GET", &path, &[GZIP, ("If-None-Match", etag)], "");
        assert_eq!((again.status, again.body.len()), (304, 0), "{path}");
    }
}

#[test]
fn the_sdk_is_there_for_everybodys_pages() {
    if embedded() == 0 {
        return;
    }
    let server = Server::start(&[]);
    for name in
        ["thalweg", "arrow", "deltas", "keyed", "forever-frame", "tabs", "worker", "worker-host"]
    {
        let sdk = server.get(&format!("/sdk/{name}.js"));
        assert_eq!(sdk.status, 200, "{name}");
        assert_eq!(sdk.header("content-type"), Some("text/javascript; charset=utf-8"), "{name}");
        // The name has no hash, and a new server has a new version.
        assert_eq!(sdk.header("cache-control"), Some("no-cache"), "{name}");
        assert!(sdk.text().contains("export{") || name == "worker-host", "{name}");
        assert!(!sdk.text().contains("sourceMappingURL"), "{name}");
    }
}

#[test]
fn pages_need_no_token_but_their_requests_do() {
    let tokens = [
        "--token",
        "publisher=p-secret-1234567890,subscribe=**,publish=**,inspect=**,admin=true",
        "--token",
        "subscriber=s-secret-12345,subscribe=**",
    ];
    let server = Server::start(&tokens);
    assert_eq!(server.ask("GET", "/", &[HTML], "").status, 200);
    if embedded() > 0 {
        assert_eq!(server.ask("GET", "/lab", &[HTML], "").status, 200);
    }
    for path in ["/v1/topics", "/runs", "/runs/a/report.html"] {
        server.get(path).refused(401, "unauthorized");
    }
}

#[test]
fn pages_come_over_http_2_as_well() {
    let server = Server::start(&[]);
    let client = server.http2();
    let answer = client.ask("GET", "/", &[("accept", HTML.1)], "");
    assert_eq!((answer.status, is_html(&answer)), (200, embedded() > 0));
    if embedded() > 0 {
        let mut stream = client.start("HEAD", "/lab", &[("accept", HTML.1)], b"");
        let head = stream.response_head();
        assert_eq!((head.status, stream.rest("the end of the stream").len()), (200, 0));
        let length = answer.body.len().to_string();
        assert_eq!(head.header("content-length"), Some(&*length));
    }
}

#[test]
fn the_first_screen_says_where_the_pages_are() {
    let server = Server::start(&[]);
    match embedded() {
        0 => server.has_said("make run builds them"),
        _ => server.has_said(&format!("http://{}/ (overview)", server.address)),
    }
}

#[test]
fn the_documentation_is_served_or_the_answer_says_how_to_build_it() {
    let server = Server::start(&[]);
    // Relative, so that it also works below a proxy's path.
    let redirect = server.ask("GET", "/docs", &[HTML], "");
    assert_eq!((redirect.status, redirect.header("location")), (308, Some("docs/")));
    let index = server.ask("GET", "/docs/", &[HTML], "");
    if embedded_book() == 0 {
        let message = index.refused(404, "not_found");
        assert!(message.contains("make docs"), "{message}");
        skipped("the book: this build has none (make docs installs mdBook and builds it)");
        return;
    }
    assert!(index.status == 200 && is_html(&index), "{}", index.text());
    let policy = index.header("content-security-policy").expect("a policy");
    assert!(policy.contains("script-src 'self'"), "{policy}");
    let index = index.text();
    // The policy forbids inline scripts, so the book must have none.
    assert!(!index.contains("<script>"), "{index}");
    let paths: Vec<String> = ["src=\"", "href=\""]
        .iter()
        .flat_map(|mark| index.split(mark).skip(1))
        .filter_map(|rest| rest.split('"').next())
        .filter(|path| !path.starts_with(['#', '/']) && !path.contains(':'))
        .map(|path| path.split('#').next().unwrap_or_default().to_owned())
        .collect();
    assert!(paths.iter().any(|path| path.contains("searcher")), "{paths:?}");
    for path in paths {
        assert_eq!(server.get(&format!("/docs/{path}")).status, 200, "{path}");
    }
    server.get("/docs/no-such-page.html").refused(404, "not_found");
}

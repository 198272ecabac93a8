//! What may be a secret is kept nowhere: values of headers and of a URL's query,
//! and what is sent when a WebSocket opens. Whoever continues a run says it again.

use super::{endpoints_of, misuse};
use crate::scenario::{Endpoint, Plan, Typed, Url};
use std::path::PathBuf;

/// Stands for what may be a secret.
pub(super) const NOT_KEPT: &str = "(not kept)";
/// The same in a URL, where no space can stand.
const NOT_KEPT_IN_URL: &str = "(not-kept)";

/// What was said again, because the run has not kept it.
#[derive(Clone, Debug, Default)]
pub struct Secrets {
    /// Whole URLs, of several in the order of the run.
    pub urls: Vec<String>,
    /// Each as `Name: value`.
    pub headers: Vec<String>,
    /// Texts that each WebSocket sends, in the order of the run.
    pub send_on_open: Vec<String>,
    /// Where the file of authorities lies now.
    pub cacert: Option<PathBuf>,
}

/// Takes out of a plan what is not archived.
pub(super) fn hide(plan: &mut Plan) {
    let urls: Vec<Url> = endpoints_of(plan).map(|endpoint| endpoint.url.clone()).collect();
    for (endpoint, url) in endpoints_of(plan).zip(hidden(&urls)) {
        endpoint.url = url;
        for (_, value) in &mut endpoint.headers {
            NOT_KEPT.clone_into(value);
        }
        endpoint.send_on_open.fill(NOT_KEPT.to_owned());
        endpoint.cacert = endpoint.cacert.take().and_then(|path| Some(path.file_name()?.into()));
    }
}

/// A URL as it was typed, without what may be secret. What cannot be read as one
/// ends where its query begins.
pub(super) fn hidden_url(typed: &str) -> String {
    match typed.parse::<Url>() {
        Ok(url) => String::from(url.with_query_values(NOT_KEPT_IN_URL)),
        Err(_) => typed.split(['?', '#']).next().unwrap_or_default().to_owned(),
    }
}

/// URLs without the values of their queries. Two that differ in nothing else are
/// numbered: a run of both is no run of one twice.
fn hidden(urls: &[Url]) -> Vec<Url> {
    let mut known: Vec<(&Url, Url)> = Vec::new();
    for url in urls {
        if known.iter().any(|(other, _)| *other == url) {
            continue;
        }
        let numbered = (2..).map(|number| format!("(not-kept-{number})"));
        let mut marks = std::iter::once(NOT_KEPT_IN_URL.to_owned()).chain(numbered);
        let free = marks.find_map(|mark| {
            let hidden = url.with_query_values(&mark);
            // Without a query there is nothing to number.
            let is_free = hidden == *url || known.iter().all(|(_, other)| *other != hidden);
            is_free.then_some(hidden)
        });
        known.push((url, free.unwrap_or_else(|| url.clone())));
    }
    let hidden_of = |url: &Url| known.iter().find(|(known, _)| *known == url).cloned();
    urls.iter().filter_map(|url| Some(hidden_of(url)?.1)).collect()
}

impl Secrets {
    /// Puts into a plan from an archive what was not archived.
    pub(super) fn restore(&self, plan: &mut Plan) -> anyhow::Result<()> {
        let urls: Vec<Url> =
            self.urls.iter().map(|typed| typed.parse()).collect::<Result<_, _>>()?;
        let given: Vec<(Url, Url)> = hidden(&urls).into_iter().zip(urls).collect();
        let headers = self.read_headers()?;
        let mut is_any = false;
        for endpoint in endpoints_of(plan) {
            is_any = true;
            restore_url(endpoint, &given)?;
            restore_headers(endpoint, &headers)?;
            self.restore_texts(endpoint)?;
            self.restore_authorities(endpoint)?;
        }
        let is_given = !(given.is_empty() && headers.is_empty() && self.send_on_open.is_empty())
            || self.cacert.is_some();
        if is_given && !is_any {
            return Err(misuse(
                "this run visits no endpoint: leave out --url, --header, --send-on-open and \
                 --cacert",
            ));
        }
        let known: Vec<Url> = endpoints_of(plan).map(|endpoint| endpoint.url.clone()).collect();
        match given.iter().find(|(_, url)| !known.contains(url)) {
            Some((hidden, _)) => {
                let hidden = String::from(hidden.clone());
                Err(misuse(format!("{hidden} is no endpoint of this run")))
            }
            None => Ok(()),
        }
    }

    /// As those of any endpoint are read.
    fn read_headers(&self) -> anyhow::Result<Vec<(String, String)>> {
        let typed = Typed {
            url: "http://localhost/".to_owned(),
            headers: self.headers.clone(),
            ..Typed::default()
        };
        Ok(Endpoint::read(&typed)?.headers)
    }

    fn restore_texts(&self, endpoint: &mut Endpoint) -> anyhow::Result<()> {
        let (count, given) = (endpoint.send_on_open.len(), self.send_on_open.len());
        let is_kept = endpoint.send_on_open.iter().all(|text| text != NOT_KEPT);
        if (is_kept && given == 0) || count == given {
            if given > 0 {
                endpoint.send_on_open.clone_from(&self.send_on_open);
            }
            return Ok(());
        }
        Err(misuse(format!(
            "what each WebSocket was sent (texts: {count}) was not kept, as it may be secret: give \
             each text again with --send-on-open, in the same order"
        )))
    }

    fn restore_authorities(&self, endpoint: &mut Endpoint) -> anyhow::Result<()> {
        let Some(kept) = &mut endpoint.cacert else { return Ok(()) };
        if let Some(given) = &self.cacert {
            kept.clone_from(given);
        }
        if kept.exists() {
            return Ok(());
        }
        Err(misuse(format!(
            "the file of authorities {} is not here: say where it lies with --cacert",
            kept.display()
        )))
    }
}

fn restore_url(endpoint: &mut Endpoint, given: &[(Url, Url)]) -> anyhow::Result<()> {
    if let Some((_, url)) = given.iter().find(|(hidden, _)| *hidden == endpoint.url) {
        endpoint.url = url.clone();
        return Ok(());
    }
    let archived = String::from(endpoint.url.clone());
    if !archived.contains("(not-kept") {
        return Ok(());
    }
    Err(misuse(format!(
        "the values in the query of {archived} were not kept, as they may be secrets: give the \
         whole URL again with --url"
    )))
}

fn restore_headers(endpoint: &mut Endpoint, given: &[(String, String)]) -> anyhow::Result<()> {
    let mut left: Vec<&(String, String)> = given.iter().collect();
    for (name, value) in &mut endpoint.headers {
        let found = left.iter().position(|(other, _)| other.eq_ignore_ascii_case(name));
        match found {
            Some(index) => value.clone_from(&left.remove(index).1),
            None if value == NOT_KEPT => {
                return Err(misuse(format!(
                    "the value of the header `{name}` was not kept, as it may be a secret: give it \
                     again with --header \"{name}: …\""
                )));
            }
            None => {}
        }
    }
    match left.first() {
        Some((name, _)) => Err(misuse(format!(
            "this run sends no header `{name}`: leave it out, or begin a new run with --url"
        ))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Changes, listen};

    fn plan(urls: &[&str], headers: &[&str], texts: &[&str]) -> Plan {
        let owned =
            |all: &[&str]| -> Vec<String> { all.iter().map(|it| (*it).to_owned()).collect() };
        let endpoint = |url: &&str| {
            Endpoint::read(&Typed {
                url: (*url).to_owned(),
                headers: owned(headers),
                send_on_open: owned(texts),
                ..Typed::default()
            })
            .unwrap()
        };
        let endpoints: Vec<Endpoint> = urls.iter().map(endpoint).collect();
        listen(&endpoints, &Changes::default()).unwrap()
    }

    fn check(urls: &[&str], headers: &[&str], texts: &[&str], secrets: &Secrets, expected: &str) {
        let whole = plan(urls, headers, texts);
        let mut archived = whole.clone();
        hide(&mut archived);
        let text = serde_json::to_string(&archived).unwrap();
        assert!(!text.contains("s3cret"), "{text}");
        match secrets.restore(&mut archived) {
            Ok(()) => assert_eq!((expected, archived), ("", whole)),
            Err(error) => assert_eq!(error.to_string(), expected),
        }
    }

    #[test]
    fn what_is_hidden_is_said_again() {
        let urls = ["ws://h/live?token=s3cret1&x", "ws://h/live?token=s3cret2&x", "ws://h/"];
        let headers = ["Authorization: s3cret", "X-A: s3cret1", "x-a: s3cret2"];
        let texts = ["s3cret {}"];
        let mut secrets = Secrets {
            urls: urls.map(str::to_owned).to_vec(),
            headers: headers.map(str::to_owned).to_vec(),
            send_on_open: texts.map(str::to_owned).to_vec(),
            cacert: None,
        };
        check(&urls, &headers, &texts, &secrets, "");
        check(
            &["ws://h/"],
            &headers,
            &texts,
            &secrets,
            "ws://h/live?token=(not-kept)&(not-kept) is no endpoint of this run",
        );
        secrets.urls.remove(1);
        check(
            &urls,
            &headers,
            &texts,
            &secrets,
            "the values in the query of ws://h/live?token=(not-kept-2)&(not-kept-2) were not kept, \
             as they may be secrets: give the whole URL again with --url",
        );
        check(
            &["ws://h/live?token=s3cret1&x"],
            &headers[..1],
            &texts,
            &secrets,
            "this run sends no header `X-A`: leave it out, or begin a new run with --url",
        );
        let nothing = Secrets::default();
        check(
            &["ws://h/"],
            &headers,
            &[],
            &nothing,
            "the value of the header `Authorization` was not kept, as it may be a secret: give it \
             again with --header \"Authorization: …\"",
        );
        check(
            &["ws://h/"],
            &[],
            &texts,
            &nothing,
            "what each WebSocket was sent (texts: 1) was not kept, as it may be secret: give each \
             text again with --send-on-open, in the same order",
        );
        check(&["ws://h/"], &[], &[], &nothing, "");
    }

    #[test]
    fn a_typed_url_loses_its_values() {
        let check = |typed: &str, expected: &str| assert_eq!(hidden_url(typed), expected);
        check("ws://h/a?token=s3cret#s3cret", "ws://h/a?token=(not-kept)");
        check("ws://h/a?s3cret", "ws://h/a?(not-kept)");
        check("h/a?token=s3cret", "h/a");
        check("https://h", "https://h/");
    }
}

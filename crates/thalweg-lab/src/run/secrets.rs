//! Possible secrets are never stored: values of headers and of a URL's query, bodies of requests, and messages sent when a WebSocket
//! opens. A run with secrets cannot be repeated.

use super::{misuse, programs};
use crate::scenario::{Endpoint, OpeningStep, Plan, Program, Url};

/// Stands for a possible secret.
pub(super) const NOT_KEPT: &str = "(not kept)";
/// The same in a URL, which cannot contain a space.
const NOT_KEPT_IN_URL: &str = "(not-kept)";

pub(super) fn hide(plan: &mut Plan) {
    let mut known: Vec<(Url, Url)> = Vec::new();
    for program in programs(plan) {
        let Program::Url(endpoint) = program else { continue };
        endpoint.url = hide_url(&endpoint.url, &mut known);
        for (_, value) in &mut endpoint.headers {
            NOT_KEPT.clone_into(value);
        }
        for step in &mut endpoint.opening {
            if let OpeningStep::Send(text) = step {
                NOT_KEPT.clone_into(text);
            }
        }
        for secret in [&mut endpoint.auth, &mut endpoint.body].into_iter().flatten() {
            NOT_KEPT.clone_into(secret);
        }
        for secrets in [&mut endpoint.subscribe, &mut endpoint.data, &mut endpoint.tokens] {
            secrets.truncate(1);
            secrets.fill(NOT_KEPT.to_owned());
        }
        endpoint.cacert = endpoint.cacert.take().and_then(|path| Some(path.file_name()?.into()));
    }
}

/// Refuses an archived plan that lacks something; the error has the remedy.
pub(super) fn expect_all_kept(plan: &Plan) -> anyhow::Result<()> {
    let lacks = |endpoint: &Endpoint| {
        String::from(endpoint.url.clone()).contains("(not-kept")
            || endpoint.headers.iter().any(|(_, value)| value == NOT_KEPT)
            || endpoint.opening.contains(&OpeningStep::Send(NOT_KEPT.to_owned()))
            || [&endpoint.subscribe, &endpoint.data, &endpoint.tokens]
                .into_iter()
                .flatten()
                .chain(&endpoint.auth)
                .chain(&endpoint.body)
                .any(|text| text == NOT_KEPT)
            || endpoint.cacert.is_some()
    };
    if plan
        .subjects()
        .any(|subject| matches!(&subject.program, Program::Url(endpoint) if lacks(endpoint)))
    {
        return Err(misuse(
            "this run used headers, query values, messages, bodies, tokens or --cacert, which are not stored because they may be secrets; measure again with `thalweg-lab bench --url`",
        ));
    }
    Ok(())
}

/// Returns a typed URL without possible secrets. A text that is not a URL is cut at its query.
pub(super) fn hidden_url(typed: &str) -> String {
    match typed.parse::<Url>() {
        Ok(url) => String::from(url.with_query_values(NOT_KEPT_IN_URL)),
        Err(_) => typed.split(['?', '#']).next().unwrap_or_default().to_owned(),
    }
}

/// Returns a URL without the values of its query. URLs that differ only in these values are numbered, so that they stay distinct.
fn hide_url(url: &Url, known: &mut Vec<(Url, Url)>) -> Url {
    if let Some((_, hidden)) = known.iter().find(|(whole, _)| whole == url) {
        return hidden.clone();
    }
    let mut hidden = url.with_query_values(NOT_KEPT_IN_URL);
    // Without a query there is nothing to number.
    let mut number = 2;
    while hidden != *url && known.iter().any(|(_, other)| *other == hidden) {
        hidden = url.with_query_values(&format!("(not-kept-{number})"));
        number += 1;
    }
    known.push((url.clone(), hidden.clone()));
    hidden
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::{Changes, Subject, Typed, listen};

    /// Texts are sent on opening, and as messages.
    fn archived(urls: &[&str], headers: &[&str], texts: &[&str]) -> Plan {
        let owned =
            |all: &[&str]| -> Vec<String> { all.iter().map(|found| (*found).to_owned()).collect() };
        let endpoint = |url: &&str| {
            Endpoint::read(&Typed {
                url: (*url).to_owned(),
                headers: owned(headers),
                opening: texts.iter().map(|text| OpeningStep::Send((*text).to_owned())).collect(),
                data: (!texts.is_empty()).then(|| owned(texts)),
                tokens: (!texts.is_empty()).then(|| owned(&["s3cret"; 10])),
                ..Typed::default()
            })
            .unwrap()
        };
        let endpoints: Vec<Endpoint> = urls.iter().map(endpoint).collect();
        let set = endpoints[0].data.first().map(|_| "rate=1".to_owned());
        let changes = Changes { set: set.into_iter().collect(), ..Changes::default() };
        let mut plan = listen(&endpoints, &changes).unwrap();
        hide(&mut plan);
        plan
    }

    #[test]
    fn possible_secrets_are_hidden_and_not_read_again() {
        let check = |urls: &[&str], headers: &[&str], texts: &[&str], is_whole: bool| {
            let plan = archived(urls, headers, texts);
            let text = serde_json::to_string(&plan).unwrap();
            assert!(!text.contains("s3cret"), "{text}");
            match expect_all_kept(&plan) {
                Ok(()) => assert!(is_whole, "{text}"),
                Err(error) => {
                    assert!(!is_whole && error.to_string().contains("measure again"), "{error}");
                }
            }
        };
        check(&["ws://h/live?token=s3cret"], &[], &[], false);
        check(&["ws://h/"], &["Authorization: s3cret"], &[], false);
        check(&["ws://h/"], &[], &["s3cret {token}"], false);
        check(&["ws://h/"], &[], &[], true);
        check(&["ws://h/a", "ws://h/b?"], &[], &[], true);
    }

    #[test]
    fn urls_that_differ_in_a_secret_stay_distinct() {
        let plan = archived(&["ws://h/?a=s3cret1", "ws://h/?a=s3cret2"], &[], &[]);
        let url = |subject: &Subject| match &subject.program {
            Program::Url(endpoint) => String::from(endpoint.url.clone()),
            other => panic!("{other:?} is no endpoint"),
        };
        let urls: Vec<_> = plan.subjects().map(url).collect();
        assert_eq!(urls, ["ws://h/?a=(not-kept)", "ws://h/?a=(not-kept-2)"]);
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

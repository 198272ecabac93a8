//! SPDX licence expressions (SPDX 2.3, annex D), and the `MIT/Apache-2.0` of older crates.

use anyhow::{bail, ensure};

/// Returns whether licences for which `is_allowed` returns true meet an expression. A `WITH` only permits more, so the licence
/// before it decides. Fails if the text is not an expression.
pub(super) fn allows(text: &str, is_allowed: impl Fn(&str) -> bool) -> anyhow::Result<bool> {
    let spaced = text.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let is_met = any(&mut rest, &is_allowed)?;
    ensure!(rest.is_empty(), "{:?} is not expected", rest[0]);
    Ok(is_met)
}

type Words<'a, 'b> = &'b mut &'a [&'a str];

/// Parses `… OR …`, which has lower precedence than `AND`.
fn any(rest: Words<'_, '_>, is_allowed: &impl Fn(&str) -> bool) -> anyhow::Result<bool> {
    let mut is_met = all(rest, is_allowed)?;
    while take(rest, "OR") {
        is_met |= all(rest, is_allowed)?;
    }
    Ok(is_met)
}

/// Parses `… AND …`.
fn all(rest: Words<'_, '_>, is_allowed: &impl Fn(&str) -> bool) -> anyhow::Result<bool> {
    let mut is_met = one(rest, is_allowed)?;
    while take(rest, "AND") {
        is_met &= one(rest, is_allowed)?;
    }
    Ok(is_met)
}

/// Parses a licence, a licence with an exception, or an expression in brackets.
fn one(rest: Words<'_, '_>, is_allowed: &impl Fn(&str) -> bool) -> anyhow::Result<bool> {
    if take(rest, "(") {
        let is_met = any(rest, is_allowed)?;
        ensure!(take(rest, ")"), "a bracket is not closed");
        return Ok(is_met);
    }
    let licence = name(rest)?;
    if take(rest, "WITH") {
        name(rest)?;
    }
    Ok(is_allowed(licence))
}

fn take(rest: Words<'_, '_>, word: &str) -> bool {
    let is_next = rest.first() == Some(&word);
    if is_next {
        *rest = &rest[1..];
    }
    is_next
}

fn name<'a>(rest: Words<'a, '_>) -> anyhow::Result<&'a str> {
    match rest.split_first() {
        Some((name, after)) if !["OR", "AND", "WITH", "(", ")"].contains(name) => {
            *rest = after;
            Ok(name)
        }
        Some((word, _)) => bail!("{word:?} is not expected"),
        None => bail!("a name is missing"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_read() {
        let check = |text: &str, expected: bool| {
            let is_met = allows(text, |name| name.starts_with("good")).expect(text);
            assert_eq!(is_met, expected, "{text}");
        };
        check("good", true);
        check("bad", false);
        check("bad OR good", true);
        check("bad/good", true);
        check("bad / bad", false);
        check("good AND bad", false);
        check("good AND good1 OR bad", true);
        check("bad AND good OR good AND bad", false);
        check("bad AND (good OR good1)", false);
        check("(good OR bad) AND good1", true);
        check("good WITH exception OR bad", true);
        check("bad WITH exception", false);
    }

    #[test]
    fn malformed_expressions_are_errors() {
        for text in ["", "good bad", "good OR", "AND good", "(good", "good)", "good WITH"] {
            assert!(allows(text, |_| true).is_err(), "{text:?}");
        }
    }
}

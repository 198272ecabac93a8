//! Typed arguments, as they are archived: names instead of paths of this machine.

use super::secrets::{NOT_KEPT, hidden_url};

/// An option whose value may be a secret, and the kept part of it.
type Hidden = (&'static str, fn(&str) -> String);

const HIDDEN: [Hidden; 6] = [
    ("--header", |text| {
        format!("{}: {NOT_KEPT}", text.split(':').next().unwrap_or_default().trim())
    }),
    ("--url", hidden_url),
    ("--send-on-open", |_| NOT_KEPT.to_owned()),
    ("--subscribe", |_| NOT_KEPT.to_owned()),
    ("--auth", |_| NOT_KEPT.to_owned()),
    ("--body", |_| NOT_KEPT.to_owned()),
];

/// Returns the words without the folders of absolute paths, also after `=`, in lists, and within a quoted command.
pub(super) fn without_folders(words: &[String]) -> Vec<String> {
    let separators = [' ', '=', ',', '\'', '"'];
    let shorten = |word: &String| -> String {
        word.split_inclusive(separators)
            .map(|piece| {
                let is_path = piece.starts_with('/');
                let bare = piece.trim_end_matches(separators).trim_end_matches('/');
                match bare.rsplit_once('/') {
                    Some((_, name)) if is_path && !name.is_empty() => {
                        format!("{name}{}", &piece[piece.trim_end_matches(separators).len()..])
                    }
                    _ => piece.to_owned(),
                }
            })
            .collect()
    };
    let mut before: Option<Hidden> = None;
    let hide = |word: &String| {
        if let Some((_, kept)) = before.take() {
            return kept(word);
        }
        before = HIDDEN.into_iter().find(|(option, _)| word == option);
        match word.split_once('=') {
            Some((option, text)) => match HIDDEN.iter().find(|(known, _)| *known == option) {
                Some((_, kept)) => format!("{option}={}", kept(text)),
                None => shorten(word),
            },
            None => shorten(word),
        }
    };
    words.iter().map(hide).collect()
}

/// Joins the words to a line that a shell would split into the same words.
pub(super) fn line(words: &[String]) -> String {
    let quoted = words.iter().map(|word| quoted(word));
    std::iter::once("thalweg-lab".to_owned()).chain(quoted).collect::<Vec<_>>().join(" ")
}

/// Quotes a word for a shell.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_./=:,+@%[]".contains(char);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_this_machine_are_not_archived() {
        let check = |word: &str, expected: &str| {
            assert_eq!(without_folders(&[word.to_owned()]), [expected], "{word}");
        };
        check("bench", "bench");
        check("lab/scenarios/fanout.toml", "lab/scenarios/fanout.toml");
        check("/opt/me/mine.toml", "mine.toml");
        check("--out=/opt/me/runs/", "--out=runs");
        check("/usr/bin/env A=/x/y nice", "env A=y nice");
        check("/a/b,/c/d", "b,d");
        check("/", "/");
        check("p99>4ms", "p99>4ms");
    }

    #[test]
    fn secrets_are_not_archived() {
        let check = |words: &[&str], expected: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(without_folders(&words), expected);
        };
        check(
            &["--header", "A: s3cret", "/a/b", "--header=B:s3cret:x"],
            &["--header", "A: (not kept)", "b", "--header=B: (not kept)"],
        );
        check(
            &["--url", "ws://h/a?b=s3cret&c", "--url=http://h?b=s3cret=", "last"],
            &["--url", "ws://h/a?b=(not-kept)&(not-kept)", "--url=http://h/?b=(not-kept)", "last"],
        );
        check(
            &["--send-on-open", "--url", "--send-on-open={\"token\": 1}", "x=/a/b"],
            &["--send-on-open", "(not kept)", "--send-on-open=(not kept)", "x=b"],
        );
    }

    #[test]
    fn a_line_can_be_typed_again() {
        let words = ["bench", "a b", "--set=x=[1,2]", "it's", ""].map(str::to_owned);
        assert_eq!(line(&words), r"thalweg-lab bench 'a b' --set=x=[1,2] 'it'\''s' ''");
    }
}

//! What was typed, as it is archived: names instead of paths of this machine.

/// Stands for what may be a secret.
pub(super) const NOT_KEPT: &str = "(not kept)";

const HEADER: &str = "--header";

/// The words without the folders of absolute paths, also of those behind `=`, in
/// lists, and within a quoted command.
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
    let mut is_header = false;
    let hide = |word: &String| {
        let (option, text) = match word.split_once('=') {
            Some((HEADER, text)) => (Some(HEADER), text),
            _ => (None, word.as_str()),
        };
        if !(option.is_some() || std::mem::replace(&mut is_header, word == HEADER)) {
            return shorten(word);
        }
        let name = text.split(':').next().unwrap_or_default();
        let option = option.map_or(String::new(), |option| format!("{option}="));
        format!("{option}{name}: {NOT_KEPT}")
    };
    words.iter().map(hide).collect()
}

/// The words as one line that a shell would take apart again in the same way.
pub(super) fn line(words: &[String]) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_./=:,+@%[]".contains(char);
    let quoted = words.iter().map(|word| match !word.is_empty() && word.chars().all(is_plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    });
    std::iter::once("thalweg".to_owned()).chain(quoted).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_this_machine_are_not_told() {
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
        check("cpu.us_per_event > 4", "cpu.us_per_event > 4");
    }

    #[test]
    fn a_line_can_be_typed_again() {
        let words = ["bench", "a b", "--set=x=[1,2]", "it's", ""].map(str::to_owned);
        assert_eq!(line(&words), r"thalweg bench 'a b' --set=x=[1,2] 'it'\''s' ''");
    }
}

//! Names of types and constructors.

use std::collections::BTreeMap;

use super::super::rust::{Token, code, tokens, without_tests};

/// The first definition of a public type: the crate's root and the name, then file and line.
#[derive(Debug, Default)]
pub(super) struct Types(BTreeMap<(String, String), String>);

const TYPE_KEYWORDS: [&str; 5] = ["struct", "enum", "union", "trait", "type"];

impl Types {
    /// Returns a file's public types that have the name of an earlier type of the same crate: line, name, and
    /// the earlier definition.
    pub(super) fn repeated(&mut self, path: &str, text: &str) -> Vec<(usize, String, String)> {
        let code = without_tests(&code(text));
        let mut repeated = Vec::new();
        for (line, name) in public_types(&tokens(&code)) {
            let key = (crate_root(path).to_owned(), name.to_owned());
            match self.0.get(&key) {
                Some(earlier) => repeated.push((line, name.to_owned(), earlier.clone())),
                None => {
                    self.0.insert(key, format!("{path}:{line}"));
                }
            }
        }
        repeated
    }
}

/// Returns the folder of the crate that contains the file. Each folder below `tests` is a crate of its own.
fn crate_root(path: &str) -> &str {
    if let Some((folder, _)) = path.split_once("/src/") {
        return folder;
    }
    path.rsplit_once('/').map_or("", |(folder, _)| match folder.split_once("/tests/") {
        Some((package, inside)) => {
            let target_len = inside.find('/').unwrap_or(inside.len());
            &path[..package.len() + "/tests/".len() + target_len]
        }
        None => path,
    })
}

/// Returns the types that other modules see.
fn public_types<'a>(tokens: &[Token<'a>]) -> Vec<(usize, &'a str)> {
    let public = tokens.iter().enumerate().filter(|(_, token)| token.text == "pub");
    let types = public.filter_map(|(at, _)| {
        let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
        // `pub(crate)`, `pub(in crate::a)`.
        let visibility_len = if text(at + 1) == "(" {
            tokens[at..].iter().take_while(|token| token.text != ")").count()
        } else {
            0
        };
        let at = at + visibility_len + 1;
        let name = tokens.get(at + 1)?;
        TYPE_KEYWORDS.contains(&text(at)).then_some((name.line, name.text))
    });
    types.collect()
}

pub(super) fn functions_of(text: &str) -> Vec<usize> {
    let code = code(text);
    let tokens = tokens(&code);
    let named = tokens.windows(2).filter(|pair| pair[0].text == "fn" && pair[1].text == "of");
    named.map(|pair| pair[0].line).collect()
}

/// First words of names that hide the subject of a function or a test.
const HIDING: [&str; 6] = ["what", "whatever", "who", "whoever", "nothing", "so"];

/// Returns the functions whose name begins with a word that hides its subject: line and name.
pub(super) fn without_subject(text: &str) -> Vec<(usize, String)> {
    let code = code(text);
    let tokens = tokens(&code);
    let functions = tokens.windows(2).filter(|pair| pair[0].text == "fn").map(|pair| &pair[1]);
    let hides = |name: &str| name.split_once('_').is_some_and(|(first, _)| HIDING.contains(&first));
    functions
        .filter(|name| hides(name.text))
        .map(|name| (name.line, name.text.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_two_types_in_one_crate_is_found() {
        fn check(files: &[(&str, &str)], expected: &[&str]) {
            let mut types = Types::default();
            let found: Vec<String> = files
                .iter()
                .flat_map(|(path, text)| types.repeated(path, text))
                .map(|(line, name, earlier)| format!("{line} {name} {earlier}"))
                .collect();
            assert_eq!(found, expected, "{files:?}");
        }
        let first = ("a/src/b.rs", "pub struct Answer;");
        check(
            &[first, ("a/src/c/d.rs", "\npub(crate) enum Answer {}")],
            &["2 Answer a/src/b.rs:1"],
        );
        check(&[first, ("a/src/c.rs", "pub trait Answer {}")], &["1 Answer a/src/b.rs:1"]);
        check(&[first, ("a/src/c.rs", "pub type Answer = u8;")], &["1 Answer a/src/b.rs:1"]);
        check(&[first, ("a/src/c.rs", "pub(super) struct Answer;")], &["1 Answer a/src/b.rs:1"]);
        check(
            &[first, ("a/src/c.rs", "pub(in crate::d) struct Answer;")],
            &["1 Answer a/src/b.rs:1"],
        );
        check(&[first, ("a/src/c.rs", "struct Answer; pub struct Other(Answer);")], &[]);
        check(&[first, ("a/src/c.rs", "#[cfg(test)] mod tests { pub struct Answer; }")], &[]);
        check(&[first, ("a/src/c.rs", "// pub struct Answer;\npub fn answer() -> Answer")], &[]);
        check(&[first, ("b/src/c.rs", "pub struct Answer;")], &[]);
        let test = ("a/tests/it/b.rs", "pub struct Answer;");
        check(&[first, test, ("a/tests/other/b.rs", "pub struct Answer;")], &[]);
        check(
            &[test, ("a/tests/it/c/d.rs", "pub struct Answer;")],
            &["1 Answer a/tests/it/b.rs:1"],
        );
    }

    #[test]
    fn a_name_without_a_subject_is_found() {
        let found = |text: &str| without_subject(text).into_iter().map(|(line, _)| line).collect();
        let check = |text: &str, expected: &[usize]| {
            let lines: Vec<usize> = found(text);
            assert_eq!(lines, expected, "{text}");
        };
        check("mod a {\n async fn what_is_old_goes() {} }", &[2]);
        check("fn nothing_is_lost() {}\nfn so_far(b: u8)", &[1, 2]);
        check("fn what() {} fn whatsoever_a() {} fn sort_b() {} // fn who_a()", &[]);
    }

    #[test]
    fn a_function_named_of_is_found() {
        fn check(text: &str, expected: &[usize]) {
            assert_eq!(functions_of(text), expected, "{text}");
        }
        check("impl A {\n fn of(b: u8) -> Self", &[2]);
        check("pub(crate) const fn of<T>(b: T)", &[1]);
        check("trait A { fn of(); }", &[1]);
        check("fn of_all() {} // fn of(\nA::of(b)", &[]);
    }
}

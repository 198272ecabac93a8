use super::*;

fn check(path: &str, text: &str, expected: &[(usize, &str)]) {
    let found = paragraphs(path, text);
    let found: Vec<_> = found.iter().map(|found| (found.line, &*found.text)).collect();
    assert_eq!(found, expected, "{text}");
}

#[test]
fn markdown_has_paragraphs() {
    check("a.md", "# Head\none\ntwo\n\nthree", &[(1, "Head"), (2, "one\ntwo"), (5, "three")]);
    check("a.md", "- one\n  two\n- three\n2. four", &[(1, "one\ntwo"), (3, "three"), (4, "four")]);
    check("a.md", "[name]: target\n> What is quoted\none", &[(3, "one")]);
}

#[test]
fn code_quotations_and_targets_of_links_are_hidden() {
    check("a.md", "one\n```\nWhat\n```\ntwo", &[(1, "one"), (5, "two")]);
    check("a.md", "a `What` b", &[(1, "a `````` b")]);
    check("a.md", "a \"Of x\ny\" b", &[(1, "a `````\n`` b")]);
    check("a.md", "a [b](What) c", &[(1, "a [b``````` c")]);
    check("a.md", "6\" and `", &[(1, "6\" and `")]);
}

#[test]
fn a_cell_of_a_table_is_a_paragraph() {
    check(
        "a.md",
        "| a | b |\n|---|---|\n| So c | d |",
        &[(1, "a"), (1, "b"), (2, "---"), (2, "---"), (3, "So c"), (3, "d")],
    );
    let glossary = "| use | not |\n|---|---|\n| a | mail |\n\n| b | c |";
    let read = [(1, "use"), (2, "---"), (3, "a"), (5, "b"), (5, "c")];
    check("GLOSSARY.md", glossary, &read);
}

#[test]
fn comments_of_rust_have_paragraphs() {
    check(
        "a.rs",
        "//! one\n//! two\n\n/// three\n// four",
        &[(1, "one\ntwo"), (4, "three"), (5, "four")],
    );
    check("a.rs", "a; // one\n// two\n// three", &[(1, "one"), (2, "two\nthree")]);
    check("a.rs", "let a = \"// no\"; // yes\n/* So\n * it */", &[(1, "yes"), (2, "So\nit")]);
    check("a.rs", "/// one\n/// ```\n/// What\n/// ```", &[(1, "one")]);
}

#[test]
fn comments_of_other_languages_have_paragraphs() {
    let ts = "/**\n * One\n * two.\n * @param a - Of three\n */\nb(); // four\nc('https://d');";
    check("a.ts", ts, &[(2, "One\ntwo."), (4, "Of three"), (6, "four")]);
    check("a.tsx", "{/* one */}\n  // two", &[(1, "one"), (2, "two")]);
    check("a.toml", "# one\n# two\na = 1 # three", &[(1, "one\ntwo"), (3, "three")]);
    check("Makefile", "# one\nall:", &[(1, "one")]);
    check("a.json", "# one", &[]);
}

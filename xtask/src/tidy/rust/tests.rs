use super::*;

#[test]
fn comments_and_literals_are_no_code() {
    fn check(text: &str, expected: &str) {
        let code = code(text);
        assert_eq!(code.lines().count(), text.lines().count(), "{text}");
        let squeezed: Vec<&str> = code.split_whitespace().collect();
        assert_eq!(squeezed.join(" "), expected, "{text}");
    }
    check("a // b\nc", "a c");
    check("a /* b /* c */ d\n*/ e", "a e");
    check("a(\"b // \\\" c\", d)", "a( , d)");
    check("a(r#\"b \" c\"#, br\"\\\", c\"d\", e)", "a( , , , e)");
    check("a('b', '\\'', '\"', '\\u{1f426}', b'\\n', 'é')", "a( , , , , b , )");
    check("fn a<'b>(c: &'b str)", "fn a<'b>(c: &'b str)");
    check("\"never closed", "");
}

#[test]
fn tests_are_taken_out() {
    fn check(text: &str, expected: &str) {
        let kept = without_tests(text);
        assert_eq!(kept.split_whitespace().collect::<Vec<_>>().join(" "), expected, "{text}");
    }
    check("a; #[cfg(test)] mod tests; b", "a; b");
    check("a; #[cfg(test)]\nmod tests { fn c() { [d]; } } b", "a; b");
    check("#[cfg(test)] #[allow(x)] fn a(b: [u8; 2]) {} c", "c");
}

#[test]
fn paths_are_found() {
    fn check(text: &str, expected: &[&str]) {
        let paths = outline(text).paths;
        let found: Vec<String> = paths.iter().map(|path| path.segments.join("::")).collect();
        let found: Vec<&str> =
            found.iter().map(|path| &**path).filter(|p| p.contains("::")).collect();
        assert_eq!(found, expected, "{text}");
    }
    check("let a = std::net::b(c);", &["std::net::b"]);
    check("use a::{b, c::{d, e as f}, self, *};", &["a::b", "a::c::d", "a::c::e", "a::self"]);
    check("a::b::<c::d>()", &["a::b", "c::d"]);
    check("pub use crate::a::*;", &["crate::a"]);
}

#[test]
fn a_path_knows_its_line_and_the_modules_around_it() {
    let paths = outline("a::b;\nmod c {\n if d { e::f } \n}\ng::h").paths;
    let found: Vec<_> = paths.iter().map(|p| (p.line, p.inline_modules)).collect();
    assert_eq!(found, [(1, 0), (3, 1), (3, 1), (3, 1), (5, 0)]);
}

#[test]
fn functions_are_measured() {
    let code =
        "fn a() {}\ntrait B { fn c(d: fn(u8) -> [u8; 2]);\nfn e(&self)\n{ {}\n fn f() {} }\n}";
    let found: Vec<_> = functions(code).into_iter().map(|f| (f.name, f.line, f.lines)).collect();
    let expected = [("a", 1, 1), ("e", 3, 3), ("f", 5, 1)];
    assert_eq!(found, expected.map(|(name, line, lines)| (name.to_owned(), line, lines)));
}

#[test]
fn names_brought_in_by_a_use_are_known() {
    let paths = outline("use a::{b, c::d}; e::f();").paths;
    let found: Vec<_> = paths.iter().map(|path| path.is_use).collect();
    assert_eq!(found, [true, true, false]);
}

#[test]
fn module_declarations_are_found() {
    fn check(text: &str, expected: &[&str]) {
        let modules = outline(text).modules;
        let found: Vec<String> = modules.iter().map(|names| names.join("::")).collect();
        assert_eq!(found, expected, "{text}");
    }
    check("mod a; pub(crate) mod b; mod c { mod d; fn e() {} } mod f;", &["a", "b", "c::d", "f"]);
}

//! Reads Rust as text: without comments and literals, then as paths and module declarations.

#[derive(Debug, Default)]
pub(super) struct Outline {
    pub(super) paths: Vec<Path>,
    /// `mod name;`, as the names of the enclosing inline modules and its own.
    pub(super) modules: Vec<Vec<String>>,
}

/// A path such as `crate::stream::Log`, even inside the braces of a `use`. A single identifier is a path
/// too, and the path of a visibility (`pub(in crate::a)`) is not.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Path {
    /// From 1.
    pub(super) line: usize,
    pub(super) segments: Vec<String>,
    /// The number of enclosing `mod name { … }`.
    pub(super) inline_modules: usize,
    /// Whether it is the path of a `use`, so that its last segment is a name of this file.
    pub(super) is_use: bool,
    /// Whether that name is visible to others: `pub use`, `pub(super) use`.
    pub(super) is_reexport: bool,
    /// Whether a single name is that of an item, and not of a field, a method or a variable: it begins with a
    /// capital letter, or is called.
    pub(super) is_item: bool,
}

impl Path {
    /// Returns whether these segments follow each other in the path.
    pub(super) fn contains(&self, segments: &[&str]) -> bool {
        self.segments.windows(segments.len()).any(|window| window == segments)
    }
}

/// Reads Rust that [`code`] has cleaned.
pub(super) fn outline(code: &str) -> Outline {
    let tokens = tokens(code);
    let mut outline = Outline::default();
    // The module that each open brace begins, if any.
    let mut braces: Vec<Option<&str>> = Vec::new();
    let mut at = 0;
    let (mut is_use, mut is_public) = (false, false);
    while let Some(token) = tokens.get(at) {
        let inline: Vec<&str> = braces.iter().flatten().copied().collect();
        match (token.text, &tokens[at + 1..]) {
            ("mod", [name, Token { text: ";", .. }, ..]) => {
                let names = inline.iter().chain([&name.text]);
                outline.modules.push(names.map(ToString::to_string).collect());
                at += 3;
            }
            ("mod", [name, Token { text: "{", .. }, ..]) => {
                braces.push(Some(name.text));
                at += 3;
            }
            ("{", _) => {
                braces.push(None);
                at += 1;
            }
            ("}", _) => {
                braces.pop();
                at += 1;
            }
            ("pub", rest) => {
                is_public = true;
                at += 1;
                if rest.first().is_some_and(|next| next.text == "(") && is_visibility(rest) {
                    at += rest.iter().take_while(|token| token.text != ")").count() + 1;
                }
                continue;
            }
            ("use", _) => {
                is_use = true;
                at += 1;
                continue;
            }
            (text, rest) if is_identifier(text) => {
                let is_reexport = is_use && is_public;
                let is_item = is_item(&tokens[..at], text, rest);
                let around = Around { inline_modules: inline.len(), is_use, is_reexport, is_item };
                at = path(&tokens, at, &[], around, &mut outline.paths);
                is_use = false;
            }
            _ => at += 1,
        }
        is_public = false;
    }
    outline
}

/// Returns whether the parenthesis after `pub` is a visibility. In `struct A(pub (B, C));` it is not.
fn is_visibility(rest: &[Token<'_>]) -> bool {
    rest.get(1).is_some_and(|next| matches!(next.text, "crate" | "super" | "self" | "in"))
}

fn is_item(before: &[Token<'_>], text: &str, rest: &[Token<'_>]) -> bool {
    let is_method = match before {
        [.., range, Token { text: ".", .. }] => range.text != ".",
        [.., Token { text: "fn", .. }] => true,
        _ => false,
    };
    let is_called = rest.first().is_some_and(|next| next.text == "(");
    !is_method && (is_called || text.starts_with(char::is_uppercase))
}

#[derive(Clone, Copy, Debug)]
struct Around {
    inline_modules: usize,
    is_use: bool,
    is_reexport: bool,
    is_item: bool,
}

/// Reads the path at `at`, which continues `prefix`, and returns its end.
fn path(
    tokens: &[Token<'_>],
    mut at: usize,
    prefix: &[&str],
    around: Around,
    paths: &mut Vec<Path>,
) -> usize {
    let line = tokens[at].line;
    let mut segments = prefix.to_vec();
    while let Some(token) = tokens.get(at) {
        if token.text == "{" {
            return group(tokens, at + 1, &segments, around, paths);
        }
        if !is_identifier(token.text) {
            break;
        }
        segments.push(token.text);
        at += 1;
        if tokens.get(at).is_none_or(|next| next.text != "::") {
            break;
        }
        at += 1;
    }
    let segments = segments.iter().map(ToString::to_string).collect();
    let Around { inline_modules, is_use, is_reexport, is_item } = around;
    paths.push(Path { line, segments, inline_modules, is_use, is_reexport, is_item });
    at
}

/// Reads the paths between the braces of a `use`, and returns their end.
fn group(
    tokens: &[Token<'_>],
    mut at: usize,
    prefix: &[&str],
    around: Around,
    paths: &mut Vec<Path>,
) -> usize {
    while let Some(token) = tokens.get(at) {
        match token.text {
            "}" => return at + 1,
            "as" => at += 2,
            text if is_identifier(text) => at = path(tokens, at, prefix, around, paths),
            _ => at += 1,
        }
    }
    at
}

#[derive(Debug)]
pub(super) struct Token<'a> {
    /// From 1.
    pub(super) line: usize,
    pub(super) text: &'a str,
}

/// Splits Rust that [`code`] has cleaned into words, `::`, and single characters.
pub(super) fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    for (line, text) in (1..).zip(code.lines()) {
        let mut rest = text.trim_start();
        while let Some(first) = rest.chars().next() {
            let len = match rest.find(|c| !is_word(c)) {
                _ if rest.starts_with("::") => 2,
                Some(0) => first.len_utf8(),
                Some(len) => len,
                None => rest.len(),
            };
            tokens.push(Token { line, text: &rest[..len] });
            rest = rest[len..].trim_start();
        }
    }
    tokens
}

fn is_identifier(text: &str) -> bool {
    text.starts_with(|c: char| is_word(c) && !c.is_ascii_digit())
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns `text` with a space for every character of its comments and literals. Line breaks stay.
pub(super) fn code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    for (piece, text) in pieces(text) {
        match piece {
            Piece::Code => code.push_str(text),
            Piece::Comment | Piece::Literal => {
                code.extend(text.chars().map(|c| if c == '\n' { c } else { ' ' }));
            }
        }
    }
    code
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Code,
    Comment,
    Literal,
}

/// Splits Rust into code, comments and literals. The pieces together are `text`.
pub(super) fn pieces(text: &str) -> Vec<(Piece, &str)> {
    let mut pieces = Vec::new();
    // The code before `at` begins at `begin`.
    let (mut begin, mut at) = (0, 0);
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let after_word = text[begin..at].ends_with(is_word);
        let comment = comment_len(rest).map(|len| (Piece::Comment, len));
        let found = comment.or_else(|| Some((Piece::Literal, literal_len(rest, after_word)?)));
        let Some((piece, len)) = found else {
            at += first.len_utf8();
            continue;
        };
        pieces.extend((begin < at).then(|| (Piece::Code, &text[begin..at])));
        pieces.push((piece, &rest[..len]));
        at += len;
        begin = at;
    }
    pieces.extend((begin < at).then(|| (Piece::Code, &text[begin..at])));
    pieces
}

/// Returns the length of the comment that begins here. Block comments may be nested.
fn comment_len(rest: &str) -> Option<usize> {
    if rest.starts_with("//") {
        return Some(rest.find('\n').unwrap_or(rest.len()));
    }
    if !rest.starts_with("/*") {
        return None;
    }
    let mut depth = 0;
    let mut at = 0;
    while at < rest.len() {
        let tail = &rest.as_bytes()[at..];
        if tail.starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if tail.starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return Some(at);
            }
        } else {
            at += 1;
        }
    }
    Some(rest.len())
}

/// Returns the length of the string or character literal that begins here, and `None` for a lifetime.
fn literal_len(rest: &str, after_word: bool) -> Option<usize> {
    if let Some(char) = rest.strip_prefix('\'') {
        let len = match char.strip_prefix('\\') {
            // The character after the backslash may be the quote.
            Some(escaped) => 2 + escaped.get(1..)?.find('\'')?,
            None => char.chars().next()?.len_utf8(),
        };
        return char.get(len..)?.starts_with('\'').then_some(len + 2);
    }
    let prefix_len = if after_word { 0 } else { rest.find(|c| !"bcr".contains(c))? };
    let (prefix, body) = rest.split_at(prefix_len);
    if prefix.ends_with('r') {
        let hashes_len = body.find(|c| c != '#')?;
        let inside = body[hashes_len..].strip_prefix('"')?;
        let end = format!("\"{}", &body[..hashes_len]);
        let len = inside.find(&end).map_or(inside.len(), |len| len + end.len());
        return Some(prefix_len + hashes_len + 1 + len);
    }
    let inside = body.strip_prefix('"')?;
    let mut is_escaped = false;
    let len = inside.find(|c| {
        let ends = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        ends
    });
    Some(prefix_len + 1 + len.map_or(inside.len(), |len| len + 1))
}

/// A function that has a body.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) name: String,
    /// The line of `fn`, from 1.
    pub(super) line: usize,
    /// The lines from `fn` to the last brace.
    pub(super) lines: usize,
}

/// Returns every function of Rust that [`code`] has cleaned, nested ones included.
pub(super) fn functions(code: &str) -> Vec<Function> {
    let tokens = tokens(code);
    let declared = tokens.iter().enumerate().filter(|(_, token)| token.text == "fn");
    declared.filter_map(|(at, token)| function(token.line, &tokens[at + 1..])).collect()
}

/// Returns the function whose name and signature begin `rest`, and `None` for one without a body, and for a
/// type such as `fn(u8)`.
fn function(line: usize, rest: &[Token<'_>]) -> Option<Function> {
    let name = rest.first().filter(|name| is_identifier(name.text))?;
    let mut depth = 0_usize;
    for token in rest {
        match token.text {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth = depth.saturating_sub(1),
            _ => {}
        }
        match token.text {
            "}" if depth == 0 => {
                let lines = token.line + 1 - line;
                return Some(Function { name: name.text.to_owned(), line, lines });
            }
            ";" if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// Returns `code` with spaces for every item under `#[cfg(test)]`.
pub(super) fn without_tests(code: &str) -> String {
    let mut kept = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) = rest.find("#[cfg(test)]") {
        let len = item_len(&rest[at..]);
        kept.push_str(&rest[..at]);
        kept.extend(rest[at..at + len].chars().map(|c| if c == '\n' { c } else { ' ' }));
        rest = &rest[at + len..];
    }
    kept + rest
}

/// Returns the length up to the first semicolon or closing brace outside of all brackets.
fn item_len(item: &str) -> usize {
    let mut depth = 0_usize;
    for (at, c) in item.char_indices() {
        match c {
            '{' | '[' | '(' => depth += 1,
            '}' | ']' | ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && matches!(c, ';' | '}') {
            return at + 1;
        }
    }
    item.len()
}

#[cfg(test)]
mod tests;

//! Rust, read as text: without comments and literals, then as paths and module
//! declarations.

/// What a file declares and refers to.
#[derive(Debug, Default)]
pub(super) struct Outline {
    pub(super) paths: Vec<Path>,
    /// `mod name;`, as the names of the inline modules around it and its own.
    pub(super) modules: Vec<Vec<String>>,
}

/// A path such as `crate::stream::Log`, those inside the braces of a `use`
/// included; a lone identifier is a path too.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Path {
    /// From 1.
    pub(super) line: usize,
    pub(super) segments: Vec<String>,
    /// How many `mod name { … }` of this file stand around it.
    pub(super) inline_modules: usize,
    /// Whether a `use` brings it in: its last segment is then a name of this file.
    pub(super) is_use: bool,
}

impl Path {
    /// Whether these segments follow each other somewhere in the path.
    pub(super) fn contains(&self, segments: &[&str]) -> bool {
        self.segments.windows(segments.len()).any(|window| window == segments)
    }
}

/// Reads Rust that [`code`] has cleaned.
pub(super) fn outline(code: &str) -> Outline {
    let tokens = tokens(code);
    let mut outline = Outline::default();
    // For each open brace, the module it opens, if it opens one.
    let mut braces: Vec<Option<&str>> = Vec::new();
    let mut at = 0;
    let mut is_use = false;
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
            ("use", _) => {
                is_use = true;
                at += 1;
            }
            (text, _) if is_identifier(text) => {
                let around = Around { inline_modules: inline.len(), is_use };
                at = path(&tokens, at, &[], around, &mut outline.paths);
                is_use = false;
            }
            _ => at += 1,
        }
    }
    outline
}

/// Where a path stands.
#[derive(Clone, Copy, Debug)]
struct Around {
    inline_modules: usize,
    is_use: bool,
}

/// Reads the path at `at`, which continues `prefix`, and says where it ends.
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
    let Around { inline_modules, is_use } = around;
    paths.push(Path { line, segments, inline_modules, is_use });
    at
}

/// Reads the paths between the braces of a `use`, and says where they end.
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
struct Token<'a> {
    line: usize,
    text: &'a str,
}

/// Words, `::`, and every other character for itself.
fn tokens(code: &str) -> Vec<Token<'_>> {
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

/// `text` with a space for every character of its comments and of the insides
/// of its literals: lines stay where they are.
pub(super) fn code(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let after_word = code.ends_with(is_word);
        let blank_len = comment_len(rest).or_else(|| literal_len(rest, after_word));
        match blank_len {
            Some(len) => {
                code.extend(rest[..len].chars().map(|c| if c == '\n' { c } else { ' ' }));
                rest = &rest[len..];
            }
            None => {
                code.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    code
}

/// The length of the comment that begins here, block comments nested.
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

/// The length of the string or character literal that begins here; `None` for
/// a lifetime too.
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
    /// Where `fn` stands, from 1.
    pub(super) line: usize,
    /// From `fn` to its last brace.
    pub(super) lines: usize,
}

/// Every function of Rust that [`code`] has cleaned, those inside others included.
pub(super) fn functions(code: &str) -> Vec<Function> {
    let tokens = tokens(code);
    let declared = tokens.iter().enumerate().filter(|(_, token)| token.text == "fn");
    declared.filter_map(|(at, token)| function(token.line, &tokens[at + 1..])).collect()
}

/// The function whose name and signature begin `rest`; `None` for one without a body,
/// and for a type such as `fn(u8)`.
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

/// `code` with spaces for every item under `#[cfg(test)]`.
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

/// Up to the first semicolon or closing brace outside all brackets.
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

//! Finds the prose of a file: paragraphs of Markdown, and of the comments of source files.

use super::super::rust::{Piece, pieces};

/// A paragraph, a heading, an item of a list or a cell of a table.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Paragraph {
    /// The line on which it begins, from 1.
    pub(super) line: usize,
    /// Its lines, without markers of comments and lists. Hidden characters (code, quotations, targets of links) are [`HIDDEN`].
    pub(super) text: String,
}

/// Stands for a byte of code, of a quotation or of a link's target.
pub(super) const HIDDEN: char = '`';

/// Returns the prose of a file. The end of the path decides how the file is read.
pub(super) fn paragraphs(path: &str, text: &str) -> Vec<Paragraph> {
    let (_, name) = path.rsplit_once('/').unwrap_or(("", path));
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
    let comments = match extension {
        "md" => return markdown((1..).zip(text.lines())),
        "rs" => rust_comments(text),
        "ts" | "tsx" | "js" | "mjs" | "cjs" | "go" | "java" | "cs" | "css" => c_comments(text),
        "toml" | "yaml" | "yml" | "sh" | "py" | "conf" | "service" => hash_comments(text),
        "" if matches!(stem, "Makefile" | "Dockerfile") => hash_comments(text),
        _ => return Vec::new(),
    };
    let adjoins = |a: &Comment<'_>, b: &Comment<'_>| {
        a.is_alone && b.is_alone && a.line + 1 == b.line && a.marker == b.marker
    };
    comments
        .chunk_by(adjoins)
        .flat_map(|run| markdown(run.iter().map(|comment| (comment.line, comment.text))))
        .collect()
}

#[derive(Debug)]
struct Comment<'a> {
    /// From 1.
    line: usize,
    /// Whether no code precedes the comment on its line.
    is_alone: bool,
    marker: &'static str,
    text: &'a str,
}

/// Markers of a line comment. The longer ones come first.
const MARKERS: [&str; 3] = ["///", "//!", "//"];

fn rust_comments(text: &str) -> Vec<Comment<'_>> {
    let mut comments = Vec::new();
    let mut line = 1;
    let mut is_alone = true;
    for (piece, piece_text) in pieces(text) {
        if piece == Piece::Comment {
            for (below, text) in piece_text.lines().enumerate() {
                let (marker, text) = without_marker(text);
                let is_alone = is_alone || below > 0;
                comments.push(Comment { line: line + below, is_alone, marker, text });
            }
        }
        line += piece_text.matches('\n').count();
        is_alone = match piece_text.rsplit_once('\n') {
            Some((_, begun)) => begun.trim().is_empty(),
            None => is_alone && piece_text.trim().is_empty(),
        };
    }
    comments
}

fn without_marker(line: &str) -> (&'static str, &str) {
    let line = line.trim();
    if let Some(marker) = MARKERS.into_iter().find(|marker| line.starts_with(marker)) {
        return (marker, &line[marker.len()..]);
    }
    let line = line.strip_suffix("*/").unwrap_or(line);
    ("*", line.trim_start_matches("/*").trim_start_matches('*'))
}

/// Reads the comments of a language that has C's comments, line by line.
fn c_comments(text: &str) -> Vec<Comment<'_>> {
    let mut comments = Vec::new();
    let mut is_inside = false;
    for (line, text) in (1..).zip(text.lines()) {
        let alone = text.trim_start().trim_start_matches('{');
        let begins_block = alone.starts_with("/*");
        if is_inside || begins_block || alone.starts_with("//") {
            let (marker, text) = without_marker(alone.trim_end_matches('}'));
            comments.push(Comment { line, is_alone: true, marker, text });
            is_inside = (is_inside || begins_block) && !alone.contains("*/");
        } else if let Some((_, text)) = text.split_once(" // ") {
            comments.push(Comment { line, is_alone: false, marker: "//", text });
        }
    }
    comments
}

fn hash_comments(text: &str) -> Vec<Comment<'_>> {
    let comments = (1..).zip(text.lines()).filter_map(|(line, text)| {
        let (before, text) = match text.trim_start().strip_prefix('#') {
            Some(text) => ("", text.trim_start_matches('#')),
            None => text.split_once(" # ")?,
        };
        Some(Comment { line, is_alone: before.is_empty(), marker: "#", text })
    });
    comments.collect()
}

/// Splits lines of Markdown. Code and block quotes have no prose. The same holds for a table column with the
/// heading *not*, which has the words to avoid in the glossary.
fn markdown<'a>(lines: impl Iterator<Item = (usize, &'a str)>) -> Vec<Paragraph> {
    let mut paragraphs: Vec<Paragraph> = Vec::new();
    let mut is_code = false;
    let mut is_open = false;
    // The column of a table that is skipped.
    let mut avoided = None;
    for (line, text) in lines {
        let text = text.trim();
        if text.starts_with("```") || text.starts_with("~~~") {
            is_code = !is_code;
            is_open = false;
            continue;
        }
        if is_code || text.is_empty() || text.starts_with('>') || is_link_target(text) {
            is_open = false;
            continue;
        }
        if let Some(row) = text.strip_prefix('|') {
            let cells: Vec<&str> = row.trim_end_matches('|').split('|').map(str::trim).collect();
            if !is_row_of_table(&paragraphs, line) {
                avoided = cells.iter().position(|cell| *cell == "not");
            }
            let read = cells.iter().enumerate().filter(|(at, _)| Some(*at) != avoided);
            paragraphs.extend(read.map(|(_, cell)| Paragraph { line, text: cell.to_string() }));
            is_open = false;
            continue;
        }
        match without_list_marker(text) {
            None if is_open => {
                if let Some(paragraph) = paragraphs.last_mut() {
                    paragraph.text.push('\n');
                    paragraph.text.push_str(text);
                }
            }
            item => {
                paragraphs.push(Paragraph { line, text: item.unwrap_or(text).to_owned() });
                is_open = !text.starts_with('#');
            }
        }
    }
    for paragraph in &mut paragraphs {
        paragraph.text = hide(&paragraph.text);
    }
    paragraphs
}

fn is_row_of_table(before: &[Paragraph], line: usize) -> bool {
    before.last().is_some_and(|last| last.line + 1 == line)
}

/// Returns whether a line is `[name]: target`.
fn is_link_target(text: &str) -> bool {
    text.starts_with('[') && text.split_once("]: ").is_some_and(|(name, _)| !name.contains(' '))
}

/// Removes the marker of a list item or a heading, or a tag of JSDoc (`@param name - `).
fn without_list_marker(text: &str) -> Option<&str> {
    if text.starts_with('@') {
        return text.split_once(" - ").or_else(|| text.split_once(' ')).map(|(_, item)| item);
    }
    let (marker, item) = text.split_once(' ')?;
    let is_number = marker.strip_suffix('.').is_some_and(|n| n.parse::<u16>().is_ok());
    let is_heading = marker.chars().all(|c| c == '#');
    (is_number || is_heading || matches!(marker, "-" | "*" | "+")).then(|| item.trim_start())
}

/// Hides characters inside backticks and quotation marks, and targets of links.
fn hide(text: &str) -> String {
    let mut hidden = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let len = first.len_utf8();
        let close = match first {
            '`' => "`",
            '"' => "\"",
            '“' => "”",
            ']' if rest.starts_with("](") => ")",
            _ => "",
        };
        let inside = rest[len..].find(close).filter(|_| !close.is_empty());
        let shown = if inside.is_some() { 0 } else { len };
        hidden.push_str(&rest[..shown]);
        let end = inside.map_or(len, |inside| len + inside + close.len());
        hidden.extend(rest[shown..end].bytes().map(|b| if b == b'\n' { '\n' } else { HIDDEN }));
        rest = &rest[end..];
    }
    hidden
}

#[cfg(test)]
mod tests;

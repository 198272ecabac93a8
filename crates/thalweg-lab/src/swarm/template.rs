//! A message to send, with placeholders.

/// A line, split at its placeholders once.
#[derive(Clone, Debug)]
pub(super) struct Template(Vec<Piece>);

#[derive(Clone, Debug)]
enum Piece {
    Text(String),
    Id,
    Connection,
    Token,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Filling<'a> {
    /// For `{id}`.
    pub(super) id: u64,
    /// For `{connection}`.
    pub(super) connection: usize,
    /// For `{token}`; if `None`, the placeholder stays.
    pub(super) token: Option<&'a str>,
}

impl Template {
    /// Splits a line. Other words in braces stay as they are.
    pub(super) fn new(line: &str) -> Template {
        let places =
            [("{id}", Piece::Id), ("{connection}", Piece::Connection), ("{token}", Piece::Token)];
        let mut pieces = Vec::new();
        let mut rest = line;
        let first = |rest: &str| {
            let found = places.iter().filter_map(|(name, it)| Some((rest.find(name)?, name, it)));
            found
                .min_by_key(|(at, ..)| *at)
                .map(|(at, name, value)| (at, name.len(), value.clone()))
        };
        while let Some((at, length, piece)) = first(rest) {
            pieces.extend([Piece::Text(rest[..at].to_owned()), piece]);
            rest = &rest[at + length..];
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Template(pieces)
    }

    /// Returns whether the message has a placeholder for an id, and so wants an answer.
    pub(super) fn has_id(&self) -> bool {
        self.0.iter().any(|piece| matches!(piece, Piece::Id))
    }

    /// Appends the message with its placeholders replaced.
    pub(super) fn write(&self, filling: Filling<'_>, out: &mut Vec<u8>) {
        let mut digits = itoa::Buffer::new();
        for piece in &self.0 {
            out.extend_from_slice(match piece {
                Piece::Text(text) => text.as_bytes(),
                Piece::Id => digits.format(filling.id).as_bytes(),
                Piece::Connection => digits.format(filling.connection).as_bytes(),
                Piece::Token => filling.token.unwrap_or("{token}").as_bytes(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_filled_in_and_others_left_alone() {
        let check = |line: &str, token, expected: &str| {
            let mut out = Vec::new();
            let template = Template::new(line);
            template.write(Filling { id: 42, connection: 7, token }, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
            assert_eq!(template.has_id(), line.contains("{id}"));
        };
        check("", None, "");
        check("{}", None, "{}");
        check(r#"{"id":{id},"a":{"b":"{connection}"}}"#, None, r#"{"id":42,"a":{"b":"7"}}"#);
        check("{token}{id}{id}{toke", Some("ä"), "ä4242{toke");
        check("{token} {other}", None, "{token} {other}");
    }
}

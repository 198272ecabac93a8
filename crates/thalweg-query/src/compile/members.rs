//! Members of JSON, and names of several parts.

use sqlparser::{
    ast::{Expr as Ast, Ident, Value},
    tokenizer::Span,
};
use thalweg_columns::Kind;

use super::Scope;
use crate::{
    QueryError,
    expr::Expr,
    member::{Part, Path, Reading},
    syntax::span_of,
    typed::{Compiled, Typed, article, typed},
};

impl Scope<'_> {
    /// Compiles `topic.column`, `column.member`, `topic.column.member` and longer names.
    pub(super) fn compound(&mut self, parts: &[Ident], span: Span) -> Compiled {
        let [first, rest @ ..] = parts else {
            return Err(QueryError::at(span, "a name is missing: write the name of a column"));
        };
        if let [name, members @ ..] = rest
            && self.prefixes.iter().any(|known| known.eq_ignore_ascii_case(&first.value))
        {
            match self.column_named(name) {
                Some(column) => return members_of(column?, name, members, span),
                None if self.find(&first.value).is_none() => return Err(self.no_column(name)),
                None => {}
            }
        }
        if let Some(column) = self.column_named(first) {
            return members_of(column?, first, rest, span);
        }
        match rest.last().filter(|last| self.find(&last.value).is_some()) {
            Some(last) => {
                let names: Vec<&str> = parts.iter().map(|part| &*part.value).collect();
                let message = format!("{} is not a column: write {}", names.join("."), last.value);
                Err(QueryError::at(span, message))
            }
            None => Err(self.no_column(first)),
        }
    }

    /// Compiles `left->right` with a result of type JSON, and `left->>right` with a text.
    pub(super) fn arrow(&mut self, left: &Ast, right: &Ast, kind: Kind, span: Span) -> Compiled {
        let part = match right {
            Ast::Value(value) => match &value.value {
                Value::SingleQuotedString(name) if !name.starts_with("$.") => {
                    Some(Part::Member(name.as_str().into()))
                }
                Value::Number(place, _) => place.parse().ok().map(Part::Element),
                _ => None,
            },
            _ => None,
        };
        let part = part.ok_or_else(|| {
            QueryError::at(
                span_of(right, span),
                "an arrow needs the name of one member in single quotes, or the place of an element: write x->'member' or x->0, and x->'a'->>'b' for a member of a member",
            )
        })?;
        let at = span_of(left, span);
        let left = self.compile(left, at)?;
        part_of(left, vec![part], kind, at)
    }
}

fn members_of(column: Typed, name: &Ident, members: &[Ident], span: Span) -> Compiled {
    if members.is_empty() {
        return Ok(column);
    }
    if !matches!(column.kind, Kind::Json | Kind::Null) {
        let message = format!(
            "{0} is {1}, which has no members: write {0} alone, or declare it as {0}:json",
            name.value,
            article(column.kind)
        );
        return Err(QueryError::at(span, message));
    }
    let parts = members.iter().map(|member| Part::Member(member.value.as_str().into()));
    part_of(column, parts.collect(), Kind::Json, span)
}

/// Returns a part of a JSON value. A part of a part has a single path.
fn part_of(of: Typed, mut parts: Vec<Part>, kind: Kind, span: Span) -> Compiled {
    if !matches!(of.kind, Kind::Json | Kind::Null) {
        let message = match of.expr {
            Expr::Member(..) => {
                "this is a text, which has no members: write -> for all members but the last"
                    .to_owned()
            }
            _ => format!(
                "this is {}, which has no members: write an arrow after JSON",
                article(of.kind)
            ),
        };
        return Err(QueryError::at(span, message));
    }
    let inner = match of.expr {
        Expr::Member(inner, before) => {
            parts.splice(0..0, before.parts);
            inner
        }
        other => Box::new(other),
    };
    let path = Path { parts, reading: Reading::As(kind) };
    Ok(typed(Expr::Member(inner, Box::new(path)), kind))
}

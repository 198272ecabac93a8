//! Parses a part of `ORDER BY`.

use sqlparser::{
    ast::Expr,
    tokenizer::{Span, TokenWithSpan},
};

use crate::{QueryError, parse::expression, tokens::is_word};

/// `window_start ASC NULLS FIRST`
#[derive(Debug, Clone)]
pub(crate) struct Order {
    pub(crate) by: Expr,
    pub(crate) is_descending: bool,
    pub(crate) has_nulls_last: bool,
    pub(crate) span: Span,
}

/// Parses these tokens, which follow `before`.
pub(crate) fn term(tokens: &[TokenWithSpan], before: Span) -> Result<Order, QueryError> {
    let first = tokens.first().map_or(before, |first| first.span);
    let (tokens, has_nulls_last) = match tokens {
        [term @ .., nulls, place] if is_word(nulls, "nulls") && is_word(place, "last") => {
            (term, true)
        }
        [term @ .., nulls, place] if is_word(nulls, "nulls") && is_word(place, "first") => {
            (term, false)
        }
        _ => (tokens, false),
    };
    let (tokens, is_descending) = match tokens {
        [term @ .., last] if is_word(last, "desc") => (term, true),
        [term @ .., last] if is_word(last, "asc") => (term, false),
        _ => (tokens, false),
    };
    let by = expression(tokens, before)?;
    let span = tokens.last().map_or(first, |last| first.union(&last.span));
    Ok(Order { by, is_descending, has_nulls_last, span })
}

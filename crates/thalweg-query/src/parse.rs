//! Parses tokens as one expression of sqlparser's.

use sqlparser::{
    ast::Expr,
    parser::{Parser, ParserError},
    tokenizer::{Location, Span, Token, TokenWithSpan},
};

use crate::{
    QueryError,
    limits::{DEPTH_MAX, OPERATORS_MAX},
    tokens::{Sql, depth_change, is_word, unexpected},
};

/// The form of a query, for messages.
pub(crate) const LOOKS: &str =
    "a query is SELECT … FROM topic [WHERE …] [GROUP BY …] [HAVING …] [EMIT AFTER WINDOW CLOSE …]";

pub(crate) const OPERATORS: [&str; 10] =
    ["and", "or", "not", "is", "in", "like", "ilike", "between", "case", "when"];

/// Parses these tokens, which follow `before`, as one expression.
pub(crate) fn expression(tokens: &[TokenWithSpan], before: Span) -> Result<Expr, QueryError> {
    let Some(last) = tokens.last() else {
        return Err(QueryError::at(before, format!("something is missing after this: {LOOKS}")));
    };
    check_operators(tokens)?;
    let end = TokenWithSpan::at(Token::EOF, last.span.end, last.span.end);
    let with_end = tokens.iter().cloned().chain([end]).collect();
    let mut parser = Parser::new(&Sql)
        .with_recursion_limit(2 * DEPTH_MAX + 16)
        .with_tokens_with_locations(with_end);
    let expr = parser.parse_expr().map_err(|error| parse_error(&error, tokens, last))?;
    let next = parser.peek_token();
    match &next.token {
        Token::EOF => Ok(expr),
        other if is_operator_elsewhere(&next) => Err(no_operator(&other.to_string(), next.span)),
        _ => Err(unexpected(&next, "an operator, a comma or the next clause must come before it")),
    }
}

/// Returns whether the token is an operator in other systems, and cannot follow an expression here.
fn is_operator_elsewhere(token: &TokenWithSpan) -> bool {
    match &token.token {
        Token::Word(_) => REFUSED.iter().any(|(refused, _)| is_word(token, refused)),
        Token::Number(..) | Token::SingleQuotedString(_) | Token::Comma | Token::Period => false,
        other => depth_change(other) == 0,
    }
}

/// Checks the number of operators, because expressions are parsed and evaluated by recursion.
fn check_operators(tokens: &[TokenWithSpan]) -> Result<(), QueryError> {
    let is_operator = |token: &&TokenWithSpan| match &token.token {
        Token::Word(_) => OPERATORS.iter().any(|operator| is_word(token, operator)),
        Token::Number(..) | Token::SingleQuotedString(_) => false,
        other => !matches!(other, Token::Comma | Token::Period) && depth_change(other) == 0,
    };
    match tokens.iter().filter(is_operator).nth(OPERATORS_MAX) {
        Some(first) => {
            let message = format!(
                "the expression has more than {OPERATORS_MAX} operators: shorten it, or use IN"
            );
            Err(QueryError::at(first.span, message))
        }
        None => Ok(()),
    }
}

/// Operators of other systems, and the remedy.
const REFUSED: [(&str, &str); 8] = [
    ("div", "write /, which gives an int for two ints"),
    ("match", "write LIKE"),
    ("glob", "write LIKE, with % for * and _ for ?"),
    ("operator", "write the operator alone"),
    ("member", "write IN (…)"),
    ("collate", "remove it, because texts compare by code points"),
    ("<<", "write * 2 for each bit"),
    (">>", "write / 2 for each bit"),
];

/// Returns the error for an operator that is not supported. `of` is its text.
pub(crate) fn no_operator(of: &str, span: Span) -> QueryError {
    let known = REFUSED.iter().find(|(refused, _)| of.eq_ignore_ascii_case(refused));
    let remedy =
        known.map_or("docs/reference/sql.md lists the supported ones", |(_, remedy)| remedy);
    QueryError::at(span, format!("the operator {} is not supported: {remedy}", of.to_uppercase()))
}

/// Returns an error of sqlparser, which puts the position at the end of its message.
fn parse_error(error: &ParserError, tokens: &[TokenWithSpan], last: &TokenWithSpan) -> QueryError {
    let said = match error {
        ParserError::TokenizerError(said) | ParserError::ParserError(said) => said.as_str(),
        ParserError::RecursionLimitExceeded => "the expression is nested too deeply",
    };
    let (said, place) = match said.rsplit_once(" at Line: ") {
        Some((said, place)) => (said, place.split_once(", Column: ")),
        None => (said, None),
    };
    let place = place.and_then(|(line, column)| {
        Some(Location::new(line.trim().parse().ok()?, column.trim().parse().ok()?))
    });
    let at = place.and_then(|place| tokens.iter().position(|token| token.span.start == place));
    let span = place.map_or(last.span, |place| Span::new(place, place));
    // sqlparser quotes its own types in some messages.
    if let Some(token) = at.map(|at| &tokens[at]).filter(|_| said.starts_with("No infix parser")) {
        return no_operator(&token.token.to_string(), token.span);
    }
    if said.contains("{ ") || said.contains("Word(") || said.starts_with("Internal") {
        return QueryError::at(span, format!("this is not an expression: {SUPPORTED}"));
    }
    QueryError::at(span, format!("{}: correct the expression", said.trim_end_matches('.')))
}

pub(crate) const SUPPORTED: &str = "docs/reference/sql.md lists the supported forms";

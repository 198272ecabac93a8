//! Parses `FROM` and `EMIT`: a window over a topic, in Proton's form or the standard's, and the time of its emission.

use sqlparser::{
    ast::{Expr, Ident},
    tokenizer::{Span, Token, TokenWithSpan},
};

use crate::{
    QueryError,
    limits::{INTERVAL_MS_MAX, OVERLAP_MAX},
    parse::expression,
    tokens::{Clause, depth_change, is_word, unexpected, word},
};

#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) topic: Ident,
    pub(crate) alias: Option<String>,
    pub(crate) window: Option<Window>,
}

/// `tumble(topic, …)` or `hop(topic, …)`.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    /// The time of events, if written: a column or an expression.
    pub(crate) time: Option<Box<Expr>>,
    pub(crate) size_ms: i64,
    /// The distance between the starts of two windows; a tumbling window's size.
    pub(crate) step_ms: i64,
    pub(crate) span: Span,
}

/// `EMIT AFTER WINDOW CLOSE …`
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Emit {
    pub(crate) delay_ms: Option<i64>,
    pub(crate) timeout_ms: Option<i64>,
    /// The position of the clause, if present.
    pub(crate) span: Option<Span>,
}

struct Tokens<'a> {
    rest: &'a [TokenWithSpan],
    span: Span,
}

impl<'a> Tokens<'a> {
    fn from_clause(clause: &Clause<'a>) -> Self {
        Self { rest: clause.tokens, span: clause.word.span }
    }

    fn next(&mut self) -> Option<&'a TokenWithSpan> {
        let (first, rest) = self.rest.split_first()?;
        (self.rest, self.span) = (rest, first.span);
        Some(first)
    }

    fn take(&mut self, expected: &Token) -> bool {
        let is_next = self.rest.first().is_some_and(|next| next.token == *expected);
        is_next && self.next().is_some()
    }

    fn take_word(&mut self, expected: &str) -> bool {
        let is_next = self.rest.first().is_some_and(|next| is_word(next, expected));
        is_next && self.next().is_some()
    }

    /// Returns an argument of a call that is no interval: the tokens up to the next comma or the closing bracket.
    fn argument(&mut self) -> &'a [TokenWithSpan] {
        let mut depth = 0;
        let ends = |next: &TokenWithSpan| {
            let is_end = depth == 0 && matches!(next.token, Token::Comma | Token::RParen);
            depth += depth_change(&next.token);
            is_end
        };
        let count = self.rest.iter().position(ends).unwrap_or(self.rest.len());
        let (argument, rest) = self.rest.split_at(count);
        if let Some(last) = argument.last() {
            self.span = last.span;
        }
        self.rest = rest;
        argument
    }

    /// Parses an interval; returns ms.
    fn interval(&mut self) -> Option<i64> {
        let [interval, number, _, rest @ ..] = self.rest else { return None };
        let Token::SingleQuotedString(ms) = &number.token else { return None };
        if !is_word(interval, "interval") {
            return None;
        }
        (self.rest, self.span) = (rest, interval.span);
        ms.parse().ok()
    }

    fn name(&mut self) -> Option<Ident> {
        let Token::Word(word) = &self.rest.first()?.token else { return None };
        let name = word.to_ident(self.rest[0].span);
        self.next();
        Some(name)
    }

    fn error(&self, instead: &str) -> QueryError {
        match self.rest.first() {
            Some(next) => unexpected(next, instead),
            None => {
                QueryError::at(self.span, format!("something is missing after this: {instead}"))
            }
        }
    }
}

pub(crate) fn source(clause: &Clause<'_>) -> Result<Source, QueryError> {
    let mut tokens = Tokens::from_clause(clause);
    if tokens.rest.first().is_some_and(|next| next.token == Token::LParen) {
        let says = "subqueries are not supported: give the inner query a topic of its own in the configuration, and select from this topic";
        return Err(QueryError::at(tokens.rest[0].span, says));
    }
    let name = tokens.name().ok_or_else(|| tokens.error("FROM needs a topic: write its name, in double quotes if it has other characters than letters, digits and _"))?;
    let is_call = name.quote_style.is_none() && tokens.take(&Token::LParen);
    let (topic, window) = match is_call {
        false => (name, None),
        true => {
            let (topic, window) = window(&name, &mut tokens)?;
            (topic, Some(window))
        }
    };
    let topic = qualified(topic, &mut tokens)?;
    let has_as = tokens.take_word("as");
    let alias = tokens.name();
    if has_as && alias.is_none() {
        return Err(tokens.error("AS needs a name: write one after it"));
    }
    match tokens.rest {
        [] => Ok(Source { topic, alias: alias.map(|alias| alias.value), window }),
        [TokenWithSpan { token: Token::Comma, span }, ..] => Err(QueryError::at(
            *span,
            "joins are not supported: name one topic, because a query reads one",
        )),
        _ => Err(tokens.error(
            "a topic with characters other than letters, digits and _ needs quotes: write \"a/b\"",
        )),
    }
}

/// A topic with other characters than letters, digits and `_` needs quotes.
fn qualified(topic: Ident, tokens: &mut Tokens<'_>) -> Result<Ident, QueryError> {
    match tokens.rest.first() {
        Some(TokenWithSpan { token: Token::Div | Token::Minus | Token::Period, .. }) => {
            Err(tokens.error("a topic with characters other than letters, digits and _ needs quotes: write \"a/b\""))
        }
        _ => Ok(topic),
    }
}

/// Parses the rest of `tumble(…)` or `hop(…)`, in Proton's form or the standard's.
fn window(function: &Ident, tokens: &mut Tokens<'_>) -> Result<(Ident, Window), QueryError> {
    let is_hop = function.value.eq_ignore_ascii_case("hop");
    let looks = if is_hop {
        "write hop(topic, step, size), hop(topic, time, step, size) with a column or an expression as time, or HOP(TABLE topic, DESCRIPTOR(time), step, size)"
    } else {
        "write tumble(topic, size), tumble(topic, time, size) with a column or an expression as time, or TUMBLE(TABLE topic, DESCRIPTOR(time), size)"
    };
    if !is_hop && !function.value.eq_ignore_ascii_case("tumble") {
        let message = format!("{} is not a window over a topic: use tumble or hop", function.value);
        return Err(QueryError::at(function.span, message));
    }
    tokens.take_word("table");
    let topic = tokens.name().ok_or_else(|| tokens.error(looks))?;
    let topic = qualified(topic, tokens)?;
    let mut time = None;
    let mut lengths = Vec::new();
    while tokens.take(&Token::Comma) {
        if let Some(ms) = tokens.interval() {
            lengths.push(ms);
            if !(1..=INTERVAL_MS_MAX).contains(&ms) {
                return Err(QueryError::at(
                    tokens.span,
                    "this length of a window is not supported: write 1ms to ten years",
                ));
            }
        } else if time.is_none() && lengths.is_empty() {
            let before = tokens.span;
            let written = match tokens.argument() {
                [descriptor, TokenWithSpan { token: Token::LParen, .. }, inner @ .., _]
                    if is_word(descriptor, "descriptor") =>
                {
                    inner
                }
                [] => return Err(tokens.error(looks)),
                written => written,
            };
            time = Some(Box::new(expression(written, before)?));
        } else {
            return Err(tokens.error(looks));
        }
    }
    if !tokens.take(&Token::RParen) {
        return Err(tokens.error(looks));
    }
    let span = function.span.union(&tokens.span);
    let (step_ms, size_ms) = match (is_hop, &*lengths) {
        (false, [size]) => (*size, *size),
        (true, [step, size]) => (*step, *size),
        _ => return Err(QueryError::at(span, looks)),
    };
    if size_ms % step_ms != 0 || size_ms / step_ms > OVERLAP_MAX as i64 {
        let message = format!(
            "the size of this hopping window is not 1 to {OVERLAP_MAX} times its step: write hop(topic, step, size) with a multiple of the step as size"
        );
        return Err(QueryError::at(span, message));
    }
    Ok((topic, Window { time, size_ms, step_ms, span }))
}

pub(crate) fn emit(clause: &Clause<'_>) -> Result<Emit, QueryError> {
    const LOOKS: &str = "write EMIT AFTER WINDOW CLOSE [WITH DELAY 2s] [AND TIMEOUT 5s]";
    let mut tokens = Tokens::from_clause(clause);
    if let Some(next) = tokens.rest.first().filter(|next| word(next).is_some()) {
        for (refused, says) in [
            (
                "periodic",
                "EMIT PERIODIC is not supported: remove it, windows are emitted once, when they close",
            ),
            (
                "changelog",
                "CHANGELOG is not supported: remove it, windows are emitted once, when they close",
            ),
            ("stream", "EMIT STREAM is not supported: remove it, queries are streams"),
            (
                "on",
                "EMIT ON UPDATE is not supported: remove it, windows are emitted once, when they close",
            ),
        ] {
            if is_word(next, refused) {
                return Err(QueryError::at(next.span, says));
            }
        }
    }
    let is_close = tokens.take_word("after")
        && ((tokens.take_word("window") && tokens.take_word("close"))
            || tokens.take_word("watermark"));
    if !is_close {
        return Err(tokens.error(LOOKS));
    }
    let mut emit = Emit { span: Some(clause.word.span), ..Emit::default() };
    while tokens.take_word("with") || tokens.take_word("and") {
        let wanted = match () {
            () if tokens.take_word("delay") => &mut emit.delay_ms,
            () if tokens.take_word("timeout") => &mut emit.timeout_ms,
            () => return Err(tokens.error(LOOKS)),
        };
        if wanted.is_some() {
            return Err(QueryError::at(tokens.span, format!("this clause occurs twice: {LOOKS}")));
        }
        *wanted = Some(
            tokens
                .interval()
                .filter(|ms| (0..=INTERVAL_MS_MAX).contains(ms))
                .ok_or_else(|| tokens.error(LOOKS))?,
        );
    }
    if tokens.rest.is_empty() { Ok(emit) } else { Err(tokens.error(LOOKS)) }
}

//! Parses `FROM` and `EMIT`: a window over a topic, in Proton's form or the standard's, and the time of its emission.

use sqlparser::{
    ast::{Expr, Ident},
    tokenizer::{Span, Token, TokenWithSpan},
};

use crate::{
    QueryError,
    limits::{INTERVAL_MS_MAX, OVERLAP_MAX, PERIOD_MS},
    parse::expression,
    tokens::{Clause, depth_change, is_word, unexpected},
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
    /// The distance between the starts of two windows. In a tumbling window, its size.
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
    /// The position of `EMIT CHANGES`: each row of a query without groups, or the changed groups of one without windows.
    pub(crate) changes: Option<Span>,
    /// The time between two emissions of changed groups, in ms.
    pub(crate) period_ms: Option<i64>,
    /// The position of `EMIT PERIODIC`, if present.
    pub(crate) periodic: Option<Span>,
}

/// Words after `EMIT` that a query cannot have, and the remedy.
const REFUSED: [(&str, &str); 6] = [
    (
        "changelog",
        "CHANGELOG is not supported: remove it, because windows are emitted once, when they close, and groups without windows when they change",
    ),
    ("stream", "EMIT STREAM is not supported: remove it, because queries are streams"),
    (
        "on",
        "EMIT ON is not supported: write EMIT AFTER WINDOW CLOSE, because windows are emitted once, when they close",
    ),
    (
        "final",
        "EMIT FINAL is not supported: write EMIT AFTER WINDOW CLOSE, because windows are emitted once, when they close",
    ),
    (
        "every",
        "EMIT EVERY is not supported: remove it, because windows are emitted once, when they close",
    ),
    (
        "changes",
        "EMIT CHANGES takes no further words: write EMIT AFTER WINDOW CLOSE WITH DELAY 2s for a delay",
    ),
];

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

    /// Returns an argument that is not an interval: the tokens up to the next comma or the closing bracket.
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

    /// Takes `TABLE(`.
    fn take_table(&mut self) -> bool {
        match self.rest {
            [table, bracket, ..] if is_word(table, "table") && bracket.token == Token::LParen => {
                self.next();
                self.next().is_some()
            }
            _ => false,
        }
    }

    /// Returns the name of an argument, as in `SIZE => INTERVAL 1 s`.
    fn argument_name(&mut self) -> Option<Ident> {
        match self.rest {
            [_, arrow, ..] if arrow.token == Token::RArrow => {
                let name = self.name()?;
                self.next();
                Some(name)
            }
            _ => None,
        }
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
    let in_table = tokens.take_table();
    let name = tokens.name().ok_or_else(|| tokens.error("FROM needs a topic: write its name, in double quotes if it has characters other than letters, digits and _"))?;
    let is_call = name.quote_style.is_none() && tokens.take(&Token::LParen);
    if in_table && !is_call {
        let message = "TABLE(…) needs a window: write the topic alone, or TABLE(TUMBLE(TABLE topic, DESCRIPTOR(time), size))";
        return Err(QueryError::at(name.span, message));
    }
    let (topic, window) = match is_call {
        false => (name, None),
        true => {
            let (topic, window) = window(&name, &mut tokens)?;
            (topic, Some(window))
        }
    };
    if in_table && !tokens.take(&Token::RParen) {
        return Err(tokens.error("close the bracket of TABLE( after the window"));
    }
    let topic = qualified(topic, &mut tokens)?;
    if let Some(next) = tokens.rest.first().filter(|next| is_word(next, "window"))
        && tokens.rest.len() > 1
    {
        let message =
            "a window comes with the topic: write FROM tumble(topic, 1s) or hop(topic, 1s, 5s)";
        return Err(QueryError::at(next.span, message));
    }
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

/// Returns the topic, unless it needs quotes for characters other than letters, digits and `_`.
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
    let mut arguments = Arguments::default();
    loop {
        arguments.read(tokens, is_hop, looks)?;
        if !tokens.take(&Token::Comma) {
            break;
        }
    }
    if !tokens.take(&Token::RParen) {
        return Err(tokens.error(looks));
    }
    let span = function.span.union(&tokens.span);
    let Arguments { topic, time, lengths, slide, size } = arguments;
    let named: Vec<i64> = slide.into_iter().chain(size).collect();
    let (step_ms, size_ms) = match (is_hop, &*lengths, &*named) {
        (false, [size], []) | (false, [], [size]) => (*size, *size),
        (true, [step, size], []) | (true, [], [step, size]) => (*step, *size),
        _ => return Err(QueryError::at(span, looks)),
    };
    if size_ms % step_ms != 0 || size_ms / step_ms > OVERLAP_MAX as i64 {
        let message = format!(
            "the size of this hopping window is not 1 to {OVERLAP_MAX} times its step: write hop(topic, step, size) with a multiple of the step as size"
        );
        return Err(QueryError::at(span, message));
    }
    let topic = topic.ok_or_else(|| QueryError::at(span, looks))?;
    Ok((topic, Window { time, size_ms, step_ms, span }))
}

/// The arguments of a window, by place or by the names of the standard's table functions.
#[derive(Debug, Default)]
struct Arguments {
    topic: Option<Ident>,
    time: Option<Box<Expr>>,
    /// Lengths without a name, in ms.
    lengths: Vec<i64>,
    slide: Option<i64>,
    size: Option<i64>,
}

impl Arguments {
    fn read(
        &mut self,
        tokens: &mut Tokens<'_>,
        is_hop: bool,
        looks: &str,
    ) -> Result<(), QueryError> {
        let name = tokens.argument_name();
        let is =
            |other: &str| name.as_ref().is_some_and(|name| name.value.eq_ignore_ascii_case(other));
        let is_new = match &name {
            None if self.topic.is_none() => return self.read_topic(tokens, looks),
            None => match tokens.interval() {
                Some(ms) => {
                    self.lengths.push(length(ms, tokens.span)?);
                    return Ok(());
                }
                None if self.time.is_none() && self.lengths.is_empty() => {
                    return self.read_time(tokens, looks);
                }
                None => false,
            },
            Some(_) if is("data") && self.topic.is_none() => return self.read_topic(tokens, looks),
            Some(_) if is("timecol") && self.time.is_none() => {
                return self.read_time(tokens, looks);
            }
            Some(_) if is("size") => self.size.is_none(),
            Some(_) if is("slide") && is_hop => self.slide.is_none(),
            Some(name) => {
                let message = match is("offset") {
                    true => "OFFSET is not supported: remove it, because windows begin at whole multiples of their step since 1970".to_owned(),
                    false => format!("{} is not expected here: {looks}", name.value),
                };
                return Err(QueryError::at(name.span, message));
            }
        };
        let ms = tokens.interval().filter(|_| is_new).ok_or_else(|| tokens.error(looks))?;
        let into = if is("size") { &mut self.size } else { &mut self.slide };
        *into = Some(length(ms, tokens.span)?);
        Ok(())
    }

    fn read_topic(&mut self, tokens: &mut Tokens<'_>, looks: &str) -> Result<(), QueryError> {
        tokens.take_word("table");
        let topic = tokens.name().ok_or_else(|| tokens.error(looks))?;
        self.topic = Some(qualified(topic, tokens)?);
        Ok(())
    }

    fn read_time(&mut self, tokens: &mut Tokens<'_>, looks: &str) -> Result<(), QueryError> {
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
        self.time = Some(Box::new(expression(written, before)?));
        Ok(())
    }
}

fn length(ms: i64, span: Span) -> Result<i64, QueryError> {
    if (1..=INTERVAL_MS_MAX).contains(&ms) {
        return Ok(ms);
    }
    let message = "this length of a window is not supported: write 1ms to ten years";
    Err(QueryError::at(span, message))
}

pub(crate) fn emit(clause: &Clause<'_>) -> Result<Emit, QueryError> {
    const LOOKS: &str = "write EMIT AFTER WINDOW CLOSE [WITH DELAY 2s] [AND TIMEOUT 5s]";
    let mut tokens = Tokens::from_clause(clause);
    if let [next] = tokens.rest
        && is_word(next, "changes")
    {
        return Ok(Emit { changes: Some(next.span), ..Emit::default() });
    }
    if let Some(next) = tokens.rest.first()
        && let Some((_, says)) = REFUSED.iter().find(|(refused, _)| is_word(next, refused))
    {
        return Err(QueryError::at(next.span, *says));
    }
    if tokens.take_word("periodic") {
        return periodic(&mut tokens);
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

/// Parses the rest of `EMIT PERIODIC 1s`.
fn periodic(tokens: &mut Tokens<'_>) -> Result<Emit, QueryError> {
    let periodic = Some(tokens.span);
    if tokens.rest.is_empty() {
        return Ok(Emit { periodic, ..Emit::default() });
    }
    let looks = format!("write EMIT PERIODIC 1s, with {PERIOD_MS}ms to ten years");
    let period_ms = tokens.interval().filter(|ms| (PERIOD_MS..=INTERVAL_MS_MAX).contains(ms));
    match period_ms {
        Some(_) if tokens.rest.is_empty() => Ok(Emit { periodic, period_ms, ..Emit::default() }),
        _ => Err(tokens.error(&looks)),
    }
}

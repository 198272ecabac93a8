//! The clauses of a query. sqlparser parses expressions. This module parses the rest: windows over a topic and `EMIT`
//! are not standard SQL, and errors should point to the part that cannot run.

use sqlparser::{
    ast::{Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Spanned, Value},
    tokenizer::{Location, Span, Token, TokenWithSpan},
};

use crate::{
    QueryError, aggregate,
    from::{Emit, Source, emit, source},
    order::{Order, term},
    parse::{LOOKS, OPERATORS, expression},
    tokens::{Clause, depth_change, is_word, tokens, unexpected},
};

#[derive(Debug, Clone)]
pub(crate) struct Statement {
    pub(crate) is_explain: bool,
    pub(crate) items: Vec<Item>,
    pub(crate) source: Source,
    pub(crate) filter: Option<Expr>,
    pub(crate) group_by: Vec<Expr>,
    pub(crate) having: Option<Expr>,
    /// Has no effect, because the rows of an accepted query have this order anyway.
    pub(crate) order_by: Vec<Order>,
    pub(crate) emit: Emit,
    /// All texts in quotes, in order.
    pub(crate) texts: Vec<String>,
}

#[derive(Debug, Clone)]
pub(crate) enum Item {
    /// `*`
    All,
    /// An expression, its name if given, and its text.
    One { expr: Box<Expr>, name: Option<String>, text: String },
}

/// The words that begin clauses, in order.
const CLAUSES: [&str; 6] = ["from", "where", "group", "having", "order", "emit"];

/// Words that other statements begin with.
const OTHER_STATEMENTS: [(&str, &str); 8] = [
    (
        "with",
        "WITH is not supported: give the inner query a topic of its own in the configuration, and select from this topic",
    ),
    (
        "create",
        "only SELECT is a query: topics are made by publishing to them, or in the configuration",
    ),
    ("drop", "only SELECT is a query: topics are deleted with DELETE /v1/topics/…"),
    ("alter", "only SELECT is a query: topics are changed in the configuration"),
    ("insert", "only SELECT is a query: publish with POST /v1/topics/…"),
    ("update", "only SELECT is a query: publish newer events instead"),
    ("delete", "only SELECT is a query: topics are deleted with DELETE /v1/topics/…"),
    ("set", "only SELECT is a query: bounds of queries are in the server's configuration"),
];

/// Words that a query cannot have, and the remedy.
const REFUSED: [(&str, &str); 15] = [
    ("join", "joins are not supported: publish the data of both topics as one event"),
    ("union", "UNION is not supported: subscribe to both queries"),
    ("intersect", "INTERSECT is not supported: use a condition in WHERE"),
    ("except", "EXCEPT is not supported: use a condition in WHERE"),
    (
        "order",
        "ORDER BY is not supported here: write ORDER BY window_start after GROUP BY, or put a column of this name in double quotes",
    ),
    ("sort", "SORT BY is not supported: remove it, because rows come in the order of their topic"),
    ("limit", "LIMIT is not supported, because a query does not end: stop reading"),
    ("fetch", "FETCH is not supported, because a query does not end: stop reading"),
    ("with", "WITH is not allowed here: write EMIT AFTER WINDOW CLOSE WITH DELAY 2s"),
    (
        "distinct",
        "DISTINCT is not supported here: group by the columns, or write count(DISTINCT x)",
    ),
    ("partition", "PARTITION BY is not supported: use GROUP BY"),
    ("over", "window functions (OVER) are not supported: use GROUP BY"),
    ("qualify", "QUALIFY is not supported: use HAVING"),
    (
        "select",
        "subqueries are not supported: give the inner query a topic of its own in the configuration, and select from this topic",
    ),
    ("lateral", "LATERAL is not supported: name one topic, because a query reads one"),
];

impl Statement {
    /// Returns whether rows are those of groups.
    pub(crate) fn is_grouped(&self) -> bool {
        let is_aggregated = |item: &Item| match item {
            Item::All => false,
            Item::One { expr, .. } => is_aggregate(expr),
        };
        !self.group_by.is_empty() || self.having.is_some() || self.items.iter().any(is_aggregated)
    }

    /// Returns whether rows are those of groups without windows, which change.
    pub(crate) fn has_state(&self) -> bool {
        self.source.window.is_none() && self.is_grouped()
    }

    /// Parses a query. Fails if the text is no query, or has a part that cannot run.
    pub(crate) fn parse(text: &str) -> Result<Self, QueryError> {
        let tokens = tokens(text)?;
        let is_explain = tokens.first().is_some_and(|first| is_word(first, "explain"));
        let tokens = &tokens[usize::from(is_explain)..];
        let (first, rest) = split_first(tokens)?;
        if !is_word(first, "select") {
            return Err(
                refusal(first, &OTHER_STATEMENTS).unwrap_or_else(|| unexpected(first, LOOKS))
            );
        }
        let mut clauses = clauses(rest)?;
        let mut take = |name: &str| {
            let at = clauses.iter().position(|clause| is_word(&clause.word, name))?;
            Some(clauses.remove(at))
        };
        let (items, from) = (take("select"), take("from"));
        let from = from.ok_or_else(|| no_from(tokens))?;
        let filter =
            take("where").map(|clause| expression(clause.tokens, clause.word.span)).transpose()?;
        let having =
            take("having").map(|clause| expression(clause.tokens, clause.word.span)).transpose()?;
        let group_by = take("group").map(|clause| group_by(&clause)).transpose()?;
        let order_by = take("order").map(|clause| order_by(&clause)).transpose()?;
        let emit = take("emit").map(|clause| emit(&clause)).transpose()?;
        let items = list(items.map_or(&[], |clause| clause.tokens), end(tokens), item)?;
        let mut group_by = group_by.unwrap_or_default();
        group_by.iter_mut().try_for_each(|key| resolve_ordinal(key, &items))?;
        Ok(Self {
            is_explain,
            items,
            source: source(&from)?,
            filter,
            group_by,
            having,
            order_by: order_by.unwrap_or_default(),
            emit: emit.unwrap_or_default(),
            texts: tokens.iter().filter_map(quoted_text).collect(),
        })
    }
}

/// Returns whether an expression has an aggregate.
pub(crate) fn is_aggregate(expr: &Expr) -> bool {
    // sqlparser writes each call with its name.
    aggregate::is_called_in(&expr.to_string())
}

/// Returns the error of a query without FROM, or with FROM inside of a bracket that is closed too late.
fn no_from(tokens: &[TokenWithSpan]) -> QueryError {
    // `extract(hour FROM time)`, `IS DISTINCT FROM`
    const TAKE_FROM: [&str; 4] = ["extract", "substring", "trim", "distinct"];
    let mut open: Vec<(&TokenWithSpan, bool)> = Vec::new();
    let mut before = None;
    for token in tokens {
        let is_behind = |word: &str| before.is_some_and(|before| is_word(before, word));
        let is_taken = TAKE_FROM.iter().any(|word| is_behind(word));
        match depth_change(&token.token) {
            1 => open.push((token, is_taken)),
            -1 => drop(open.pop()),
            _ => {}
        }
        if let Some((bracket, false)) = open.last()
            && is_word(token, "from")
            && !is_taken
        {
            let message =
                format!("FROM is inside this bracket: close the bracket before FROM ({LOOKS})");
            return QueryError::at(bracket.span, message);
        }
        before = Some(token);
    }
    QueryError::at(end(tokens), format!("FROM is missing: {LOOKS}"))
}

fn quoted_text(token: &TokenWithSpan) -> Option<String> {
    match &token.token {
        Token::SingleQuotedString(text) => Some(text.clone()),
        _ => None,
    }
}

/// Splits the part of a query after `SELECT` into clauses; the first one has the items.
fn clauses(tokens: &[TokenWithSpan]) -> Result<Vec<Clause<'_>>, QueryError> {
    let select = TokenWithSpan::new(Token::make_keyword("SELECT"), Span::empty());
    let mut found: Vec<Clause<'_>> = vec![Clause { word: select, tokens: &[] }];
    let (mut begin, mut depth, mut order) = (0, 0, 0);
    for (at, token) in tokens.iter().enumerate() {
        depth += depth_change(&token.token);
        let before = at.checked_sub(1).map(|before| &tokens[before]);
        // `a IS DISTINCT FROM b`
        let is_distinct_from =
            is_word(token, "from") && before.is_some_and(|before| is_word(before, "distinct"));
        let is_distinct = is_word(token, "distinct")
            && (before.is_some_and(|token| is_word(token, "is") || is_word(token, "not"))
                || is_counted(&tokens[..at]));
        let is_order_by = depth == 0
            && is_word(token, "order")
            && tokens.get(at + 1).is_some_and(|next| is_word(next, "by"));
        // Other words follow EMIT.
        let is_name = is_aliased(before) || order == CLAUSES.len();
        if !is_distinct
            && !is_name
            && !is_order_by
            && let Some(refusal) = refusal(token, &REFUSED)
        {
            return Err(refusal);
        }
        let is_end = token.token == Token::EOF;
        let clause = CLAUSES.iter().position(|clause| is_word(token, clause));
        let clause = clause.filter(|_| depth == 0 && !is_distinct_from && !is_aliased(before));
        if clause.is_none() && !is_end {
            continue;
        }
        if let Some(last) = found.last_mut() {
            last.tokens = &tokens[begin..at];
        }
        if let Some(clause) = clause {
            if clause < order {
                return Err(unexpected(token, LOOKS));
            }
            order = clause + 1;
            found.push(Clause { word: token.clone(), tokens: &[] });
        }
        begin = at + 1;
    }
    Ok(found)
}

/// Returns whether these tokens end with `count(`.
fn is_counted(before: &[TokenWithSpan]) -> bool {
    matches!(before, [.., count, bracket] if is_word(count, "count") && bracket.token == Token::LParen)
}

/// Returns whether a token after this one is a name, even if it is a keyword elsewhere.
fn is_aliased(before: Option<&TokenWithSpan>) -> bool {
    before.is_some_and(|before| is_word(before, "as") || before.token == Token::Period)
}

fn refusal(token: &TokenWithSpan, refused: &[(&str, &str)]) -> Option<QueryError> {
    let (_, says) = refused.iter().find(|(refused, _)| is_word(token, refused))?;
    Some(QueryError::at(token.span, *says))
}

fn split_first(tokens: &[TokenWithSpan]) -> Result<(&TokenWithSpan, &[TokenWithSpan]), QueryError> {
    let empty = || QueryError::at(Span::empty(), format!("the query is empty: {LOOKS}"));
    tokens.split_first().filter(|(first, _)| first.token != Token::EOF).ok_or_else(empty)
}

fn end(tokens: &[TokenWithSpan]) -> Span {
    let end = tokens.last().map_or(Location::new(1, 1), |last| last.span.end);
    Span::new(end, end)
}

/// Splits at commas outside of brackets; `read` parses each part.
fn list<T>(
    tokens: &[TokenWithSpan],
    at: Span,
    read: impl Fn(&[TokenWithSpan]) -> Result<T, QueryError>,
) -> Result<Vec<T>, QueryError> {
    let (mut parts, mut begin, mut depth) = (Vec::new(), 0, 0);
    for (place, token) in tokens.iter().enumerate() {
        depth += depth_change(&token.token);
        if depth == 0 && token.token == Token::Comma {
            if begin == place {
                return Err(unexpected(token, "something is missing before it; add that part"));
            }
            parts.push(read(&tokens[begin..place])?);
            begin = place + 1;
        }
    }
    if begin == tokens.len() {
        let message = format!("something is missing here: {LOOKS}");
        return Err(QueryError::at(tokens.last().map_or(at, |last| last.span), message));
    }
    parts.push(read(&tokens[begin..])?);
    Ok(parts)
}

fn item(tokens: &[TokenWithSpan]) -> Result<Item, QueryError> {
    if let [TokenWithSpan { token: Token::Mul, .. }] = tokens {
        return Ok(Item::All);
    }
    if let [topic, TokenWithSpan { token: Token::Period, .. }, star] = tokens
        && star.token == Token::Mul
    {
        let span = topic.span.union(&star.span);
        return Err(QueryError::at(span, "* has no prefix here: write SELECT * alone"));
    }
    // `expression AS name` or `expression name`
    let name = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) => Some(word.value.clone()),
        _ => None,
    };
    let (tokens, name) = match tokens {
        [expr @ .., keyword, last] if is_word(keyword, "as") => {
            let missing = || unexpected(last, "AS needs a name: write one after it");
            (expr, Some(name(last).ok_or_else(missing)?))
        }
        [expr @ .., before, last] if ends_value(before) && is_plain_name(last) => {
            (&tokens[..=expr.len()], name(last))
        }
        _ => (tokens, None),
    };
    let expr = expression(tokens, tokens.first().map_or(Span::empty(), |first| first.span))?;
    let text = expr.to_string();
    Ok(Item::One { expr: Box::new(expr), name, text })
}

/// Returns whether an expression can end with this token, so that a word after it is a name.
fn ends_value(token: &TokenWithSpan) -> bool {
    match &token.token {
        Token::RParen | Token::Number(..) | Token::SingleQuotedString(_) => true,
        Token::Word(word) => {
            let others = ["then", "else", "distinct", "from", "interval", "escape"];
            let mut operators = OPERATORS.iter().chain(&others);
            word.quote_style.is_some()
                || !operators.any(|operator| word.value.eq_ignore_ascii_case(operator))
        }
        _ => false,
    }
}

/// Returns whether the token can be a name without `AS`.
fn is_plain_name(token: &TokenWithSpan) -> bool {
    match &token.token {
        Token::Word(word) => {
            let others = ["end", "null", "true", "false", "millisecond"];
            let mut operators = OPERATORS.iter().chain(&others);
            word.quote_style.is_some()
                || !operators.any(|operator| word.value.eq_ignore_ascii_case(operator))
        }
        _ => false,
    }
}

fn order_by(clause: &Clause<'_>) -> Result<Vec<Order>, QueryError> {
    // ORDER begins a clause only if BY follows.
    let by = clause.tokens.first().map_or(clause.word.span, |by| by.span);
    list(clause.tokens.get(1..).unwrap_or_default(), by, |order| term(order, by))
}

fn group_by(clause: &Clause<'_>) -> Result<Vec<Expr>, QueryError> {
    let (by, keys) = clause.tokens.split_first().ok_or_else(|| {
        QueryError::at(clause.word.span, "BY is missing: write GROUP BY window_start")
    })?;
    if !is_word(by, "by") {
        return Err(unexpected(by, "write GROUP BY window_start"));
    }
    list(keys, by.span, |key| expression(key, by.span))
}

/// Replaces the number of a result, as in `GROUP BY 1`, with the result's expression.
fn resolve_ordinal(key: &mut Expr, items: &[Item]) -> Result<(), QueryError> {
    let Expr::Value(value) = &*key else { return Ok(()) };
    let (Value::Number(number, _), span) = (&value.value, value.span) else { return Ok(()) };
    let item = number.parse().ok().and_then(|place: usize| items.get(place.checked_sub(1)?));
    *key = match item {
        Some(Item::One { expr, text, .. }) if aggregate::is_called_in(text) => {
            let message =
                format!("result {number} is an aggregate: group by other results, this is {expr}");
            return Err(QueryError::at(span, message));
        }
        Some(Item::One { expr, .. }) => (**expr).clone(),
        Some(Item::All) => {
            let message = format!("result {number} is *: group by names of columns");
            return Err(QueryError::at(span, message));
        }
        None => {
            let message = format!(
                "there is no result {number}: write a number from 1 to {}, or an expression of columns",
                items.len()
            );
            return Err(QueryError::at(span, message));
        }
    };
    Ok(())
}

/// Returns the position of an expression, or `around` if sqlparser has none.
pub(crate) fn span_of(expr: &Expr, around: Span) -> Span {
    let mut span = expr.span();
    if let Expr::Function(call) = expr
        && let FunctionArguments::List(list) = &call.args
    {
        // sqlparser omits the closing bracket.
        let last = list.args.last().map(|argument| match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(argument)) => span_of(argument, span),
            _ => span,
        });
        let end = last.map_or(span.end, |last| last.end);
        span.end = Location::new(end.line, end.column + 1);
    }
    if span.start.line > 0 {
        return span;
    }
    match expr {
        // sqlparser has no positions for these.
        Expr::RLike { expr, pattern, .. } | Expr::SimilarTo { expr, pattern, .. } => {
            span_of(expr, around).union(&span_of(pattern, around))
        }
        _ => around,
    }
}

//! Splits a query's text into tokens, with intervals in one form.

use sqlparser::{
    dialect::{Dialect, Precedence},
    keywords::Keyword,
    parser::{Parser, ParserError},
    tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer, Word},
};

use crate::{
    QueryError, interval,
    limits::{DEPTH_MAX, TEXT_CHARS_MAX},
};

/// Standard SQL without any product's extensions.
#[derive(Debug)]
pub(crate) struct Sql;

impl Dialect for Sql {
    fn is_identifier_start(&self, character: char) -> bool {
        character.is_alphabetic() || character == '_'
    }

    fn is_identifier_part(&self, character: char) -> bool {
        character.is_alphanumeric() || character == '_'
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        true
    }

    fn supports_boolean_literals(&self) -> bool {
        true
    }

    /// Returns a precedence of arrows above that of casts: the name of a member is a literal, so `j->>'a'::INT` can only mean
    /// `(j->>'a')::INT`.
    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        let arrow = self.prec_value(Precedence::DoubleColon) + 1;
        matches!(parser.peek_token_ref().token, Token::Arrow | Token::LongArrow)
            .then_some(Ok(arrow))
    }
}

/// Returns the tokens without white space and comments, with [`Token::EOF`] at the end. An interval has three tokens: the word,
/// its number in quotes, its unit. Fails if the text is too long, nests too deep, or is not SQL.
pub(crate) fn tokens(text: &str) -> Result<Vec<TokenWithSpan>, QueryError> {
    if text.chars().count() > TEXT_CHARS_MAX {
        let message = format!("the query is longer than {TEXT_CHARS_MAX} characters: shorten it");
        return Err(QueryError::at(Span::empty(), message));
    }
    let found = Tokenizer::new(&Sql, text).tokenize_with_location().map_err(|error| {
        let message = format!("this is not SQL ({}): correct it", error.message.trim());
        QueryError::at(Span::new(error.location, error.location), message)
    })?;
    let is_text = |found: &TokenWithSpan| !matches!(found.token, Token::Whitespace(_));
    let found: Vec<TokenWithSpan> = found.into_iter().filter(is_text).collect();
    let mut tokens = with_intervals(&found)?;
    while tokens.last().is_some_and(|last| matches!(last.token, Token::SemiColon | Token::EOF)) {
        tokens.pop();
    }
    check_brackets(&tokens)?;
    let end = tokens.last().map_or(Location::new(1, 1), |last| last.span.end);
    tokens.push(TokenWithSpan::at(Token::EOF, end, end));
    Ok(tokens)
}

/// Returns the word of a token without quotes.
pub(crate) fn word(token: &TokenWithSpan) -> Option<&Word> {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word),
        _ => None,
    }
}

pub(crate) fn is_word(token: &TokenWithSpan, expected: &str) -> bool {
    word(token).is_some_and(|word| word.value.eq_ignore_ascii_case(expected))
}

pub(crate) fn depth_change(token: &Token) -> i32 {
    match token {
        Token::LParen | Token::LBracket | Token::LBrace => 1,
        Token::RParen | Token::RBracket | Token::RBrace => -1,
        _ => 0,
    }
}

/// A clause of a query: its first word, and the tokens after that.
pub(crate) struct Clause<'a> {
    pub(crate) word: TokenWithSpan,
    pub(crate) tokens: &'a [TokenWithSpan],
}

pub(crate) fn unexpected(token: &TokenWithSpan, instead: &str) -> QueryError {
    let message = match token.token {
        Token::EOF => format!("the query ends too early: {instead}"),
        _ => format!("{} is not expected here: {instead}", token.token),
    };
    QueryError::at(token.span, message)
}

/// Checks that brackets are closed, and do not nest too deep.
fn check_brackets(tokens: &[TokenWithSpan]) -> Result<(), QueryError> {
    let (mut open, mut cases) = (Vec::new(), 0_usize);
    for TokenWithSpan { token, span } in tokens {
        match token {
            // A nested CASE costs the parser the same depth as a bracket.
            Token::Word(Word { keyword: Keyword::CASE, quote_style: None, .. }) => cases += 1,
            Token::Word(Word { keyword: Keyword::END, quote_style: None, .. }) => {
                cases = cases.saturating_sub(1);
            }
            _ => {}
        }
        match depth_change(token) {
            1 => open.push((token, *span)),
            -1 if open.pop().is_none_or(|(opening, _)| !closes(opening, token)) => {
                let message =
                    format!("{token} closes no bracket: remove it, or open one before it");
                return Err(QueryError::at(*span, message));
            }
            _ => {}
        }
        if open.len() + cases > DEPTH_MAX {
            let message =
                format!("brackets are nested more than {DEPTH_MAX} times: simplify the expression");
            return Err(QueryError::at(*span, message));
        }
    }
    match open.last() {
        None => Ok(()),
        Some((opening, span)) => {
            let message = format!("{opening} is not closed: write the other bracket");
            Err(QueryError::at(*span, message))
        }
    }
}

fn closes(opening: &Token, closing: &Token) -> bool {
    matches!(
        (opening, closing),
        (Token::LParen, Token::RParen)
            | (Token::LBracket, Token::RBracket)
            | (Token::LBrace, Token::RBrace)
    )
}

/// Brings `1s`, `INTERVAL 1 s` and `INTERVAL '1 second'` into one form.
fn with_intervals(found: &[TokenWithSpan]) -> Result<Vec<TokenWithSpan>, QueryError> {
    let mut tokens: Vec<TokenWithSpan> = Vec::with_capacity(found.len());
    let mut rest = found;
    while let [first, behind @ ..] = rest {
        let (number, unit, begin, left) = match (&first.token, behind) {
            (Token::Number(number, _), [unit, left @ ..])
                if first.span.end == unit.span.start
                    && word(unit).is_some_and(|unit| interval::unit_ms(&unit.value).is_some()) =>
            {
                (number.clone(), unit.clone(), first.span, left)
            }
            (_, [number, left @ ..]) if is_word(first, "interval") => match (&number.token, left) {
                (Token::Number(text, _), [unit, left @ ..]) if word(unit).is_some() => {
                    (text.clone(), unit.clone(), first.span, left)
                }
                (Token::SingleQuotedString(text), left) => match text.trim().split_once(' ') {
                    Some((text, unit)) => {
                        let token = Token::make_word(unit.trim(), None);
                        let unit = TokenWithSpan::new(token, number.span);
                        (text.to_owned(), unit, first.span, left)
                    }
                    None => match left {
                        [unit, left @ ..] if word(unit).is_some() => {
                            (text.clone(), unit.clone(), first.span, left)
                        }
                        _ => return Err(no_interval(first.span.union(&number.span))),
                    },
                },
                _ => return Err(no_interval(first.span)),
            },
            _ => {
                tokens.push(first.clone());
                rest = behind;
                continue;
            }
        };
        let span = begin.union(&unit.span);
        let name = word(&unit).map_or("", |unit| &unit.value);
        let ms = interval::parse(&number, name).ok_or_else(|| no_interval(span))?;
        tokens.push(TokenWithSpan::new(Token::make_keyword("INTERVAL"), span));
        tokens.push(TokenWithSpan::new(Token::SingleQuotedString(ms.to_string()), span));
        tokens.push(TokenWithSpan::new(Token::make_keyword("MILLISECOND"), span));
        rest = left;
    }
    Ok(tokens)
}

fn no_interval(span: Span) -> QueryError {
    let message = "this is not an interval: write a number and ms, s, m, h, d or w, as in INTERVAL 1 SECOND or 1s \
        (months and years have no fixed length)";
    QueryError::at(span, message)
}

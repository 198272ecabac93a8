//! Conditions, LIKE and CASE.

use sqlparser::{
    ast::{CaseWhen, Expr as Ast},
    tokenizer::Span,
};
use thalweg_columns::{Cell, Kind};

use super::Scope;
use crate::{
    QueryError,
    expr::{Comparison, Expr},
    functions::common,
    like::LikePattern,
    syntax::span_of,
    typed::{Compiled, Typed, article, as_kind, boolean, comparable, compared, member_as, typed},
};

impl Scope<'_> {
    pub(super) fn is_null(&mut self, inner: &Ast, span: Span) -> Compiled {
        let inner = self.compile(inner, span)?;
        Ok(typed(Expr::IsNull(Box::new(inner.expr)), Kind::Bool))
    }

    pub(super) fn is(&mut self, inner: &Ast, value: Cell<'static>, span: Span) -> Compiled {
        let inner = self.compile(inner, span)?;
        let inner = boolean(inner, span, "IS TRUE")?;
        let value = Box::new(Expr::Constant(value));
        Ok(typed(Expr::IsSame(Box::new(inner), value), Kind::Bool))
    }

    pub(super) fn is_same(&mut self, left: &Ast, right: &Ast, span: Span) -> Compiled {
        let (left, right) = (self.compile(left, span)?, self.compile(right, span)?);
        let (left, right, _) = comparable(left, right, span)?;
        Ok(typed(Expr::IsSame(Box::new(left.expr), Box::new(right.expr)), Kind::Bool))
    }

    pub(super) fn like(
        &mut self,
        value: &Ast,
        pattern: &Ast,
        escape: Option<&Ast>,
        ignores_case: bool,
        span: Span,
    ) -> Compiled {
        let value = member_as(self.compile(value, span)?, Kind::String);
        if !matches!(value.kind, Kind::String | Kind::Null) {
            let message = format!(
                "LIKE needs a string, and this is {}: cast it, as in CAST(x AS STRING)",
                article(value.kind)
            );
            return Err(QueryError::at(span, message));
        }
        let mut text = |ast: &Ast| match self.compile(ast, span) {
            Ok(Typed { expr: Expr::Constant(Cell::String(text)), .. }) => Ok(Some(text)),
            Ok(Typed { expr: Expr::Constant(Cell::Null), .. }) => Ok(None),
            _ => Err(QueryError::at(
                span_of(ast, span),
                "LIKE needs a text: write one in single quotes, as in LIKE 'a%'",
            )),
        };
        let (pattern_at, escape_at) =
            (span_of(pattern, span), escape.map_or(span, |escape| span_of(escape, span)));
        let (pattern, escape) = (text(pattern)?, escape.map(&mut text).transpose()?);
        let (Some(pattern), Some(escape)) = (pattern, escape.unwrap_or(Some("".into()))) else {
            return Ok(typed(Expr::Constant(Cell::Null), Kind::Bool));
        };
        let mut escapes = escape.chars();
        let (escape, None) = (escapes.next(), escapes.next()) else {
            return Err(QueryError::at(
                escape_at,
                "ESCAPE takes one character: write one, as in ESCAPE '!'",
            ));
        };
        let pattern = LikePattern::new(&pattern, escape, ignores_case).ok_or_else(|| {
            let message =
                "the pattern ends with the character of ESCAPE: to match it, write it twice";
            QueryError::at(pattern_at, message)
        })?;
        Ok(typed(Expr::Like(Box::new(value.expr), Box::new(pattern)), Kind::Bool))
    }

    pub(super) fn case(
        &mut self,
        operand: Option<&Ast>,
        conditions: &[CaseWhen],
        otherwise: Option<&Ast>,
        span: Span,
    ) -> Compiled {
        let operand = operand.map(|operand| self.compile(operand, span)).transpose()?;
        let mut kind = Kind::Null;
        let mut add = |result: &Typed, at: Span| match common(kind, result.kind) {
            Some(both) => {
                kind = both;
                Ok(())
            }
            None => {
                let message = format!(
                    "the results of CASE need one type, and these are {} and {}: cast one of them",
                    article(kind),
                    article(result.kind)
                );
                Err(QueryError::at(at, message))
            }
        };
        let mut found = Vec::new();
        for CaseWhen { condition, result } in conditions {
            let at = span_of(condition, span);
            let condition = self.compile(condition, span)?;
            let condition = match &operand {
                Some(operand) => {
                    let operand = self.again(operand, at)?;
                    compared(operand, Comparison::Equal, condition, at)?.expr
                }
                None => boolean(condition, at, "WHEN")?,
            };
            let at = span_of(result, span);
            let result = self.compile(result, span)?;
            add(&result, at)?;
            found.push((condition, result));
        }
        let otherwise_at = otherwise.map_or(span, |otherwise| span_of(otherwise, span));
        let otherwise = match otherwise {
            Some(otherwise) => self.compile(otherwise, span)?,
            None => typed(Expr::Constant(Cell::Null), Kind::Null),
        };
        add(&otherwise, otherwise_at)?;
        let conditions =
            found.into_iter().map(|(condition, result)| (condition, as_kind(result, kind)));
        let expr = Expr::Case(conditions.collect(), Box::new(as_kind(otherwise, kind)));
        Ok(typed(expr, kind))
    }
}

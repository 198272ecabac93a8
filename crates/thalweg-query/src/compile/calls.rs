//! Calls of functions and aggregates.

use sqlparser::{
    ast::{
        CaseWhen, DuplicateTreatment, Expr as Ast, Function as Call, FunctionArg, FunctionArgExpr,
        FunctionArguments,
    },
    tokenizer::Span,
};
use thalweg_columns::{Cell, Kind};

use super::{Scope, name_of};
use crate::{
    QueryError,
    aggregate::{AGGREGATES, Aggregate, AggregateFunction},
    civil,
    expr::Expr,
    functions::{FUNCTIONS, Function, Signature},
    syntax::span_of,
    typed::{Compiled, Typed, article, as_kind, member_as, typed},
};

impl Scope<'_> {
    pub(super) fn aggregate(
        &mut self,
        function: AggregateFunction,
        call: &Call,
        span: Span,
    ) -> Compiled {
        let message =
            || format!("the arguments do not fit: call this function as {}", function.usage());
        let usage = || QueryError::at(span, message());
        let Some(mut grouping) = self.grouping.take() else { return Err(usage()) };
        let is_distinct = is_distinct(call);
        let argument = match arguments(call, span)? {
            CallArguments::These(arguments) if is_distinct && arguments.len() > 1 => {
                let message = "DISTINCT takes one value here: join them, as in count(DISTINCT concat(a, '/', b))";
                Err(QueryError::at(span, message))
            }
            CallArguments::All if is_distinct => Err(usage()),
            CallArguments::All if function == AggregateFunction::Count => Ok(None),
            CallArguments::These(arguments) if function == AggregateFunction::Percentile => {
                match &*arguments {
                    [argument, _] => self.compile(argument, span).map(Some),
                    _ => Err(usage()),
                }
            }
            CallArguments::These(arguments) => match &*arguments {
                // The same as `count(*)`.
                [] if function == AggregateFunction::Count && !is_distinct => Ok(None),
                [argument] => self.compile(argument, span).map(Some),
                _ => Err(usage()),
            },
            CallArguments::All => Err(usage()),
        };
        let filter = match &call.filter {
            Some(filter) => self.condition(filter, "FILTER").map(Some),
            None => Ok(None),
        };
        let share = self.share(function, call, span);
        let found = argument.and_then(|argument| {
            let (filter, share) = (filter?, share?);
            // A sum of members is a sum of numbers.
            let argument = argument.map(|argument| match function.result(argument.kind) {
                Some(_) => argument,
                None if matches!(function, AggregateFunction::Min | AggregateFunction::Max) => {
                    argument
                }
                None => member_as(argument, Kind::Double),
            });
            let kind = argument.as_ref().map_or(Kind::Null, |argument| argument.kind);
            let result = function.result(kind).ok_or_else(|| {
                let cast = if kind == Kind::Json { ", with a cast or x->>'member'" } else { "" };
                let message = format!(
                    "the argument is {}: call this as {}{cast}",
                    article(kind),
                    function.usage()
                );
                QueryError::at(span, message)
            })?;
            if let Some(argument) = argument.as_ref().filter(|_| is_distinct)
                && kind == Kind::Json
                && !matches!(argument.expr, Expr::Member(..))
            {
                let message = "JSON has no distinct values: name a member, as in count(DISTINCT x->>'member'), or cast it";
                return Err(QueryError::at(span, message));
            }
            let argument = argument.map(|argument| argument.expr);
            let aggregate = Aggregate { function, argument, kind, is_distinct, share, filter };
            let known = grouping.aggregates.iter().position(|known| *known == aggregate);
            let index = known.unwrap_or_else(|| {
                grouping.aggregates.push(aggregate);
                grouping.aggregates.len() - 1
            });
            // Results follow the keys.
            Ok(typed(Expr::Cell(grouping.keys.len() + index), result))
        });
        self.grouping = Some(grouping);
        found
    }

    /// Returns the share of values below the result of a quantile, and 0 for other aggregates.
    fn share(
        &mut self,
        function: AggregateFunction,
        call: &Call,
        span: Span,
    ) -> Result<f64, QueryError> {
        let written = match (function, arguments(call, span)?) {
            (AggregateFunction::Median, _) => return Ok(0.5),
            (AggregateFunction::Percentile, CallArguments::These(arguments)) => {
                arguments.get(1).copied()
            }
            _ => return Ok(0.0),
        };
        let at = written.map_or(span, |written| span_of(written, span));
        let share = match written.map(|written| self.compile(written, span)).transpose()? {
            Some(Typed { expr: Expr::Constant(Cell::Double(share)), .. }) => Some(share),
            Some(Typed { expr: Expr::Constant(Cell::Int(share)), .. }) => Some(share as f64),
            _ => None,
        };
        share.filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| {
            let message = "the share must be a number from 0 to 1: write approx_percentile(x, 0.95) for the 95th percentile";
            QueryError::at(at, message)
        })
    }

    pub(super) fn function(&mut self, call: &Call, span: Span) -> Compiled {
        let name = name_of(call).unwrap_or_default().to_lowercase();
        if call.over.is_some() {
            return Err(QueryError::at(
                span,
                "window functions (OVER) are not supported: use GROUP BY",
            ));
        }
        if AggregateFunction::named(&name).is_some() {
            let message = format!(
                "{name} is an aggregate, and is not allowed here: write it after SELECT or HAVING, with GROUP BY"
            );
            return Err(QueryError::at(span, message));
        }
        let is_known = |name: &str| {
            FUNCTIONS.iter().any(|known| known.names.contains(&name))
                || ["now", "current_timestamp", "if", "iif"].contains(&name)
        };
        if !is_known(&name) {
            return Err(no_function(&name, span));
        }
        let CallArguments::These(arguments) = arguments(call, span)? else {
            return Err(QueryError::at(span, "only count accepts *: name a column"));
        };
        match (&*name, &*arguments) {
            ("now" | "current_timestamp", []) => Ok(typed(Expr::Now, Kind::Time)),
            ("if" | "iif", [condition, then, otherwise]) => {
                let case = CaseWhen { condition: (*condition).clone(), result: (*then).clone() };
                self.case(None, &[case], Some(otherwise), span)
            }
            _ => self.call(&name, &arguments, span),
        }
    }

    pub(super) fn call(&mut self, name: &str, arguments: &[&Ast], span: Span) -> Compiled {
        let has_name = |known: &&Signature| known.names.contains(&name);
        let signature = FUNCTIONS.iter().find(has_name).ok_or_else(|| no_function(name, span))?;
        let found = arguments.iter().map(|argument| self.compile(argument, span));
        let found = found.collect::<Result<Vec<Typed>, QueryError>>()?;
        let kinds: Vec<Kind> = found.iter().map(|found| found.kind).collect();
        let known: Vec<Kind> = stand_ins(signature, &kinds);
        let result = (signature.result)(&known).ok_or_else(|| {
            let of: Vec<String> = kinds.iter().map(|kind| kind.to_string()).collect();
            let message = format!(
                "no function {name}({}) exists: call it as {}{}",
                of.join(", "),
                signature.usage,
                if kinds.contains(&Kind::Json) { ", with a cast or x->>'member'" } else { "" }
            );
            QueryError::at(span, message)
        })?;
        let (found, result) = with_part(signature.function, found, result, span)?;
        let is_one_type = matches!(
            signature.function,
            Function::Coalesce | Function::Least | Function::Greatest | Function::NullIf
        );
        let exprs = found
            .into_iter()
            .map(|found| if is_one_type { as_kind(found, result) } else { found.expr });
        Ok(typed(Expr::Call(signature.function, exprs.collect()), result))
    }
}

/// Replaces the type of NULL arguments with one that the signature accepts.
fn stand_ins(signature: &Signature, kinds: &[Kind]) -> Vec<Kind> {
    let tries = [Kind::Null, Kind::String, Kind::Int, Kind::Time];
    let stand_in = |by: Kind| -> Vec<Kind> {
        kinds.iter().map(|kind| if *kind == Kind::Null { by } else { *kind }).collect()
    };
    let found = tries.into_iter().map(stand_in).find(|kinds| (signature.result)(kinds).is_some());
    found.unwrap_or_else(|| kinds.to_vec())
}

/// Returns the arguments and the type of a call that names a part of a time, with the name in lower case. Returns other
/// calls unchanged.
fn with_part(
    function: Function,
    mut arguments: Vec<Typed>,
    result: Kind,
    span: Span,
) -> Result<(Vec<Typed>, Kind), QueryError> {
    let known: &[&'static str] = match function {
        Function::DateTrunc => &civil::UNITS,
        Function::Extract => &civil::PARTS,
        _ => return Ok((arguments, result)),
    };
    let named = match arguments.first().map(|first| &first.expr) {
        Some(Expr::Constant(Cell::String(said))) => {
            known.iter().find(|part| part.eq_ignore_ascii_case(said))
        }
        _ => None,
    };
    let no_part = || {
        QueryError::at(
            span,
            format!("this part of a time is not known: write one of {}", known.join(", ")),
        )
    };
    let part: &'static str = named.ok_or_else(no_part)?;
    arguments[0].expr = Expr::Constant(Cell::String(part.into()));
    let result = if part == civil::EPOCH { Kind::Double } else { result };
    Ok((arguments, result))
}

/// Aggregates and functions of other systems, and the remedy.
const ELSEWHERE: [(&[&str], &str); 12] = [
    (&["tumble", "hop", "session"], "write it in FROM, as in FROM tumble(topic, 1s)"),
    (
        &["stddev", "stddev_pop", "stddev_samp", "variance", "var_pop", "var_samp"],
        "select sum(x), sum(x * x) and count(x)",
    ),
    (
        &["string_agg", "array_agg", "group_concat", "list", "json_agg", "listagg"],
        "subscribe to the rows themselves",
    ),
    (
        &["approx_count_distinct", "count_distinct", "uniq", "approx_distinct"],
        "write count(DISTINCT value)",
    ),
    (
        &[
            "percentile_cont",
            "percentile_disc",
            "percentile",
            "quantile",
            "quantile_cont",
            "quantile_disc",
            "approx_percentile_cont",
            "percentile_approx",
        ],
        "write approx_percentile(value, 0.95), or median(value)",
    ),
    (&["any_value", "arbitrary"], "write first(value)"),
    (&["date_diff", "datediff", "timestampdiff"], "write epoch_ms(one) - epoch_ms(other)"),
    (&["count_if", "countif"], "write count(*) FILTER (WHERE …)"),
    (
        &["json_extract", "json_value", "json_extract_string", "json_query", "get_json_object"],
        "write x->'member', or x->>'member' for a text",
    ),
    (&["regexp_matches", "regexp_like", "contains"], "use LIKE"),
    (
        &["to_timestamp", "to_char", "date_format", "strftime"],
        "use CAST(x AS TIMESTAMP) and CAST(x AS STRING)",
    ),
    (&["date_add", "date_sub", "dateadd"], "write time + INTERVAL 1 SECOND"),
];

fn no_function(name: &str, span: Span) -> QueryError {
    if let Some((_, remedy)) = ELSEWHERE.iter().find(|(names, _)| names.contains(&name)) {
        return QueryError::at(span, format!("there is no function {name}: {remedy}"));
    }
    let aggregates: Vec<&str> = AGGREGATES.iter().map(|(names, ..)| names[0]).collect();
    let known: Vec<&str> = FUNCTIONS.iter().map(|function| function.names[0]).collect();
    let message = format!(
        "there is no function {name}: there are {}, and the aggregates {}",
        known.join(", "),
        aggregates.join(", ")
    );
    QueryError::at(span, message)
}

fn is_distinct(call: &Call) -> bool {
    match &call.args {
        FunctionArguments::List(list) => {
            list.duplicate_treatment == Some(DuplicateTreatment::Distinct)
        }
        _ => false,
    }
}

/// The arguments of a call.
enum CallArguments<'a> {
    /// `*`
    All,
    These(Vec<&'a Ast>),
}

fn arguments(call: &Call, span: Span) -> Result<CallArguments<'_>, QueryError> {
    let refused = |what: &str| Err(QueryError::at(span, what));
    let list = match &call.args {
        FunctionArguments::None => return Ok(CallArguments::These(Vec::new())),
        FunctionArguments::List(list) => list,
        FunctionArguments::Subquery(_) => {
            return refused(
                "subqueries are not supported: give the inner query a topic of its own in the configuration",
            );
        }
    };
    if !list.clauses.is_empty() || !call.within_group.is_empty() || call.null_treatment.is_some() {
        return refused("clauses in a call are not supported: write only arguments");
    }
    if let [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)] = &*list.args {
        return Ok(CallArguments::All);
    }
    let argument = |argument| match argument {
        &FunctionArg::Unnamed(FunctionArgExpr::Expr(ref expr)) => Ok(expr),
        _ => Err(QueryError::at(span, "named arguments are not supported: remove the names")),
    };
    Ok(CallArguments::These(list.args.iter().map(argument).collect::<Result<_, _>>()?))
}

//! Checks that rows already have the order of `ORDER BY`, because a query does not sort.

use sqlparser::ast::{Expr as Ast, Value};

use crate::{
    QueryError,
    compile::Scope,
    expr::Expr,
    order::Order,
    syntax::{Item, Statement},
    typed::Typed,
};

const REASON: &str = "windows are emitted in the order of their time, and the rows of a window in the order of GROUP BY, NULL first";

/// Checks a query without groups: its rows have the order of their events.
pub(crate) fn check_rows(statement: &Statement) -> Result<(), QueryError> {
    let Some(first) = statement.order_by.first() else { return Ok(()) };
    let message = "ORDER BY needs groups: remove it, because rows have the order of their events, which may not be that of their times";
    Err(QueryError::at(first.span, message))
}

/// Checks a query with groups: bounds of the window come first, and then the keys of GROUP BY in order.
pub(crate) fn check_groups(
    statement: &Statement,
    keys: &[Typed],
    scope: &mut Scope<'_>,
) -> Result<(), QueryError> {
    if let Some(first) = statement.order_by.first().filter(|_| statement.has_state()) {
        let message = "ORDER BY needs a window: remove it, because rows of groups without a window come in the order of their changes";
        return Err(QueryError::at(first.span, message));
    }
    let is_bound = |typed: &Typed| matches!(typed.expr, Expr::WindowStart | Expr::WindowEnd);
    let mut others = keys.iter().filter(|key| !is_bound(key));
    for (place, order) in statement.order_by.iter().enumerate() {
        let by = scope.compile(named(order, statement), order.span);
        let by = match by {
            Err(error) if error.missing.is_some() => return Err(error),
            by => by.ok(),
        };
        let is_ordered = match &by {
            Some(by) if is_bound(by) => true,
            Some(by) => place > 0 && !order.has_nulls_last && others.next() == Some(by),
            None => false,
        };
        if !is_ordered || order.is_descending {
            let message = format!(
                "rows do not have this order: write ORDER BY window_start or remove it, because {REASON}"
            );
            return Err(QueryError::at(order.span, message));
        }
    }
    Ok(())
}

/// Returns the expression of a result that ORDER BY names or numbers; otherwise the expression itself.
fn named<'a>(order: &'a Order, statement: &'a Statement) -> &'a Ast {
    let mut items = statement.items.iter();
    let found = match &order.by {
        Ast::Identifier(by) => items.find(|item| {
            matches!(item, Item::One { name: Some(name), .. } if name.eq_ignore_ascii_case(&by.value))
        }),
        Ast::Value(value) => match &value.value {
            Value::Number(number, _) => {
                let place = number.parse::<usize>().ok().and_then(|place| place.checked_sub(1));
                place.and_then(|place| items.nth(place))
            }
            _ => None,
        },
        _ => None,
    };
    match found {
        Some(Item::One { expr, .. }) => expr,
        _ => &order.by,
    }
}

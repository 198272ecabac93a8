//! Continuous SQL over one topic: reads events, makes rows. Pure: no I/O, no clock, no runtime.
//!
//! ```text
//! limits        every bound, with its reason
//! meter         the cost of an evaluation, in steps and bytes
//! pace          query pauses
//! error         the error of a query, with its position
//! interval      durations
//! tokens        a query's text as tokens
//! parse         tokens → one expression
//! from          the clauses FROM and EMIT
//! order         a part of ORDER BY
//! syntax        tokens → clauses
//! value         values and comparisons
//! event         decoded events
//! member        members of JSON
//! expr          expressions and their values
//! cast          CAST
//! like          LIKE
//! civil         parts of times
//! rounding      ROUND
//! functions     functions of a row's values
//! distinct      distinct values of a group
//! quantile      quantiles of a group's values
//! aggregate     aggregates of a group's values
//! typed         types of expressions
//! compile       sqlparser's expressions → expressions
//! ordered       whether rows have the order of ORDER BY
//! plan          clauses and columns → the handling of each event
//! explain       the plan in words
//! watermark     the progress of a topic's time
//! group         one group: its keys and aggregates
//! state_key     the key of a group in a topic of keys
//! remains       groups to drop
//! groups        the groups of a window
//! row_offsets   offsets of rows
//! json          rows as JSON
//! widen         changes of inferred columns under a running query
//! waiting       a query whose columns are still unknown
//! counts        counts of events and windows
//! sink          the receiver of rows
//! ledger        the counts and costs of a run
//! completeness  which windows are complete
//! row_writer    writes rows and offsets
//! windows       open windows
//! closing       ended windows
//! running_groups  the groups of a query without windows
//! run_state     how a running query handles an event
//! running       a running query
//! ```
//!
//! The same events in the same order make the same rows with the same offsets, regardless of batches, pauses and
//! machines. Limits on cost have the same effect, too, because cost is counted, not timed. Only `now()`, closing windows
//! for lack of events ([`Running::close_all`]), and the emission of groups without windows ([`Running::emit_changes`]) depend on the
//! clock.
//!
//! ```
//! use std::sync::Arc;
//! use thalweg_columns::Columns;
//! use thalweg_query::{Beginning, Bounds, Query, Running, Sink};
//!
//! struct Print;
//!
//! impl Sink for Print {
//!     fn begins(&mut self, _offset: u64) {}
//!
//!     fn row(&mut self, offset: u64, row: &[u8]) {
//!         assert_eq!((offset, row), (1, &br#"["2022-07-13T21:09:40Z",49.45]"#[..]));
//!     }
//!
//!     fn lost(&mut self, _offset: u64) {}
//! }
//!
//! let query = Query::parse(
//!     "SELECT window_start, max(speed_kmh) AS speed_kmh
//!      FROM tumble(car_live_data, INTERVAL 1 s) GROUP BY window_start",
//! )?;
//! assert_eq!(query.source(), "car_live_data");
//! let columns = Columns::declared(["speed_kmh:double", "time:time"]).expect("columns");
//! let mut running = Running::new(Arc::new(query.plan(&Arc::new(columns))?), Bounds::default(), Beginning::First);
//! running.take(1, br#"[49.45,"2022-07-13T21:09:40.1Z"]"#, 1_657_746_581_000, 0, &mut Print)?;
//! running.take(2, br#"[12,"2022-07-13T21:09:41Z"]"#, 1_657_746_581_000, 0, &mut Print)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod aggregate;
mod cast;
mod civil;
mod closing;
mod compile;
mod completeness;
mod counts;
mod distinct;
mod error;
mod event;
mod explain;
mod expr;
mod from;
mod functions;
mod group;
mod groups;
mod interval;
mod json;
mod ledger;
mod like;
pub mod limits;
mod member;
mod meter;
mod order;
mod ordered;
mod pace;
mod parse;
mod plan;
mod quantile;
mod query;
mod remains;
mod rounding;
mod row_offsets;
mod row_writer;
mod run_state;
mod running;
mod running_groups;
mod sink;
mod state_key;
mod syntax;
mod tokens;
mod typed;
mod value;
mod waiting;
mod watermark;
mod widen;
mod windows;

pub use aggregate::AGGREGATES;
pub use completeness::Beginning;
pub use counts::Counts;
pub use error::QueryError;
pub use functions::{FUNCTIONS, Signature};
pub use limits::Bounds;
pub use meter::Failure;
pub use pace::{Pace, Unbroken};
pub use plan::Plan;
pub use query::Query;
pub use remains::Remains;
pub use running::Running;
pub use sink::Sink;
pub use waiting::Waiting;

//! Continuous SQL over one topic: events go in, rows come out. Pure: no I/O, no clock, no runtime.
//!
//! ```text
//! limits        every bound, with why
//! meter         what an evaluation costs, in steps and bytes
//! pace          when work pauses
//! error         what is wrong with a query, and where
//! interval      lengths of time
//! tokens        a query's text as tokens
//! parse         tokens → one expression
//! from          what stands behind FROM and EMIT
//! syntax        tokens → clauses
//! value         values, and what they are to each other
//! event         an event that was read
//! expr          expressions, and what they are for a row
//! cast          CAST
//! like          LIKE
//! civil         parts of times
//! rounding      ROUND
//! functions     functions of a row's values
//! aggregate     what becomes of the values of a group
//! typed         types of expressions
//! compile       sqlparser's expressions → ours
//! plan          clauses and columns → what happens to each event
//! explain       the same in words
//! watermark     how far the time of a topic has come
//! group         one group: its keys, and what is aggregated
//! remains       groups that are worth nothing any more
//! groups        the groups of a window
//! places        offsets of rows
//! json          rows as JSON
//! widen         columns that were inferred, and a query over them, when other values come
//! waiting       a query whose columns are not known yet
//! counts        what happened to events and windows
//! sink          what takes rows
//! ledger        what a run costs and what has happened in it
//! completeness  which windows have all of their events
//! row_writer    rows out, with their offsets
//! windows       events into windows
//! closing       windows that are over
//! run_state     how an event goes through a running query
//! running       a query that runs
//! ```
//!
//! The same events in the same order make the same rows with the same offsets, however they are cut into
//! batches, wherever a run pauses, and whoever runs it. So do the limits of what it costs, which are counted. Only `now()`, and closing windows because nothing comes ([`Running::close_all`]), depend
//! on the clock.
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
mod meter;
mod pace;
mod parse;
mod places;
mod plan;
mod query;
mod remains;
mod rounding;
mod row_writer;
mod run_state;
mod running;
mod sink;
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

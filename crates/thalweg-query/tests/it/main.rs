//! Tests queries from outside: text and events in, rows out.

mod costs;
mod cuts;
mod distinct;
mod documented;
mod dropping;
mod errors;
mod explained;
mod like_duckdb;
mod members;
mod published;
mod quantiles;
mod random;
mod running;
mod spellings;
mod states;
mod texts;
mod widening;
mod windows;

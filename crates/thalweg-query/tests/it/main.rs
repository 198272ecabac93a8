//! Queries from outside: text and events in, rows out.

mod against_sqlite;
mod cuts;
mod documented;
mod errors;
mod explained;
mod published;
mod running;
mod texts;
mod windows;

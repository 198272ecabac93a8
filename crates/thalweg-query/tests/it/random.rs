//! Random queries over random disordered events have the rows that databases return, which see all events at once.

mod against_sqlite;

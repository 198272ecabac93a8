//! Streams of columns, read by Arrow's own reader.

mod declared;
mod reading;
mod streams;
mod typed;
mod vectors;

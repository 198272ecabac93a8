//! Tests streams of columns with Arrow's own reader.

mod declared;
mod reading;
mod streams;
mod typed;
mod vectors;

//! Tests a running server from outside, and its pages.

mod fed;
mod pages;
mod running;

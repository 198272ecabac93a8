//! A running server, from the outside; and its pages.

mod fed;
mod pages;
mod running;

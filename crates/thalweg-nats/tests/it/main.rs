//! The crate beside real NATS servers, which the tests start and stop.

mod cluster;
mod conformance;
mod ending;
mod harness;
mod opening;
mod reading;
mod restarting;
mod storing;
mod tickets;
mod without_consumer;

//! A broker that breaks the contract in one point fails the case that checks this point.

use std::panic::catch_unwind;

use thalweg_broker_tests::{memory::Bug, suite};

use crate::Memory;

fn is_caught(bug: Bug, case: fn(&mut Memory)) {
    let result = catch_unwind(|| case(&mut Memory::with_bug(bug)));
    let failure = result.expect_err("the case fails");
    let why = failure.downcast_ref::<String>().map_or("", String::as_str);
    assert!(!why.starts_with("waited "), "{bug:?}: {why}");
}

#[test]
fn a_record_that_a_crash_loses_is_caught() {
    is_caught(Bug::LoseOnCrash, suite::restarts);
}

#[test]
fn records_of_an_ended_topic_are_caught() {
    is_caught(Bug::KeepEnded, suite::ends);
    is_caught(Bug::KeepEnded, suite::newest);
}

#[test]
fn records_out_of_order_are_caught() {
    is_caught(Bug::Reorder, suite::slow_readers);
}

#[test]
fn a_forgotten_key_is_caught() {
    is_caught(Bug::ForgetKeys, suite::duplicates);
    is_caught(Bug::ForgetKeys, suite::keys_across_servers);
}

#[test]
fn a_gap_that_is_not_announced_is_caught() {
    is_caught(Bug::SilentGap, suite::gaps);
    is_caught(Bug::SilentGap, suite::renewal);
}

#[test]
fn a_record_that_comes_twice_is_caught() {
    is_caught(Bug::DeliverTwice, suite::order);
}

#[test]
fn a_hole_in_a_range_is_caught() {
    is_caught(Bug::ReadHoles, suite::ranges);
}

#[test]
fn lost_records_without_a_hole_are_caught() {
    is_caught(Bug::SilentLoss, suite::losses);
    is_caught(Bug::TrimBeforeLoss, suite::losses);
}

#[test]
fn a_condition_that_is_not_checked_is_caught() {
    is_caught(Bug::IgnoreCondition, suite::compare_and_set);
}

#[test]
fn keys_that_are_lost_are_caught() {
    is_caught(Bug::ForgetEventKeys, suite::keyed_records);
    is_caught(Bug::TrimKeys, suite::keyed_records);
    is_caught(Bug::TrimKeys, suite::keyed_trims);
    is_caught(Bug::ForgetKeys, suite::keyed_repetitions);
}

#[test]
fn a_ticket_that_is_valid_twice_is_caught() {
    is_caught(Bug::KeepTickets, suite::tickets);
}

#[test]
fn appends_in_flight_that_become_one_are_caught() {
    is_caught(Bug::MergeInFlight, suite::concurrent_appends);
}

#[test]
fn an_event_of_a_record_that_is_lost_is_caught() {
    is_caught(Bug::LoseEvent, suite::batches);
}

#[test]
fn an_epoch_that_a_new_stream_keeps_is_caught() {
    is_caught(Bug::KeepEpoch, suite::renewal);
}

#[test]
fn a_record_that_is_stored_after_it_was_refused_is_caught() {
    is_caught(Bug::StoreRefused, suite::faults);
}

#[test]
fn a_missing_time_of_storing_is_caught() {
    is_caught(Bug::ForgetTime, suite::times);
}

#[test]
fn a_server_that_is_ready_too_early_is_caught() {
    is_caught(Bug::AlwaysReady, suite::readiness);
}

#[test]
fn pauses_on_the_wrong_page_are_caught() {
    is_caught(Bug::LosePauses, suite::pauses);
    is_caught(Bug::EarlyPauses, suite::pauses);
}

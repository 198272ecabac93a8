//! Numbers of messages: losses, repeats and order.

use super::server::{script, serve};
use super::{PACE, received, typed, visit};
use thalweg_lab::scenario::Typed;
use thalweg_testing::undisturbed;

/// Calls `numbers` for each number from 1 on, and sends what it returns.
fn numbered(numbers: fn(u64) -> Vec<u64>) -> Typed {
    let address = serve(script(move |mut peer| {
        peer.upgrade("")?;
        for number in 1.. {
            for number in numbers(number) {
                peer.frame(0x81, format!(r#"{{"data":{{"n":"{number}"}}}}"#).as_bytes())?;
            }
            thalweg_testing::let_pass(PACE);
        }
        Ok(())
    }));
    Typed { sequence: Some("data.n".to_owned()), ..typed(format!("ws://{address}/")) }
}

#[test]
fn losses_repeats_and_order_are_found_for_each_connection() {
    undisturbed(|| {
        let received = received(
            &numbered(|number| match number % 10 {
                0 => vec![],
                2 => vec![number, number],
                4 => vec![number + 1, number],
                5 => vec![],
                _ => vec![number],
            }),
            3,
        );
        let found = received.sequenced.expect("numbers");
        assert_eq!((found.read, found.missing), (received.events, 0));
        // One of ten messages is lost, one comes twice, and one comes late.
        let tenths = found.read as f64 / 10.0;
        for count in [found.lost, found.duplicated, found.reordered] {
            assert!((count as f64 - tenths).abs() <= 6.0, "{found:?}");
        }
        assert_eq!(found.losers, 3);
        assert!(found.lost_max > 0 && found.lost_max <= found.lost - 2, "{found:?}");
    });
}

#[test]
fn a_complete_sequence_has_no_fault() {
    undisturbed(|| {
        let found = received(&numbered(|number| vec![number]), 2).sequenced.expect("numbers");
        assert!(found.read > 10, "{found:?}");
        assert_eq!((found.lost, found.duplicated, found.reordered), (0, 0, 0), "{found:?}");
    });
}

#[test]
fn the_error_for_a_path_without_numbers_lists_paths() {
    undisturbed(|| {
        let sequence = Some("data.m".to_owned());
        let typed = Typed { sequence, ..numbered(|number| vec![number]) };
        let error = visit(&typed, 1).unwrap_err().to_string();
        assert_eq!(error, "no message has a number at data.m: the first has data.n");
    });
}

//! Tests that any broker must pass. For tests only: no program contains it.
//!
//! The tests of a broker have a [`Rig`], which opens the broker and causes faults, and name it in [`conformance!`]:
//!
//! ```ignore
//! thalweg_broker_tests::conformance!(|| Some(MyRig::new()));
//! ```
//!
//! ```text
//! suite    the tests: appends, reads, following, keys, outages
//! node     a server that uses a broker
//! memory   a broker in memory, and below it the same with faults and bugs
//! ```

pub mod memory;
mod node;
pub mod suite;

pub use node::{Call, Caller, Node};
pub use suite::Rig;

/// Makes a test of each case of the suite. `$rig` is a closure that returns a fresh rig, or `None` if this machine cannot run it.
#[macro_export]
macro_rules! conformance {
    ($rig:expr) => {
        $crate::conformance! { $rig;
            order concurrent_appends batches duplicates keys_across_servers compare_and_set ranges losses newest ends pauses
            topics times readiness slow_readers restarts second_restarts gaps renewal faults tickets
            keyed_records keyed_trims keyed_repetitions keyed_ends keyed_conditions
        }
    };
    ($rig:expr; $($case:ident)*) => {
        $(
            #[test]
            fn $case() {
                if let Some(mut rig) = $rig() {
                    $crate::suite::$case(&mut rig);
                }
            }
        )*
    };
}

// SPDX-License-Identifier: Apache-2.0
//! Each planted fault is found. Needs `--features plant`; stands in a binary of its own, since a planted fault is in
//! every engine of its process.
#![cfg(feature = "plant")]

use helio_engine::{Plant, plant};
use helio_sim::judge;

const SEEDS: u64 = 1000;

#[test]
fn every_planted_fault_is_found() {
    std::panic::set_hook(Box::new(|_| {}));
    let faults = [
        Plant::DropAfter,
        Plant::SkipGate,
        Plant::AnswerEarly,
        Plant::ClearMarkEarly,
        Plant::ResumePastGap,
    ];
    for fault in faults {
        plant(Some(fault));
        let found = (0..SEEDS).any(|seed| judge(seed).1.is_some());
        plant(None);
        assert!(found, "{fault:?} broke no promise in {SEEDS} seeds");
    }
}

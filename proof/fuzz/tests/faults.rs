// SPDX-License-Identifier: Apache-2.0
//! Faults that are planted in the daemon: the targets of the whole program find these with the inputs that they make themselves.
#![cfg(feature = "plant")]

use helio_fuzz::target;
use helio_plant::{Plant, plant};
use std::panic::catch_unwind;

const TARGETS: [&str; 4] = ["whole-nbd", "whole-peer", "whole-control", "whole-attach"];
/// Each target finds them.
const FOUND: [Plant; 4] =
    [Plant::PayloadFreedTwice, Plant::ReplyTwice, Plant::StopUnfinished, Plant::SocketLeaked];

/// Whether an input of a target breaks a promise.
fn breaks(name: &str, fault: Option<Plant>) -> bool {
    let target = target(name);
    let inputs = (target.seeds)();
    plant(fault);
    let broken = inputs.iter().any(|(_, input)| catch_unwind(|| (target.run)(input)).is_err());
    plant(None);
    broken
}

// One test, since a fault is planted in the whole process.
#[test]
fn each_target_of_the_whole_program_finds_faults_of_the_daemon() {
    for name in TARGETS {
        assert!(!breaks(name, None), "{name} without a fault");
        for fault in FOUND {
            assert!(breaks(name, Some(fault)), "{name} with {fault:?}");
        }
    }
    // An order that has no response is found by the targets that give several at once.
    for name in ["whole-control", "whole-attach"] {
        assert!(breaks(name, Some(Plant::AskLost)), "{name} with an order that is lost");
    }
}

// SPDX-License-Identifier: Apache-2.0
//! A restore of the kept image after the update ran out of room in its middle.

use helio_e2e::{begin, connect, group, relayed, wait, wait_level};
use helio_testkit::{Dice, Plan};
use helio_units::Bytes;
use std::time::Duration;

const MIB: u64 = 1 << 20;

#[test]
fn a_secondary_that_ran_out_of_room_restores_and_goes_on() {
    let dice = Dice::of_test("a_secondary_that_ran_out_of_room_restores_and_goes_on");
    let plan = Plan::new("db")
        .volume("data", Bytes::mib(64))
        .group_line("safe-copy = \"12MiB\"")
        .group_line("peer-timeout = \"1s\"");
    let (plan, relay) = relayed(plan, Duration::from_millis(10), 20, dice.seed());
    let mut pair = plan.start();
    begin(&pair, "paris");
    let mut client = connect(&pair, "paris");
    // Another byte per block, so that everything travels.
    let mut fill = |from: u64, mib: u64, salt: u8| {
        for n in 0..mib {
            let block = |at: usize| salt ^ (at / 4096) as u8 ^ (at as u8);
            let bytes: Vec<u8> = (0..MIB as usize).map(block).collect();
            client.write(from + n * MIB, &bytes, false).expect("the primary takes it");
        }
        client.flush().expect("it is durable");
    };
    fill(0, 8, 1);
    wait_level(&pair, "paris");
    let kept = std::fs::read(pair.member("lyon", "data")).expect("the member can be read");
    pair.helio("paris", &["pause", "db"]).expect_success();
    fill(0, 8, 2);
    pair.helio("paris", &["resync", "db"]).expect_success();
    wait(&pair, "lyon", "an update", |status| status["state"] == "syncing");
    // More chunks than there is room for, while the update runs.
    fill(16 * MIB, 24, 3);
    wait(&pair, "lyon", "room to run out", |status| status["state"] == "needs-room");
    drop(relay);
    pair.daemon("paris").kill9();
    wait(&pair, "lyon", "the loss of paris", |db| db["peer"]["connection"] != "connected");

    pair.helio("lyon", &["promote", "db", "--restore", "--force", "--yes"]).expect_success();
    let status = group(&pair, "lyon");
    assert_eq!(status["role"], "primary", "{status}");
    let image = std::fs::read(pair.member("lyon", "data")).expect("the member can be read");
    assert!(image == kept, "the image is not the one from before the update");
    connect(&pair, "lyon").write(0, &[9; 4096], true).expect("the new primary takes writes");
}

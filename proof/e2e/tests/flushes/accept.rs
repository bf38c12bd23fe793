// SPDX-License-Identifier: Apache-2.0
//! A suspect copy whose peer is gone is accepted: what it reads as from then on survives the power.

use crate::content::BLOCK;
use crate::stage::{EXTENT, Shape, Stage};
use helio_e2e::{group, wait};
use helio_testkit::{Dice, Failing, Loss, Shows, faulty_stores_possible, times};
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Rounds of an ordinary run.
const ROUNDS: u64 = 1;
/// Extents that are written before the flush fails.
const WRITTEN: u64 = 8;

#[test]
fn a_copy_that_was_accepted_keeps_what_it_reads_as_when_the_power_fails() {
    if !faulty_stores_possible() {
        return;
    }
    let test = "a_copy_that_was_accepted_keeps_what_it_reads_as_when_the_power_fails";
    for round in 0..times("HELIO_FLUSHES", ROUNDS) {
        let mut dice = Dice::of_test(test).fork(round);
        // The store shows what it dropped until its power is cut, as a kernel does.
        let shape = Shape { shows: Shows::Later, ..Shape::draw(&mut dice) };
        println!("round {round}: {shape:?}");
        accepted(Stage::new(shape, dice.roll()), shape, dice.chance(50));
    }
}

fn accepted(mut stage: Stage, shape: Shape, restarts: bool) {
    stage.pair.daemon("lyon").kill9();
    wait(&stage.pair, "paris", "the loss", |status| status["peer"]["connection"] != "connected");
    let (loss, shows) = (shape.loss, shape.shows);
    stage.store("paris").fail(Failing::Flush { after: 0, loss, shows });
    stage.write_extents(0..WRITTEN);
    assert!(!stage.flush(), "the flush that failed was acknowledged");
    stage.disconnect();
    let accept =
        |stage: &Stage| stage.pair.helio("paris", &["member", "accept", "db/data", "--yes"]);
    if restarts {
        stage.restart("paris", true);
    } else {
        let told = accept(&stage);
        assert!(told.stderr.contains("helio demote db"), "{}", told.stderr);
        let left = stage.pair.helio("paris", &["demote", "db"]);
        // The peer is dead and lacks what was written: the demotion says so by its exit code.
        assert_eq!(left.status.code(), Some(8), "{left}");
    }
    let told = accept(&stage);
    assert!(told.status.success(), "{}{}", told.stdout, told.stderr);
    stage.pair.helio("paris", &["promote", "db", "--force", "--yes"]).expect_success();
    let fault = group(&stage.pair, "paris")["fault"].clone();
    assert!(fault.is_null(), "{fault}");
    let read = written(&stage);
    stage.pair.daemon("paris").kill9();
    stage.store("paris").cut_power(Loss::All);
    assert!(read == written(&stage), "the accepted copy went back to what it was");
}

/// What the store of paris holds where something was written.
fn written(stage: &Stage) -> Vec<[u8; BLOCK]> {
    let content = File::open(stage.store("paris").content()).expect("the store's content");
    let block = |extent: u64| {
        let mut bytes = [0; BLOCK];
        let read = content.read_exact_at(&mut bytes, extent * EXTENT * BLOCK as u64);
        read.map(|()| bytes).expect("the store's content is as long as the volume")
    };
    (0..WRITTEN).map(block).collect()
}

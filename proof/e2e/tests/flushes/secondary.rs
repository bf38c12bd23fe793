// SPDX-License-Identifier: Apache-2.0
//! A flush of the secondary's store fails while others overlap it. What it dropped must be sent again.
//!
//! The kernel runs the flushes of one file one after another. So the secondary's process is stopped until the failed one
//! and those behind it have ended: it then finds their outcomes in any order.

use crate::client::{Ask, Caller};
use crate::content::{BLOCK, Least};
use crate::stage::{Decision, EXTENT, Shape, Stage};
use helio_e2e::{PATIENCE, group};
use helio_testkit::{Dice, Failing, eventually, faulty_stores_possible, times};
use std::time::{Duration, Instant};

/// Rounds of an ordinary run.
const ROUNDS: u64 = 3;
/// Connections that flush at the same time.
const CLIENTS: u64 = 4;
/// A flush that is under way ends sooner.
const SOON: Duration = Duration::from_millis(500);

#[test]
fn flushes_of_the_secondary_overlap_a_failed_one_and_nothing_is_lost() {
    if !faulty_stores_possible() {
        return;
    }
    let name = "flushes_of_the_secondary_overlap_a_failed_one_and_nothing_is_lost";
    let dice = Dice::of_test(name).fork(6);
    let rounds = times("HELIO_FLUSHES", ROUNDS);
    let (mut overlapped, mut round) = (0, 0);
    // A flush that is late overlaps nothing: then there are more rounds.
    eventually(PATIENCE * (rounds as u32 + 2), "rounds in which flushes overlap", || {
        let mut dice = dice.fork(round);
        let (shape, kill) = (Shape::draw(&mut dice), dice.chance(50));
        println!("round {round}: {shape:?}, kill {kill}");
        let mut stage = Stage::new(shape, dice.roll());
        overlapped += u64::from(overlapping(&mut stage, shape));
        stage.restart("lyon", kill);
        let primary = stage.settle(Decision::LyonIsWhole, &mut dice);
        stage.finish(primary, Least::Acknowledged);
        round += 1;
        (round >= rounds && overlapped * 4 >= round).then_some(())
    });
    println!("in {overlapped} of {round} rounds a flush overlapped the one that failed");
}

/// Several clients flush at the same time, and the first flush of the secondary's store fails. Returns whether another one
/// was under way then: it is not if the first one holds up the writes before it.
fn overlapping(stage: &mut Stage, shape: Shape) -> bool {
    let clients: Vec<Caller> =
        (0..CLIENTS).map(|_| Caller::connect(&stage.pair, "paris")).collect();
    write(stage, &clients);
    assert!(stage.flush(), "nothing failed yet");
    stage.drained();

    let store = stage.store("lyon");
    let before = store.counts().flushes;
    store.hold_flushes();
    store.fail(Failing::Flush { after: 0, loss: shape.loss, shows: shape.shows });
    write(stage, &clients);
    clients.iter().for_each(|client| client.send(Ask::Flush));
    let until = Instant::now() + SOON;
    eventually(PATIENCE, "the secondary to have the flushes", || {
        let status = group(&stage.pair, "paris");
        let counts = stage.store("lyon").counts();
        let waits = counts.waiting > 0 || counts.failed > 0;
        let all = status["cursors"]["accepted"] == status["cursors"]["peer_received"];
        (waits && (all || Instant::now() > until)).then_some(())
    });
    stage.pair.daemon("lyon").freeze();
    stage.store("lyon").release();
    let until = Instant::now() + SOON;
    let overlapped = eventually(PATIENCE, "flushes to end", || {
        let overlapped = stage.store("lyon").counts().flushes >= before + 2;
        (overlapped || Instant::now() > until).then_some(overlapped)
    });
    stage.pair.daemon("lyon").thaw();
    for client in &clients {
        client.receive().expect("the primary's store is sound");
    }
    stage.content.flushed();
    overlapped
}

/// Each client writes a block, all at the same time.
fn write(stage: &mut Stage, clients: &[Caller]) {
    let blocks = (0..CLIENTS).map(|n| n * EXTENT);
    for (block, client) in blocks.clone().zip(clients) {
        let data = stage.content.next(block);
        client.send(Ask::Write { offset: block * BLOCK as u64, data, fua: false });
    }
    for (block, client) in blocks.zip(clients) {
        client.receive().expect("the primary's store is sound");
        stage.content.acknowledged(block);
    }
}

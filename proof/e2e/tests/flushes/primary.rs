// SPDX-License-Identifier: Apache-2.0
//! A flush of the primary's store fails once and drops acknowledged writes. Its copy must not win.

use crate::content::Least;
use crate::stage::{Decision, EXTENT, Shape, Stage};
use helio_e2e::{PATIENCE, group, wait};
use helio_testkit::{Dice, Failing, eventually, faulty_stores_possible, times};
use helio_units::Mode;
use helio_wan::Cut;

/// Rounds of an ordinary run.
const ROUNDS: u64 = 1;
/// Extents of the old data, and of the new: with these the hot extents are nearly used up.
const OLD: u64 = 40;
const NEW: u64 = 72;

/// Which flush fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fails {
    /// One of the daemon's own, to cool hot extents.
    Own,
    /// The client's FLUSH.
    Flush,
    /// The client's write with FUA.
    Fua,
}

/// What happens then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Update,
    Stop,
    Kill,
}

fn rounds(test: &'static str, fails: Fails, alone: bool) {
    if !faulty_stores_possible() {
        return;
    }
    // Every test plays rounds of its own.
    let dice = Dice::of_test(test).fork(fails as u64 * 2 + u64::from(alone));
    for round in 0..times("HELIO_FLUSHES", ROUNDS) {
        let mut dice = dice.fork(round);
        let shape = Shape::draw(&mut dice);
        let then = *dice.pick(&[Then::Update, Then::Stop, Then::Kill]);
        println!("round {round}: {shape:?}, then {then:?}");
        let stage = written(shape, fails, alone, dice.roll());
        match alone {
            true => alone_round(stage, then, &mut dice),
            false => level_round(stage, then, &mut dice),
        }
    }
}

/// OLD is durable everywhere; NEW is acknowledged, and the flush fails. If `alone`, the peer is away before NEW.
fn written(shape: Shape, fails: Fails, alone: bool, run: u64) -> Stage {
    let mut stage = Stage::new(shape, run);
    stage.write_extents(0..OLD);
    assert!(stage.flush(), "nothing failed yet");
    stage.drained();
    if alone {
        stage.relay.control().cut(Cut::Reset);
        wait(&stage.pair, "paris", "the loss", |status| {
            status["peer"]["connection"] != "connected"
        });
    }
    let (loss, shows) = (shape.loss, shape.shows);
    stage.store("paris").fail(match fails {
        Fails::Own | Fails::Flush => Failing::Flush { after: 0, loss, shows },
        Fails::Fua => Failing::Fua { after: 0, loss, shows },
    });
    match fails {
        Fails::Own => {
            for extent in 0..NEW {
                // Writes may fail behind the flush, and are then worth nothing.
                stage.write(extent * EXTENT, false);
            }
        }
        Fails::Flush => {
            stage.write_extents(0..OLD);
            let done = stage.flush();
            assert!(!done || !alone, "the flush that failed was acknowledged");
        }
        Fails::Fua => {
            stage.write_extents(0..OLD);
            let done = stage.write(OLD * EXTENT, true);
            assert!(!done || !alone, "the FUA write that failed was acknowledged");
        }
    }
    eventually(PATIENCE, "the flush that fails", || {
        (stage.store("paris").counts().failed == 1).then_some(())
    });
    stage
}

/// The peer holds everything: nothing that was acknowledged is lost, whatever follows.
fn level_round(mut stage: Stage, then: Then, dice: &mut Dice) {
    stage.read_back();
    // Either may fail. What succeeds is durable from now on.
    stage.flush();
    stage.flush();
    stage.drained();
    match then {
        Then::Update => {
            stage.disconnect();
            // It may be refused.
            stage.pair.helio("paris", &["resync", "db"]);
        }
        Then::Stop | Then::Kill => stage.restart("paris", then == Then::Kill),
    }
    let primary = stage.settle(Decision::LyonIsWhole, dice);
    stage.finish(primary, Least::Acknowledged);
}

/// The peer lacks what was dropped: no FLUSH and no FUA says that it is durable, and the peer's copy is not overwritten
/// with something older.
fn alone_round(mut stage: Stage, then: Then, dice: &mut Dice) {
    for _ in 0..2 {
        assert!(!stage.flush(), "a FLUSH of a suspect copy was acknowledged");
        assert!(!stage.write(OLD * EXTENT, true), "a FUA write of a suspect copy was acknowledged");
    }
    stage.disconnect();
    let told = stage.pair.helio("paris", &["release", "db", "--yes"]).expect_failure();
    assert!(told.contains("on paris is suspect"), "{told}");
    // The queue may bring the peer what was dropped here, if this process goes on.
    let mut decision = Decision::GiveUpParis;
    if then != Then::Update {
        stage.restart("paris", then == Then::Kill);
        decision = *dice.pick(&[Decision::GiveUpParis, Decision::Accept]);
    }
    stage.relay.control().heal();
    let primary = stage.settle(decision, dice);
    stage.finish(primary, Least::Durable);
}

#[test]
fn a_primary_is_killed_after_its_peer_served_a_failed_flush_and_the_peer_is_promoted_without_force()
{
    if !faulty_stores_possible() {
        return;
    }
    let name = "a_primary_is_killed_after_its_peer_served_a_failed_flush_and_the_peer_is_promoted_without_force";
    let mut dice = Dice::of_test(name);
    let shape = Shape { mode: Mode::Sync, ..Shape::draw(&mut dice) };
    let mut stage = written(shape, Fails::Flush, false, dice.roll());
    assert!(stage.flush(), "the peer has everything, and flushes");
    stage.drained();
    stage.restart("paris", true);
    wait(&stage.pair, "lyon", "the peer", |status| status["peer"]["connection"] == "connected");
    for node in ["paris", "lyon"] {
        let shown = group(&stage.pair, node);
        let next = shown["next"].as_str().unwrap_or_default();
        assert!(next.contains("`helio promote db` on lyon"), "{node}: {shown:#}");
        assert!(!next.contains("member accept"), "{node}: {shown:#}");
    }
    stage.pair.helio("lyon", &["promote", "db"]).expect_success();
    let primary = stage.settle(Decision::LyonIsWhole, &mut dice);
    assert_eq!(primary, "lyon");
    stage.finish(primary, Least::Acknowledged);
}

#[test]
fn a_flush_of_the_daemons_own_fails_and_the_level_peers_copy_is_kept() {
    rounds("a_flush_of_the_daemons_own_fails_and_the_level_peers_copy_is_kept", Fails::Own, false);
}

#[test]
fn a_client_flush_fails_and_the_level_peers_copy_is_kept() {
    rounds("a_client_flush_fails_and_the_level_peers_copy_is_kept", Fails::Flush, false);
}

#[test]
fn a_fua_write_fails_and_the_level_peers_copy_is_kept() {
    rounds("a_fua_write_fails_and_the_level_peers_copy_is_kept", Fails::Fua, false);
}

#[test]
fn a_flush_of_the_daemons_own_fails_without_a_peer_and_no_flush_succeeds() {
    let name = "a_flush_of_the_daemons_own_fails_without_a_peer_and_no_flush_succeeds";
    rounds(name, Fails::Own, true);
}

#[test]
fn a_client_flush_fails_without_a_peer_and_no_later_flush_succeeds() {
    let name = "a_client_flush_fails_without_a_peer_and_no_later_flush_succeeds";
    rounds(name, Fails::Flush, true);
}

#[test]
fn a_fua_write_fails_without_a_peer_and_no_later_flush_succeeds() {
    rounds("a_fua_write_fails_without_a_peer_and_no_later_flush_succeeds", Fails::Fua, true);
}

// SPDX-License-Identifier: Apache-2.0
//! The flush of a member fails when its daemon opens it, and drops what was not durable. The kernel reports that once: the
//! next opening finds a flush that succeeds.

use crate::content::Least;
use crate::stage::{Decision, Shape, Stage};
use helio_e2e::group;
use helio_testkit::{
    Dice, Failing, Loss, Plan, Shows, StorePlan, faulty_stores_possible, helio, times,
};
use helio_units::Bytes;
use std::path::Path;

/// Rounds of an ordinary run.
const ROUNDS: u64 = 1;
/// Extents that are written.
const EXTENTS: u64 = 20;

/// Plays the rounds of a test: each begins with a pair of which both hold everything, and `node` was killed before it made
/// the last version of the blocks durable.
fn rounds(
    test: &'static str,
    node: &'static str,
    round: impl Fn(&mut Stage, &mut Dice) -> Decision,
) {
    if !faulty_stores_possible() {
        return;
    }
    let dice = Dice::of_test(test);
    for number in 0..times("HELIO_FLUSHES", ROUNDS) {
        let mut dice = dice.fork(number);
        let shape = Shape::draw(&mut dice);
        println!("round {number}: {shape:?}");
        let mut stage = Stage::new(shape, dice.roll());
        stage.write_extents(0..EXTENTS);
        assert!(stage.flush(), "nothing failed yet");
        stage.drained();
        stage.write_extents(0..EXTENTS);
        stage.drained();
        stage.disconnect();
        stage.pair.daemon(node).kill9();
        with_another_group(&stage);
        stage.store(node).fail(Failing::Flush { after: 0, loss: shape.loss, shows: shape.shows });
        let decision = round(&mut stage, &mut dice);
        assert_eq!(stage.store(node).counts().failed, 1);
        let primary = stage.settle(decision, &mut dice);
        stage.finish(primary, Least::Acknowledged);
    }
}

/// A daemon with another group goes on without the one that it cannot open.
fn with_another_group(stage: &Stage) {
    let pair = &stage.pair;
    let mut text = std::fs::read_to_string(pair.config()).expect("it was written");
    text +=
        "\n[group.web]\nnodes = [\"lyon\", \"paris\"]\n[group.web.volume.data]\nsize = \"4MiB\"\n";
    for node in ["lyon", "paris"] {
        let member = pair.scratch().file(&format!("{node}-web.img"), Bytes::mib(4));
        text += &format!("members.{node} = [{member:?}]\n");
    }
    pair.scratch().write("heliograph.toml", &text);
}

/// The copy of paris is never served, whatever opens it next.
fn never_served(stage: &mut Stage, dice: &mut Dice) {
    if dice.chance(50) {
        stage.pair.helio("paris", &["apply"]);
    } else {
        let kill = dice.chance(50);
        stage.restart("paris", kill);
    }
    let refused = stage.pair.helio("paris", &["promote", "db"]).expect_failure();
    assert!(refused.contains("suspect") && refused.contains("helio member accept"), "{refused}");
    let fault = group(&stage.pair, "paris")["fault"].to_string();
    assert!(fault.contains("suspect"), "{fault}");
}

#[test]
fn a_flush_fails_when_a_primary_is_opened_and_its_copy_is_never_served() {
    let name = "a_flush_fails_when_a_primary_is_opened_and_its_copy_is_never_served";
    rounds(name, "paris", |stage, dice| {
        stage.pair.start("paris");
        never_served(stage, dice);
        Decision::LyonIsWhole
    });
}

#[test]
fn a_flush_fails_when_a_secondary_is_opened_and_the_primary_writes_its_copy_again() {
    let name = "a_flush_fails_when_a_secondary_is_opened_and_the_primary_writes_its_copy_again";
    rounds(name, "lyon", |stage, dice| {
        stage.pair.start("lyon");
        if dice.chance(50) {
            stage.pair.helio("lyon", &["apply"]);
        }
        Decision::LyonIsWhole
    });
}

#[test]
fn a_flush_fails_beside_metadata_that_cannot_be_read_and_is_recorded_by_the_next_apply() {
    let name =
        "a_flush_fails_beside_metadata_that_cannot_be_read_and_is_recorded_by_the_next_apply";
    rounds(name, "paris", |stage, dice| {
        let metadata = stage.pair.state("paris").join("groups/db.meta");
        let sound = std::fs::read(&metadata).expect("it was written");
        let mut damaged = sound.clone();
        damaged[..8192].fill(0xA5);
        std::fs::write(&metadata, damaged).expect("it can be written");
        stage.pair.start("paris");
        let status = stage.pair.status("paris");
        let reason = status["failed"][0]["reason"].as_str().unwrap_or_default();
        assert!(reason.contains("db.meta") && reason.contains("A flush failed"), "{status}");
        std::fs::write(&metadata, sound).expect("it can be written");
        let applied = stage.pair.helio("paris", &["apply"]).expect_success();
        assert!(applied.contains("group db: served again"), "{applied}");
        never_served(stage, dice);
        Decision::LyonIsWhole
    });
}

#[test]
fn a_flush_fails_when_a_disk_is_adopted_and_nothing_begins() {
    if !faulty_stores_possible() {
        return;
    }
    let pair = Plan::new("db").volume("data", Bytes::mib(4)).prepare();
    let text = std::fs::read_to_string(pair.config()).expect("it was written");
    let nodes = text.split("[group").next().expect("a part before");
    pair.scratch().write("heliograph.toml", nodes);
    let store = StorePlan::new(Bytes::mib(4)).mount();
    store.fail(Failing::Flush { after: 0, loss: Loss::All, shows: Shows::AtOnce });
    let shown = |path: &Path| path.display().to_string();
    let (disk, config) = (shown(store.path()), shown(pair.config()));
    let state = pair.state("paris");
    let mut line = vec!["adopt", &disk, "--group", "db", "--volume", "data", "--node", "paris"];
    let state_shown = shown(&state);
    line.extend(["--config", &config, "--state", &state_shown, "--write"]);
    let refused = helio(&line).expect_failure();
    assert!(refused.contains("a flush of") && refused.contains("before you adopt it"), "{refused}");
    assert!(!state.join("groups/db.meta").exists());
}

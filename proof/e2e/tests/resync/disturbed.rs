// SPDX-License-Identifier: Apache-2.0
//! Updates that are interrupted, by the link or by the end of either daemon.

use crate::stage::Stage;
use helio_e2e::{differing, wait};
use helio_wan::Cut;

/// The link is lost in the middle of an update, is there again, and the update goes on.
#[track_caller]
fn cut_midway(test: &'static str, cut: Cut) {
    let stage = Stage::logging(test, 60, 2000);
    stage.update();
    let all = stage.midway();
    stage.relay.control().cut(cut);
    stage.write(2, 50);
    if cut == Cut::Reset {
        wait(&stage.pair, "paris", "the loss", |status| {
            status["peer"]["connection"] != "connected"
        });
    }
    assert!(!differing(&stage.pair, "data").is_empty(), "it should not have been over");
    stage.relay.control().heal();
    let resumed = wait(&stage.pair, "paris", "the rest of the update", |status| {
        !status["sync"].is_null() || status["state"] == "replicating"
    });
    let left = resumed["sync"]["to_copy_bytes"].as_u64().unwrap_or_default();
    assert!(left <= all, "{left} to copy after the loss, {all} before: it should resume");
    stage.ends_equal();
}

#[test]
fn an_update_resumes_after_a_reset() {
    cut_midway("an_update_resumes_after_a_reset", Cut::Reset);
}

#[test]
fn an_update_resumes_after_a_silence() {
    cut_midway("an_update_resumes_after_a_silence", Cut::Freeze);
}

#[test]
fn an_update_survives_the_death_of_the_secondary() {
    let mut stage = Stage::logging("an_update_survives_the_death_of_the_secondary", 60, 2000);
    stage.update();
    stage.midway();
    stage.pair.daemon("lyon").kill9();
    stage.write(2, 50);
    stage.pair.start("lyon");
    stage.ends_equal();
}

#[test]
fn an_update_survives_the_death_of_the_primary() {
    let mut stage = Stage::logging("an_update_survives_the_death_of_the_primary", 60, 2000);
    stage.update();
    stage.midway();
    stage.pair.daemon("paris").kill9();
    stage.pair.start("paris");
    stage.ends_equal();
}

#[test]
fn a_primary_killed_while_logging_forgets_no_difference() {
    let mut stage =
        Stage::logging("a_primary_killed_while_logging_forgets_no_difference", 1000, 500);
    stage.pair.daemon("paris").kill9();
    stage.pair.start("paris");
    stage.ends_equal();
}

#[test]
fn a_primary_stopped_while_logging_forgets_no_difference() {
    let name = "a_primary_stopped_while_logging_forgets_no_difference";
    let mut stage = Stage::logging(name, 1000, 500);
    assert!(stage.pair.daemon("paris").terminate().success());
    stage.pair.start("paris");
    stage.ends_equal();
}

#[test]
fn a_secondary_killed_while_its_primary_logs_gets_every_difference() {
    let name = "a_secondary_killed_while_its_primary_logs_gets_every_difference";
    let mut stage = Stage::logging(name, 1000, 300);
    stage.pair.daemon("lyon").kill9();
    stage.write(2, 300);
    stage.pair.start("lyon");
    stage.ends_equal();
}

#[test]
fn both_killed_while_logging_forget_no_difference() {
    let mut stage = Stage::logging("both_killed_while_logging_forget_no_difference", 1000, 500);
    for node in ["paris", "lyon"] {
        stage.pair.daemon(node).kill9();
    }
    for node in ["lyon", "paris"] {
        stage.pair.start(node);
    }
    stage.ends_equal();
}

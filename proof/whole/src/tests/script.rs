// SPDX-License-Identifier: Apache-2.0
//! Clients that follow a script make its requests at their moments, and are judged as all others.

use super::memory::{Lie, Story};
use super::traffic::busy;
use crate::client::{Ending, Habits};
use crate::model::Promise;
use helio_engine::Operation;
use helio_nbd::Form;
use helio_units::{Extent, Moment, Payload};

const BLOCK: u64 = 4096;
const MILLISECOND: u64 = 1_000_000;

/// A write and a read of each of so many blocks, a millisecond apart.
fn writes_and_reads(blocks: u64) -> Vec<(Moment, Operation)> {
    let steps = (0..2 * blocks).map(|n| {
        let extent = Extent::new(n / 2 * BLOCK, BLOCK);
        let write = Operation::Write { extent, payload: Payload::default(), fua: false };
        let operation = if n % 2 == 0 { write } else { Operation::Read(extent) };
        (Moment((n + 1) * MILLISECOND), operation)
    });
    steps.collect()
}

/// A client of a test disk of so many blocks follows a script.
fn following(blocks: u64, script: Vec<(Moment, Operation)>) -> Story {
    let mut story = Story::new(blocks as usize * 8, 7);
    story.add(Habits { depth: usize::MAX, ..busy(Form::Structured) });
    story.links[0].client.follow(script, &mut |below| below - 1);
    story
}

#[test]
fn a_script_is_followed_to_its_end_and_no_further() {
    let mut story = following(8, writes_and_reads(8));
    story.run(100_000).unwrap();
    story.look().unwrap();
    assert_eq!(story.links[0].endings, [Ending::Left]);
    assert_eq!(story.links[0].client.left(), Some(0));
    assert!(story.now >= Moment(16 * MILLISECOND), "{:?}", story.now);
    assert!(story.disk.cache.chunks(512).all(|sector| sector.iter().any(|byte| *byte != 0)));
}

#[test]
fn requests_wait_for_their_moments() {
    let mut story = following(8, writes_and_reads(8));
    while story.now < Moment(5 * MILLISECOND) {
        story.run(1).unwrap();
    }
    assert!(story.links[0].client.left().is_some_and(|left| left >= 10));
}

#[test]
fn a_script_goes_on_after_a_lost_connection() {
    let mut story = following(8, writes_and_reads(8));
    while story.links[0].client.left() != Some(9) {
        story.run(1).unwrap();
    }
    story.end_connections();
    story.run(10).unwrap();
    story.look().unwrap();
    story.reconnect();
    story.run(100_000).unwrap();
    story.look().unwrap();
    assert_eq!(story.links[0].endings, [Ending::Lost, Ending::Left]);
    assert!(story.disk.cache.chunks(512).all(|sector| sector.iter().any(|byte| *byte != 0)));
}

#[test]
fn a_lie_about_a_request_of_a_script_is_found() {
    let mut story = following(64, writes_and_reads(64));
    story.disk.lie = Some(Lie::DropsWrite);
    let violation = story.run(100_000).expect_err("the lie went unnoticed");
    assert_eq!(violation.promise, Promise::ReadsBack, "{violation}");
}

// SPDX-License-Identifier: Apache-2.0
//! Every lie of a server is found, and by the promise that it breaks.

use super::memory::{Lie, Story};
use super::traffic::busy;
use crate::client::{Habits, Leaving};
use crate::model::{Heir, Promise, Violation};
use helio_nbd::Form;
use helio_units::Mode;

/// What is found of a lie in a story with two busy clients and a look at the image behind.
fn found(lie: Lie, habits: &Habits) -> Violation {
    let mut story = Story::new(64, 7);
    story.disk.lie = Some(lie);
    story.add(habits.clone());
    story.add(Habits { form: Form::Extended, ..habits.clone() });
    let outcome = story.run(100_000).and_then(|()| story.look());
    outcome.expect_err("the lie went unnoticed")
}

/// The same, with a power cut at the end.
fn found_after_power_cut(lie: Option<Lie>) -> Result<(), Violation> {
    let mut story = Story::new(64, 8);
    story.disk.lie = lie;
    story.add(busy(Form::Structured));
    story.run(100_000)?;
    story.look()?;
    let durable = story.disk.durable.clone();
    story.disk.cache.copy_from_slice(&durable);
    story.model.power_cut();
    story.look()
}

#[test]
fn a_second_answer() {
    let violation = found(Lie::AnswersTwice, &busy(Form::Simple));
    assert_eq!(violation.promise, Promise::AnsweredOnce, "{violation}");
}

#[test]
fn an_answer_with_a_strange_cookie() {
    let violation = found(Lie::WrongCookie, &busy(Form::Structured));
    assert_eq!(violation.promise, Promise::AnsweredOnce, "{violation}");
}

#[test]
fn a_dropped_write() {
    let violation = found(Lie::DropsWrite, &busy(Form::Structured));
    assert_eq!(violation.promise, Promise::ReadsBack, "{violation}");
    assert!(violation.detail.contains("behind it is: "), "{violation}");
    assert!(violation.detail.contains("acknowledged at #"), "{violation}");
}

#[test]
fn an_old_sector() {
    let violation = found(Lie::OldSector, &busy(Form::Simple));
    assert_eq!(violation.promise, Promise::ReadsBack, "{violation}");
}

#[test]
fn a_write_at_the_wrong_place() {
    let violation = found(Lie::WrongPlace, &busy(Form::Simple));
    assert!(matches!(violation.promise, Promise::KnownBytes | Promise::ReadsBack), "{violation}");
}

#[test]
fn part_of_a_write_that_did_not_arrive_whole() {
    let leaving = Leaving::InRequest { reset: false };
    let habits = Habits { leaving, requests: 6, longest: 48, hot: 64, ..busy(Form::Simple) };
    let lying = (0..40).find_map(|seed| {
        let mut story = Story::new(64, seed);
        story.disk.lie = Some(Lie::PartialWrite);
        story.add(habits.clone());
        story.run(10_000).and_then(|()| story.look()).err()
    });
    let violation = lying.expect("the lie went unnoticed");
    assert_eq!(violation.promise, Promise::KnownBytes, "{violation}");
    assert!(violation.detail.contains("never sent whole"), "{violation}");
}

#[test]
fn false_zeros() {
    let violation = found(Lie::FalseZeros, &busy(Form::Structured));
    assert_eq!(violation.promise, Promise::ReadsBack, "{violation}");
}

#[test]
fn a_flush_that_was_acknowledged_early() {
    found_after_power_cut(None).unwrap();
    let violation = found_after_power_cut(Some(Lie::EarlyFlush)).unwrap_err();
    assert_eq!(violation.promise, Promise::DurableHere, "{violation}");
}

/// A peer takes over that has all changes up to `short` of the last, or lacks one in their middle.
fn found_after_failover(mode: Mode, short: usize, lacks_one: bool) -> Violation {
    let mut story = Story::new(64, 9);
    story.model.set_effective(Some(mode));
    // Short writes all over the volume, so that later ones do not hide what is lacking.
    story.add(Habits { requests: 60, longest: 1, hot: 64, ..busy(Form::Structured) });
    story.run(100_000).unwrap();
    let order = story.disk.order() - short;
    let lies = (0..order).find_map(|at| {
        let (mut disk, mut model) = (story.disk.clone(), story.model.clone());
        disk.fail_over(order, lacks_one.then_some(at));
        model.failed_over(Heir::Lived);
        model.read_image(&[&disk.cache]).err()
    });
    lies.expect("the lie went unnoticed")
}

#[test]
fn a_peer_that_lacks_a_write_in_the_middle() {
    let violation = found_after_failover(Mode::Async, 0, true);
    assert_eq!(violation.promise, Promise::Closed, "{violation}");
}

#[test]
fn a_peer_that_lacks_what_was_acknowledged_in_sync() {
    let violation = found_after_failover(Mode::Sync, 2, false);
    assert_eq!(violation.promise, Promise::AtPeer, "{violation}");
}

#[test]
fn a_forced_write_that_is_not_durable() {
    let mut story = Story::new(64, 8);
    story.disk.lie = Some(Lie::EarlyFua);
    story.add(busy(Form::Structured));
    story.run(100_000).unwrap();
    // Everything that a flush made durable is kept, too: only what was forced since is lost.
    let durable = story.disk.durable.clone();
    story.disk.cache.copy_from_slice(&durable);
    story.model.power_cut();
    let violation = story.look().unwrap_err();
    assert_eq!(violation.promise, Promise::DurableHere, "{violation}");
}

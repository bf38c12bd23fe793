// SPDX-License-Identifier: Apache-2.0
//! What clients that break rules are answered.

use super::memory::{Lie, Story};
use super::traffic::busy;
use crate::client::{Ending, Habits, Leaving, Mischief};
use crate::model::Promise;
use helio_nbd::Form;

#[test]
fn every_mischief_ends_as_it_should() {
    for mischief in Mischief::ALL {
        for form in [Form::Simple, Form::Structured, Form::Extended] {
            let mut story = Story::new(64, 3);
            story.add(Habits { mischief: Some(mischief), ..busy(form) });
            story.run(400_000).unwrap_or_else(|violation| panic!("{mischief:?}: {violation}"));
            let answered = [
                Mischief::Silent,
                Mischief::NeverReceives,
                Mischief::ReadTooLong,
                Mischief::BehindEnd,
                Mischief::UnknownCommand,
                Mischief::SameCookie,
            ];
            let ending = if answered.contains(&mischief) { Ending::BrokeOff } else { Ending::Lost };
            assert_eq!(story.links[0].endings, [ending], "{mischief:?} in {form:?}");
        }
    }
}

#[test]
fn a_request_that_should_be_refused_and_is_answered_is_found() {
    let mut story = Story::new(64, 3);
    story.disk.lie = Some(Lie::Obliges);
    story.add(Habits { mischief: Some(Mischief::UnknownCommand), ..busy(Form::Simple) });
    assert_eq!(story.run(10_000).unwrap_err().promise, Promise::Refuses);
}

#[test]
fn a_client_that_breaks_off_returns_with_what_was_not_answered() {
    for reset in [false, true] {
        let mut story = Story::new(64, 4);
        let leaving = Leaving::InRequest { reset };
        story.add(Habits { leaving, requests: 40, ..busy(Form::Structured) });
        for _ in 0..20 {
            story.run(10_000).unwrap();
            story.look().unwrap();
            story.reconnect();
        }
        assert_eq!(story.links[0].endings, [Ending::BrokeOff; 20]);
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Honest servers break no promise, whatever clients do.

use super::memory::Story;
use crate::client::{Ending, Habits, Leaving, Pace};
use crate::model::Heir;
use helio_nbd::Form;
use helio_units::Mode;
use std::time::Duration;

/// A busy client of the test disk.
pub(super) fn busy(form: Form) -> Habits {
    Habits {
        export: "db/data".into(),
        volume: 0,
        requests: 300,
        depth: 8,
        form,
        contexts: true,
        longest: 12,
        hot: 24,
        pause: Duration::ZERO,
        pace: None,
        leaving: Leaving::Politely,
        mischief: None,
    }
}

#[test]
fn clients_of_every_form_share_an_export() {
    let mut story = Story::new(256, 1);
    for form in [Form::Simple, Form::Structured, Form::Extended] {
        story.add(busy(form));
    }
    story.run(100_000).unwrap();
    story.look().unwrap();
    assert!(story.links.iter().all(|link| link.endings == [Ending::Left]));
    assert!(story.disk.cache.iter().any(|byte| *byte != 0));
}

#[test]
fn a_slow_reader_gets_every_answer() {
    let mut story = Story::new(64, 2);
    let pace = Some(Pace { bytes: 300, every: Duration::from_millis(1) });
    story.add(Habits { pace, requests: 60, ..busy(Form::Extended) });
    story.run(500_000).unwrap();
    assert_eq!(story.links[0].endings, [Ending::Left]);
}

#[test]
fn an_export_that_is_refused_is_reported() {
    let mut story = Story::new(64, 2);
    story.add(Habits { export: "db/other".into(), ..busy(Form::Structured) });
    story.run(1000).unwrap();
    let refused = helio_nbd::codec::reply::ERR_POLICY;
    assert_eq!(story.links[0].endings, [Ending::Refused(refused)]);
}

#[test]
fn honest_servers_break_no_promise() {
    for seed in 0..150 {
        let mut story = Story::new(256, seed);
        for _ in 0..1 + story.chance.below(4) {
            let habits = Habits::draw("db/data", 0, &mut |below| story.chance.below(below));
            story.add(habits);
        }
        for _ in 0..4 {
            let rounds = 1 + story.chance.below(3000) as u32;
            let outcome = story.run(rounds).and_then(|()| misfortune(&mut story));
            outcome.unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
            story.reconnect();
        }
        let last = story.run(1_000_000).and_then(|()| story.look());
        last.unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        assert!(story.is_over(), "seed {seed}");
    }
}

#[test]
fn honest_peers_break_no_promise() {
    for seed in 1000..1150 {
        let mut story = Story::new(128, seed);
        let mode = [None, Some(Mode::Async), Some(Mode::Sync)][story.chance.below(3) as usize];
        story.add(busy(Form::Structured));
        story.add(Habits { leaving: Leaving::Early, ..busy(Form::Extended) });
        for _ in 0..3 {
            story.model.set_effective(mode);
            let rounds = 1 + story.chance.below(2000) as u32;
            let outcome = story.run(rounds).and_then(|()| {
                story.end_connections();
                let order = story.disk.order();
                let cut = story.chance.below(order as u64 + 1) as usize;
                let cut = if mode == Some(Mode::Sync) { order } else { cut };
                story.disk.fail_over(cut, None);
                story.model.failed_over(Heir::Lived);
                story.look()
            });
            outcome.unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
            story.run(3).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
            story.reconnect();
        }
        let last = story.run(1_000_000).and_then(|()| story.look());
        last.unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
        assert!(story.is_over(), "seed {seed}");
    }
}

/// The server is killed, loses power, or fails a flush; or nothing happens.
fn misfortune(story: &mut Story) -> Result<(), crate::model::Violation> {
    match story.chance.below(5) {
        0 => {
            story.end_connections();
            story.run(2)?;
            story.look()?;
        }
        1 => {
            story.end_connections();
            story.disk.lose_power(&mut story.chance);
            story.model.power_cut();
            story.look()?;
        }
        2 => {
            story.disk.failing = true;
            story.disk.drop_some(&mut story.chance);
            story.model.flush_failed(0);
        }
        3 => story.disk.failing = false,
        _ => {}
    }
    Ok(())
}

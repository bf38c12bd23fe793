// SPDX-License-Identifier: Apache-2.0
//! The power of both nodes is cut: each of their files, which are members, metadata and before-images, holds what its
//! own cache left of it. The nodes come back and converge, or refuse and explain. Needs root and FUSE.
//!
//! A run looks at a few pairs of images; the seed moves the cuts. The full count:
//! `HELIO_PAIRS=1000 cargo test -p helio-e2e --test power`.

mod judge;
mod outcome;
mod story;

use helio_testkit::{Dice, Torn, faulty_stores_possible, times};
use helio_units::Mode;
use std::sync::Mutex;
use std::sync::mpsc::sync_channel;
use std::thread;
use story::{Story, TRANSIT};

/// Pairs of images of an ordinary run, in each mode.
const PAIRS: u64 = 6;
/// Pairs that are looked at together; they mostly wait.
const TOGETHER: usize = 3;

#[test]
fn sync_both_nodes_come_back_from_a_power_cut() {
    cut("sync_both_nodes_come_back_from_a_power_cut", Mode::Sync);
}

#[test]
fn async_both_nodes_come_back_from_a_power_cut() {
    cut("async_both_nodes_come_back_from_a_power_cut", Mode::Async);
}

/// Where both nodes are cut, and what is left of their files.
#[derive(Clone, Copy, Debug)]
struct Cut {
    /// The moments of lyon and paris.
    at: [std::time::Instant; 2],
    seed: u64,
}

fn cut(test: &'static str, mode: Mode) {
    if !faulty_stores_possible() {
        return;
    }
    let dice = Dice::of_test(test);
    let story = Story::play(mode, &dice.fork(0));
    // HELIO_PAIRS counts those of both modes.
    let pairs = times("HELIO_PAIRS", PAIRS * 2).div_ceil(2);
    let cuts = cuts(&story, pairs, &mut dice.fork(1));
    let mut images = story.images();
    let (ready, next) = sync_channel(TOGETHER);
    let next = Mutex::new(next);
    thread::scope(|scope| {
        let (next, story) = (&next, &story);
        for _ in 0..TOGETHER {
            scope.spawn(move || {
                loop {
                    let taken = next.lock().expect("no holder panics").recv();
                    let Ok((number, cut, pair)) = taken else { return };
                    let found = outcome::look(story, pair, cut);
                    println!("pair {number}, {}: {found}", story.shown(cut));
                }
            });
        }
        for (number, cut) in (0..).zip(cuts) {
            let pair = images.make(cut);
            if ready.send((number, cut, pair)).is_err() {
                break;
            }
        }
        drop(ready);
    });
}

/// Moments that rise. Half of them are close to a flush. The nodes are cut at moments of their own, as far apart as a
/// message between them takes at least: until then neither can have heard of what the other did behind its cut.
fn cuts(story: &Story, count: u64, dice: &mut Dice) -> Vec<Cut> {
    let flushes = story.flushes();
    let span = story.to - story.from;
    let mut found = Vec::new();
    for _ in 0..count {
        let moment = match dice.chance(50) {
            true => *dice.pick(&flushes),
            false => story.from + span.mul_f64(dice.below(1 << 20) as f64 / f64::from(1 << 20)),
        };
        let apart = TRANSIT.mul_f64(dice.below(1 << 20) as f64 / f64::from(1 << 20));
        let later = moment + apart;
        let at = if dice.chance(50) { [moment, later] } else { [later, moment] };
        found.push(Cut { at, seed: dice.roll() });
    }
    found.sort_by_key(|cut| cut.at);
    found
}

/// What is left of one file.
fn torn(dice: &mut Dice) -> Torn {
    match dice.below(4) {
        0 => Torn::All,
        1 => Torn::Nothing,
        _ => Torn::Some(dice.roll()),
    }
}

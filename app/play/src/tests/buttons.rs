// SPDX-License-Identifier: Apache-2.0
//! Every button in any order: nothing panics, and an operator who repairs everything gets a pair in sync.

use super::*;
use helio_netmodel::Dice;
use helio_units::Mode;
use std::cell::Cell;

thread_local! {
    /// Panics of this thread, on which the daemons of its pair run, too.
    static PANICS: Cell<usize> = const { Cell::new(0) };
}

/// Counts panics from now on, also those that a daemon isolates in its group.
fn count_panics() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANICS.set(PANICS.get() + 1);
        before(panic);
    }));
}

/// The disk of which node fails in a story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Weak {
    One(usize),
    /// The last complete copy may be lost.
    Both,
}

fn draw(dice: &mut Dice, weak: Weak) -> Change {
    let node = dice.below(2) as usize;
    let disk = match weak {
        Weak::One(weak) => weak,
        Weak::Both => node,
    };
    let pick =
        |dice: &mut Dice, values: &[f64]| Some(values[dice.below(values.len() as u64) as usize]);
    let nothing = NewSettings::default();
    match dice.below(17) {
        0 => set(NewSettings { rtt_ms: pick(dice, &[0.0, 1.0, 50.0, 2000.0]), ..nothing }),
        1 => set(NewSettings { rate_mbit: pick(dice, &[0.1, 10.0, 10_000.0]), ..nothing }),
        2 => set(NewSettings { loss_percent: pick(dice, &[0.0, 1.0, 50.0]), ..nothing }),
        3 => set(NewSettings { writes_per_second: pick(dice, &[0.0, 20.0, 400.0]), ..nothing }),
        4 | 5 => {
            let modes = [Mode::Sync, Mode::NearSync, Mode::Async, Mode::Periodic];
            set(NewSettings { mode: Some(modes[dice.below(4) as usize]), ..nothing })
        }
        6 | 7 => Change::Press(Button::Cut),
        8 | 9 => Change::Press(Button::Restore),
        10 => Change::Press(Button::Kill(node)),
        11 | 12 => Change::Press(Button::Start(node)),
        13 => Change::Press(Button::FailDisk(disk)),
        14 => Change::Press(Button::ReplaceDisk(node)),
        15 => Change::Press(Button::FailFlush(disk)),
        _ if dice.chance(1, 8) => Change::Press(Button::Restart),
        _ => Change::Speed(1.0),
    }
}

/// Repairs link, daemons and disks.
fn repair(pair: &mut Pair) {
    let first = NewSettings {
        rtt_ms: Some(5.0),
        rate_mbit: Some(1000.0),
        loss_percent: Some(0.0),
        writes_per_second: Some(20.0),
        mode: None,
    };
    pair.make(set(first)).expect("set");
    pair.button(Button::Restore).expect("restored");
    for node in [PARIS, LYON] {
        // Refused if the disk works, or the daemon runs.
        let _ = pair.button(Button::ReplaceDisk(node));
        let _ = pair.button(Button::Start(node));
    }
}

/// Does what an operator does about what the nodes report, from the mildest to the last resort.
fn operate(pair: &mut Pair, round: u32) {
    let at = pair.clients.at();
    let all = [PARIS, LYON].map(|node| pair.try_status(node));
    for node in [1 - at, at] {
        let Some(status) = &all[node] else { continue };
        let discard = json!({ "discard": NODES[node], "confirmed": true });
        if status.verdict.word == Verdict::SplitBrain && node != at {
            let _ = pair.post(node, paths::RESOLVE, &discard);
        }
        if status.fault.is_none() {
            continue;
        }
        let member = json!({ "volume": "data", "confirmed": true });
        if pair.post(node, paths::MEMBER_REPLACE, &member).is_ok() {
            continue;
        }
        match pair.post(node, paths::MEMBER_ACCEPT, &member).map_err(|error| error.code) {
            Err(code) if code == "leads" => {
                let _ = pair.post(node, paths::DEMOTE, &Value::Null);
                let _ = pair.post(node, paths::MEMBER_ACCEPT, &member);
                promote(pair, node);
            }
            Err(_) if round % 4 == 3 => {
                // Its disk does not come back: the other copy counts, also if data is missing from it.
                let _ = pair.button(Button::Kill(node));
                let _ = pair.button(Button::Start(node));
                pair.pass(Duration::from_secs(5), || true);
                let _ = pair.post(node, paths::RESOLVE, &discard);
                promote(pair, 1 - node);
            }
            _ => {}
        }
    }
    let leads = |it: &Option<GroupStatus>| it.as_ref().is_some_and(|it| it.role == Role::Primary);
    if !all.iter().any(leads) && !promote(pair, at) {
        promote(pair, 1 - at);
    }
}

/// Promotes a node, with force if it must be. Whether it was.
fn promote(pair: &mut Pair, node: usize) -> bool {
    let mut with = |force: bool| {
        let wish = json!({ "force": force, "confirmed": force, "restore": force });
        pair.post(node, paths::PROMOTE, &wish).is_ok()
    };
    with(false) || with(true)
}

fn in_sync(pair: &mut Pair) -> bool {
    [PARIS, LYON]
        .map(|node| pair.try_status(node))
        .iter()
        .flatten()
        .any(|it| it.verdict.word == Verdict::Ok && it.role == Role::Primary)
}

/// A story of presses; what the pair looks like at the end if it is not in sync.
fn presses(seed: u64, count: usize) -> Option<String> {
    let mut pair = pair(seed);
    let mut dice = Dice::new(seed).split("presses");
    let weak = match seed % 3 {
        2 => Weak::Both,
        node => Weak::One(node as usize),
    };
    let mut told = Vec::new();
    for _ in 0..count {
        let change = draw(&mut dice, weak);
        let answer = pair.make(change.clone());
        told.push(format!(
            "{:?} {change:?}: {:?}",
            pair.world.now(),
            answer.err().map(|it| it.error)
        ));
        pair.pass(Duration::from_millis(dice.below(4000)), || true);
        assert!(!pair.look_now().clients.is_empty());
    }
    repair(&mut pair);
    for round in 0..if weak == Weak::Both { 4 } else { 60 } {
        pair.pass(Duration::from_secs(5), || true);
        if in_sync(&mut pair) {
            return None;
        }
        repair(&mut pair);
        operate(&mut pair, round);
    }
    if weak == Weak::Both {
        return None;
    }
    let nodes = [PARIS, LYON].map(|node| {
        pair.try_status(node).map(|it| (it.role, it.state, it.verdict, it.fault, it.next))
    });
    Some(format!("seed {seed}:\n{}\n{nodes:#?}\n{}", told.join("\n"), pair.look_now().clients))
}

#[test]
fn any_order_of_buttons_can_be_repaired() {
    count_panics();
    let from: u64 = std::env::var("HELIO_SEED").ok().and_then(|it| it.parse().ok()).unwrap_or(0);
    let left: Vec<String> = (from..from + 3).filter_map(|seed| presses(seed, 60)).collect();
    assert_eq!(PANICS.get(), 0, "panics");
    assert!(left.is_empty(), "{}", left.join("\n\n"));
}

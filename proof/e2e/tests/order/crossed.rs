// SPDX-License-Identifier: Apache-2.0
//! Both nodes are promoted at the same moment, as two operators do, or two orchestrators.

use helio_e2e::{begin, group, other, pass, relayed, wait, wait_state};
use helio_testkit::{Dice, Pair, Plan, Told, in_time, rounds};
use helio_units::{Bytes, Mode};
use helio_wan::{Cut, Relay};
use std::thread;
use std::time::{Duration, Instant};

const ROUNDS: u64 = 12;
const NODES: [&str; 2] = ["paris", "lyon"];
/// Longer than it takes until both have heard of the other's command, so most of the requests cross.
const ROUND_TRIP: Duration = Duration::from_millis(40);

/// Two nodes in sync, neither of which is primary, over a slow link.
fn without_primary(dice: &Dice) -> (Pair, Relay) {
    let plan = Plan::new("db").mode(Mode::Sync).volume("data", Bytes::mib(4));
    let (plan, relay) = relayed(plan, ROUND_TRIP, 1000, dice.seed());
    let pair = plan.start();
    begin(&pair, "paris");
    wait_state(&pair, "paris", "replicating");
    pair.helio("paris", &["demote", "db"]).expect_success();
    (pair, relay)
}

/// The error on the node that was not promoted is true, and gives no bad advice.
fn is_true(told: &Told) {
    let says = ["is being promoted now", "is primary for db and connected"];
    assert!(says.iter().any(|it| told.stderr.contains(it)), "{told}");
    for wrong in ["resolve", "--force here", "does not agree"] {
        assert!(!told.stderr.contains(wrong), "{told}");
    }
}

/// Promotes both at once. Returns what each was told, in the order of [`NODES`].
fn promote_both(pair: &Pair, swap: bool) -> [Told; 2] {
    let promote = |node| pair.helio(node, &["promote", "db"]);
    let [first, second] = if swap { [NODES[1], NODES[0]] } else { NODES };
    thread::scope(|scope| {
        let one = scope.spawn(move || promote(first));
        let other = promote(second);
        let one = one.join().expect("it ended");
        if swap { [other, one] } else { [one, other] }
    })
}

/// Who serves now.
fn primaries(pair: &Pair) -> Vec<&'static str> {
    NODES.into_iter().filter(|node| group(pair, node)["role"] == "primary").collect()
}

fn stand_by(pair: &Pair) {
    for node in NODES {
        wait(pair, node, "the peer", |status| status["peer"]["connection"] == "connected");
    }
}

#[test]
fn of_two_that_are_promoted_at_once_one_is_and_the_other_is_told_so() {
    let dice = Dice::of_test("of_two_that_are_promoted_at_once");
    let (pair, _relay) = without_primary(&dice);
    for round in 0..rounds(ROUNDS) {
        stand_by(&pair);
        let began = Instant::now();
        let told = promote_both(&pair, round % 2 == 1);
        in_time(began.elapsed(), Duration::from_secs(5), "one of two promotions");
        let promoted = told.iter().position(|told| told.status.success());
        let primary = NODES[promoted.unwrap_or_else(|| panic!("{} and {}", told[0], told[1]))];
        let loser = other(primary);
        let [lost] = told.iter().filter(|told| !told.status.success()).collect::<Vec<_>>()[..]
        else {
            panic!("both were promoted in round {round}")
        };
        is_true(lost);
        assert_eq!(primaries(&pair), [primary], "round {round}");
        // Its hint leads on.
        NODES.iter().for_each(|node| drop(wait_state(&pair, node, "replicating")));
        pair.helio(loser, &["switch", "db", "--wait"]).expect_success();
        assert_eq!(primaries(&pair), [loser], "round {round}");
        wait_state(&pair, loser, "replicating");
        pair.helio(loser, &["demote", "db"]).expect_success();
    }
}

/// Whatever was on its way when the link was cut: without force there are never two.
#[test]
fn with_the_link_cut_in_between_there_are_never_two() {
    let dice = Dice::of_test("with_the_link_cut_in_between");
    let (pair, relay) = without_primary(&dice);
    for round in 0..rounds(ROUNDS / 3) {
        stand_by(&pair);
        let told = thread::scope(|scope| {
            let both = scope.spawn(|| promote_both(&pair, round % 2 == 1));
            pass(Instant::now(), Duration::from_millis(dice.fork(round).below(100)));
            relay.control().cut(Cut::Freeze);
            both.join().expect("they ended")
        });
        let promoted = told.iter().filter(|told| told.status.success()).count();
        assert!(
            promoted < 2 && primaries(&pair).len() < 2,
            "round {round}: {} {}",
            told[0],
            told[1]
        );
        relay.control().heal();
        stand_by(&pair);
        if let [primary] = primaries(&pair)[..] {
            wait_state(&pair, primary, "replicating");
            pair.helio(primary, &["demote", "db"]).expect_success();
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Either daemon or both are killed at any moment, the link is cut as well, and either side goes on as it may.

use helio_e2e::{
    Book, Covered, Image, Load, Promise, Writers, assert_members_equal, begin, covered, forget,
    group, halt, image, other, wait, wait_level,
};
use helio_netmodel::Profile;
use helio_testkit::{Dice, Pair};
use helio_units::{Mode, Rate};
use helio_wan::{Cut, Relay};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The longest stretch without a cut, a heal or a kill, in milliseconds.
const LONGEST: u64 = 120;

/// Who dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Primary,
    Secondary,
    Both,
}

/// Who goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heir {
    /// The primary comes back, or never left.
    Primary,
    /// The primary is promoted by force before it hears of the other.
    PrimaryForced,
    /// The secondary is promoted.
    Secondary,
}

/// What a round was.
pub(crate) struct Round {
    victim: Victim,
    heir: Heir,
    cuts: u64,
    /// Answered writes that the secondary's image lacked.
    lost: usize,
    /// What became of the marks, where both files were at rest.
    pub(crate) covered: Covered,
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { victim, heir, cuts, lost, covered } = self;
        write!(f, "killed {victim:?}, went on {heir:?}, {cuts} cuts, {lost} behind; {covered}")
    }
}

/// One pair through all rounds.
pub(crate) struct Story {
    pair: Pair,
    relay: Relay,
    primary: &'static str,
    book: Arc<Book>,
    mode: Mode,
}

/// What a round's images are held against.
struct Held {
    mark: u64,
    before: Image,
    /// What the secondary's image promises.
    promise: Promise,
}

impl Story {
    /// The pair replicates over the relay, with paris as its primary.
    pub(crate) fn begin(pair: Pair, relay: Relay, mode: Mode, dice: &Dice) -> Self {
        begin(&pair, "paris");
        Self { pair, relay, primary: "paris", book: Arc::new(Book::new(dice.seed())), mode }
    }

    /// Writes and cuts, kills, judges both images and the marks, lets an heir go on, and mends the pair.
    pub(crate) fn round(&mut self, dice: &mut Dice, load: Load) -> Round {
        self.relay.control().set_profile(slow(), slow());
        let victim = *dice.pick(&[Victim::Primary, Victim::Secondary, Victim::Both]);
        let before = image(&self.pair, other(self.primary), self.book.run());
        let mark = self.book.mark();
        let mut writers = load.start(&self.pair, self.primary, dice, &self.book);
        let (cuts, cut) = self.weather(dice, &mut writers);
        let promise = self.kill(dice, victim, writers, cut);
        let held = Held { mark, before, promise };
        let (heir, lost, covered) = match victim {
            Victim::Primary => self.primary_gone(dice, &held),
            Victim::Secondary => self.secondary_gone(&held),
            Victim::Both => self.both_gone(dice, &held),
        };
        self.mend(heir);
        Round { victim, heir, cuts, lost, covered }
    }

    /// Writes under a link that is cut and healed. Gives the number of cuts, and the moment of the first: what was
    /// answered before it was answered with the peer there.
    fn weather(&self, dice: &mut Dice, writers: &mut Writers) -> (u64, Option<u64>) {
        let (mut first, cuts) = (None, dice.below(3));
        for _ in 0..cuts {
            writers.write_for(span(dice));
            first = first.or_else(|| Some(self.book.now()));
            self.relay.control().cut(*dice.pick(&[Cut::Reset, Cut::Freeze]));
            writers.write_for(span(dice));
            if dice.chance(70) {
                self.relay.control().heal();
            }
        }
        writers.write_for(span(dice));
        (cuts, first)
    }

    /// Kills, ends the connection for whoever is left, and says what the secondary's image promises.
    fn kill(
        &mut self,
        dice: &mut Dice,
        victim: Victim,
        mut writers: Writers,
        cut: Option<u64>,
    ) -> Promise {
        let (primary, secondary) = (self.primary, other(self.primary));
        let secondary_first = victim == Victim::Both && dice.chance(50);
        let now = if victim == Victim::Primary { u64::MAX } else { self.book.now() };
        if victim == Victim::Secondary || secondary_first {
            self.pair.daemon(secondary).kill9();
            self.relay.control().cut(Cut::Reset);
            writers.write_for(span(dice));
        }
        if victim == Victim::Secondary {
            writers.stop();
        } else {
            self.pair.daemon(primary).kill9();
            writers.broken();
            self.relay.control().cut(Cut::Reset);
            if victim == Victim::Both && !secondary_first {
                self.pair.daemon(secondary).kill9();
            }
        }
        match self.mode {
            Mode::Sync => Promise::Until(cut.unwrap_or(now)),
            _ => Promise::Closed,
        }
    }

    /// Only the secondary is left: it takes over where its image allows, or waits for the other.
    fn primary_gone(&mut self, dice: &mut Dice, held: &Held) -> (Heir, usize, Covered) {
        let (primary, secondary) = (self.primary, other(self.primary));
        let status = wait(&self.pair, secondary, "the end of the connection", |status| {
            status["peer"]["connection"] != "connected"
        });
        halt(&mut self.pair, secondary);
        self.judge_primary(held);
        let lost = self.judge_secondary(held, &status);
        let covered = self.covered();
        self.pair.daemon(secondary).thaw();
        if status["consistent"] == true && dice.chance(60) && self.takes_over(secondary) {
            return (Heir::Secondary, lost, covered);
        }
        self.pair.start(primary);
        (Heir::Primary, lost, covered)
    }

    /// Only the primary is left, and has answered everything; the secondary comes back.
    fn secondary_gone(&mut self, held: &Held) -> (Heir, usize, Covered) {
        let (primary, secondary) = (self.primary, other(self.primary));
        halt(&mut self.pair, primary);
        self.judge_primary(held);
        let covered = self.covered();
        self.pair.daemon(primary).thaw();
        self.pair.start(secondary);
        let lost = self.judge_secondary(held, &group(&self.pair, secondary));
        (Heir::Primary, lost, covered)
    }

    /// Nobody is left: either goes on alone, or both meet again.
    fn both_gone(&mut self, dice: &mut Dice, held: &Held) -> (Heir, usize, Covered) {
        let (primary, secondary) = (self.primary, other(self.primary));
        self.judge_primary(held);
        let covered = self.covered();
        self.pair.start(secondary);
        let status = group(&self.pair, secondary);
        let lost = self.judge_secondary(held, &status);
        let heir = *dice.pick(&[Heir::Primary, Heir::PrimaryForced, Heir::Secondary]);
        match heir {
            Heir::Secondary if status["consistent"] == true => self.promote(secondary),
            Heir::PrimaryForced => {
                self.pair.daemon(secondary).kill9();
                self.pair.start(primary);
                self.promote(primary);
                self.pair.start(secondary);
            }
            Heir::Primary | Heir::Secondary => {
                self.pair.start(primary);
                return (Heir::Primary, lost, covered);
            }
        }
        (heir, lost, covered)
    }

    /// The last that arrived may be that a copy begins, and was not recorded yet when its status was read.
    fn takes_over(&self, node: &str) -> bool {
        let told = self.pair.helio(node, &["promote", "db", "--force", "--yes"]);
        let begins = told.stderr.contains("a resync to it was interrupted");
        assert!(told.status.success() || begins, "{}", told.stderr);
        told.status.success()
    }

    fn promote(&self, node: &str) {
        self.pair.helio(node, &["promote", "db", "--force", "--yes"]).expect_success();
    }

    /// What was answered is on the node that answered it, whatever the link did. It must be at rest.
    fn judge_primary(&self, held: &Held) {
        let left = image(&self.pair, self.primary, self.book.run());
        let judged = self.book.judge(held.mark, &held.before, &left, Promise::Everything);
        assert!(judged.is_ok(), "the primary's own image: {judged:?}");
    }

    /// What the secondary's image lacks, where it is as it should be or says that it is not. It must be at rest.
    fn judge_secondary(&self, held: &Held, status: &serde_json::Value) -> usize {
        if status["consistent"] != true {
            return 0;
        }
        let left = image(&self.pair, other(self.primary), self.book.run());
        match self.book.judge(held.mark, &held.before, &left, held.promise) {
            Ok(verdict) => verdict.lost,
            Err(why) => panic!("the secondary's image: {why}"),
        }
    }

    fn covered(&self) -> Covered {
        covered(&self.pair, "data").unwrap_or_else(|why| panic!("{why}"))
    }

    /// The link comes back and loses no time; who was overtaken gives up its last writes and is copied anew.
    fn mend(&mut self, heir: Heir) {
        self.relay.control().heal();
        self.relay.control().set_profile(Profile::ideal(), Profile::ideal());
        if heir == Heir::Secondary {
            let old = self.primary;
            self.primary = other(old);
            forget(&self.pair, old);
            self.pair.start(old);
        }
        wait_level(&self.pair, self.primary);
        assert_members_equal(&self.pair, "data");
    }
}

/// A moment of any length.
fn span(dice: &mut Dice) -> Duration {
    Duration::from_millis(1 + dice.below(LONGEST))
}

fn slow() -> Profile {
    Profile::wan(Duration::from_millis(5), Rate::mbit(100))
}

// SPDX-License-Identifier: Apache-2.0
//! A pair whose primary keeps marks only, and how an update of it ends.

use helio_e2e::{
    Book, Load, Promise, assert_members_equal, begin, differing, image, relayed, wait, wait_level,
    wait_state,
};
use helio_testkit::{Dice, Pair, Plan};
use helio_units::{Bytes, Mode};
use helio_wan::Relay;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const VOLUME: Bytes = Bytes::mib(16);

/// The pair, its link, and what was written.
pub(crate) struct Stage {
    pub(crate) pair: Pair,
    pub(crate) relay: Relay,
    pub(crate) book: Arc<Book>,
    pub(crate) dice: Dice,
}

impl Stage {
    /// Paris is primary, both are level, the link does so many Mbit/s.
    #[track_caller]
    pub(crate) fn level(test: &'static str, mbit: u64) -> Self {
        let dice = Dice::of_test(test);
        let plan = Plan::new("db").mode(Mode::Async).volume("data", VOLUME);
        let (plan, relay) = relayed(plan, Duration::from_millis(5), mbit, dice.seed());
        let pair = plan.start();
        begin(&pair, "paris");
        let book = Arc::new(Book::new(dice.seed()));
        Self { pair, relay, book, dice }
    }

    /// The same, and then it kept marks only of so many writes, which lyon has not got.
    #[track_caller]
    pub(crate) fn logging(test: &'static str, mbit: u64, writes: u64) -> Self {
        let stage = Self::level(test, mbit);
        stage.pair.helio("paris", &["pause", "db"]).expect_success();
        wait_state(&stage.pair, "paris", "logging");
        stage.write(1, writes);
        assert!(!differing(&stage.pair, "data").is_empty(), "lyon should lack them");
        stage
    }

    /// So many writes, all answered well.
    #[track_caller]
    pub(crate) fn write(&self, label: u64, writes: u64) {
        let load = Load { count: Some(writes), blocks: (1, 4), ..Load::PLAIN };
        load.run(&self.pair, "paris", &self.dice.fork(label), &self.book);
    }

    #[track_caller]
    pub(crate) fn update(&self) {
        self.pair.helio("paris", &["resync", "db"]).expect_success();
    }

    /// An update is under way, and part of it is done. Gives what it had to copy.
    #[track_caller]
    pub(crate) fn midway(&self) -> u64 {
        let status = wait(&self.pair, "paris", "the middle of the update", |status| {
            status["sync"]["copied_bytes"].as_u64().is_some_and(|copied| copied > 1 << 20)
        });
        status["sync"]["to_copy_bytes"].as_u64().unwrap_or_default()
    }

    /// Lets the update come to its end, by the operator's word where it waits for that; then both copies are equal and
    /// have every answered write.
    #[track_caller]
    pub(crate) fn ends_equal(&self) {
        let begun = wait(&self.pair, "paris", "the primary and its peer", |status| {
            status["role"] == "primary" && status["peer"]["connection"] == "connected"
        });
        if begun["state"] == "logging" {
            self.update();
        }
        wait_level(&self.pair, "paris");
        assert_members_equal(&self.pair, "data");
        let after = image(&self.pair, "lyon", self.book.run());
        self.book.assert_holds("lyon", &after, Promise::Everything);
        assert_eq!(self.book.failures(), [], "every write should have been answered well");
    }
}

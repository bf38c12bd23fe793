// SPDX-License-Identifier: Apache-2.0
//! A pair that loses its primary in every round, and goes on with the roles changed.

use helio_e2e::{
    Book, Load, Promise, Verdict, assert_members_equal, begin, forget, image, other, take_over,
    wait_level,
};
use helio_netmodel::Profile;
use helio_testkit::{Dice, Pair};
use helio_units::Rate;
use helio_wan::{Cut, Relay};
use std::sync::Arc;
use std::time::Duration;

/// The earliest and the latest moment of a kill, in milliseconds from the first write on.
const KILL_MS: (u64, u64) = (20, 400);

/// One pair through all rounds.
pub(crate) struct Story {
    pair: Pair,
    relay: Option<Relay>,
    primary: &'static str,
    book: Arc<Book>,
}

impl Story {
    /// The pair replicates, with paris as its primary.
    pub(crate) fn begin(pair: Pair, relay: Option<Relay>, dice: &Dice) -> Self {
        begin(&pair, "paris");
        Self { pair, relay, primary: "paris", book: Arc::new(Book::new(dice.seed())) }
    }

    /// Writes, kills the primary, promotes the secondary, judges its image, and mends the pair.
    pub(crate) fn round(&mut self, dice: &mut Dice, load: Load, promise: Promise) -> Verdict {
        let (primary, secondary) = (self.primary, other(self.primary));
        let before = image(&self.pair, secondary, self.book.run());
        let mark = self.book.mark();

        let mut writers = load.start(&self.pair, primary, dice, &self.book);
        let moment = KILL_MS.0 + dice.below(KILL_MS.1 - KILL_MS.0);
        writers.write_for(Duration::from_millis(moment));
        // Often the link goes with the node, and takes along what was on its way.
        if let Some(relay) = self.relay.as_ref().filter(|_| dice.chance(50)) {
            relay.control().cut(Cut::Reset);
        }
        self.pair.daemon(primary).kill9();
        writers.broken();

        // What the dead node had given to the link still arrives, and only then does the link end.
        assert!(!take_over(&self.pair, secondary), "its volumes are consistent");
        let after = image(&self.pair, secondary, self.book.run());
        let judged = self.book.judge(mark, &before, &after, promise);
        let verdict =
            judged.unwrap_or_else(|why| panic!("{primary} was killed after {moment} ms: {why}"));

        self.rejoin(primary);
        self.primary = secondary;
        verdict
    }

    /// The old primary gives up its last writes and is copied anew, over a link that loses no time.
    fn rejoin(&mut self, node: &str) {
        if let Some(relay) = &self.relay {
            relay.control().heal();
            relay.control().set_profile(Profile::ideal(), Profile::ideal());
        }
        forget(&self.pair, node);
        self.pair.start(node);
        wait_level(&self.pair, other(node));
        assert_members_equal(&self.pair, "data");
        if let Some(relay) = &self.relay {
            let slow = Profile::wan(Duration::from_millis(10), Rate::mbit(100));
            relay.control().set_profile(slow.clone(), slow);
        }
    }
}

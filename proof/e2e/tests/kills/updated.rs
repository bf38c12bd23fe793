// SPDX-License-Identifier: Apache-2.0
//! In every round the secondary is updated with a safe copy, and one node is killed during the update. Without its peer the secondary
//! then has the content from before the update or from after it.

use helio_e2e::{
    Book, Load, assert_members_equal, begin, exported, forget, member_bytes, other, pass,
    take_over, wait_level,
};
use helio_netmodel::Profile;
use helio_testkit::{Dice, Pair};
use helio_units::Rate;
use helio_wan::{Cut, Relay};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The latest moment of a kill, in milliseconds from the command on. The update takes most of it.
const KILL_MS: u64 = 500;
/// Writes before the update, and those that it copies.
const WRITES: Load = Load { connections: 3, depth: 8, blocks: (1, 4), count: Some(150) };

/// With what the secondary goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Image {
    /// The update had not begun.
    Untouched,
    /// The update had ended.
    Updated,
    /// It was under way: the safe copy.
    Restored,
}

/// What a round was.
pub(crate) struct Round {
    victim: &'static str,
    secondary: &'static str,
    moment: Duration,
    pub(crate) image: Image,
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { victim, secondary, moment, image } = self;
        write!(f, "{victim} killed after {moment:?}; {secondary} is promoted, {image:?}")
    }
}

/// One pair through all rounds.
pub(crate) struct Story {
    pair: Pair,
    relay: Relay,
    primary: &'static str,
    book: Arc<Book>,
}

impl Story {
    /// The pair replicates over the relay, with paris as its primary.
    pub(crate) fn begin(pair: Pair, relay: Relay, dice: &Dice) -> Self {
        begin(&pair, "paris");
        Self { pair, relay, primary: "paris", book: Arc::new(Book::new(dice.seed())) }
    }

    /// Lets both nodes differ, begins an update, kills, and promotes the secondary with what it has.
    pub(crate) fn round(&mut self, dice: &mut Dice) -> Round {
        let (primary, secondary) = (self.primary, other(self.primary));
        WRITES.run(&self.pair, primary, &dice.fork(1), &self.book);
        wait_level(&self.pair, primary);
        let before = member_bytes(&self.pair, secondary);
        self.pair.helio(primary, &["pause", "db"]).expect_success();
        WRITES.run(&self.pair, primary, &dice.fork(2), &self.book);
        let after = member_bytes(&self.pair, primary);

        let victim = if dice.chance(50) { primary } else { secondary };
        let moment = Duration::from_millis(dice.below(KILL_MS));
        self.update_and_kill(victim, moment);
        let restored = take_over(&self.pair, secondary);
        let held = exported(&self.pair, secondary, "data");
        let image = match restored {
            true => Image::Restored,
            false if held == before => Image::Untouched,
            false => Image::Updated,
        };
        let round = Round { victim, secondary, moment, image };
        let expected = if image == Image::Updated { after } else { before };
        assert!(held == expected, "{round}: it is of no moment");
        self.rejoin();
        round
    }

    /// Begins the update, and kills a node at that moment, then the primary in any case. The secondary runs at the end.
    fn update_and_kill(&mut self, victim: &str, moment: Duration) {
        let (primary, secondary) = (self.primary, other(self.primary));
        let slow = Profile::wan(Duration::from_millis(10), Rate::mbit(100));
        self.relay.control().set_profile(slow.clone(), slow);
        self.pair.helio(primary, &["resync", "db"]).expect_success();
        let begun = Instant::now();
        pass(begun, moment);
        self.pair.daemon(victim).kill9();
        self.relay.control().cut(Cut::Reset);
        if victim == secondary {
            self.pair.daemon(primary).kill9();
            self.pair.start(secondary);
        }
    }

    /// The old primary gets a new copy, and the roles stay exchanged.
    fn rejoin(&mut self) {
        let old = self.primary;
        self.relay.control().heal();
        self.relay.control().set_profile(Profile::ideal(), Profile::ideal());
        forget(&self.pair, old);
        self.pair.start(old);
        self.primary = other(old);
        wait_level(&self.pair, self.primary);
        assert_members_equal(&self.pair, "data");
    }
}

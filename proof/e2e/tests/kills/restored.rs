// SPDX-License-Identifier: Apache-2.0
//! A pair whose primary is restored from a snapshot in every round, and loses a node in the middle of it.

use helio_e2e::{
    Book, Load, PATIENCE, assert_members_equal, begin, exported, forget, member_bytes, other, pass,
    take_over, wait, wait_level,
};
use helio_testkit::{Dice, Pair};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The latest moment of a kill, in milliseconds from the command on.
const KILL_MS: u64 = 250;
/// Writes before the snapshot, and between it and the restore.
const WRITES: Load = Load { connections: 3, depth: 8, blocks: (1, 4), count: Some(400) };

/// Who dies.
#[derive(Clone, Copy, Debug)]
enum Dies {
    Primary,
    Secondary,
    /// And the secondary takes over.
    PrimaryForGood,
}

/// One pair through all rounds.
pub(crate) struct Story {
    pair: Pair,
    primary: &'static str,
    book: Arc<Book>,
}

impl Story {
    /// The pair replicates, with paris as its primary.
    pub(crate) fn begin(pair: Pair, dice: &Dice) -> Self {
        begin(&pair, "paris");
        Self { pair, primary: "paris", book: Arc::new(Book::new(dice.seed())) }
    }

    /// A round; returns what happened, and whether the volume was restored.
    pub(crate) fn round(&mut self, dice: &mut Dice) -> (String, bool) {
        let primary = self.primary;
        WRITES.run(&self.pair, primary, &dice.fork(1), &self.book);
        wait_level(&self.pair, primary);
        let wanted = member_bytes(&self.pair, primary);
        self.pair.helio(primary, &["snapshot", "create", "db@one"]).expect_success();
        WRITES.run(&self.pair, primary, &dice.fork(2), &self.book);
        wait_level(&self.pair, primary);
        let before = member_bytes(&self.pair, primary);

        let dies = [Dies::Primary, Dies::Secondary, Dies::PrimaryForGood][dice.below(3) as usize];
        let moment = Duration::from_millis(dice.below(KILL_MS));
        let told = self.restore_and_kill(dies, moment);
        let held = match dies {
            Dies::PrimaryForGood => self.take_over(),
            Dies::Primary | Dies::Secondary => self.come_back(dies),
        };
        let restored = held == wanted;
        let what = format!("{dies:?} {primary} after {moment:?}, told {told}");
        assert!(restored || held == before, "{what}: neither the one nor the other");
        let kept = restored || !told || matches!(dies, Dies::PrimaryForGood);
        assert!(kept, "{what}: it was restored, and is not");
        wait_level(&self.pair, self.primary);
        assert_members_equal(&self.pair, "data");
        assert!(member_bytes(&self.pair, self.primary) == held, "{what}: it changed later");
        self.pair.helio(self.primary, &["snapshot", "delete", "db@one", "--yes"]).expect_success();
        (what, restored)
    }

    /// Restores the volume, and kills a node at that moment. Returns whether the restore was reported.
    fn restore_and_kill(&mut self, dies: Dies, moment: Duration) -> bool {
        let primary = self.primary;
        let victim = match dies {
            Dies::Secondary => other(primary),
            Dies::Primary | Dies::PrimaryForGood => primary,
        };
        let begun = Instant::now();
        let line = ["snapshot", "restore", "db@one", "--yes"];
        let mut restores = self.pair.helio_begun(primary, &line);
        pass(begun, moment);
        self.pair.daemon(victim).kill9();
        restores.wait_end(PATIENCE, "the restore").success()
    }

    /// The node that died starts again. Returns what the volume holds then.
    fn come_back(&mut self, dies: Dies) -> Vec<u8> {
        let node = match dies {
            Dies::Secondary => other(self.primary),
            Dies::Primary | Dies::PrimaryForGood => self.primary,
        };
        self.pair.start(node);
        wait(&self.pair, self.primary, "the primary", |status| status["role"] == "primary");
        exported(&self.pair, self.primary, "data")
    }

    /// The secondary is promoted with what it has. Returns what its volume holds then.
    fn take_over(&mut self) -> Vec<u8> {
        let (dead, node) = (self.primary, other(self.primary));
        let _safe_copy = take_over(&self.pair, node);
        let held = exported(&self.pair, node, "data");
        forget(&self.pair, dead);
        self.pair.start(dead);
        self.primary = node;
        held
    }
}

// SPDX-License-Identifier: Apache-2.0
//! PostgreSQL on a volume with two members on each node. Under its clients a member fails or completes nothing, and returns; then
//! the primary is killed, and its peer takes over. Every transaction that was acknowledged is there, and no client saw an error
//! before the kill.
//!
//! A run has a fifth of the rounds; all 20: `HELIO_ROUNDS=100 cargo test -p helio-e2e --test attach databases::sets`.

use super::{Database, Postgres, Story, Writer, commit_more};
use crate::common::{Stage, attachable};
use helio_e2e::{Trouble, add_member, assert_same_bytes, other, wait, wait_level, wait_members};
use helio_testkit::{Dice, FaultyStore, Plan, StorePlan, faulty_stores_possible, require, rounds};
use helio_units::{Bytes, Mode};

const SIZE: Bytes = Bytes::mib(256);

#[test]
fn postgres_keeps_what_it_acknowledged_while_members_fail_and_return_and_the_peer_takes_over() {
    attachable!();
    require!("mke2fs", "setpriv");
    if !faulty_stores_possible() {
        return;
    }
    let Some(database) = Postgres::find() else { return };
    let dice = Dice::of_test("postgres_keeps_what_it_acknowledged_while_members_fail_and_return");
    let stores = ["lyon", "paris"].map(|_| StorePlan::new(SIZE).mount());
    let plan = Plan::new("db")
        .mode(Mode::Sync)
        .group_line("member-timeout = \"1s\"\nmember-return = \"off\"")
        .volume("data", SIZE)
        .mirror("lyon", "data", stores[0].path())
        .mirror("paris", "data", stores[1].path());
    let stage = Stage::with(plan, |_| ());
    let story = Story { stage, mode: Mode::Sync, primary: "paris", database };
    let mut sets = Sets { story, stores };
    let place = sets.story.begin();
    let mut held = sets.story.database.check(&place);
    for round in 0..rounds(20).div_ceil(5) {
        held = sets.round(&held, &mut dice.fork(round));
        println!("round {round}: {held:?}");
    }
    sets.finish();
}

/// Both nodes have a member on a file of their own, and one on a store that can fail.
struct Sets {
    // Dropped in this order: a daemon ends before the store it uses.
    story: Story<Postgres>,
    stores: [FaultyStore; 2],
}

impl Sets {
    /// One round, and what is held then.
    fn round(&mut self, held: &[u64], dice: &mut Dice) -> Vec<u64> {
        self.wait_full(self.story.primary);
        let mut writers = self.story.load(held, dice);
        let troubles = 1 + dice.below(3);
        for left in (0..troubles).rev() {
            self.trouble(*dice.pick(&[Trouble::Writes, Trouble::Flush, Trouble::Silence]));
            commit_more(&writers, held, dice);
            // The last one may be away when the node fails; one that returns may fail again before it is full.
            if left == 0 && dice.chance(30) {
                break;
            }
            self.mend();
            if dice.chance(70) {
                self.wait_full(self.story.primary);
            }
            commit_more(&writers, held, dice);
        }
        let ended = writers.iter_mut().any(Writer::ended);
        assert!(!ended, "a client saw an error, and a full member was there");
        let old = self.story.primary;
        let found = self.story.kill(writers, true);
        self.follow(old);
        found
    }

    fn store(&self, node: &str) -> &FaultyStore {
        &self.stores[usize::from(node == "paris")]
    }

    fn trouble(&self, trouble: Trouble) {
        let primary = self.story.primary;
        trouble.strike(self.store(primary));
        wait_members(&self.story.stage.pair, primary, ["full", "removed"]);
    }

    /// The disk of the primary works again, and the member returns.
    fn mend(&self) {
        let (primary, store) = (self.story.primary, self.store(self.story.primary));
        store.heal();
        store.respond();
        add_member(&self.story.stage.pair, primary, store.path());
    }

    fn wait_full(&self, node: &str) {
        wait_members(&self.story.stage.pair, node, ["full", "full"]);
    }

    /// The disk of the node that was primary works again, and its daemon follows the other one.
    fn follow(&mut self, old: &str) {
        self.store(old).heal();
        self.store(old).respond();
        self.story.stage.pair.start(old);
        let pair = &self.story.stage.pair;
        wait_level(pair, self.story.primary);
        let shown = wait(pair, old, "members that are compared", |shown| {
            shown["volumes"][0]["unmerged_bytes"] == 0
        });
        if shown["volumes"][0]["members"][1]["state"] == "removed" {
            add_member(pair, old, self.store(old).path());
        }
        self.wait_full(old);
    }

    /// All four copies are equal.
    fn finish(&mut self) {
        for node in [self.story.primary, other(self.story.primary)] {
            self.wait_full(node);
        }
        self.story.finish();
        for (node, store) in ["lyon", "paris"].into_iter().zip(&self.stores) {
            assert_same_bytes(&self.story.stage.pair.member(node, "data"), &store.content());
        }
    }
}

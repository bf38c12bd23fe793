// SPDX-License-Identifier: Apache-2.0
//! A pair whose members lie on stores that fail on demand, what a client does to it, and what must be left at the end.

use crate::client::{Ask, Caller};
use crate::content::{BLOCK, Content, Least};
use helio_e2e::{PATIENCE, begin, group, other, relayed, wait_level};
use helio_nbd::ClientError;
use helio_testkit::{Dice, FaultyStore, Fua, Loss, Pair, Plan, Shows, StorePlan, eventually};
use helio_units::{Bytes, Mode};
use helio_wan::Relay;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Large and sparse, so that the hot extents do not cover it.
const SIZE: Bytes = Bytes::gib(2);
/// Blocks of an extent of 4 MiB.
pub(crate) const EXTENT: u64 = 1024;
/// How long the pair has to become level by itself before the operator helps.
const BY_ITSELF: Duration = Duration::from_secs(2);
/// How long it has behind each command.
const BETWEEN_COMMANDS: Duration = Duration::from_secs(3);

/// What a round is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) mode: Mode,
    pub(crate) driver: &'static str,
    pub(crate) loss: Loss,
    pub(crate) shows: Shows,
    pub(crate) fua: Fua,
}

impl Shape {
    pub(crate) fn draw(dice: &mut Dice) -> Self {
        Self {
            mode: *dice.pick(&[Mode::Sync, Mode::Async]),
            driver: if dice.chance(50) { "ring" } else { "poll" },
            loss: if dice.chance(70) { Loss::All } else { Loss::Half(dice.roll()) },
            shows: if dice.chance(70) { Shows::AtOnce } else { Shows::Later },
            fua: Fua::WriteAndFlush,
        }
    }
}

/// The pair, with paris as its primary, both level.
pub(crate) struct Stage {
    // Dropped in this order: a daemon ends before the store it uses.
    pub(crate) pair: Pair,
    pub(crate) relay: Relay,
    stores: [FaultyStore; 2],
    pub(crate) content: Content,
    client: Option<Caller>,
    /// Broken promises that did not end the round.
    pub(crate) broken: Vec<String>,
}

impl Stage {
    #[track_caller]
    pub(crate) fn new(shape: Shape, run: u64) -> Self {
        let stores = [0, 1].map(|_| StorePlan::new(SIZE).fua(shape.fua).mount());
        let driver = format!("driver = \"{}\"", shape.driver);
        let plan = Plan::new("db")
            .mode(shape.mode)
            .volume("data", SIZE)
            .volume_line("sparse = true")
            .group_line("hot-extents = 64")
            .group_line("peer-timeout = \"500ms\"")
            .node_line("lyon", &driver)
            .node_line("paris", &driver)
            .member("lyon", "data", stores[0].path())
            .member("paris", "data", stores[1].path());
        let (plan, relay) = relayed(plan, Duration::from_millis(1), 1000, run);
        let pair = plan.start();
        begin(&pair, "paris");
        let content = Content::new(run);
        let client = Some(Caller::connect(&pair, "paris"));
        Self { pair, relay, stores, content, client, broken: Vec::new() }
    }

    /// The store under a node.
    pub(crate) fn store(&self, node: &str) -> &FaultyStore {
        &self.stores[usize::from(node == "paris")]
    }

    #[track_caller]
    fn call(&self, ask: Ask) -> Result<Vec<u8>, ClientError> {
        self.client.as_ref().expect("a client is connected").call(ask)
    }

    /// Writes a block's next version. Returns whether it was acknowledged.
    #[track_caller]
    pub(crate) fn write(&mut self, block: u64, fua: bool) -> bool {
        let (offset, data) = (block * BLOCK as u64, self.content.next(block));
        let done = self.call(Ask::Write { offset, data, fua }).is_ok();
        match (done, fua) {
            (true, true) => self.content.durable(block),
            (true, false) => self.content.acknowledged(block),
            (false, _) => {}
        }
        done
    }

    /// Writes one block of each of these extents; all are acknowledged.
    #[track_caller]
    pub(crate) fn write_extents(&mut self, extents: std::ops::Range<u64>) {
        for extent in extents {
            assert!(self.write(extent * EXTENT, false), "a write failed");
        }
    }

    /// Flushes. Returns whether that was acknowledged.
    #[track_caller]
    pub(crate) fn flush(&mut self) -> bool {
        let done = self.call(Ask::Flush).is_ok();
        if done {
            self.content.flushed();
        }
        done
    }

    /// Reads everything that was written; notes every block that is older than what was acknowledged.
    #[track_caller]
    pub(crate) fn read_back(&mut self) {
        for block in self.content.written().collect::<Vec<_>>() {
            let read = self.call(Ask::Read { offset: block * BLOCK as u64, length: BLOCK });
            // An error is better than an older version.
            if let Ok(bytes) = read
                && let Err(why) = self.content.check(block, &bytes, Least::Acknowledged)
            {
                self.broken.push(format!("the client reads: {why}"));
                return;
            }
        }
    }

    /// Waits until the secondary holds everything durably that the primary accepted.
    #[track_caller]
    pub(crate) fn drained(&self) {
        eventually(PATIENCE, "the peer to hold everything", || {
            let status = group(&self.pair, "paris");
            (status["cursors"]["accepted"] == status["cursors"]["peer_durable"]).then_some(())
        });
    }

    pub(crate) fn disconnect(&mut self) {
        self.client = None;
    }

    /// Lets the pair come to rest: by itself, else by commands that name no risk, in an order of the dice. Returns the
    /// primary.
    #[track_caller]
    pub(crate) fn settle(&mut self, dice: &mut Dice) -> &'static str {
        self.disconnect();
        let began = Instant::now();
        let mut said = Vec::new();
        let mut pause = BY_ITSELF;
        loop {
            let next = Instant::now() + pause;
            let level = eventually(PATIENCE, "a moment to come to rest", || {
                let level = self.level();
                (level.is_some() || Instant::now() > next).then_some(level)
            });
            if let Some(primary) = level {
                return primary;
            }
            let elapsed = began.elapsed();
            assert!(
                elapsed < PATIENCE * 2,
                "the pair did not become level: {:#}, {:#}; {said:?}",
                group(&self.pair, "paris"),
                group(&self.pair, "lyon")
            );
            if elapsed < PATIENCE / 4 {
                let node = *dice.pick(&["paris", "lyon"]);
                let verb = *dice.pick(&["update", "promote", "full"]);
                said.push(self.try_verb(node, &[verb, "db"]));
            } else {
                // What the documentation tells: the other node's copy is served.
                said.push(self.try_verb("paris", &["demote", "db"]));
                said.push(self.try_verb("lyon", &["promote", "db"]));
            }
            pause = BETWEEN_COMMANDS;
        }
    }

    fn try_verb(&self, node: &str, verb: &[&str]) -> String {
        let told = self.pair.helio(node, verb);
        format!("{node} {verb:?}: {} {}{}", told.status, told.stdout, told.stderr)
    }

    /// The primary, if both copies are level and nothing is wrong.
    fn level(&self) -> Option<&'static str> {
        let is_level = |status: &Value| {
            status["role"] == "primary"
                && status["state"] == "replicating"
                && status["fault"].is_null()
                && status["consistent"] == true
                && status["sync"].is_null()
                && status["cursors"]["accepted"] == status["cursors"]["peer_durable"]
        };
        ["paris", "lyon"].into_iter().find(|node| is_level(&group(&self.pair, node)))
    }

    /// Flushes on the primary, cuts the power of both nodes, and holds both copies against what was promised.
    #[track_caller]
    pub(crate) fn finish(mut self, primary: &'static str, least: Least) {
        self.client = Some(Caller::connect(&self.pair, primary));
        if !self.flush() {
            self.broken.push(format!("a FLUSH on {primary} fails although the pair is level"));
        }
        wait_level(&self.pair, primary);
        self.disconnect();
        for node in [primary, other(primary)] {
            self.pair.daemon(node).kill9();
        }
        for node in ["paris", "lyon"] {
            self.store(node).cut_power(Loss::All);
            if let Err(why) = self.content.check_image(&self.store(node).content(), least) {
                self.broken.push(format!("the copy of {node}: {why}"));
            }
        }
        assert!(self.broken.is_empty(), "{:#?}", self.broken);
    }

    /// Stops or kills a daemon and starts it again.
    #[track_caller]
    pub(crate) fn restart(&mut self, node: &str, kill: bool) {
        self.disconnect();
        match kill {
            true => self.pair.daemon(node).kill9(),
            false => {
                self.pair.daemon(node).terminate();
            }
        }
        self.pair.start(node);
    }
}

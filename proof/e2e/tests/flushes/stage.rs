// SPDX-License-Identifier: Apache-2.0
//! A pair whose members lie on stores that fail on demand, what a client does to it, and what must be left at the end.

use crate::client::{Ask, Caller};
use crate::content::{BLOCK, Content, Least};
use helio_e2e::{PATIENCE, begin, group, other, relayed, wait_level};
use helio_nbd::ClientError;
use helio_testkit::{
    Dice, FaultyStore, Fua, Loss, Pair, Plan, Shows, StorePlan, eventually, eventually_from,
};
use helio_units::{Bytes, Mode};
use helio_wan::Relay;
use serde_json::Value;
use std::time::{Duration, Instant};

/// Large and sparse, so that the hot extents do not cover it.
const SIZE: Bytes = Bytes::mib(512);
/// Blocks of an extent of 4 MiB.
pub(crate) const EXTENT: u64 = 1024;
/// The operator goes on if nothing changed for so long.
const BY_ITSELF: Duration = Duration::from_secs(2);
/// Commands of the dice, before the operator does what the documentation tells.
const TRIED: u64 = 2;
/// How often the operator tries again what was decided.
const PERSISTS: u64 = 10;

/// What an operator decides if no command that names no risk makes the pair level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The copy of lyon counts. It holds everything that was acknowledged, so nothing may be lost.
    LyonIsWhole,
    /// The copy of lyon counts, and what only paris may hold is given up.
    GiveUpParis,
    /// The suspect copy of paris counts as it is, and what is missing from it is given up.
    Accept,
}

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
            .group_line("peer-timeout = \"2s\"")
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

    /// Lets the pair come to rest: by itself, else by commands that name no risk, else by what an operator decides.
    /// Returns the primary.
    #[track_caller]
    pub(crate) fn settle(&mut self, decision: Decision, dice: &mut Dice) -> &'static str {
        self.disconnect();
        let mut said = Vec::new();
        for step in 0..TRIED + 1 + PERSISTS {
            let (mut before, mut since) = (self.progress(), Instant::now());
            let level = eventually(PATIENCE * 2, "the pair to come to rest", || {
                let now = self.progress();
                if now != before {
                    (before, since) = (now, Instant::now());
                }
                let level = self.level();
                (level.is_some() || since.elapsed() > BY_ITSELF).then_some(level)
            });
            if let Some(primary) = level {
                println!("level behind {primary} after {} commands", said.len());
                return primary;
            }
            if step > TRIED && decision != Decision::LyonIsWhole {
                self.content.give_up();
            }
            let verbs: &[(&str, &[&str])] = match step {
                0..TRIED => {
                    let node = *dice.pick(&["paris", "lyon"]);
                    let verb = *dice.pick(&["resync", "promote"]);
                    &[(node, &[verb, "db"])]
                }
                // What the documentation tells: the other node's copy is served.
                TRIED => &[("paris", &["demote", "db"]), ("lyon", &["promote", "db"])],
                _ if decision != Decision::Accept => &[
                    ("lyon", &["promote", "db", "--force", "--yes"]),
                    ("paris", &["resolve", "db", "--discard", "paris", "--yes"]),
                ],
                _ => &[
                    ("paris", &["member", "accept", "db/data", "--yes"]),
                    ("paris", &["promote", "db"]),
                ],
            };
            said.extend(verbs.iter().map(|(node, verb)| self.try_verb(node, verb)));
        }
        eventually_from(PATIENCE, "the pair to become level", || {
            let [paris, lyon] = ["paris", "lyon"].map(|node| group(&self.pair, node));
            self.level().ok_or_else(|| format!("{paris:#}, {lyon:#}; {said:#?}"))
        })
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

    /// What changes while one node copies to the other.
    fn progress(&self) -> [[Value; 3]; 2] {
        ["paris", "lyon"].map(|node| {
            let shown = group(&self.pair, node);
            ["/state", "/sync/copied_bytes", "/cursors"]
                .map(|path| shown.pointer(path).cloned().unwrap_or_default())
        })
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

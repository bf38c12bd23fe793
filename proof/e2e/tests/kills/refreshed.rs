// SPDX-License-Identifier: Apache-2.0
//! In every round a snapshot is refreshed under load, and one node is killed during the refresh.

use helio_e2e::{
    Book, Image, Load, PATIENCE, Promise, Writers, assert_members_equal, begin, exported,
    wait_level,
};
use helio_testkit::{Dice, Group, Pair, eventually};
use std::sync::Arc;
use std::time::Duration;

/// The latest moment of a kill, in milliseconds from the command on: while the snapshot is refreshed, or soon after.
const KILL_MS: [u64; 2] = [15, 60];
/// How long clients write before the command, in milliseconds.
const WRITES_MS: u64 = 100;

/// One pair through all rounds.
pub(crate) struct Story {
    pair: Pair,
    book: Arc<Book>,
    /// What the snapshot of each node holds.
    held: [Held; 2],
}

/// Generation and item. After a crash, the primary begins another generation, and may use the same item numbers again.
type Position = (String, u64);

/// The snapshot of a node.
struct Held {
    node: &'static str,
    position: Position,
    image: Image,
}

/// What a refresh must be, if it was done.
struct Expected {
    mark: u64,
    before: Image,
    /// Every write that was acknowledged before it was in the snapshot.
    promise: Promise,
}

impl Story {
    /// The pair replicates, with paris as its primary and an empty snapshot on both nodes.
    pub(crate) fn begin(pair: Pair, dice: &Dice) -> Self {
        begin(&pair, "paris");
        pair.helio("paris", &["snapshot", "create", "db@one"]).expect_success();
        let book = Arc::new(Book::new(dice.seed()));
        eventually(PATIENCE, "the snapshot of lyon", || only(&pair, "lyon"));
        let held = ["paris", "lyon"].map(|node| look(&pair, node, book.run()));
        Self { pair, book, held }
    }

    /// A round; returns what happened, and whether the primary has the new snapshot.
    pub(crate) fn round(&mut self, dice: &mut Dice) -> (String, bool) {
        let victim = *dice.pick(&["paris", "lyon"]);
        let (mark, before) =
            (self.book.mark(), helio_e2e::image(&self.pair, "paris", self.book.run()));
        let mut writers = Load::PLAIN.start(&self.pair, "paris", dice, &self.book);
        writers.write_for(Duration::from_millis(1 + dice.below(WRITES_MS)));
        let expected = Expected { mark, before, promise: Promise::Until(self.book.now()) };
        let latest = *dice.pick(&KILL_MS);
        let moment = Duration::from_millis(dice.below(latest));
        let reported = self.refresh_and_kill(victim, moment, writers);
        self.pair.start(victim);
        wait_level(&self.pair, "paris");
        assert_members_equal(&self.pair, "data");
        let what = format!("{victim} killed after {moment:?}, reported: {reported}");
        let done = ["paris", "lyon"].map(|node| self.judge(node, &expected, &what));
        assert!(done[0] || !reported, "{what}: the old snapshot is there");
        let [paris, lyon] = &self.held;
        let same = paris.position != lyon.position || paris.image == lyon.image;
        assert!(same, "{what}: the snapshots of one position differ");
        (format!("{what}, refreshed on paris and lyon: {done:?}"), done[0])
    }

    /// Asks for a refresh, and kills a node at that moment. Returns whether the refresh was reported.
    fn refresh_and_kill(&mut self, victim: &str, moment: Duration, mut writers: Writers) -> bool {
        let mut refresh = refresh(&self.pair);
        writers.write_for(moment);
        self.pair.daemon(victim).kill9();
        if victim == "paris" {
            writers.broken();
        } else {
            writers.stop();
        }
        refresh.wait_end(PATIENCE, "the refresh").success()
    }

    /// A node has one snapshot, the old one or a new one, as a whole. Returns whether it is new.
    fn judge(&mut self, node: &'static str, expected: &Expected, what: &str) -> bool {
        let found = look(&self.pair, node, self.book.run());
        let held = self.held.iter_mut().find(|held| held.node == node).expect("a node");
        if found.position == held.position {
            assert!(found.image == held.image, "{what}: the old snapshot of {node} changed");
            return false;
        }
        let Expected { mark, before, promise } = expected;
        let judged = self.book.judge(*mark, before, &found.image, *promise);
        assert!(judged.is_ok(), "{what}: the snapshot of {node}: {judged:?}");
        *held = found;
        true
    }
}

fn refresh(pair: &Pair) -> Group {
    pair.helio_begun("paris", &["snapshot", "refresh", "db@one", "--yes"])
}

/// The position of the node's only snapshot. While lyon catches up, it keeps the one that is consistent.
fn only(pair: &Pair, node: &str) -> Option<Position> {
    let list = pair.helio(node, &["snapshot", "list", "db", "--json"]).json();
    let snapshots = list["snapshots"].as_array().cloned().unwrap_or_default();
    let [one] = &snapshots[..] else { return None };
    assert_eq!((&one["name"], &one["consistent"]), (&"one".into(), &true.into()), "{node}: {list}");
    Some((one["generation"].as_str()?.to_owned(), one["position"].as_u64()?))
}

/// The node's only snapshot, once the one before it is dropped.
fn look(pair: &Pair, node: &'static str, run: u64) -> Held {
    let position = eventually(PATIENCE, "one snapshot", || only(pair, node));
    let file = pair.scratch().join(&format!("{node}.snapshot"));
    std::fs::write(&file, exported(pair, node, "data@one")).expect("room");
    Held { node, position, image: Image::read(run, &file) }
}

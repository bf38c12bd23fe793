// SPDX-License-Identifier: Apache-2.0
//! The states of a node whose members are not the volume, each brought about as it comes about in use.

use crate::snapshot::names;
use helio_e2e::{
    BLOCK, Book, Load, PATIENCE, answer, begin, connect, number, wait, wait_level, wait_members,
};
use helio_nbd::{Client, ClientError};
use helio_testkit::{
    Dice, Failing, FaultyStore, Loss, Pair, Plan, Shows, StorePlan, TempDir, eventually,
    faulty_stores_possible,
};
use helio_units::Bytes;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(super) const SIZE: Bytes = Bytes::mib(4);
const PIECE: usize = 1 << 20;
const SOME: Load = Load { count: Some(150), ..Load::PLAIN };
/// Background copies go on, or wait.
pub(super) const GOES_ON: &str = "copies-at-once = 4";
pub(super) const WAITS: &str = "copies-at-once = 0";

/// What is the matter with the members of paris.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing.
    AtRest,
    /// The rest of a restore waits to be written.
    RestorePending,
    /// Two full members differ, and wait to be merged.
    Unmerged,
    /// Two full members differ where nothing was ever written or read.
    Blank,
    /// The first member waits to be copied to.
    Copying,
    /// The first member was removed, and holds something older.
    Removed,
    /// A flush of the only member failed.
    Suspect,
    /// The only member failed, and the peer serves in its place.
    ServedFromPeer,
}

/// paris, a primary in that state, with lyon.
pub(super) struct Stage {
    // Dropped in this order: a daemon ends before what it uses.
    pub(super) pair: Pair,
    pub(super) state: State,
    /// The members of paris.
    pub(super) files: Vec<PathBuf>,
    /// What clients read.
    pub(super) expected: Vec<u8>,
    /// Whether that is so from the first use on only, where it is.
    pub(super) written: Vec<bool>,
    /// The metadata of paris, from before that state.
    pub(super) older: Vec<u8>,
    /// The configuration as it was before a command of the walk changed it.
    pub(super) config: String,
    /// Options that a hint adds to the command.
    pub(super) more: Vec<String>,
    /// The metadata was made or accepted.
    pub(super) is_made: bool,
    /// Hints that were followed.
    pub(super) hints: usize,
    book: Arc<Book>,
    dice: Dice,
    store: Option<FaultyStore>,
    _scratch: TempDir,
}

impl State {
    pub(super) fn is_possible(self) -> bool {
        self != Self::Suspect || faulty_stores_possible()
    }

    /// The volume has one member on paris. A restore is the same with one or two.
    pub(super) const fn has_one_member(self) -> bool {
        matches!(self, Self::Suspect | Self::ServedFromPeer)
    }

    /// lyon was in sync. All of a volume is read for that.
    pub(super) fn has_peer(self) -> bool {
        self != Self::Blank
    }

    /// What is said of the members names what is the matter.
    pub(super) fn is_told(self, said: &str) -> Result<(), String> {
        let word = match self {
            Self::AtRest | Self::Blank => return Ok(()),
            Self::RestorePending => "restore      from snapshot",
            Self::Unmerged => "member 1 at 106496: level; A sequence",
            Self::Copying => "copying",
            Self::Removed => "withdrawn",
            Self::Suspect => "suspect",
            Self::ServedFromPeer => "consistent   false",
        };
        if said.contains(word) { Ok(()) } else { Err(format!("nothing says {word}: {said}")) }
    }
}

impl Stage {
    #[track_caller]
    pub(super) fn new(state: State) -> Self {
        let (dice, scratch) = (Dice::of_test("handed_out"), TempDir::new());
        let store = (state == State::Suspect).then(|| StorePlan::new(SIZE).mount());
        let first = store.as_ref().map(|store| store.path().to_owned());
        let mut files = vec![first.unwrap_or_else(|| scratch.file("first", SIZE))];
        if state == State::Blank {
            fs::write(&files[0], vec![0x11; SIZE.0 as usize]).expect("there is room");
        }
        let mut plan = Plan::new("db")
            .volume("data", SIZE)
            .volume_line("sparse = true")
            .group_line("on-error = \"serve-from-peer\"")
            .group_line("peer-timeout = \"2s\"")
            .group_line("member-return = \"off\"")
            .node_line("paris", GOES_ON)
            .node_line("paris", &format!("devices = {:?}", scratch.join("dev")))
            .member("paris", "data", &files[0]);
        if state == State::Blank {
            plan = plan.volume_line("blank = true");
        }
        if !state.has_one_member() {
            let second = scratch.file("second", SIZE);
            fs::write(&second, vec![0x22; SIZE.0 as usize]).expect("there is room");
            plan = plan.mirror("paris", "data", &second);
            files.push(second);
        }
        let mut pair = plan.prepare();
        pair.start("paris");
        if state.has_peer() {
            pair.start("lyon");
            begin(&pair, "paris");
        } else {
            pair.helio("paris", &["promote", "db", "--force", "--yes"]).expect_success();
        }
        let book = Arc::new(Book::new(dice.seed()));
        let config = fs::read_to_string(pair.config()).expect("it is there");
        let expected = Vec::new();
        let mut stage = Self {
            pair,
            state,
            files,
            expected,
            written: vec![true; SIZE.0 as usize / BLOCK],
            older: Vec::new(),
            config,
            more: Vec::new(),
            is_made: false,
            hints: 0,
            book,
            dice,
            store,
            _scratch: scratch,
        };
        stage.enter();
        stage
    }

    /// Brings the state about.
    #[track_caller]
    fn enter(&mut self) {
        if self.state == State::Blank {
            return self.blank();
        }
        if !self.state.has_one_member() {
            wait_members(&self.pair, "paris", ["full", "full"]);
        }
        self.write(1);
        wait_level(&self.pair, "paris");
        self.older = fs::read(self.metadata()).expect("it is there");
        match self.state {
            State::AtRest => {
                self.pause();
                self.write(2);
            }
            State::RestorePending => self.restore(),
            State::Unmerged => self.differ(),
            State::Blank => {}
            State::Copying | State::Removed => self.remove(),
            State::Suspect => self.fail_flush(),
            State::ServedFromPeer => self.lose(),
        }
        if self.expected.is_empty() {
            self.expected = self.clients_read();
        }
    }

    #[track_caller]
    pub(super) fn write(&self, round: u64) {
        SOME.run(&self.pair, "paris", &self.dice.fork(round), &self.book);
    }

    pub(super) fn metadata(&self) -> PathBuf {
        self.pair.state("paris").join("groups/db.meta")
    }

    /// A resync of lyon would end most states.
    #[track_caller]
    fn pause(&self) {
        answer(&self.pair, "paris", &["pause", "db"]).expect_success();
    }

    /// Replaces a text of the configuration, and lets paris read it.
    #[track_caller]
    pub(super) fn apply(&self, from: &str, to: &str) {
        let text = fs::read_to_string(self.pair.config()).expect("it is there");
        assert!(text.contains(from), "{text}");
        fs::write(self.pair.config(), text.replace(from, to)).expect("there is room");
        self.pair.helio("paris", &["apply"]).expect_success();
    }

    /// All that a client reads on paris.
    #[track_caller]
    pub(super) fn clients_read(&self) -> Vec<u8> {
        self.read("data").expect("it is read")
    }

    /// The same of another export, if it can be read.
    #[track_caller]
    pub(super) fn read(&self, export: &str) -> Result<Vec<u8>, ClientError> {
        let socket = self.pair.state("paris").join("nbd.sock");
        let mut client = Client::connect_unix(&socket, &format!("db/{export}"))?;
        let mut bytes = vec![0; SIZE.0 as usize];
        for (n, piece) in bytes.chunks_mut(PIECE).enumerate() {
            client.read((n * PIECE) as u64, piece)?;
        }
        client.disconnect().expect("it may go");
        Ok(bytes)
    }

    /// Half of the volume is written to.
    #[track_caller]
    fn blank(&mut self) {
        wait_members(&self.pair, "paris", ["full", "full"]);
        self.older = fs::read(self.metadata()).expect("it is there");
        self.apply(GOES_ON, WAITS);
        let mut client = connect(&self.pair, "paris");
        for n in 0..8 {
            let bytes = vec![0x33 + n as u8; 64 << 10];
            client.write(n * (128 << 10), &bytes, true).expect("it is written");
        }
        client.disconnect().expect("it may go");
        let shown = helio_e2e::group(&self.pair, "paris");
        assert!(number(&shown, "/volumes/0/blank_bytes") > 0, "{shown:#}");
        // A read would end it. The content of the first member counts where nothing was touched.
        self.expected = vec![0x11; SIZE.0 as usize];
        for n in 0..8 {
            let at = n * (128 << 10);
            self.expected[at..at + (64 << 10)].fill(0x33 + n as u8);
        }
        // What a member holds elsewhere counts from the first use on.
        let is_written = |n: usize| self.expected[n * BLOCK] != 0x11;
        self.written = (0..self.written.len()).map(is_written).collect();
    }

    #[track_caller]
    fn restore(&mut self) {
        let pair = &self.pair;
        pair.helio("paris", &["snapshot", "create", "db@one"]).expect_success();
        eventually(PATIENCE, "the snapshot", || {
            names(pair, "paris").contains(&"one".to_owned()).then_some(())
        });
        // A read later on would write what it reads to the members.
        self.expected = self.clients_read();
        self.write(2);
        wait_level(pair, "paris");
        self.pause();
        self.apply(GOES_ON, WAITS);
        pair.helio("paris", &["snapshot", "restore", "db@one", "--yes"]).expect_success();
        wait(pair, "paris", "a restore that waits", |shown| !shown["restoring"].is_null());
    }

    /// Another process wrote to the second member while the daemon was down, as a disk does that lost a write.
    #[track_caller]
    fn differ(&mut self) {
        assert!(self.pair.daemon("paris").terminate().success());
        let mut bytes = fs::read(&self.files[1]).expect("it is there");
        for n in 0..8 {
            let at = n * (512 << 10);
            bytes[at..at + 4096].fill(0x66);
        }
        fs::write(&self.files[1], bytes).expect("there is room");
        self.pair.start("paris");
        wait_level(&self.pair, "paris");
        self.pause();
        self.write(2);
        self.expected = fs::read(&self.files[0]).expect("it is there");
        self.apply(GOES_ON, WAITS);
        answer(&self.pair, "paris", &["member", "merge", "db/data"]).expect_success();
        wait(&self.pair, "paris", "a merge that waits", |shown| {
            number(shown, "/volumes/0/unmerged_bytes") > 0
        });
    }

    #[track_caller]
    fn remove(&self) {
        let path = self.files[0].display().to_string();
        self.pause();
        answer(&self.pair, "paris", &["member", "remove", "db/data", &path]).expect_success();
        self.write(2);
        if self.state == State::Copying {
            self.apply(GOES_ON, WAITS);
            answer(&self.pair, "paris", &["member", "add", "db/data", &path]).expect_success();
            wait_members(&self.pair, "paris", ["copying", "full"]);
        }
    }

    #[track_caller]
    fn fail_flush(&self) {
        self.pause();
        self.write(2);
        let store = self.store.as_ref().expect("it has one");
        store.fail(Failing::Flush { after: 0, loss: Loss::All, shows: Shows::AtOnce });
        let mut client = connect(&self.pair, "paris");
        client.flush().expect_err("the flush failed");
        client.disconnect().expect("it may go");
        self.write(3);
    }

    /// The bytes of a member, past what serves it as a store.
    #[track_caller]
    pub(super) fn content(&self, path: &Path) -> Vec<u8> {
        let past = self.store.as_ref().filter(|store| store.path() == path);
        let path = past.map_or_else(|| path.to_owned(), FaultyStore::content);
        fs::read(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()))
    }

    /// The disk is there again, without a byte of the volume.
    #[track_caller]
    pub(super) fn repair(&self) {
        let file = OpenOptions::new().write(true).open(&self.files[0]);
        file.and_then(|file| file.set_len(SIZE.0)).expect("it can be made longer");
    }

    #[track_caller]
    fn lose(&self) {
        let file = OpenOptions::new().write(true).open(&self.files[0]);
        file.and_then(|file| file.set_len(0)).expect("it can be cut");
        let mut client = connect(&self.pair, "paris");
        client.read(0, &mut [0; 4096]).expect("the peer's copy is read");
        client.disconnect().expect("it may go");
        self.write(2);
        wait(&self.pair, "paris", "everything at lyon", |status| {
            status["cursors"]["accepted"] == status["cursors"]["peer_durable"]
        });
    }

    #[track_caller]
    pub(super) fn kill(&mut self, node: &str) {
        if node == "lyon" && !self.state.has_peer() {
            return;
        }
        self.pair.daemon(node).kill9();
        if node == "lyon" && self.answers() {
            wait(&self.pair, "paris", "the end of lyon", |shown| {
                shown["peer"]["connection"] != "connected"
            });
        }
    }

    /// A secondary now. It warns where lyon lacks something.
    #[track_caller]
    pub(super) fn demote(&self) {
        let told = eventually(PATIENCE, "the clients are gone", || {
            let told = self.pair.helio("paris", &["demote", "db"]);
            told.stdout.contains("secondary now").then_some(told)
        });
        assert!(matches!(told.status.code(), Some(0 | 8)), "{told}");
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(store) = &self.store {
            store.heal();
        }
    }
}

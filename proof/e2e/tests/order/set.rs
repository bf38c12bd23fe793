// SPDX-License-Identifier: Apache-2.0
//! A volume with two members on its primary: one that fails is removed and nobody notices, and it returns with what it lacks.

use helio_e2e::{
    Book, Image, Load, PATIENCE, Promise, Trouble, add_member, begin, connect, group, image,
    number, wait, wait_level, wait_members,
};
use helio_testkit::{
    Dice, FaultyStore, LoopDevice, Pair, Plan, StorePlan, TempDir, Told, eventually,
    faulty_stores_possible, rounds,
};
use helio_units::{Bytes, Extent, Mode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const SIZE: Bytes = Bytes::mib(16);
/// A member returns by a command only.
const BY_COMMAND: &str = "member-return = \"off\"";
const SOME: Load = Load { count: Some(200), ..Load::PLAIN };
/// The file below the first loop device.
const FIRST: &str = "first";

/// What the two members of paris are.
enum Disks {
    /// A file, and the store that can fail.
    Files,
    /// Loop devices on a file of this folder, and on the store that can fail.
    Loops { first: LoopDevice, second: LoopDevice, files: TempDir },
}

/// A pair with paris as its primary, which has two members: one of its own, and a store that can fail.
struct Stage {
    // Dropped in this order: a daemon ends before what it uses, and a device before the file below it.
    pair: Pair,
    disks: Disks,
    store: FaultyStore,
    dice: Dice,
    book: Arc<Book>,
    /// Whether lyon is a node of the group, too.
    paired: bool,
}

impl Stage {
    #[track_caller]
    fn new(test: &'static str) -> Self {
        Self::with(test, BY_COMMAND, Disks::Files, StorePlan::new(SIZE).mount())
    }

    /// Paris is the only node.
    #[track_caller]
    fn without_peer(test: &'static str) -> Self {
        let plan = Plan::new("db").only("paris").group_line(BY_COMMAND);
        Self::of(test, plan, false, Disks::Files, StorePlan::new(SIZE).mount())
    }

    /// Of loop devices; none where this machine has none, or nobody may use them.
    #[track_caller]
    fn on_loop_devices(test: &'static str) -> Option<Self> {
        let (store, files) = (StorePlan::new(SIZE).mount(), TempDir::new());
        // What the cache of the store drops must not stay in a cache above it.
        let direct = ["--direct-io=on"];
        let first = LoopDevice::on(&files.file(FIRST, SIZE), &direct)?;
        let second = LoopDevice::on(store.path(), &direct)?;
        Some(Self::with(test, BY_COMMAND, Disks::Loops { first, second, files }, store))
    }

    #[track_caller]
    fn with(test: &'static str, line: &str, disks: Disks, store: FaultyStore) -> Self {
        let plan = Plan::new("db").mode(Mode::Sync).group_line(line);
        Self::of(test, plan, true, disks, store)
    }

    #[track_caller]
    fn of(test: &'static str, plan: Plan, paired: bool, disks: Disks, store: FaultyStore) -> Self {
        let dice = Dice::of_test(test);
        let plan = plan
            .volume("data", SIZE)
            .volume_line("sparse = true")
            .group_line("member-timeout = \"1s\"");
        let plan = match &disks {
            Disks::Files => plan.mirror("paris", "data", store.path()),
            Disks::Loops { first, second, .. } => {
                let plan = plan.member("paris", "data", first.path());
                plan.mirror("paris", "data", second.path())
            }
        };
        let pair = plan.start();
        if paired {
            begin(&pair, "paris");
        }
        let book = Arc::new(Book::new(dice.seed()));
        let stage = Self { pair, disks, store, dice, book, paired };
        stage.wait_full();
        SOME.run(&stage.pair, "paris", &stage.dice.fork(1), &stage.book);
        stage
    }

    /// Waits until both members are full, and equal as far as anybody knows.
    #[track_caller]
    fn wait_full(&self) -> Value {
        self.wait_members(["full", "full"])
    }

    #[track_caller]
    fn wait_members(&self, states: [&str; 2]) -> Value {
        wait_members(&self.pair, "paris", states)
    }

    /// Both nodes stop, and every full member holds what was acknowledged, and the same as the others.
    #[track_caller]
    fn judge(&mut self) {
        let nodes = if self.paired { &["paris", "lyon"][..] } else { &["paris"] };
        if self.paired {
            wait_level(&self.pair, "paris");
        }
        self.wait_full();
        for node in nodes {
            assert!(self.pair.daemon(node).terminate().success(), "{node} stops cleanly");
        }
        let [first, second] = self.members();
        for (name, shown) in [("paris 0", &first), ("paris 1", &second)] {
            self.book.assert_holds(name, shown, Promise::Everything);
        }
        assert!(first == second, "the members differ");
        if self.paired {
            let third = image(&self.pair, "lyon", self.book.run());
            self.book.assert_holds("lyon", &third, Promise::Everything);
            assert!(second == third, "the copies differ");
        }
    }

    fn helio(&self, arguments: &[&str]) -> Told {
        self.pair.helio("paris", arguments)
    }

    /// The path of the member that can fail.
    fn second(&self) -> &Path {
        match &self.disks {
            Disks::Files => self.store.path(),
            Disks::Loops { second, .. } => second.path(),
        }
    }

    /// What both members of paris hold, read past the devices. Nothing may be writing there.
    #[track_caller]
    fn members(&self) -> [Image; 2] {
        let first = match &self.disks {
            Disks::Files => self.pair.member("paris", "data"),
            Disks::Loops { files, .. } => files.join(FIRST),
        };
        [first, self.store.content()].map(|file| Image::read(self.book.run(), &file))
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // A process cannot be killed while an operation of it on a device is under way.
        self.store.respond();
    }
}

impl Stage {
    fn trouble(&self, trouble: Trouble) {
        trouble.strike(&self.store);
        if matches!(trouble, Trouble::Flush) {
            connect(&self.pair, "paris").flush().expect("the other member is flushed");
        }
    }

    /// Kills the daemon of paris. The disk works again.
    fn kill(&mut self) {
        if matches!(self.disks, Disks::Loops { .. }) {
            // Its process ends only when its operations on the device have. Those that wait fail, as on a file.
            let id = self.pair.daemon("paris").id().cast_signed();
            let paris = Pid::from_raw(id).expect("a process");
            kill_process(paris, Signal::KILL).expect("it runs");
            Trouble::Writes.strike(&self.store);
            self.store.respond();
        }
        self.pair.daemon("paris").kill9();
        self.store.heal();
        self.store.respond();
    }

    /// The disk works again, and the member returns.
    fn mend(&self) {
        self.add();
        self.wait_full();
    }

    /// The disk works again, and what the member lacks begins to be copied to it.
    fn add(&self) {
        self.store.heal();
        self.store.respond();
        add_member(&self.pair, "paris", self.second());
    }
}

#[test]
fn a_member_that_fails_is_removed_and_returns_with_what_it_lacks_and_clients_notice_nothing() {
    if !faulty_stores_possible() {
        return;
    }
    let mut stage = Stage::new("a_member_that_fails_is_removed");
    for (round, trouble) in (2..).zip([Trouble::Writes, Trouble::Flush, Trouble::Silence]) {
        let writers = Load::PLAIN.start(&stage.pair, "paris", &stage.dice.fork(round), &stage.book);
        stage.book.wait_for(50, PATIENCE);
        stage.trouble(trouble);
        stage.wait_members(["full", "removed"]);
        stage.book.wait_for(100, PATIENCE);
        stage.mend();
        stage.book.wait_for(50, PATIENCE);
        writers.stop();
        assert_eq!(stage.book.failures(), [], "{trouble:?}");
    }
    stage.judge();
}

#[test]
fn a_block_that_one_member_cannot_read_is_read_from_the_other_one_and_written_again() {
    if !faulty_stores_possible() {
        return;
    }
    let stage = Stage::new("a_block_that_one_member_cannot_read");
    let (last, bytes) = (SIZE.0 - (1 << 20), vec![7; 1 << 20]);
    let mut client = connect(&stage.pair, "paris");
    client.write(last, &bytes, false).expect("both members are written");
    // Reads go to the member that cannot do them.
    let first = stage.pair.member("paris", "data");
    for (path, cost) in [(first.as_path(), "65535"), (stage.second(), "1")] {
        let path = path.display().to_string();
        stage.helio(&["member", "set", "db/data", &path, "--read-cost", cost]).expect_success();
    }
    stage.store.fail_extent(Extent::new(last, 1 << 20), false);
    let mut read = vec![0; 1 << 20];
    client.read(last, &mut read).expect("the other one is read");
    assert!(read == bytes, "what the other member holds");
    let shown = group(&stage.pair, "paris");
    assert!(number(&shown, "/volumes/0/members/1/repaired") > 0, "{shown:#}");
    stage.store.heal();
    stage.wait_full();
}

#[test]
fn a_kill_leaves_no_two_versions_of_a_block_whatever_a_member_did() {
    if faulty_stores_possible() {
        kills(Stage::new("a_kill_leaves_no_two_versions"));
    }
}

#[test]
fn a_kill_leaves_no_two_versions_of_a_block_without_a_peer() {
    if faulty_stores_possible() {
        kills(Stage::without_peer("a_kill_leaves_no_two_versions_without_a_peer"));
    }
}

#[test]
fn a_kill_leaves_no_two_versions_of_a_block_on_loop_devices() {
    if faulty_stores_possible()
        && let Some(stage) = Stage::on_loop_devices("a_kill_leaves_no_two_versions")
    {
        kills(stage);
    }
}

/// In each round the daemon is killed under load, in most of them after the second member failed, or while it returns. Afterwards
/// both members hold every acknowledged write and are equal; no client saw an error. Files, loop devices and a group of one node share the rounds.
#[track_caller]
fn kills(mut stage: Stage) {
    let [mut before, _] = stage.members();
    for round in 2..2 + rounds(9).div_ceil(3) {
        let mark = stage.book.mark();
        let mut dice = stage.dice.fork(round);
        let mut writers = Load::PLAIN.start(&stage.pair, "paris", &dice, &stage.book);
        writers.write_for(Duration::from_millis(20 + dice.below(300)));
        let troubles = [Trouble::Writes, Trouble::Flush, Trouble::Silence];
        let trouble = dice.chance(75).then(|| *dice.pick(&troubles));
        if let Some(trouble) = trouble {
            stage.trouble(trouble);
            writers.write_for(Duration::from_millis(dice.below(2000)));
        }
        // Some kills come while it returns.
        let returns = trouble.is_some() && dice.chance(30);
        if returns {
            stage.wait_members(["full", "removed"]);
            stage.add();
            writers.write_for(Duration::from_millis(dice.below(100)));
        }
        stage.kill();
        writers.broken();
        assert_eq!(stage.book.failures(), [], "round {round}, {trouble:?}");
        stage.pair.start("paris");
        wait(&stage.pair, "paris", "a primary", |shown| shown["role"] == "primary");
        let shown = wait(&stage.pair, "paris", "members that are compared", |shown| {
            shown["volumes"][0]["unmerged_bytes"] == 0
        });
        if shown["volumes"][0]["members"][1]["state"] == "removed" {
            stage.mend();
        }
        stage.wait_full();
        let [first, second] = stage.members();
        let differ = first.beside(&second).find(|(_, one, two)| one != two);
        assert_eq!(differ, None, "round {round}, {trouble:?}: a block, and what the members hold");
        let judged = stage.book.judge(mark, &before, &first, Promise::Everything);
        let verdict = judged.unwrap_or_else(|why| panic!("round {round}, {trouble:?}: {why}"));
        println!("round {round}: {trouble:?}, returns: {returns}, {verdict:?}");
        before = first;
    }
    stage.judge();
}

#[test]
fn a_volume_is_served_without_a_member_that_is_absent_at_the_start() {
    let dice = Dice::of_test("a_volume_is_served_without_a_member");
    let scratch = TempDir::new();
    let (file, away) = (scratch.file("mirror", SIZE), scratch.join("away"));
    let mut pair = Plan::new("db")
        .volume("data", SIZE)
        .volume_line("sparse = true")
        .mirror("paris", "data", &file)
        .start();
    begin(&pair, "paris");
    let full = |shown: &Value| shown["volumes"][0]["members"][1]["state"] == "full";
    wait(&pair, "paris", "two full members", full);
    let book = Arc::new(Book::new(dice.seed()));
    SOME.run(&pair, "paris", &dice.fork(1), &book);
    pair.daemon("paris").kill9();
    std::fs::rename(&file, &away).expect("it can be moved");
    pair.start("paris");
    wait(&pair, "paris", "a primary", |shown| shown["role"] == "primary");
    let shown = group(&pair, "paris");
    let member = &shown["volumes"][0]["members"][1];
    assert_eq!(member["state"], "removed", "{shown:#}");
    assert!(member["why"].to_string().contains("does not exist"), "{shown:#}");
    SOME.run(&pair, "paris", &dice.fork(2), &book);
    std::fs::rename(&away, &file).expect("it can be moved");
    let path = file.display().to_string();
    let add = ["member", "add", "db/data", &path, "--require-minicopy"];
    pair.helio("paris", &add).expect_success();
    wait(&pair, "paris", "two full members", full);
    for node in ["paris", "lyon"] {
        assert!(pair.daemon(node).terminate().success(), "{node} stops cleanly");
    }
    let run = book.run();
    book.assert_holds("paris 0", &image(&pair, "paris", run), Promise::Everything);
    book.assert_holds("paris 1", &Image::read(run, &file), Promise::Everything);
}

#[test]
fn a_member_removed_for_a_backup_holds_one_moment_and_returns_by_its_bitmap() {
    if !faulty_stores_possible() {
        return;
    }
    let mut stage = Stage::new("a_member_removed_for_a_backup");
    let writers = Load::PLAIN.start(&stage.pair, "paris", &stage.dice.fork(2), &stage.book);
    stage.book.wait_for(50, PATIENCE);
    let moment = stage.book.now();
    let store = stage.second().display().to_string();
    stage.helio(&["member", "remove", "db/data", &store, "--for-backup"]).expect_success();
    let backup = Image::read(stage.book.run(), &stage.store.content());
    stage.book.wait_for(50, PATIENCE);
    let again = Image::read(stage.book.run(), &stage.store.content());
    assert!(backup == again, "nothing is written to it");
    stage.book.assert_holds("the backup", &backup, Promise::Until(moment));
    let add = ["member", "add", "db/data", &store, "--require-minicopy"];
    stage.helio(&add).expect_success();
    stage.wait_full();
    writers.stop();
    stage.judge();
}

#[test]
fn a_member_returns_by_itself_unless_a_command_removed_it() {
    if !faulty_stores_possible() {
        return;
    }
    let (line, store) = ("member-return = \"1s\"", StorePlan::new(SIZE).mount());
    let mut stage = Stage::with("a_member_returns_by_itself", line, Disks::Files, store);
    for (round, trouble) in (2..).zip([Trouble::Writes, Trouble::Silence]) {
        let writers = Load::PLAIN.start(&stage.pair, "paris", &stage.dice.fork(round), &stage.book);
        stage.trouble(trouble);
        stage.wait_members(["full", "removed"]);
        stage.store.heal();
        stage.store.respond();
        stage.wait_full();
        writers.stop();
        assert_eq!(stage.book.failures(), [], "{trouble:?}");
    }
    let store = stage.second().display().to_string();
    stage.helio(&["member", "remove", "db/data", &store]).expect_success();
    let removed = |stage: &Stage| {
        let shown = group(&stage.pair, "paris");
        let member = &shown["volumes"][0]["members"][1];
        assert!(member["state"] == "removed" && member["withdrawn"] == true, "{shown:#}");
    };
    removed(&stage);
    stage.pair.daemon("paris").kill9();
    stage.pair.start("paris");
    wait(&stage.pair, "paris", "a primary", |shown| shown["role"] == "primary");
    // What is removed is asked for every second.
    let later = std::time::Instant::now() + Duration::from_secs(3);
    eventually(PATIENCE, "three seconds", || {
        removed(&stage);
        (std::time::Instant::now() > later).then_some(())
    });
    let told = stage.helio(&["status", "db"]).expect_success();
    assert!(told.contains("removed by a command"), "{told}");
    stage.helio(&["member", "add", "db/data", &store, "--require-minicopy"]).expect_success();
    stage.judge();
}

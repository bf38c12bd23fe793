// SPDX-License-Identifier: Apache-2.0
//! A group, a volume and a node get other names: the data, the bitmaps and the snapshots stay, and so does what is refused.

use helio_e2e::{Book, Image, Load, PATIENCE, Promise, assert_members_equal, begin, wait_level};
use helio_testkit::{Daemon, Dice, Pair, Plan, Told, eventually, helio_binary, run};
use helio_units::{Bytes, Mode};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

const SOME: Load = Load { count: Some(300), ..Load::PLAIN };
const SIZE: Bytes = Bytes::mib(16);

/// Two nodes under whatever names they have.
struct Renamed {
    pair: Pair,
    book: Arc<Book>,
    daemons: [Option<Daemon>; 2],
}

impl Renamed {
    /// paris has acknowledged writes that lyon lacks, and a snapshot. Both daemons are stopped.
    fn new(dice: &Dice, plan: Plan) -> Self {
        let mut pair = plan.mode(Mode::Async).volume("data", SIZE).start();
        begin(&pair, "paris");
        let book = Arc::new(Book::new(dice.seed()));
        SOME.run(&pair, "paris", dice, &book);
        wait_level(&pair, "paris");
        pair.helio("paris", &["snapshot", "create", "db@before"]).expect_success();
        pair.daemon("lyon").terminate();
        SOME.run(&pair, "paris", &dice.fork(2), &book);
        pair.daemon("paris").terminate();
        Self { pair, book, daemons: [None, None] }
    }

    fn configure(&self, from: &str, to: &str) {
        let text = fs::read_to_string(self.pair.config()).expect("it is there");
        assert!(text.contains(from), "{text}");
        fs::write(self.pair.config(), text.replace(from, to)).expect("there is room");
    }

    /// Runs `helio rename` in the state directory of a node.
    fn rename(&self, at: &str, words: &[&str]) -> Told {
        run(self.command(at, words).arg("--config").arg(self.pair.config()))
    }

    fn command(&self, at: &str, words: &[&str]) -> Command {
        let mut command = Command::new(helio_binary());
        command.arg("rename").args(words).env("HELIO_STATE_DIR", self.pair.state(at));
        command
    }

    fn start(&mut self, at: &str, node: &str) {
        let config = self.pair.config().to_path_buf();
        self.start_with(at, node, &config);
    }

    fn start_with(&mut self, at: &str, node: &str, config: &Path) {
        let daemon = Daemon::start(node, config, &self.pair.state(at));
        self.daemons[usize::from(at == "paris")].insert(daemon).wait_ready();
    }

    fn stop(&mut self) {
        for daemon in &mut self.daemons {
            if let Some(mut daemon) = daemon.take() {
                daemon.terminate();
            }
        }
    }

    fn status(&self, at: &str) -> Value {
        self.pair.status(at)["groups"][0].take()
    }

    fn wait_level(&self) {
        eventually(PATIENCE, "both have everything", || {
            let shown = self.status("paris");
            let is_level = shown["cursors"]["accepted"] == shown["cursors"]["peer_durable"];
            (shown["state"] == "replicating" && is_level).then_some(())
        });
    }

    fn assert_holds(&self) {
        let member = self.pair.member("paris", "data");
        let image = Image::read(self.book.run(), &member);
        self.book.assert_holds("paris", &image, Promise::Everything);
        assert_members_equal(&self.pair, "data");
    }

    fn metadata(&self, at: &str, group: &str) -> PathBuf {
        self.pair.state(at).join("groups").join(format!("{group}.meta"))
    }
}

/// What a daemon that does not start says.
fn refused(at: &Renamed, folder: &str, node: &str) -> String {
    let mut command = Command::new(helio_binary());
    command.args(["daemon", "--node", node, "--config"]).arg(at.pair.config());
    let told = run(command.arg("--state").arg(at.pair.state(folder)));
    told.expect_failure()
}

#[test]
fn a_group_a_volume_and_a_node_are_renamed_and_only_what_was_dirty_is_copied() {
    let dice =
        Dice::of_test("a_group_a_volume_and_a_node_are_renamed_and_only_what_was_dirty_is_copied");
    let mut both = Renamed::new(&dice, Plan::new("db"));
    let old = both.pair.scratch().join("old.toml");
    fs::copy(both.pair.config(), &old).expect("there is room");
    both.configure("group.db", "group.pg");
    for node in ["paris", "lyon"] {
        let told = refused(&both, node, node);
        assert!(told.contains(&format!("helio rename group db pg --node {node}")), "{told}");
    }

    // Only lyon has the new name: neither node follows the other one, and both names are told.
    both.rename("lyon", &["group", "db", "pg", "--node", "lyon"]).expect_success();
    both.start("lyon", "lyon");
    both.start_with("paris", "paris", &old);
    let why = "group pg of lyon is group db of paris: it was renamed on one of the two nodes only";
    eventually(PATIENCE, "both names", || {
        let shown = both.status("lyon").to_string();
        shown.contains(why).then_some(())
    });
    let told = both.pair.helio("lyon", &["promote", "pg"]).expect_failure();
    assert!(told.contains("--force"), "the stale node is no new one: {told}");
    let told = both.rename("lyon", &["group", "db", "pg", "--node", "lyon"]).expect_failure();
    assert!(told.contains("another helio daemon uses the state directory"), "{told}");
    both.stop();

    both.rename("paris", &["group", "db", "pg", "--node", "paris"]).expect_success();
    let again = both.rename("paris", &["group", "db", "pg", "--node", "paris"]).expect_success();
    assert!(again.contains("has its new name"), "{again}");
    assert!(!both.metadata("paris", "db").exists());
    both.start("lyon", "lyon");
    both.start("paris", "paris");
    both.wait_level();
    let row = both.pair.helio("paris", &["explain", "pg", "--json"]).json();
    assert_eq!(row["row"]["label"], "update-marks", "only what was dirty is copied: {row}");
    for node in ["paris", "lyon"] {
        let told = both.pair.helio(node, &["snapshot", "list", "pg"]).expect_success();
        assert!(node == "lyon" || told.contains("before"), "{node}: {told}");
    }
    both.stop();
    both.assert_holds();

    both.configure("group.pg.volume.data", "group.pg.volume.files");
    let told = refused(&both, "paris", "paris");
    assert!(told.contains("volume files of group pg has another name in"), "{told}");
    for node in ["paris", "lyon"] {
        both.rename(node, &["volume", "pg/data", "files", "--node", node]).expect_success();
    }
    both.start("lyon", "lyon");
    both.start("paris", "paris");
    both.wait_level();
    assert_eq!(both.status("paris")["volumes"][0]["name"], "files");
    both.stop();
    both.assert_holds();

    both.configure("paris", "rome");
    let members = fs::read_to_string(both.pair.config()).expect("it is there");
    let file = |of: &str| both.pair.scratch().join(&format!("{of}-data.img"));
    assert!(members.contains("rome-data.img"), "{members}");
    both.configure("rome-data.img", "paris-data.img");
    assert!(file("paris").exists());
    let told = refused(&both, "paris", "rome");
    assert!(told.contains("helio rename node paris rome"), "{told}");
    both.rename("paris", &["node", "paris", "rome"]).expect_success();
    both.start("lyon", "lyon");
    both.start("paris", "rome");
    both.wait_level();
    assert_eq!(both.pair.status("lyon")["groups"][0]["peer"]["name"], "rome");
    both.stop();
    both.assert_holds();
}

#[test]
fn a_rename_that_is_killed_at_any_moment_is_repeated() {
    let dice = Dice::of_test("a_rename_that_is_killed_at_any_moment_is_repeated");
    let mut both = Renamed::new(&dice, Plan::new("db"));
    let mut names = ["db", "pg"];
    let mut killed = 0;
    for micros in (0..40).map(|n| 200 * n) {
        both.configure(&format!("group.{}", names[0]), &format!("group.{}", names[1]));
        let words = ["group", names[0], names[1], "--node", "paris"];
        let mut command = both.command("paris", &words);
        command.arg("--config").arg(both.pair.config());
        let mut child = command.spawn().expect("it is there");
        std::thread::park_timeout(Duration::from_micros(micros));
        child.kill().expect("it is ours");
        killed += u32::from(!child.wait().expect("it is ours").success());
        let there =
            |name: &str| fs::metadata(both.metadata("paris", name)).is_ok_and(|it| it.len() > 0);
        assert!(there(names[0]) != there(names[1]), "one file, under one of the names");
        both.rename("paris", &words).expect_success();
        assert!(!there(names[0]) && there(names[1]));
        names.reverse();
    }
    assert!(killed > 5, "only {killed} were killed");
    assert_eq!(names, ["db", "pg"], "it has its first name again");
    both.start("lyon", "lyon");
    both.start("paris", "paris");
    both.wait_level();
    let told = both.pair.helio("paris", &["snapshot", "list", "db"]).expect_success();
    assert!(told.contains("before"), "{told}");
    both.stop();
    both.assert_holds();
}

#[test]
fn a_name_that_does_not_fit_is_refused_and_changes_nothing() {
    let dice = Dice::of_test("a_name_that_does_not_fit_is_refused_and_changes_nothing");
    let both = Renamed::new(&dice, Plan::new("db").volume("more", SIZE));
    let content = || fs::read(both.metadata("paris", "db")).expect("it is there");
    let before = content();
    let fails = |words: &[&str], text: &str| {
        let told = both.rename("paris", words).expect_failure();
        assert!(told.contains(text) && told.contains("hint:"), "{words:?}: {told}");
    };
    fails(&["group", "db", "pg", "--node", "paris"], "does not name group pg");
    fails(&["group", "db", "a b", "--node", "paris"], "does not name group a b");
    fails(&["volume", "data", "files", "--node", "paris"], "names no volume of a group");
    fails(
        &["volume", "db/data", "more", "--node", "paris"],
        "names both volume data and volume more",
    );
    fails(&["node", "paris", "lyon"], "names both node paris and node lyon");
    both.configure("volume.data", "volume.zeros");
    // The new name would take the place of the other volume.
    fails(&["volume", "db/data", "zeros", "--node", "paris"], "would not have the place of data");
    both.configure("volume.zeros", "volume.data");
    both.configure("group.db", "group.pg");
    fails(&["group", "web", "pg", "--node", "paris"], "has no metadata of web");
    fails(&["group", "db", "pg", "--node", "rome"], "has no node `rome`");
    let taken = both.metadata("paris", "pg");
    fs::write(&taken, [7; 8192]).expect("there is room");
    fails(&["group", "db", "pg", "--node", "paris"], "the name pg is in use on this node");
    assert_eq!(content(), before);
}

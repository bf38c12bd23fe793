// SPDX-License-Identifier: Apache-2.0
//! An earlier image of one file, bytes and attributes, is put back at a later step of a story: nothing old is served, and what a
//! node does not serve it names. docs/reference/identities.md says what each file proves.

use helio_e2e::{Book, Image, Promise};
use helio_e2e::{
    Load, PATIENCE, assert_members_equal, begin, connect_to, group, take_over, wait, wait_level,
    wait_members,
};
use helio_testkit::{Daemon, Dice, Pair, Plan, TempDir, eventually, rounds};
use helio_units::{Bytes, Mode};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SIZE: Bytes = Bytes::mib(8);
const SOME: Load = Load { count: Some(60), ..Load::PLAIN };
const NODES: [&str; 2] = ["paris", "lyon"];
/// Both nodes are up, and the primary has everything durable at its peer.
const LEVEL: &str = "in sync";
/// What a node says for so long is no passing state.
const NAMED: Duration = Duration::from_secs(4);

/// What the files of both nodes were at the end of each step, and what clients read then.
struct Story {
    pair: Pair,
    folder: TempDir,
    /// The second member of each node; empty if the volume has one.
    mirrors: BTreeMap<&'static str, PathBuf>,
    steps: Vec<&'static str>,
    held: Vec<Vec<u8>>,
}

/// As a backup copies it: bytes, attributes and times.
#[track_caller]
fn put(from: &Path, to: &Path) {
    let copied = Command::new("cp").args(["-a", "-T"]).arg(from).arg(to).status();
    assert!(copied.expect("cp is there").success(), "{} -> {}", from.display(), to.display());
}

impl Story {
    fn members(&self, node: &str) -> Vec<PathBuf> {
        let first = self.pair.member(node, "data");
        [first].into_iter().chain(self.mirrors.get(node).cloned()).collect()
    }

    /// The files of a node whose content counts, by a name of their own.
    fn files(&self, node: &str) -> Vec<(String, PathBuf)> {
        let groups = self.pair.state(node).join("groups");
        let state = ["db.meta", "db.verify", "db.before"].map(|file| groups.join(file));
        let other = self.pair.state(node).join("db.before");
        let all = state.into_iter().chain([other]).chain(self.members(node));
        let name = |file: &Path| {
            let name = file.file_name().expect("it has one").to_string_lossy();
            format!("{node}-{name}")
        };
        all.filter(|file| file.exists()).map(|file| (name(&file), file)).collect()
    }

    fn kept(&self, step: usize, name: &str) -> PathBuf {
        self.folder.join(&format!("{step}-{name}"))
    }

    /// A step has ended: both nodes stop, their files are kept, and both start.
    #[track_caller]
    fn keep(&mut self, step: &'static str, primary: &'static str) {
        wait_level(&self.pair, primary);
        for node in [primary, helio_e2e::other(primary)] {
            assert!(self.pair.daemon(node).terminate().success(), "{node} stops cleanly");
        }
        let at = self.held.len();
        self.steps.push(step);
        for (name, file) in NODES.iter().flat_map(|node| self.files(node)) {
            put(&file, &self.kept(at, &name));
        }
        self.held.push(fs::read(&self.members(primary)[0]).expect("it is there"));
        NODES.iter().for_each(|node| self.pair.start(node));
        wait_level(&self.pair, primary);
    }

    /// None if the file system of the test keeps no extended attributes.
    #[track_caller]
    fn told(dice: &Dice, members: usize) -> Option<Self> {
        let folder = TempDir::new();
        let mirror = |node: &&str| folder.file(&format!("{node}-mirror"), SIZE);
        let mirrors = NODES.iter().filter(|_| members > 1).map(|node| (*node, mirror(node)));
        let mirrors: BTreeMap<_, _> = mirrors.collect();
        let mut plan =
            Plan::new("db").mode(Mode::Sync).volume("data", SIZE).volume_line("sparse = true");
        plan = plan.group_line("member-return = \"off\"");
        for (node, file) in &mirrors {
            plan = plan.mirror(node, "data", file);
        }
        let pair = plan.start();
        let mut story = Self { pair, folder, mirrors, steps: Vec::new(), held: Vec::new() };
        let book = Arc::new(Book::new(dice.seed()));
        let write = |story: &Self, node: &str| {
            let label = story.held.len() as u64;
            SOME.run(&story.pair, node, &dice.fork(label), &book);
        };
        begin(&story.pair, "paris");
        story.mirrors.keys().for_each(|node| _ = wait_members(&story.pair, node, ["full", "full"]));
        write(&story, "paris");
        let member = story.pair.member("paris", "data");
        if rustix::fs::getxattr(&member, "user.heliograph.set", &mut [0; 64]).is_err() {
            helio_testkit::say_skipped("a file system that keeps extended attributes");
            return None;
        }
        story.keep("first", "paris");
        story.pair.helio("paris", &["snapshot", "create", "db@one"]).expect_success();
        write(&story, "paris");
        story.keep("snapshot", "paris");
        if let Some(mirror) = story.mirrors.get("paris").cloned() {
            let mirror = mirror.display().to_string();
            let member = |story: &Self, verb: &str| {
                story.pair.helio("paris", &["member", verb, "db/data", &mirror]).expect_success();
            };
            member(&story, "remove");
            write(&story, "paris");
            story.keep("removed", "paris");
            member(&story, "add");
            wait_members(&story.pair, "paris", ["full", "full"]);
            write(&story, "paris");
            story.keep("returned", "paris");
        }
        story.pair.daemon("paris").kill9();
        take_over(&story.pair, "lyon");
        write(&story, "lyon");
        story.pair.start("paris");
        let refused = |shown: &Value| shown["peer"]["connection"] == "refused";
        wait(&story.pair, "paris", "two copies that diverged", refused);
        let discard = ["resolve", "db", "--discard", "paris", "--yes"];
        story.pair.helio("paris", &discard).expect_success();
        story.keep("failover", "lyon");
        story.pair.helio("lyon", &["switch", "db"]).expect_success();
        write(&story, "paris");
        story.keep("switched", "paris");
        let last = Image::read(book.run(), &story.members("paris")[0]);
        book.assert_holds("paris", &last, Promise::Everything);
        for node in NODES {
            story.pair.daemon(node).terminate();
        }
        Some(story)
    }

    /// Every file that a step changed, with that step and one before it.
    fn choices(&self) -> Vec<(&'static str, String, usize, usize)> {
        let mut all = Vec::new();
        for (node, later) in
            NODES.into_iter().flat_map(|node| (1..self.steps.len()).map(move |n| (node, n)))
        {
            for (name, _) in self.files(node) {
                // A named limit: of a file that had no snapshot at the last start the metadata knows nothing.
                if name.ends_with(".before") && self.steps[later] == "snapshot" {
                    continue;
                }
                let now = fs::read(self.kept(later, &name)).ok();
                for earlier in 0..later {
                    let before = fs::read(self.kept(earlier, &name)).ok();
                    if now.is_some() && before.is_some() && before != now {
                        all.push((node, name.clone(), earlier, later));
                    }
                }
            }
        }
        all
    }

    /// The daemon of a node, unless it ends by itself.
    fn start(&self, node: &str) -> Option<Daemon> {
        let mut daemon = Daemon::start(node, self.pair.config(), &self.pair.state(node));
        let runs = eventually(PATIENCE, "a daemon that runs, or its end", || {
            if has_ended(&daemon) {
                return Some(false);
            }
            let told = daemon.helio(&["status", "--json"]);
            told.shows_status().then_some(true)
        });
        if runs {
            return Some(daemon);
        }
        daemon.kill9();
        None
    }

    /// Whether everything that a node serves is what clients read at the end of that step.
    #[track_caller]
    fn serves(&self, (node, export): (&str, &str), step: usize, what: &str) {
        let (mut client, mut read) = (connect_to(&self.pair, node, export), vec![0; 1 << 20]);
        for at in (0..SIZE.0).step_by(read.len()) {
            client.read(at, &mut read).expect("it is served");
            let (at, held) = (at as usize, &self.held[step]);
            assert!(
                read == held[at..at + read.len()],
                "{what}: {node} serves old data of {export} at {at}"
            );
        }
    }

    /// A snapshot that a node has holds what clients read when it was created, or the node lists it as missing.
    #[track_caller]
    fn snapshot_serves(&self, node: &str, log: &str, what: &str) {
        let list = self.pair.helio(node, &["snapshot", "list", "db", "--json"]).json();
        let all = list["snapshots"].as_array().cloned().unwrap_or_default();
        if all.iter().any(|it| it["name"] == "one") {
            return self.serves((node, "data@one"), 0, what);
        }
        let missing = list["missing"].as_array().cloned().unwrap_or_default();
        let listed = missing.iter().any(|it| it["name"] == "one");
        let told = log.contains("the before-image file is older than the metadata");
        assert!(listed || told, "{what}: {node} lost its snapshot without a word: {log}");
    }

    /// Puts one file of a node back, starts both, and judges.
    fn judge(
        &mut self,
        (node, name, earlier, later): (&'static str, &str, usize, usize),
    ) -> String {
        let what = format!("{name} of step {} at {}", self.steps[earlier], self.steps[later]);
        for (file, path) in NODES.iter().flat_map(|node| self.files(node)) {
            let kept = self.kept(later, &file);
            if kept.exists() {
                put(&kept, &path);
            } else {
                fs::remove_file(&path).expect("it was there");
            }
        }
        let (_, path) =
            self.files(node).into_iter().find(|(file, _)| file == name).expect("it is there");
        put(&self.kept(earlier, name), &path);
        let logged: BTreeMap<&str, usize> =
            NODES.iter().map(|node| (*node, self.log(node).len())).collect();
        let daemons = NODES.iter().filter_map(|node| Some((*node, self.start(node)?)));
        let mut daemons: Vec<(&str, Daemon)> = daemons.collect();
        let nodes: Vec<&str> = daemons.iter().map(|(node, _)| *node).collect();
        let outcome = self.settled(&nodes, &what);
        let primary = |it: &&&str| group(&self.pair, it)["role"] == "primary";
        for primary in nodes.iter().filter(primary) {
            self.serves((primary, "data"), later, &what);
        }
        nodes.iter().for_each(|it| self.snapshot_serves(it, &self.log(it)[logged[it]..], &what));
        let promotes = outcome != LEVEL && nodes.contains(&node);
        if promotes && self.pair.helio(node, &["promote", "db"]).status.success() {
            self.serves((node, "data"), later, &what);
        }
        let full: Vec<PathBuf> = nodes.iter().flat_map(|node| self.full(node)).collect();
        for (_, daemon) in &mut daemons {
            daemon.terminate();
        }
        let outcome =
            if nodes.contains(&node) { outcome } else { self.log(node)[logged[node]..].to_owned() };
        if outcome == LEVEL {
            for member in full {
                let held = fs::read(&member).expect("it is there");
                assert!(held == self.held[later], "{what}: {} is old", member.display());
            }
        } else {
            // A node that ends says it in its log, with the hint of its error.
            assert!(outcome.contains("hint: ") || outcome.starts_with("next: "), "{outcome}");
        }
        format!("{what}: {outcome}")
    }

    /// What the daemons of a node logged so far.
    fn log(&self, node: &str) -> String {
        fs::read_to_string(self.pair.state(node).with_extension("log")).unwrap_or_default()
    }

    /// The members of a node that hold all of the volume.
    fn full(&self, node: &str) -> Vec<PathBuf> {
        let shown = group(&self.pair, node);
        let all = shown["volumes"][0]["members"].as_array().cloned().unwrap_or_default();
        let full = all.iter().filter(|member| member["state"] == "full");
        full.filter_map(|member| member["path"].as_str().map(PathBuf::from)).collect()
    }

    /// Waits until the copies are in sync, or a node names for some seconds what is to be done.
    #[track_caller]
    fn settled(&self, nodes: &[&str], what: &str) -> String {
        let mut named: Option<(Instant, String)> = None;
        eventually(PATIENCE, &format!("{what}: in sync, or the reason why not"), || {
            let shown: Vec<Value> = nodes.iter().map(|node| group(&self.pair, node)).collect();
            let is_level = |it: &Value| {
                it["role"] == "primary"
                    && it["state"] == "replicating"
                    && it["cursors"]["accepted"] == it["cursors"]["peer_durable"]
            };
            let copies = shown.iter().any(|it| {
                let members = it["volumes"][0]["members"].as_array();
                members.is_some_and(|all| all.iter().any(|member| member["state"] == "copying"))
                    || it["volumes"][0]["unmerged_bytes"] != 0
            });
            if nodes.len() == 2 && shown.iter().any(is_level) && !copies {
                return Some(LEVEL.to_owned());
            }
            let next = shown.iter().find_map(|it| it["next"].as_str());
            match (next, &named) {
                (Some(next), Some((since, _))) if since.elapsed() >= NAMED => {
                    return Some(format!("next: {next}"));
                }
                (Some(_), Some(_)) => {}
                (next, _) => named = next.map(|next| (Instant::now(), next.to_owned())),
            }
            None
        })
    }
}

fn has_ended(daemon: &Daemon) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", daemon.id())).unwrap_or_default();
    stat.rsplit(") ").next().is_none_or(|rest| rest.is_empty() || rest.starts_with('Z'))
}

/// Tries some choices of a story, drawn by its seed.
#[track_caller]
fn try_some(test: &'static str, members: usize, some: u64) {
    let mut dice = Dice::of_test(test);
    let Some(mut story) = Story::told(&dice, members) else { return };
    let mut choices = story.choices();
    let some = rounds(some).min(choices.len() as u64);
    println!("{some} of {} choices", choices.len());
    for _ in 0..some {
        let at = dice.below(choices.len() as u64) as usize;
        let (node, name, earlier, later) = choices.swap_remove(at);
        println!("{}", story.judge((node, &name, earlier, later)));
    }
}

#[test]
fn an_earlier_image_of_one_file_is_never_served_and_is_named() {
    try_some("an_earlier_image_of_one_file_is_never_served_and_is_named", 2, 12);
}

#[test]
fn an_earlier_image_of_one_file_of_volumes_with_one_member_is_never_served_and_is_named() {
    try_some(
        "an_earlier_image_of_one_file_of_volumes_with_one_member_is_never_served_and_is_named",
        1,
        8,
    );
}

#[test]
fn a_copy_that_was_made_while_the_daemon_ran_is_older_once_it_has_stopped() {
    let dice = Dice::of_test("a_copy_that_was_made_while_the_daemon_ran_is_older");
    let mut pair = Plan::new("db").mode(Mode::Sync).volume("data", SIZE).start();
    let (book, folder) = (Arc::new(Book::new(dice.seed())), TempDir::new());
    begin(&pair, "paris");
    SOME.run(&pair, "paris", &dice.fork(0), &book);
    wait_level(&pair, "paris");
    let member = pair.member("lyon", "data");
    if rustix::fs::getxattr(&member, "user.heliograph.set", &mut [0; 64]).is_err() {
        return helio_testkit::say_skipped("a file system that keeps extended attributes");
    }
    put(&member, &folder.join("backup"));
    SOME.run(&pair, "paris", &dice.fork(1), &book);
    wait_level(&pair, "paris");
    pair.daemon("lyon").terminate();
    put(&folder.join("backup"), &member);
    let mut daemon = Daemon::start("lyon", pair.config(), &pair.state("lyon"));
    eventually(PATIENCE, "its end", || has_ended(&daemon).then_some(()));
    daemon.kill9();
    let log = fs::read_to_string(pair.state("lyon").with_extension("log")).unwrap_or_default();
    assert!(log.contains("is older than the metadata"), "{log}");
    // The last way out that the log names: the peer has the writes that are missing in it.
    pair.helio("lyon", &["metadata", "accept", "db", "--yes"]).expect_success();
    pair.start("lyon");
    wait_level(&pair, "paris");
    assert_members_equal(&pair, "data");
    book.assert_holds("lyon", &Image::read(book.run(), &member), Promise::Everything);
}

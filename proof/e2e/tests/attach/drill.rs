// SPDX-License-Identifier: Apache-2.0
//! `helio drill`: its command writes to a copy of the secondary while replication continues; neither copy changes, and nothing is left,
//! however the drill ends.

use crate::common::{Stage, attachable, on};
use helio_e2e::{PATIENCE, assert_members_equal, begin, group, take_over, wait_level};
use helio_testkit::{Group, Plan, Told, eventually, helio_binary, require, run};
use helio_units::{Bytes, Mode};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// A command that says when it runs, and ends when it is told to.
const WAITS: &str = "mkfifo go && : > begun && read _ < go";

/// A pair whose secondary, lyon, is drilled.
struct Drills {
    // Dropped first: what a command left must not use a device when its daemon ends.
    rest: Rest,
    stage: Stage,
}

/// The processes of commands of drills, by the device in their environment; killed however the test ends.
struct Rest(String);

impl Rest {
    fn processes(&self) -> Vec<Pid> {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let ours = entries.filter(|entry| {
            let found = fs::read(entry.path().join("environ")).unwrap_or_default();
            found.split(|byte| *byte == 0).any(|variable| variable == self.0.as_bytes())
        });
        let id = |name: std::ffi::OsString| name.to_str()?.parse().ok();
        ours.filter_map(|entry| Pid::from_raw(id(entry.file_name())?)).collect()
    }

    fn kill(&self) {
        eventually(PATIENCE, "the command of a drill to end", || {
            let left = self.processes();
            // It can only fail for want of a receiver.
            left.iter().for_each(|process| _ = kill_process(*process, Signal::KILL));
            left.is_empty().then_some(())
        });
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Drills {
    fn new(mode: Mode) -> Self {
        let stage = Stage::new(mode, Bytes::mib(16));
        let device = format!("{}@drill", stage.link("lyon").display());
        Self { rest: Rest(format!("HELIO_DEVICE_DATA={device}")), stage }
    }

    #[track_caller]
    fn drill(&self, arguments: &[&str]) -> Told {
        self.stage.pair.helio("lyon", &[&["drill", "db"], arguments].concat())
    }

    /// Starts a drill, and returns when its command runs.
    #[track_caller]
    fn begin(&self, script: &str) -> Running {
        let folder = self.stage.pair.scratch().join("command");
        let _there_already = fs::create_dir(&folder);
        for left in ["go", "begun"] {
            let _not_there = fs::remove_file(folder.join(left));
        }
        let mut command = Command::new(helio_binary());
        command.args(["drill", "db", "--run", script]).current_dir(&folder);
        command.env("HELIO_STATE_DIR", self.stage.pair.state("lyon"));
        let files = ["out", "err"].map(|name| folder.join(name));
        let [out, err] = files.clone().map(|file| File::create(file).expect("room"));
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        let helio = Group::spawn(&mut command).expect("it starts");
        let running = Running { helio, folder, files };
        eventually(PATIENCE, "the command of the drill", || {
            running.folder.join("begun").exists().then_some(())
        });
        running
    }

    fn status(&self) -> Value {
        group(&self.stage.pair, "lyon")["drill"].take()
    }

    /// The rows of the status in text that are about drills, as one.
    fn shown(&self) -> String {
        let shown = self.stage.pair.helio("lyon", &["status", "db"]).stdout;
        let rows = shown.lines().skip_while(|row| !row.trim_start().starts_with("drill "));
        rows.flat_map(str::split_whitespace).collect::<Vec<_>>().join(" ")
    }

    /// Why the last drill failed.
    #[track_caller]
    fn failure(&self) -> String {
        self.status()["last"]["failure"].as_str().expect("it failed").to_owned()
    }

    /// No snapshot, device, mount or process of a drill is left.
    #[track_caller]
    fn assert_nothing_left(&self) {
        let list = self.stage.pair.helio("lyon", &["snapshot", "list", "db", "--json"]).json();
        assert_eq!(list["snapshots"], Value::Array(Vec::new()), "{list}");
        let list = self.stage.pair.helio("lyon", &["attach", "--list", "--json"]).json();
        assert_eq!(list["attachments"], Value::Array(Vec::new()), "{list}");
        assert_eq!(self.rest.processes(), []);
        self.stage.assert_nothing_left("lyon");
    }
}

/// A drill whose command runs.
struct Running {
    helio: Group,
    folder: PathBuf,
    files: [PathBuf; 2],
}

impl Running {
    /// Lets the command end.
    fn go(&self) {
        fs::write(self.folder.join("go"), "\n").expect("it waits");
    }

    /// How the drill ended, and what it printed.
    #[track_caller]
    fn end(mut self) -> (ExitStatus, [String; 2]) {
        let status = self.helio.wait_end(PATIENCE, "the drill");
        (status, self.files.map(|file| fs::read_to_string(file).expect("it was made")))
    }
}

fn write(device: &Path, byte: u8, at: u64) {
    let device = File::options().write(true).open(device).expect("a device");
    device.write_all_at(&[byte; 8192], at).and_then(|()| device.sync_all()).expect("room");
}

/// The first byte of a node's member behind that many MiB.
fn byte(stage: &Stage, node: &str, mib: u64) -> u8 {
    let mut found = [0];
    let member = File::open(stage.pair.member(node, "data")).expect("it is there");
    member.read_exact_at(&mut found, mib << 20).expect("it is read");
    found[0]
}

#[test]
fn a_drill_writes_to_its_copy_alone_while_replication_continues() {
    attachable!();
    let drills = Drills::new(Mode::Sync);
    let stage = &drills.stage;
    let device = stage.attach();
    write(&device, 1, 1 << 20);
    wait_level(&stage.pair, "paris");
    let events = stage.pair.helio("lyon", &["events", "--now", "--json"]).expect_success();
    let last: Value = serde_json::from_str(events.lines().last().expect("a row")).expect("JSON");
    let since = last["sequence"].to_string();
    let script = format!(
        "tr '\\0' '\\2' < /dev/zero | head -c 4194304 | dd of=$HELIO_DEVICE_DATA bs=1M iflag=fullblock conv=fsync,notrunc \
         && env | grep -E '^HELIO_(DEVICE|GROUP|NODE|SNAPSHOT)' | sort > environment && {WAITS} && echo read $(dd if=$HELIO_DEVICE_DATA bs=1M skip=2 count=1 | od -An -tu1 -N1)"
    );
    let running = drills.begin(&script);
    write(&device, 3, 2 << 20);
    eventually(PATIENCE, "the write on the secondary", || {
        (byte(stage, "lyon", 2) == 3).then_some(())
    });
    assert_eq!([byte(stage, "lyon", 1), byte(stage, "paris", 1)], [1, 1]);
    let environment = fs::read_to_string(running.folder.join("environment")).expect("written");
    let path = format!("{}@drill", stage.link("lyon").display());
    assert_eq!(
        environment.lines().collect::<Vec<_>>(),
        [
            &format!("HELIO_DEVICES={path}"),
            &format!("HELIO_DEVICE_DATA={path}"),
            "HELIO_GROUP=db",
            "HELIO_NODE=lyon",
            "HELIO_SNAPSHOT=drill"
        ]
    );
    running.go();
    let (status, [out, err]) = running.end();
    assert!(status.success(), "{out}{err}");
    assert!(out.starts_with("read 2\nthe drill of db on lyon succeeded in "), "{out}");
    drills.assert_nothing_left();
    let shown = drills.status();
    assert_eq!((&shown["last"], &shown["last"]["failure"]), (&shown["last_success"], &Value::Null));
    assert_eq!(shown["last"]["exit_status"], 0);
    assert!(
        shown["last"]["position"].is_u64() && shown["last"]["generation"].is_string(),
        "{shown}"
    );
    assert!(drills.shown().starts_with("drill succeeded "), "{}", drills.shown());
    let mut follow = Command::new(helio_binary());
    let heard = stage.pair.scratch().join("events");
    follow
        .args(["events", "--json", "--since", &since])
        .stdout(File::create(&heard).expect("room"));
    let _follower = Group::spawn(follow.env("HELIO_STATE_DIR", stage.pair.state("lyon")));
    eventually(PATIENCE, "the event of the drill", || {
        let text = fs::read_to_string(&heard).expect("it was made");
        let mut events = text.lines().filter_map(|row| serde_json::from_str::<Value>(row).ok());
        let is_end = |event: &Value| event["changed"]["drill"]["new"] == "succeeded";
        events.find(|event| is_end(event) && event["why"] == "a drill succeeded").map(|_| ())
    });
    stage.assert_mirrored();
}

#[test]
fn a_failed_drill_leaves_nothing_and_is_shown_beside_the_last_success() {
    attachable!();
    let mut drills = Drills::new(Mode::Async);
    let told = drills.drill(&["--json"]).json();
    assert_eq!((&told["succeeded"], &told["exit_status"]), (&Value::Bool(true), &Value::Null));
    drills.assert_nothing_left();
    let success = drills.status()["last"].take();

    let failed = drills.drill(&["--run", "echo from the command; exit 3", "--json"]);
    assert_eq!(failed.status.code(), Some(1), "{failed}");
    assert_eq!(failed.stderr.lines().next(), Some("from the command"), "{failed}");
    let told: Value = serde_json::from_str(&failed.stdout).expect("one object");
    assert_eq!(told["failure"], "the command ended with exit status 3");
    assert_eq!((&told["succeeded"], &told["exit_status"]), (&Value::Bool(false), &3.into()));
    drills.assert_nothing_left();

    // Killed with what it started, also where that left the process group or ignores SIGTERM.
    let script = "setsid sleep 600 & (trap '' TERM; sleep 600 & wait) & sleep 600";
    let late = drills.drill(&["--limit", "500ms", "--run", script]).expect_failure();
    assert!(
        late.contains("the command did not end within 500 ms\n  hint: allow more time"),
        "{late}"
    );
    drills.assert_nothing_left();

    let running = drills.begin(WAITS);
    let delete = ["snapshot", "delete", "db@drill", "--here", "--yes"];
    drills.stage.pair.helio("lyon", &delete).expect_success();
    running.go();
    let (status, [_, err]) = running.end();
    assert_eq!(status.code(), Some(1), "{err}");
    drills.assert_nothing_left();

    let check = |drills: &Drills| {
        assert_eq!(drills.status()["last_success"], success);
        assert_eq!(drills.failure(), "its snapshot was deleted before its end");
        let shown = drills.shown();
        assert!(shown.starts_with("drill failed ") && shown.contains("; last success "), "{shown}");
    };
    check(&drills);
    drills.stage.pair.daemon("lyon").kill9();
    drills.stage.pair.start("lyon");
    check(&drills);
    wait_level(&drills.stage.pair, "paris");
    assert_members_equal(&drills.stage.pair, "data");
}

#[test]
fn an_interrupted_drill_discards_everything_and_a_killed_one_leaves_it_to_the_next_command() {
    attachable!();
    let drills = Drills::new(Mode::Async);
    // A script can clear away before it is killed, also behind a shell that ends at once.
    let script = "trap \"sleep 1; : > stopped; exit 1\" TERM; : > begun; sleep 600 & wait";
    let traps = &format!("sh -c '{script}'; true");
    let mut running = drills.begin(traps);
    let second = drills.drill(&["--run", "true"]).expect_failure();
    assert!(second.contains("another drill is running, or one was interrupted"), "{second}");
    running.helio.signal(Signal::INT);
    let stopped = running.folder.join("stopped");
    let (status, [_, err]) = running.end();
    assert_eq!(status.code(), Some(1), "{err}");
    assert!(err.contains("helio was interrupted by signal 2"), "{err}");
    assert!(stopped.exists(), "the command did not receive SIGTERM");
    drills.assert_nothing_left();
    assert_eq!(drills.failure(), "helio was interrupted by signal 2");

    let mut running = drills.begin(WAITS);
    running.helio.kill();
    let refused = drills.drill(&[]).expect_failure();
    assert!(refused.contains("`helio drill db --discard` removes what"), "{refused}");
    drills.rest.kill();
    let told = drills.drill(&["--discard"]).expect_success();
    assert_eq!(told, "1 device(s) of a drill of db were detached, and its snapshot is deleted\n");
    drills.assert_nothing_left();
    let told = drills.drill(&["--discard"]).expect_success();
    assert_eq!(told, "nothing is left of a drill of db\n");
    drills.drill(&[]).expect_success();
}

#[test]
fn a_device_that_the_command_left_mounted_is_discarded_after_it_is_unmounted() {
    attachable!();
    require!("mke2fs");
    let drills = Drills::new(Mode::Async);
    let place = drills.stage.pair.scratch().join("mnt");
    fs::create_dir(&place).expect("room");
    let script =
        format!("mke2fs -q $HELIO_DEVICE_DATA && mount $HELIO_DEVICE_DATA {}", place.display());
    let failed = drills.drill(&["--run", &script]).expect_failure();
    assert!(failed.contains("not all removed") && failed.contains("is in use: "), "{failed}");
    let hint = "hint: unmount it or end the processes, then `helio drill db --discard`\n";
    assert!(failed.contains(hint), "{failed}");
    assert!(drills.failure().contains("is in use: "));
    on("umount", &[], &place).expect_success();
    drills.drill(&["--discard"]).expect_success();
    drills.assert_nothing_left();
}

#[test]
fn a_failover_does_not_wait_for_a_drill() {
    attachable!();
    let mut drills = Drills::new(Mode::Sync);
    let running = drills.begin(WAITS);
    let pair = &mut drills.stage.pair;
    pair.daemon("paris").kill9();
    assert!(!take_over(pair, "lyon"), "its volumes are consistent");
    let told = pair.helio("lyon", &["attach", "db/data"]).expect_success();
    write(Path::new(told.trim_end()), 4, 3 << 20);
    running.go();
    let (status, [out, err]) = running.end();
    assert!(status.success(), "{out}{err}");
    assert_eq!(byte(&drills.stage, "lyon", 3), 4);
    drills.stage.pair.helio("lyon", &["detach", "db/data"]).expect_success();
    drills.assert_nothing_left();
}

#[test]
fn a_drill_is_refused_on_a_primary_and_in_a_group_of_one_node() {
    let pair = Plan::new("db").volume("data", Bytes::mib(4)).start();
    begin(&pair, "paris");
    let refused = |pair: &helio_testkit::Pair, line: &[&str]| {
        let error = pair.helio("paris", &[&["drill", "db"], line].concat()).expect_failure();
        serde_json::from_str::<Value>(&error).unwrap_or_else(|why| panic!("{why}: {error}"))
    };
    let error = refused(&pair, &["--json"]);
    assert_eq!(
        (&error["code"], &error["hint"]),
        (&"is-primary".into(), &"run `helio drill db` on lyon".into())
    );
    assert_eq!(group(&pair, "paris")["drill"], Value::Null, "nothing was recorded");
    let one = Plan::new("db").only("paris").volume("data", Bytes::mib(4)).start();
    assert_eq!(refused(&one, &["--json"])["code"], "no-peer");
    let remote = ["drill", "db", "--host", "lyon:7000", "--key", "k", "--server-key"];
    let key = run(Command::new(helio_binary())
        .args(["key", "new", "--out"])
        .arg(pair.scratch().join("key")));
    let key = key.expect_success();
    let key = key.split('"').find(|part| part.starts_with("helio1:")).expect("a key");
    let error = pair.helio("lyon", &[&remote[..], &[key]].concat()).expect_failure();
    assert!(error.contains("the daemon is on another host"), "{error}");
}

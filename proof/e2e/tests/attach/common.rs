// SPDX-License-Identifier: Apache-2.0
//! A pair whose volume is attached, and what clears away after it however the test ends.

use helio_e2e::{PATIENCE, assert_members_equal, begin, wait_level};
use helio_testkit::{Pair, Plan, TempDir, Told, eventually, rounds, run, say_skipped};
use helio_units::{Bytes, Mode};
use rustix::mount::{UnmountFlags, unmount};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub(crate) const VOLUME: &str = "db/data";
pub(crate) const MODES: [Mode; 3] = [Mode::Sync, Mode::NearSync, Mode::Async];
/// So many rounds ask for everything, and not for a share that the seed chooses.
const FULL: u64 = 200;

/// Whether `HELIO_ROUNDS` asks for everything.
pub(crate) fn is_full() -> bool {
    rounds(0) >= FULL
}

/// The way volumes are attached in this run: `HELIO_VIA`, else FUSE, which every kernel has.
pub(crate) fn via() -> String {
    std::env::var("HELIO_VIA").unwrap_or_else(|_| String::from("fuse"))
}

/// Whether volumes can be attached here; says so where they cannot.
pub(crate) fn possible() -> bool {
    let open = |path: &str| fs::File::options().read(true).write(true).open(path).is_ok();
    let (needed, there) = match &*via() {
        "ublk" => ("root and ublk", open("/dev/ublk-control")),
        "nbd" => ("root and the kernel's NBD client", Path::new("/sys/module/nbd").exists()),
        _ => (
            "root, /dev/fuse and loop devices",
            open("/dev/fuse") && open("/dev/loop-control") && Path::new("/dev/loop0").exists(),
        ),
    };
    let there = there && rustix::process::geteuid().is_root();
    if !there {
        say_skipped(needed);
    }
    there
}

/// Ends a test here where volumes cannot be attached.
macro_rules! attachable {
    () => {
        if !$crate::common::possible() {
            return;
        }
    };
}
pub(crate) use attachable;

/// Both daemons, paris as primary, and places for names of devices and for mounts.
pub(crate) struct Stage {
    // Dropped in this order: what is mounted goes before who serves it.
    _clear: Clear,
    pub(crate) pair: Pair,
    devices: [TempDir; 2],
}

impl Stage {
    pub(crate) fn new(mode: Mode, size: Bytes) -> Self {
        Self::with(Plan::new("db").mode(mode).volume("data", size), |_| ())
    }

    /// Of any plan with a volume `data`; `before` sees the files before the daemons start.
    pub(crate) fn with(plan: Plan, before: impl FnOnce(&Pair)) -> Self {
        let devices = [TempDir::new(), TempDir::new()];
        let line = |at: &TempDir| format!("devices = {:?}", at.join("dev"));
        let plan = plan.node_line("lyon", &line(&devices[0]));
        let pair = plan.node_line("paris", &line(&devices[1])).prepare();
        // The members give space back.
        let table = "[group.db.volume.data]\n";
        edit(&pair, table, &format!("{table}sparse = true\n"));
        let clear = clear(&pair);
        let mut stage = Self { _clear: clear, pair, devices };
        before(&stage.pair);
        stage.pair.start("lyon");
        stage.pair.start("paris");
        begin(&stage.pair, "paris");
        stage
    }

    /// The stable name of the volume's device on a node.
    pub(crate) fn link(&self, node: &str) -> PathBuf {
        self.devices[usize::from(node == "paris")].join("dev").join(VOLUME)
    }

    /// Attaches the volume on paris, and returns its device.
    #[track_caller]
    pub(crate) fn attach(&self) -> PathBuf {
        let attach = ["attach", VOLUME, "--via", &via()];
        let path = self.pair.helio("paris", &attach).expect_success();
        let path = PathBuf::from(path.trim_end());
        assert_eq!(path, self.link("paris"));
        path
    }

    #[track_caller]
    pub(crate) fn detach(&self) {
        self.pair.helio("paris", &["detach", VOLUME]).expect_success();
    }

    /// What a node says of its only attached volume.
    #[track_caller]
    pub(crate) fn shown(&self, node: &str) -> Value {
        self.pair.helio(node, &["attach", "--list", "--json"]).json()["attachments"][0].take()
    }

    /// The file below a node's device, or the device where there is none.
    #[track_caller]
    pub(crate) fn file(&self, node: &str) -> PathBuf {
        let shown = self.shown(node);
        PathBuf::from(shown["file"].as_str().or(shown["path"].as_str()).expect("a path"))
    }

    /// Waits until a volume that is to be attached is, and returns its device.
    #[track_caller]
    pub(crate) fn attached(&self, node: &str) -> PathBuf {
        eventually(PATIENCE, "the device", || {
            let shown = self.shown(node);
            let path = shown["path"].as_str().map(PathBuf::from);
            path.filter(|_| shown["state"] == "attached")
        })
    }

    /// Mounts a device.
    #[track_caller]
    pub(crate) fn mount(&self, device: &Path) -> PathBuf {
        mount(&self.pair, device)
    }

    #[track_caller]
    pub(crate) fn unmount(&self) {
        unmount_of(&self.pair);
    }

    /// Waits until the copies are level, and holds them against each other.
    #[track_caller]
    pub(crate) fn assert_mirrored(&self) {
        wait_level(&self.pair, "paris");
        assert_members_equal(&self.pair, "data");
    }

    /// Nothing of an attached volume is left on a node.
    #[track_caller]
    pub(crate) fn assert_nothing_left(&self, node: &str) {
        let state = self.pair.state(node);
        assert!(fs::read_link(self.link(node)).is_err(), "the name is still there");
        assert_eq!(loops_below(&state), Vec::<PathBuf>::new());
        assert_eq!(mounts_below(&state), Vec::<PathBuf>::new());
        assert!(!state.join("attach/db").exists(), "the folder of the file is still there");
        eventually(PATIENCE, "the kernel to let go of devices", || {
            let ublk = fs::read_dir("/sys/class/ublk-char").into_iter().flatten().flatten();
            let blocks = fs::read_dir("/sys/block").into_iter().flatten().flatten();
            let nbd = blocks.filter(|block| block.path().join("backend").exists());
            (via() == "fuse" || ublk.count() + nbd.count() == 0).then_some(())
        });
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // What outlives the daemons must be given back while they are there.
        if via() != "fuse" {
            for node in ["paris", "lyon"] {
                let _not_attached = self.pair.helio(node, &["detach", VOLUME, "--force", "--yes"]);
            }
        }
    }
}

/// Replaces a part of the configuration.
#[track_caller]
pub(crate) fn edit(pair: &Pair, from: &str, to: &str) {
    let text = fs::read_to_string(pair.config()).expect("it was written");
    assert!(text.contains(from), "{from} is not in {text}");
    fs::write(pair.config(), text.replace(from, to)).expect("a folder of our own");
}

/// Mounts a device of a pair.
#[track_caller]
pub(crate) fn mount(pair: &Pair, device: &Path) -> PathBuf {
    let place = pair.scratch().join("mnt");
    fs::create_dir_all(&place).expect("a folder of our own");
    let mut mount = Command::new("mount");
    run(mount.arg(device).arg(&place)).expect_success();
    place
}

#[track_caller]
pub(crate) fn unmount_of(pair: &Pair) {
    run(Command::new("umount").arg(pair.scratch().join("mnt"))).expect_success();
}

/// Clears away after a pair, however its test ends.
pub(crate) fn clear(pair: &Pair) -> Clear {
    Clear { below: pair.scratch().join(".") }
}

/// Takes away every mount, and every loop device on a file, below a folder.
pub(crate) struct Clear {
    below: PathBuf,
}

impl Drop for Clear {
    fn drop(&mut self) {
        let below = self.below.canonicalize().unwrap_or_else(|_| self.below.clone());
        // File systems first: what they lie on is still served.
        for place in mounts_below(&below).iter().filter(|place| place.ends_with("mnt")) {
            let _gone_already = unmount(place, UnmountFlags::DETACH);
        }
        for device in loops_below(&below) {
            let _ends_with_its_last_user = Command::new("losetup").arg("-d").arg(device).status();
        }
        for place in mounts_below(&below) {
            // By force: who waits for a daemon that cannot die is told that there is none.
            let _gone_already = unmount(place, UnmountFlags::FORCE | UnmountFlags::DETACH);
        }
    }
}

fn mounts_below(folder: &Path) -> Vec<PathBuf> {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let places = table.lines().filter_map(|line| line.split(' ').nth(4)).map(PathBuf::from);
    places.filter(|place| place.starts_with(folder)).collect()
}

/// Loop devices on files below a folder.
pub(crate) fn loops_below(folder: &Path) -> Vec<PathBuf> {
    let blocks = fs::read_dir("/sys/block").into_iter().flatten().flatten();
    let ours = blocks.filter(|block| {
        let file = fs::read_to_string(block.path().join("loop/backing_file"));
        file.is_ok_and(|file| Path::new(file.trim_end()).starts_with(folder))
    });
    ours.map(|block| Path::new("/dev").join(block.file_name())).collect()
}

/// A process called `cat` that has a file open until its standard input ends.
pub(crate) fn holding(open: fs::File) -> Child {
    holding_as(Path::new("cat"), open)
}

/// The same, called otherwise.
pub(crate) fn holding_as(program: &Path, open: fs::File) -> Child {
    let mut cat = Command::new(program);
    cat.stdin(Stdio::piped()).stderr(open).spawn().expect("cat is everywhere")
}

/// The value of a device's queue, as the kernel shows it.
#[track_caller]
pub(crate) fn queue(device: &Path, what: &str) -> String {
    let node = fs::canonicalize(device).expect("a device");
    let name = node.file_name().expect("a node has a name");
    let file = Path::new("/sys/block").join(name).join("queue").join(what);
    fs::read_to_string(&file).expect("the kernel shows it").trim_end().to_owned()
}

/// Runs a program with these arguments and a path behind them.
#[track_caller]
pub(crate) fn on(program: &str, arguments: &[&str], path: &Path) -> Told {
    run(Command::new(program).args(arguments).arg(path))
}

/// Bytes that a node's member takes up.
#[track_caller]
pub(crate) fn allocated(stage: &Stage, node: &str) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let member = stage.pair.member(node, "data");
    fs::metadata(member).expect("it is there").blocks() * 512
}

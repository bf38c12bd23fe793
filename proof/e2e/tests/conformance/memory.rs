// SPDX-License-Identifier: Apache-2.0
//! The memory that a daemon may have: with too little it does not start, and with little it serves.

use crate::raw::Raw;
use crate::stage::{PATIENCE, amend, limited, memory, prepared, socket, start};
use helio_e2e::{begin, wait_level};
use helio_nbd::Client;
use helio_nbd::codec::command;
use helio_testkit::{Group, Pair, eventually, run, say_skipped};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

/// A control group that limits memory; it ends with the test.
struct ControlGroup {
    folder: PathBuf,
}

impl ControlGroup {
    /// `None`, and a line that says so, where none can be made.
    fn of(mib: u64) -> Option<Self> {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let own = |controller: &str| {
            let line = groups.lines().find(|line| line.contains(controller))?;
            line.rsplit(':').next().map(|path| path.trim_start_matches('/').to_owned())
        };
        let name = format!("helio-e2e-{}-{mib}", std::process::id());
        let first = own(":memory:").map(|own| Path::new("/sys/fs/cgroup/memory").join(own));
        let second = own("0::").map(|own| Path::new("/sys/fs/cgroup").join(own));
        let places = [(first, "memory.limit_in_bytes"), (second, "memory.max")];
        let made = places.into_iter().find_map(|(place, file)| {
            let group = Self { folder: place?.join(&name) };
            fs::create_dir(&group.folder).ok()?;
            let limit = fs::write(group.folder.join(file), (mib << 20).to_string());
            limit.is_ok().then_some(group)
        });
        if made.is_none() {
            say_skipped("a control group for memory");
        }
        made
    }

    /// A daemon of paris in this group.
    fn daemon(&self, pair: &Pair) -> Command {
        limited(pair, &format!("echo $$ > '{}'", self.folder.join("cgroup.procs").display()))
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // Its last process may not have been collected yet.
        let deadline = Instant::now() + Duration::from_secs(10);
        while fs::remove_dir(&self.folder).is_err() {
            if Instant::now() >= deadline {
                return eprintln!("{} is left behind", self.folder.display());
            }
            thread::yield_now();
        }
    }
}

#[test]
fn a_daemon_that_may_have_too_little_memory_does_not_start_and_says_how_much_it_needs() {
    let Some(group) = ControlGroup::of(128) else { return };
    let pair = prepared();
    let said = run(&mut group.daemon(&pair)).expect_failure();
    for part in ["limit of this process is 128 MiB", "give it 256 MiB", "MemoryMax="] {
        assert!(said.contains(part), "{part:?} is not in {said}");
    }
}

#[test]
fn a_resource_limit_counts_as_a_control_group_does() {
    let said = run(&mut limited(&prepared(), "ulimit -d 131072")).expect_failure();
    assert!(said.contains("limit of this process is 128 MiB"), "{said}");
}

#[test]
fn a_daemon_in_a_small_control_group_serves_clients_that_write_as_much_as_they_may() {
    let Some(group) = ControlGroup::of(256) else { return };
    let mut pair = prepared();
    amend(&pair, "[node.lyon]\n", "[node.lyon]\nbuffer-memory = \"192MiB\"\n");
    pair.start("lyon");
    let mut paris = Group::spawn(&mut group.daemon(&pair)).expect("sh");
    let path = socket(&pair, "paris");
    eventually(PATIENCE, "its socket", || path.exists().then_some(()));
    begin(&pair, "paris");
    thread::scope(|scope| {
        for n in 0..8_u8 {
            let path = &path;
            scope.spawn(move || {
                let mut client = Client::connect_unix(path, "db/data").expect("connects");
                let bytes = vec![n + 1; 32 << 20];
                for at in [0, 32 << 20, 0, 32 << 20] {
                    client.write(at, &bytes, false).expect("it takes it");
                }
                client.flush().expect("it is durable");
                client.read(0, &mut vec![0; 32 << 20]).expect("it is read");
            });
        }
    });
    assert!(paris.ended().is_none(), "it was killed");
    wait_level(&pair, "paris");
    println!("{} KiB after all of it", memory(paris.id()));
}

/// The longest read that may be.
const LONGEST: u64 = 32 << 20;

/// Both up, and paris may hold 64 MiB for clients.
fn with_little_memory() -> Pair {
    let pair = prepared();
    amend(&pair, "[node.paris]\n", "[node.paris]\nbuffer-memory = \"192MiB\"\n");
    start(pair)
}

/// A client that requests a long read and takes no reply.
fn deaf(pair: &Pair) -> Raw {
    let mut raw = Raw::unix(&socket(pair, "paris")).greet_well().enter("db/data");
    raw.request(command::READ, 0, 0, LONGEST);
    raw
}

#[test]
fn long_reads_wait_while_others_do_not_take_theirs_and_short_ones_do_not() {
    let mut pair = with_little_memory();
    let before = memory(pair.daemon("paris").id());
    let deaf: Vec<_> = (0..20).map(|_| deaf(&pair)).collect();
    let mut client = Client::connect_unix(socket(&pair, "paris"), "db/data").expect("connects");
    for n in 0..100 {
        client.read(n * 4096, &mut [0; 4096]).expect("a short read does not wait");
    }
    let grown = memory(pair.daemon("paris").id()).saturating_sub(before);
    assert!(grown < 200 << 10, "{grown} KiB for 20 reads of 32 MiB");
    drop(deaf);
    client.read(0, &mut vec![0; LONGEST as usize]).expect("a long one had to wait");
}

#[test]
fn a_client_that_does_not_take_its_replies_goes_when_others_wait_for_the_memory() {
    let mut pair = with_little_memory();
    let _deaf = [deaf(&pair), deaf(&pair)];
    let mut client = Client::connect_unix(socket(&pair, "paris"), "db/data").expect("connects");
    client.read(0, &mut vec![0; LONGEST as usize]).expect("it waited for its turn");
    let log = pair.daemon("paris").log();
    assert!(log.contains("it did not read its replies while reads of other clients"), "{log}");
}

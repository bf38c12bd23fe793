// SPDX-License-Identifier: Apache-2.0
//! File systems run full below the members of a volume: a full disk is no failed disk.

use helio_e2e::{
    assert_members_equal, assert_same_bytes, begin, connect, group, wait, wait_level, wait_members,
};
use helio_nbd::{Client, ClientError, ErrorCode};
use helio_testkit::{Pair, Plan, SmallFs, TempDir, require, say_skipped};
use helio_units::{Bytes, Mode};
use std::fs;

const MIB: usize = 1 << 20;
/// What a small file system holds, of which a filler takes some.
const ROOM: &str = "24m";
const FILLER: usize = 12;
const SIZE: Bytes = Bytes::mib(32);

/// A pair with paris as its primary, whose members on these nodes lie on small file systems.
struct Stage {
    pair: Pair,
    small: Vec<SmallFs>,
    _folder: TempDir,
}

impl Stage {
    /// None without the right to mount.
    fn new(nodes: &[&str]) -> Option<Self> {
        let folder = TempDir::new();
        let mut plan = Plan::new("db").mode(Mode::Sync).volume("data", SIZE);
        plan = plan.volume_line("sparse = true").volume_line("io = \"buffered\"");
        let mut small = Vec::new();
        for node in nodes {
            let fs = SmallFs::at(folder.join(node), ROOM)?;
            let member = fs.join("data.img");
            let made = fs::File::create(&member).and_then(|file| file.set_len(SIZE.0));
            made.expect("holes take no room");
            plan = plan.member(node, "data", &member);
            small.push(fs);
        }
        let pair = plan.start();
        begin(&pair, "paris");
        for fs in &small {
            fs::write(fs.join("filler"), vec![1; FILLER * MIB]).expect("there is room for it");
        }
        Some(Self { pair, small, _folder: folder })
    }

    fn make_room(&self) {
        self.small.iter().for_each(|fs| fs::remove_file(fs.join("filler")).expect("it is there"));
    }

    /// Both nodes are in sync, and nothing is left to do.
    #[track_caller]
    fn heals(&self) {
        wait_level(&self.pair, "paris");
        for node in ["paris", "lyon"] {
            wait(&self.pair, node, "ok", |group| group["verdict"]["word"] == "ok");
        }
        assert_members_equal(&self.pair, "data");
    }

    /// With room the next write succeeds, and the nodes become equal.
    #[track_caller]
    fn goes_on(&self, mut client: Client, written: usize) {
        self.make_room();
        write(&mut client, written).expect("there is room");
        assert_reads(&mut client, written + 1);
        client.disconnect().expect("it may go");
        self.heals();
    }

    /// What the status of both nodes says.
    #[track_caller]
    fn says(&self, part: &str) {
        for node in ["paris", "lyon"] {
            let said = |shown: &serde_json::Value| shown.to_string().contains(part);
            wait(&self.pair, node, part, said);
        }
    }
}

fn block(at: usize) -> Vec<u8> {
    vec![at as u8 + 1; MIB]
}

fn write(client: &mut Client, at: usize) -> Result<(), ClientError> {
    client.write((at * MIB) as u64, &block(at), false).and_then(|()| client.flush())
}

/// Writes one MiB after the other until there is no space. Returns how many were acknowledged.
#[track_caller]
fn fill(client: &mut Client) -> usize {
    for at in 0..SIZE.0 as usize / MIB {
        match write(client, at) {
            Ok(()) => {}
            Err(ClientError::Failed { source, .. }) => {
                assert_eq!(source.code, ErrorCode::NoSpace, "{source}");
                return at;
            }
            Err(why) => panic!("the connection ends: {why}"),
        }
    }
    panic!("there is room for all of it")
}

#[track_caller]
fn assert_reads(client: &mut Client, count: usize) {
    let mut bytes = vec![0; MIB];
    for at in 0..count {
        client.read((at * MIB) as u64, &mut bytes).expect("reads go on");
        assert!(bytes == block(at), "MiB {at} was acknowledged");
    }
}

#[test]
fn a_full_primary_fails_the_write_and_keeps_its_copy() {
    require!("mount", "umount");
    let Some(stage) = Stage::new(&["paris"]) else { return say_skipped("the right to mount") };
    let mut client = connect(&stage.pair, "paris");
    let count = fill(&mut client);
    assert!(count > 4, "{count} MiB fit");
    stage.says("no space left");
    let shown = group(&stage.pair, "paris");
    assert_eq!((&shown["consistent"], &shown["role"]), (&true.into(), &"primary".into()));
    assert_reads(&mut client, count);
    write(&mut client, 0).expect("it has its place");
    // The region of the failed write becomes equal although the disk is full.
    wait_level(&stage.pair, "paris");
    stage.goes_on(client, count);
}

#[test]
fn a_full_secondary_is_left_behind_and_resumes_by_itself() {
    require!("mount", "umount");
    let Some(stage) = Stage::new(&["lyon"]) else { return say_skipped("the right to mount") };
    let mut client = connect(&stage.pair, "paris");
    let count = SIZE.0 as usize / MIB - 10;
    (0..count).for_each(|at| write(&mut client, at).expect("the primary has room"));
    stage.says("free space on lyon (the resync then continues)");
    let shown = group(&stage.pair, "paris");
    assert!(shown["state"] != "replicating" && shown["consistent"] == true, "{shown}");
    assert_eq!(group(&stage.pair, "lyon")["consistent"], true, "it keeps the order");
    assert_reads(&mut client, count);
    client.disconnect().expect("it may go");
    stage.make_room();
    stage.heals();
}

#[test]
fn where_both_disks_are_full_every_acknowledged_byte_is_read_and_room_heals_it() {
    require!("mount", "umount");
    let both = ["paris", "lyon"];
    let Some(stage) = Stage::new(&both) else { return say_skipped("the right to mount") };
    let mut client = connect(&stage.pair, "paris");
    let count = fill(&mut client);
    stage.says("no space left");
    assert_reads(&mut client, count);
    for node in both {
        assert_eq!(group(&stage.pair, node)["consistent"], true, "{node} has a whole copy");
    }
    let ClientError::Failed { source, .. } = write(&mut client, count).expect_err("no room") else {
        panic!("the connection ends")
    };
    assert_eq!(source.code, ErrorCode::NoSpace);
    stage.goes_on(client, count);
}

#[test]
fn a_full_member_among_several_leaves_and_returns_by_itself() {
    require!("mount", "umount");
    let folder = TempDir::new();
    let Some(small) = SmallFs::at(folder.join("small"), ROOM) else {
        return say_skipped("the right to mount");
    };
    let mirror = small.join("data.img");
    let made = fs::File::create(&mirror).and_then(|file| file.set_len(SIZE.0));
    made.expect("holes take no room");
    let plan = Plan::new("db").mode(Mode::Sync).group_line("member-return = \"1s\"");
    let plan = plan.volume("data", SIZE).volume_line("sparse = true");
    let plan = plan.volume_line("io = \"buffered\"").mirror("paris", "data", &mirror);
    let mut pair = plan.start();
    begin(&pair, "paris");
    wait_members(&pair, "paris", ["full", "full"]);
    fs::write(small.join("filler"), vec![1; FILLER * MIB]).expect("there is room for it");
    let mut client = connect(&pair, "paris");
    let count = FILLER + 4;
    (0..count).for_each(|at| write(&mut client, at).expect("one member has room"));
    wait(&pair, "paris", "the member that left", |shown| {
        shown["volumes"][0]["members"][1]["state"] != "full"
    });
    assert_eq!(group(&pair, "paris")["state"], "replicating");
    assert_reads(&mut client, count);
    client.disconnect().expect("it may go");
    fs::remove_file(small.join("filler")).expect("it is there");
    wait_members(&pair, "paris", ["full", "full"]);
    wait_level(&pair, "paris");
    assert_members_equal(&pair, "data");
    assert!(pair.daemon("paris").terminate().success(), "paris stops cleanly");
    assert_same_bytes(&pair.member("paris", "data"), &mirror);
}

// SPDX-License-Identifier: Apache-2.0
//! `helio init`: what it writes serves, what it prints works, and nothing that exists is replaced.

use crate::common::{PATIENCE, assert_says};
use helio_testkit::{Dice, Group, TempDir, Told, eventually, free_port, helio_binary, run_within};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs `helio init` in a folder.
fn init(folder: &Path, options: &[&str]) -> Told {
    let mut command = Command::new(helio_binary());
    run_within(command.arg("init").args(options).current_dir(folder), PATIENCE)
}

/// The commands that it printed: the lines that are indented.
fn commands(printed: &str) -> Vec<String> {
    let lines = printed.lines().filter_map(|line| line.strip_prefix("  "));
    lines.map(str::to_owned).collect()
}

/// A command that finds this `helio` by its name.
fn shell(folder: &Path, text: &str) -> Command {
    let helio = helio_binary();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let ours = helio.parent().expect("a folder").to_owned();
    let path = std::env::join_paths([ours].into_iter().chain(std::env::split_paths(&path)));
    let mut command = Command::new("sh");
    command.args(["-c", text]).env("PATH", path.expect("a path of paths")).current_dir(folder);
    command
}

#[test]
fn the_commands_that_it_prints_make_a_mirrored_volume() {
    let scratch = TempDir::new();
    let nodes = format!("paris={},lyon={}", free_port(), free_port());
    let printed =
        init(scratch.path(), &["--nodes", &nodes, "--volume", "data=1MiB"]).expect_success();
    let commands = commands(&printed);
    assert_eq!(commands.len(), 7, "three for each node, and a promotion:\n{printed}");
    let paris = scratch.join("paris-data.img");
    let content: Vec<u8> = (0..1u32 << 20).map(|n| (n % 251) as u8).collect();
    fs::write(&paris, &content).expect("it was made");

    let mut daemons = Vec::new();
    for node in commands[..6].chunks(3) {
        let [copy, check, daemon] = node else { panic!("three commands: {node:?}") };
        run_within(&mut shell(scratch.path(), copy), PATIENCE).expect_success();
        let said = run_within(&mut shell(scratch.path(), check), PATIENCE).expect_success();
        assert!(!said.contains("FAIL"), "{said}");
        let mut command = shell(scratch.path(), &format!("{daemon} wait"));
        command.stdout(Stdio::null()).stderr(Stdio::null());
        daemons.push(Group::spawn(&mut command).expect("it starts"));
    }
    eventually(PATIENCE, "a primary", || {
        let told = run_within(&mut shell(scratch.path(), &commands[6]), PATIENCE);
        told.status.success().then_some(())
    });
    let status = "helio status db --json --state lyon";
    eventually(PATIENCE, "a mirrored volume", || {
        let status = run_within(&mut shell(scratch.path(), status), PATIENCE).json();
        (status["groups"][0]["state"] == "replicating").then_some(())
    });
    assert_eq!(fs::read(scratch.join("lyon-data.img")).expect("it was made"), content);
    let key = scratch.join("paris/node.key").metadata().expect("it was moved there");
    assert_eq!(key.permissions().mode() & 0o777, 0o600);
}

/// A name of the documented alphabet.
fn name(dice: &mut Dice) -> String {
    let firsts = ["a", "Z", "7", "_"];
    let letters = ["b", "Y", "0", "-", "_", ".", ".."];
    let count = dice.below(20);
    let first = (*dice.pick(&firsts)).to_owned();
    (0..count).fold(first, |name, _| name + *dice.pick(&letters))
}

#[test]
fn names_of_the_whole_alphabet_get_a_file_that_can_be_used() {
    let mut dice = Dice::of_test("names_of_the_whole_alphabet_get_a_file_that_can_be_used");
    let mut drawn = || ["1.node-a", "2.node-b", "", ""].map(|mark| name(&mut dice) + mark);
    let documented = ["paris.example.com", "lyon.example.com", "my.db", "v1.0"].map(str::to_owned);
    for [one, other, group, volume] in [documented, drawn(), drawn(), drawn()] {
        let scratch = TempDir::new();
        let nodes = format!("{one}={},{other}={}", free_port(), free_port());
        let volume = format!("{volume}=1MiB");
        let options = ["--nodes", &nodes, "--group", &group, "--volume", &volume];
        let printed = init(scratch.path(), &options).expect_success();
        let commands = commands(&printed);
        for node in commands[..6].chunks(3) {
            run_within(&mut shell(scratch.path(), &node[0]), PATIENCE).expect_success();
            let said = run_within(&mut shell(scratch.path(), &node[1]), PATIENCE).expect_success();
            assert!(!said.contains("FAIL"), "{nodes} {group} {volume}: {said}");
        }
    }
}

#[test]
fn nothing_that_exists_is_replaced_and_the_same_again_changes_nothing() {
    let scratch = TempDir::new();
    let said = init(scratch.path(), &[]).expect_success();
    assert_says(
        &said,
        &["wrote heliograph.toml, paris.key, lyon.key", "helio promote db --state paris"],
    );
    let files = ["heliograph.toml", "paris.key", "lyon.key", "paris-data.img", "lyon-data.img"];
    let read = || files.map(|file| fs::read(scratch.join(file)).expect("it is there"));
    let before = read();
    let again = init(scratch.path(), &[]).expect_success();
    assert_says(&again, &["wrote nothing new"]);
    let hint = "hint: name another directory with --dir";
    let other = init(scratch.path(), &["--group", "web"]).expect_failure();
    assert_says(&other, &["heliograph.toml exists and is not replaced", hint]);
    let larger = init(scratch.path(), &["--volume", "data=128MiB"]).expect_failure();
    assert_says(&larger, &["paris-data.img holds 64 MiB", "volume data is 128 MiB", "hint: "]);
    assert_eq!(read(), before);
    fs::remove_file(scratch.join("lyon.key")).expect("it is there");
    let said = init(scratch.path(), &[]).expect_failure();
    assert_says(&said, &["heliograph.toml exists and is not replaced", hint]);
    assert!(!scratch.join("lyon.key").exists(), "no key is made that the file does not name");
}

#[test]
fn what_an_interrupted_one_left_is_used_by_the_next() {
    let scratch = TempDir::new();
    init(scratch.path(), &[]).expect_success();
    let key = fs::read(scratch.join("paris.key")).expect("it was made");
    for lost in ["heliograph.toml", "lyon.key", "lyon-data.img"] {
        fs::remove_file(scratch.join(lost)).expect("it was made");
    }
    let said = init(scratch.path(), &[]).expect_success();
    assert_says(&said, &["wrote heliograph.toml, lyon.key, ", "lyon-data.img"]);
    assert_eq!(fs::read(scratch.join("paris.key")).expect("it stays"), key);
}

#[test]
fn what_it_cannot_set_up_is_refused_and_leaves_nothing() {
    let scratch = TempDir::new();
    let one = ["--nodes", "paris=192.0.2.1"];
    let twins = ["--nodes", "paris=192.0.2.1,paris=192.0.2.2"];
    let unknown = ["--volume", "data=/dev/helio-none:/dev/helio-none-2"];
    let shared = ["--volume", "data=1MiB:/srv/data.img"];
    let uneven = ["--volume", "data=1000B"];
    let one_host = ["--nodes", "paris=192.0.2.1,lyon=192.0.2.1:7122"];
    let link_local = ["--nodes", "paris=fe80::1,lyon=192.0.2.2"];
    let of_interface = ["--nodes", "paris=fe80::1%lo,lyon=192.0.2.2"];
    for (options, phrase) in [
        (one, "--nodes names 1 nodes, and a group has two"),
        (twins, "both nodes are called paris"),
        (unknown, "the size of volume data is not known"),
        (shared, "cannot be the member of data on both nodes"),
        (uneven, "multiple of 512"),
        (one_host, "paris and lyon have one address, 192.0.2.1"),
        (link_local, "the address of paris, is link-local"),
        (of_interface, "the address of paris, is link-local"),
    ] {
        let said = init(scratch.path(), &options).expect_failure();
        assert_says(&said, &[phrase, "hint: "]);
        assert_eq!(fs::read_dir(scratch.path()).expect("a folder").count(), 0, "{options:?}");
    }
    for options in [["--group", "d\u{e4}ta"], ["--nodes", "paris"], ["--volume", "data=much"]] {
        assert_eq!(init(scratch.path(), &options).status.code(), Some(2), "{options:?}");
    }
}

#[test]
fn two_hosts_get_commands_that_copy_check_and_start_over_ssh() {
    let scratch = TempDir::new();
    let nodes = ["--nodes", "paris=192.0.2.1,lyon=[2001:db8::2]:7000"];
    let volumes = ["--volume", "data=1GiB:/dev/vg0/data:/dev/sdb", "--volume", "log=64MiB"];
    let printed = init(scratch.path(), &[&nodes[..], &volumes].concat()).expect_success();
    let text = fs::read_to_string(scratch.join("heliograph.toml")).expect("it was written");
    assert_says(&text, &["address = \"192.0.2.1:7121\"", "address = \"[2001:db8::2]:7000\""]);
    assert_says(&text, &["members.paris = [\"/dev/vg0/data\"]", "members.lyon = [\"/dev/sdb\"]"]);
    assert_says(&text, &["members.paris = [\"/var/lib/heliograph/log.img\"]"]);
    let phrases = [
        "ssh root@192.0.2.1 'mkdir -p /etc/heliograph",
        "test ! -e /etc/heliograph/heliograph.toml && test ! -e /var/lib/heliograph/node.key",
        "test ! -e /var/lib/heliograph/log.img && fallocate -l 67108864 /var/lib/heliograph/log.img'",
        "scp -p lyon.key 'root@[2001:db8::2]:/var/lib/heliograph/node.key' && rm lyon.key",
        "ssh root@192.0.2.1 helio check --node paris",
        "ssh root@2001:db8::2 systemctl enable --now helio",
        "run\nthe daemon on that host: helio daemon --node paris",
        "ssh root@192.0.2.1 helio promote db",
    ];
    assert_says(&printed, &phrases);
    assert!(!printed.contains("fallocate -l 1073741824"), "devices are not made");
    // A daemon in the foreground ends with the connection.
    assert!(!printed.contains(" helio daemon --node lyon"), "{printed}");
}

// SPDX-License-Identifier: Apache-2.0
//! What `helio check` finds before the first start: by the daemon's own judges, so that both say the same. Every refusal in
//! the other files here is checked too (`common::refusal`).

use crate::common::{assert_says, fails, findings, promote, refusal, refusal_under, rewrite, verb};
use helio_testkit::{Pair, Plan, SmallFs, TempDir, require, say_skipped};
use helio_units::Bytes;
use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

fn prepared() -> Pair {
    Plan::new("db").volume("data", Bytes::mib(1)).prepare()
}

fn keyed() -> Pair {
    Plan::new("db").keys().volume("data", Bytes::mib(1)).prepare()
}

/// The one finding about this.
#[track_caller]
fn found(pair: &Pair, node: &str, what: &str) -> (String, String) {
    let told = verb(&[], "check", node, pair.config(), &pair.state(node));
    let all = findings(&told);
    let of = |it: &&serde_json::Value| it["what"].as_str().is_some_and(|w| w.starts_with(what));
    let it = all.iter().find(of).unwrap_or_else(|| panic!("nothing about {what}: {told}"));
    let text = |key: &str| it[key].as_str().unwrap_or_default().to_owned();
    (text("verdict"), format!("{}\n{}", text("why"), text("hint")))
}

#[test]
fn a_node_that_is_ready_fails_nothing_and_nothing_is_made() {
    let pair = keyed();
    let state = pair.state("paris");
    let list = |folder: &Path| {
        let mut names: Vec<_> = fs::read_dir(folder).expect("a folder").flatten().collect();
        names.sort_by_key(fs::DirEntry::file_name);
        names
            .iter()
            .map(|entry| (entry.file_name(), entry.metadata().expect("there").len()))
            .collect::<Vec<_>>()
    };
    let before = (list(&state), fs::read(pair.member("paris", "data")).expect("a file"));
    let told = verb(&[], "check", "paris", pair.config(), &state);
    assert_eq!(fails(&told), [], "{told}");
    assert_eq!((list(&state), fs::read(pair.member("paris", "data")).expect("a file")), before);
    for what in [
        "configuration",
        "state directory",
        "key",
        "peer address",
        "member of db/data",
        "metadata of db",
    ] {
        assert_eq!(found(&pair, "paris", what).0, "ok", "{what}");
    }
    let (verdict, text) = found(&pair, "paris", "peer lyon");
    assert_eq!(verdict, "warn", "a peer that does not run yet is no failure");
    assert_says(&text, &["cannot be reached now", "helio daemon --node lyon"]);
}

#[test]
fn beside_the_running_daemon_what_it_holds_is_not_in_the_way() {
    let mut pair = keyed();
    pair.start("paris");
    pair.start("lyon");
    promote(&pair, "paris");
    for node in ["paris", "lyon"] {
        let told = verb(&[], "check", node, pair.config(), &pair.state(node));
        assert_eq!(fails(&told), [], "{told}");
    }
    let (verdict, text) = found(&pair, "lyon", "peer paris");
    assert_eq!(verdict, "ok", "{text}");
    assert_says(&text, &["responds in", "proved its key and accepts the key of this node"]);
    // In words, for people.
    let said = pair.check("paris");
    assert_says(
        &said.expect_success(),
        &["ok    state directory: ", "is used by the running daemon of paris"],
    );
}

#[test]
fn beside_the_running_daemon_sizes_that_the_next_start_refuses_are_found() {
    let mut pair = prepared();
    pair.start("paris");
    rewrite(&pair, "size = \"1MiB\"", "size = \"2MiB\"");
    let found = fails(&verb(&[], "check", "paris", pair.config(), &pair.state("paris")));
    let said = format!("{found:#?}");
    assert_says(&said, &["data 2 MiB in the configuration and data 1 MiB in the running daemon"]);
    assert!(!said.contains("nlarge"), "a member that is enlarged is refused, too: {said}");
    assert!(pair.daemon("paris").terminate().success());
    refusal("paris", pair.config(), &pair.state("paris"));
}

#[test]
fn beside_a_daemon_that_does_not_serve_a_group_the_reason_is_found() {
    let mut pair = prepared();
    let second = pair.scratch().file("paris-web.img", Bytes::mib(1));
    let text = fs::read_to_string(pair.config()).expect("it was written");
    let (first, group) = text.split_once("[group.db]").expect("a group");
    let web = group.replace("group.db", "group.web").replace("-data.img", "-web.img");
    pair.scratch().write("heliograph.toml", &format!("{first}[group.db]{group}\n[group.web]{web}"));
    fs::remove_file(&second).expect("it was made");
    pair.start("paris");
    let told = verb(&[], "check", "paris", pair.config(), &pair.state("paris"));
    let [(why, hint)] = &fails(&told)[..] else { panic!("one group of two is not served: {told}") };
    assert_says(why, &["it does not exist"]);
    let status = pair.status("paris");
    assert_eq!(status["failed"][0]["name"], "web", "{status}");
    assert_says(&status["failed"][0].to_string(), &["it does not exist"]);
    assert_says(hint, &["fallocate -l 1048576"]);
}

#[test]
fn keys_that_are_swapped_missing_or_readable_by_others_are_named() {
    let pair = keyed();
    let (config, state) = (pair.config(), pair.state("paris"));
    let key = state.join("node.key");
    fs::set_permissions(&key, Permissions::from_mode(0o644)).expect("it is ours");
    let said = refusal("paris", config, &state);
    assert_says(&said, &["other users may read it (mode 0644)", "hint: chmod 600"]);
    fs::set_permissions(&key, Permissions::from_mode(0o600)).expect("it is ours");

    let theirs = pair.state("lyon").join("node.key");
    let (ours, other) = (fs::read(&key).expect("a key"), fs::read(&theirs).expect("a key"));
    fs::write(&key, &other).expect("it is ours");
    fs::write(&theirs, &ours).expect("it is ours");
    for (node, peer) in [("paris", "lyon"), ("lyon", "paris")] {
        let said = refusal(node, config, &pair.state(node));
        let whose = format!("contains the key of {peer} (helio1:");
        let hint =
            format!("hint: copy the node.key of this node here, and that of {peer} to {peer}");
        assert_says(&said, &[&whose, &hint]);
    }
    assert_eq!(fs::read(&key).expect("a key"), other, "nothing was changed");
    fs::remove_file(&key).expect("it is there");
    let said = refusal("paris", config, &state);
    assert_says(&said, &["the node's private key is missing", "hint: ", "helio key new"]);
}

#[test]
fn a_peer_with_another_key_is_a_warning_with_what_to_compare() {
    let mut pair = keyed();
    pair.start("lyon");
    let scratch = TempDir::new();
    let other =
        helio_testkit::helio(&["key", "new", "--out", &scratch.join("k").display().to_string()]);
    let other = other.expect_success();
    let text = fs::read_to_string(pair.config()).expect("it was written");
    let lyon = text.split("[node.lyon]").nth(1).expect("a table");
    let key = lyon.lines().find(|line| line.starts_with("key")).expect("a key").to_owned();
    rewrite(&pair, &key, other.trim());
    let (verdict, text) = found(&pair, "paris", "peer lyon");
    assert_eq!(verdict, "warn", "{text}");
    assert_says(&text, &["is not configured on this node", "helio key show", "[node.lyon]"]);
}

#[test]
fn a_port_below_1024_needs_a_user_that_may_use_it() {
    require!("setpriv");
    let start = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    if start.is_ok_and(|text| text.trim() != "1024") {
        say_skipped("ports that are privileged");
        return;
    }
    let pair = prepared();
    let text = fs::read_to_string(pair.config()).expect("it was written");
    let paris = text.split("[node.paris]").nth(1).expect("a table");
    let address = paris.split('"').nth(1).expect("an address").to_owned();
    rewrite(&pair, &address, "127.0.0.1:7");
    let under = ["setpriv", "--bounding-set=-net_bind_service", "--inh-caps=-net_bind_service"];
    let said = refusal_under(&under, "paris", pair.config(), &pair.state("paris"));
    assert_says(
        &said,
        &["cannot listen on 127.0.0.1:7: Permission denied", "use a port above 1023"],
    );
}

#[test]
fn too_few_file_descriptors_are_named_with_how_many_clients_would_do() {
    require!("prlimit");
    let pair = prepared();
    let said = refusal_under(
        &["prlimit", "--nofile=400:400"],
        "paris",
        pair.config(),
        &pair.state("paris"),
    );
    assert_says(
        &said,
        &["file descriptors may be needed", "the hard limit is 400", "set `clients = "],
    );
    assert!(!pair.state("paris").exists(), "nothing is left behind");
}

#[test]
fn names_in_unicode_or_too_long_are_refused() {
    let long = "g".repeat(64);
    for name in ["d\u{e4}ta", "\u{6570}\u{636e}", &long] {
        let pair = prepared();
        rewrite(&pair, "[group.db]", &format!("[group.\"{name}\"]"));
        rewrite(&pair, "[group.db.volume", &format!("[group.\"{name}\".volume"));
        let said = refusal("paris", pair.config(), &pair.state("paris"));
        assert_says(&said, &[name, "63", "hint: "]);
        assert!(!pair.state("paris").exists(), "nothing is left behind");
    }
}

#[test]
fn a_state_directory_that_cannot_be_one_is_named() {
    let pair = prepared();
    let file = pair.scratch().write("file", "no directory");
    for state in [file.clone(), file.join("state")] {
        let said = refusal("paris", pair.config(), &state);
        let name = file.display().to_string();
        assert_says(&said, &["the state directory", &name, "Not a directory", "hint: ", "--state"]);
    }
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "no directory");
    // Metadata that cannot be read: something else is in its place.
    let groups = pair.state("paris").join("groups");
    fs::create_dir_all(groups.join("db.meta")).expect("the names are free");
    let said = refusal("paris", pair.config(), &pair.state("paris"));
    assert_says(&said, &["db.meta cannot be opened: Is a directory", "hint: "]);
}

#[test]
fn read_only_and_full_file_systems_are_named_and_nothing_is_left_on_them() {
    require!("mount", "umount");
    let pair = prepared();
    let Some(small) = SmallFs::at(pair.scratch().join("small"), "64k") else {
        say_skipped("the right to mount");
        return;
    };
    let state = small.join("state");
    // Its metadata takes 96 KiB; 16 KiB are left.
    fs::write(small.join("full"), vec![1; 48 << 10]).expect("there is room for it");
    let said = refusal("paris", pair.config(), &state);
    assert_says(&said, &["db.meta", "No space left on device", "hint: free space"]);
    let meta = state.join("groups/db.meta").metadata();
    assert_eq!(meta.map_or(0, |facts| facts.len()), 0, "no half of a record is left");
    fs::remove_dir_all(&state).expect("it is there");
    small.read_only();
    let said = refusal("paris", pair.config(), &state);
    assert_says(&said, &["the state directory", "Read-only file system", "hint: ", "--state"]);
    assert!(!state.exists());
    // A member there is read-only too.
    let member = pair.member("paris", "data").display().to_string();
    rewrite(&pair, &member, &small.join("full").display().to_string());
    let said = refusal("paris", pair.config(), &pair.state("paris"));
    assert_says(&said, &["member of db/data", "it is read-only", "read-write"]);
}

#[test]
fn a_member_without_room_for_all_of_it_is_named_before_it_takes_what_there_is() {
    require!("mount", "umount");
    let pair = prepared();
    let Some(small) = SmallFs::at(pair.scratch().join("small"), "512k") else {
        say_skipped("the right to mount");
        return;
    };
    let member = small.join("data.img");
    let made = fs::File::create(&member).expect("it is empty");
    made.set_len(1 << 20).expect("holes take no room");
    drop(made);
    rewrite(
        &pair,
        &pair.member("paris", "data").display().to_string(),
        &member.display().to_string(),
    );
    rewrite(&pair, "[group.db.volume.data]\n", "[group.db.volume.data]\nio = \"buffered\"\n");
    let said = refusal("paris", pair.config(), &pair.state("paris"));
    assert_says(&said, &["not enough space to allocate 1 MiB", "make room"]);
    assert_eq!(fs::read(&member).expect("it is there"), vec![0; 1 << 20]);
    assert!(!pair.state("paris").join("groups/db.meta").exists(), "the first record does not stay");
}

#[test]
fn a_socket_buffer_beyond_the_kernels_limit_is_a_warning() {
    let plan = Plan::new("db").volume("data", Bytes::mib(1));
    let pair = plan.group_line("link = { receive-buffer = \"512MiB\" }").prepare();
    let (verdict, text) = found(&pair, "paris", "socket buffers of db");
    if Path::new("/proc/sys/net/core/rmem_max").exists() {
        assert_eq!(verdict, "warn", "{text}");
        assert_says(&text, &["receive-buffer = 512 MiB", "sysctl -w net.core.rmem_max=536870912"]);
    }
}

#[test]
fn a_reader_that_closes_its_pipe_ends_a_check() {
    let pair = prepared();
    let mut command = Command::new(helio_testkit::helio_binary());
    command.args(["check", "--node", "paris", "--config"]).arg(pair.config());
    command.arg("--state").arg(pair.state("paris")).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    child.wait().expect("it ends");
    assert!(!said.contains("panicked"), "{said}");
}

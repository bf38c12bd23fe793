// SPDX-License-Identifier: Apache-2.0
use super::*;
use helio_driver::Linux;

mod alerts;
mod one_node;
mod retain;

const GOOD: &str = r#"[node.paris]
address = "127.0.0.1:7121"
[node.lyon]
address = "127.0.0.1:7122"

[group.db]
nodes = ["paris", "lyon"]
mode = "async"
queue = { memory = "64MiB", when-full = { connected = "block", disconnected = "log" } }

[group.db.volume.data]
size = "1GiB"
members.paris = ["/dev/vg0/data"]
members.lyon = ["/dev/vg0/data"]
"#;

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(text, "helio.toml")
}

/// What is said of the good file with one text in the place of another.
fn said(from: &str, to: &str) -> String {
    assert!(GOOD.contains(from), "{from:?} is not in the good file");
    match parse(&GOOD.replace(from, to)) {
        Ok(_) => panic!("{to:?} was taken"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_good_file_means_what_it_says() {
    let config = parse(GOOD).expect("reads");
    let group = &config.groups["db"];
    assert_eq!((group.mode, group.queue.memory), (Mode::Async, Some(Bytes::mib(64))));
    assert_eq!(group.volumes["data"].size, Bytes::gib(1));
    assert_eq!((group.timeouts.peer, group.autosync), (Duration::from_secs(6), true));
    let view = config.for_node("lyon").expect("is there");
    assert_eq!(
        (view.groups[0].peer.map(|it| it.name), view.node.listen.port()),
        (Some("paris"), 7122)
    );
}

/// A text of the good file and what takes its place; what is said then, and the hint.
type Case = ((&'static str, &'static str), &'static str, &'static str);

const CASES: &[Case] = &[
    (
        ("mode = \"async\"", "hooks = { freeze = \"/bin/freeze\" }"),
        "helio.toml:8:20: group db, hooks: `freeze` is set without `thaw`",
        "set `thaw`, too; /bin/true does nothing",
    ),
    (
        ("mode = \"async\"", "hooks = { fence = \"fence-it\" }"),
        "helio.toml:8:19: group db, hooks: `fence` = \"fence-it\" is not an absolute path",
        "start it with `/`",
    ),
    (
        ("mode = \"async\"", "mood = \"async\""),
        "helio.toml:8:1: group db: unknown key `mood`",
        "known here: nodes, mode, period, queue, peer-timeout, flush-limit, member-timeout, member-return, copy-transfer, merge-delay-factor, copy-priority, hold, autosync, on-error, granularity, hot-extents, resync, safe-copy, safe-copy-dir, retain, link, alerts, hooks, volume",
    ),
    (
        ("mode = \"async\"", "mode = \"superasync\""),
        "helio.toml:8:8: group db: mode `superasync` needs the disk queue, which this version does not have",
        "use async",
    ),
    (
        ("[\"paris\", \"lyon\"]", "[\"paris\", \"rome\"]"),
        "helio.toml:7:19: group db: node `rome` is not declared",
        "add [node.NAME] for it, or correct the name",
    ),
    (
        ("[\"paris\", \"lyon\"]", "[\"paris\"]"),
        "helio.toml:8:8: group db: `mode` needs two nodes, and the group has one",
        "leave it out, or name a second node",
    ),
    (
        ("[\"paris\", \"lyon\"]", "[]"),
        "helio.toml:7:9: group db: names 0 nodes; a group has one or two",
        "name one node or two",
    ),
    (
        ("size = \"1GiB\"", "size = \"1000B\""),
        "helio.toml:12:8: group db, volume data: size of 1000 bytes is not a whole number of sectors",
        "use a multiple of 512 bytes, and not zero",
    ),
    (
        ("members.lyon = [\"/dev/vg0/data\"]\n", ""),
        "helio.toml:11:18: group db, volume data: has no member on node lyon",
        "add members.lyon = [\"/PATH\"]",
    ),
    (
        (
            "members.lyon = [\"/dev/vg0/data\"]",
            "members.lyon = [\"/a\", \"/b\", \"/c\", \"/d\", \"/e\", \"/f\", \"/g\"]",
        ),
        "helio.toml:14:16: group db, volume data: has 7 members on node lyon",
        "name at most 6 members",
    ),
    (
        ("127.0.0.1:7122", "127.0.0.1:7121"),
        "helio.toml:4:11: node lyon: address 127.0.0.1:7121 is already used by node paris",
        "give each node an address of its own",
    ),
    (
        ("127.0.0.1:7122", "10.0.0.1:7122"),
        "helio.toml:4:11: node lyon: `address` 10.0.0.1:7122 is not a loopback address, and the node has no key",
        "create one with `helio key new` on that node and put it here as key = \"helio1:...\", or use 127.0.0.1 or \
         [::1]",
    ),
    (
        (
            "127.0.0.1:7122\"",
            "127.0.0.1:7122\"\nkey = \"helio1:BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwfWZVYx\"",
        ),
        "helio.toml:8:10: group db: node `lyon` has a key and node `paris` has none",
        "give node paris one too: `helio key new` on it",
    ),
    (
        (
            "127.0.0.1:7122\"",
            "127.0.0.1:7122\"\nkey = \"helio1:BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwfWZVYy\"",
        ),
        "helio.toml:5:7: node lyon: \"helio1:BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwfWZVYy\" is not a public key: mistyped: its check digits do not match; copy it once more",
        "paste the output of `helio key show` on that node",
    ),
    (
        ("127.0.0.1:7122\"", "127.0.0.1:7122\"\nnbd = \"0.0.0.0:10809\""),
        "helio.toml:5:7: node lyon: `nbd` 0.0.0.0:10809 is not a loopback address, and NBD asks for no password",
        "add [node.NAME.tls] with certificate, key, client-ca and required = true, or use 127.0.0.1",
    ),
    (
        ("127.0.0.1:7122\"", "127.0.0.1:7122\"\ncontrol = \"127.0.0.1:7200\""),
        "helio.toml:5:11: node lyon: accepts commands at 127.0.0.1:7200, but the node has no key",
        "add key = \"helio1:...\" to the node",
    ),
    (
        ("127.0.0.1:7122\"", "127.0.0.1:7122\"\nspin = \"1s\""),
        "helio.toml:5:8: node lyon: `spin` 1s is too long and would waste CPU time",
        "use \"auto\", \"off\", or at most 1ms",
    ),
    (
        ("127.0.0.1:7122\"", "127.0.0.1:7122\"\ndriver = \"kernel\""),
        "helio.toml:5:10: node lyon: driver `kernel` is unknown",
        "use auto, ring or poll",
    ),
    (
        ("127.0.0.1:7122\"", "127.0.0.1:7122\"\nclients = 1000000"),
        "helio.toml:5:11: node lyon: `clients` = 1000000 is more than the maximum",
        "use at most 65536",
    ),
    (
        ("[group.db]", "[group.-db]"),
        "helio.toml:6:8: group name `-db` is not allowed",
        "use up to 63 letters, digits, `-`, `_` and `.`, beginning with neither `-` nor `.`",
    ),
    (
        ("disconnected = \"log\"", "disconnected = \"spill\""),
        "helio.toml:9:79: group db, queue, when-full: `disconnected` = \"spill\" needs the disk queue, which \
         this version does not have",
        "use block, log or fail",
    ),
    (
        ("memory = \"64MiB\"", "memory = \"64\""),
        "helio.toml:9:20: group db, queue: `memory` = \"64\" needs a unit: B, KiB, MiB, GiB, TiB (2^10 steps) or \
         kB, MB, GB, TB (10^3 steps)",
        "write a size with its unit, such as \"64MiB\"",
    ),
    (
        ("[node.paris]", "[node.paris"),
        "helio.toml:1:12: not TOML: unclosed table, expected `]`",
        "correct the line",
    ),
    (
        ("[node.paris]\naddress", "[node.paris]\naddres"),
        "helio.toml:2:1: node paris: unknown key `addres`",
        "known here: address, listen, nbd, key, keys, tls, control, operators, driver, spin, clients, copies-at-once, devices, metadata, buffer-memory, lock-memory, saved-limit",
    ),
    (
        ("[node.paris]\n", "[node.paris]\nmetadata = [\"state\", \"meta\"]\n"),
        "helio.toml:2:22: node paris: `metadata` = \"meta\" is not an absolute path",
        "start it with `/`",
    ),
    (
        ("[node.paris]\n", "[node.paris]\nmetadata = [\"/meta\"]\n"),
        "helio.toml:2:13: node paris: `metadata` begins with \"/meta\", and the first metadata file lies in the state directory",
        "write metadata = [\"state\", \"/DIR\"], with a directory on another disk than the state directory",
    ),
    (
        ("[node.paris]\n", "[node.paris]\nmetadata = \"state\"\n"),
        "helio.toml:2:12: node paris: `metadata` must be a list of texts in quotes, as in [\"a\", \"b\"], and is of type string",
        "write metadata = [\"state\", \"/DIR\"], with a directory on another disk than the state directory",
    ),
    (
        ("[node.paris]\n", "[node.paris]\nmetadata = [\"state\", 7]\n"),
        "helio.toml:2:22: node paris: `metadata` must be a list of texts in quotes, as in [\"a\", \"b\"], and is 7",
        "write metadata = [\"state\", \"/DIR\"], with a directory on another disk than the state directory",
    ),
    (
        ("[node.paris]\n", "[node.paris]\nmetadata = [\"state\", \"state\"]\n"),
        "helio.toml:2:22: node paris: `metadata` names the state directory twice",
        "write metadata = [\"state\", \"/DIR\"], with a directory on another disk than the state directory",
    ),
    (
        ("[node.paris]\n", "[node.paris]\nmetadata = []\n"),
        "helio.toml:2:12: node paris: `metadata` names no directory",
        "write metadata = [\"state\", \"/DIR\"], with a directory on another disk than the state directory",
    ),
    (
        ("[node.paris]\n", "[node.paris]\nmetadata = [\"state\", \"/a\", \"/b\"]\n"),
        "helio.toml:2:28: node paris: `metadata` names more than two directories",
        "write metadata = [\"state\", \"/DIR\"], with a directory on another disk than the state directory",
    ),
    (
        ("[node.lyon]\naddress = \"127.0.0.1:7122\"", "[node.lyon]"),
        "helio.toml:3:7: node lyon: `address` is missing",
        "add address = \"IP:PORT\"",
    ),
    (
        ("127.0.0.1:7122", "127.0.0:7122"),
        "helio.toml:4:11: node lyon: `address` = \"127.0.0:7122\" is neither IP:PORT nor HOST:PORT",
        "write \"127.0.0.1:7121\", or \"lyon.example:7121\"",
    ),
    (
        ("127.0.0.1:7122", "lyon:7122"),
        "helio.toml:4:11: node lyon: `address` lyon:7122 is a name, and `listen` is missing",
        "add listen = \"127.0.0.1:7122\" (the node has no key)",
    ),
    (
        ("127.0.0.1:7122", "127.0.0.1:0"),
        "helio.toml:4:11: node lyon: `address` 127.0.0.1:0 has no port",
        "name a port from 1 to 65535",
    ),
    (
        ("[node.lyon]", "nbd = \"127.0.0.1:7121\"\n[node.lyon]"),
        "helio.toml:3:7: node paris: `nbd` 127.0.0.1:7121 is the address on which the node listens for its peers",
        "give NBD a port of its own",
    ),
    (
        ("nodes = [\"paris\", \"lyon\"]\n", ""),
        "helio.toml:6:8: group db: `nodes` is missing",
        "add nodes = [\"A\", \"B\"]",
    ),
    (
        // Columns count characters, not bytes.
        ("[\"paris\", \"lyon\"]", "[\"Zürich\", \"lyon\"]"),
        "helio.toml:7:10: group db: node `Zürich` is not declared",
        "add [node.NAME] for it, or correct the name",
    ),
    (
        ("[\"paris\", \"lyon\"]", "[\"paris\", \"paris\"]"),
        "helio.toml:7:19: group db: names node `paris` twice",
        "name two different nodes",
    ),
    (
        ("mode = \"async\"", "mode = \"fast\""),
        "helio.toml:8:8: group db: mode `fast` is unknown",
        "use sync, nearsync, async or periodic",
    ),
    (
        ("mode = \"async\"", "period = \"25h\""),
        "helio.toml:8:10: group db: `period` 90000s is longer than a day",
        "use \"0s\" (as fast as the link allows) to \"24h\"",
    ),
    (
        ("mode = \"async\"", "mode = \"periodic\"\nhold = \"20s\""),
        "helio.toml:9:8: group db: `hold` needs mode sync or nearsync: in mode periodic the secondary does not have all acknowledged writes",
        "leave `hold` out, or use another mode",
    ),
    (
        ("mode = \"async\"", "mode = \"periodic\"\nsafe-copy = \"off\""),
        "helio.toml:9:13: group db: mode periodic needs a safe copy: while a cut is sent, it is the only complete copy on the secondary",
        "leave `safe-copy` out, or give it a size",
    ),
    (
        ("mode = \"async\"", "autosync = \"yes\""),
        "helio.toml:8:12: group db: `autosync` must be true or false, and is of type string",
        "write true or false",
    ),
    (
        ("mode = \"async\"", "peer-timeout = \"1ms\""),
        "helio.toml:8:16: group db: `peer-timeout` 1ms is too short",
        "use at least 100ms",
    ),
    (
        ("mode = \"async\"", "member-timeout = \"900ms\""),
        "helio.toml:8:18: group db: `member-timeout` 900ms is too short",
        "use at least 1s",
    ),
    (
        ("mode = \"async\"", "copy-transfer = \"96KiB\""),
        "helio.toml:8:17: group db: `copy-transfer` 96 KiB is invalid",
        "use \"auto\", or a multiple of 64KiB up to 1MiB",
    ),
    (
        ("mode = \"async\"", "copy-transfer = \"2MiB\""),
        "helio.toml:8:17: group db: `copy-transfer` 2 MiB is invalid",
        "use \"auto\", or a multiple of 64KiB up to 1MiB",
    ),
    (
        ("mode = \"async\"", "member-timeout = \"2h\""),
        "helio.toml:8:18: group db: `member-timeout` 7200s is too long",
        "use at most 1h",
    ),
    (
        ("mode = \"async\"", "member-return = \"500ms\""),
        "helio.toml:8:17: group db: `member-return` 500ms is too short",
        "use \"off\", or at least 1s",
    ),
    (
        ("mode = \"async\"", "flush-limit = \"2s\""),
        "helio.toml:8:15: group db: `flush-limit` 2s is less than peer-timeout 6s",
        "make it at least the peer timeout, which it extends",
    ),
    (
        ("mode = \"async\"", "link = { send-buffer = \"4GiB\" }"),
        "helio.toml:8:24: group db, link: `send-buffer` 4 GiB is not a valid size of a socket buffer",
        "use \"auto\", or a size below 1 GiB",
    ),
    (
        ("memory = \"64MiB\"", "memory = \"0B\""),
        "helio.toml:9:20: group db, queue: `memory` 0 B holds not even one sector",
        "use \"auto\", or at least \"512B\"",
    ),
    (
        ("memory = \"64MiB\"", "items = 0"),
        "helio.toml:9:19: group db, queue: `items` must be a whole number of at least 1, and is 0",
        "write a whole number of at least 1",
    ),
    (
        ("memory = \"64MiB\"", "preset = \"drbd\""),
        "helio.toml:9:20: group db, queue: preset `drbd` is unknown",
        "use sndr, or leave it out",
    ),
    (
        ("memory = \"64MiB\"", "preset = \"sndr\", items = 5"),
        "helio.toml:9:36: group db, queue: preset `sndr` already fixes memory and items",
        "use either the preset or your own limits",
    ),
    (
        ("memory = \"64MiB\"", "disk = \"20GiB\""),
        "helio.toml:9:18: group db, queue: `disk` needs the disk queue, which this version does not have",
        "leave it out",
    ),
    (
        ("connected = \"block\"", "connected = \"drop\""),
        "helio.toml:9:55: group db, queue, when-full: `connected` = \"drop\" is unknown",
        "use block, log or fail",
    ),
    (
        ("volume.data", "volume.\"a/b\""),
        "helio.toml:11:18: group db: volume name `a/b` is not allowed",
        "use up to 63 letters, digits, `-`, `_` and `.`, beginning with neither `-` nor `.`",
    ),
    (
        ("size = \"1GiB\"", "size = \"0B\""),
        "helio.toml:12:8: group db, volume data: size of 0 bytes is not a whole number of sectors",
        "use a multiple of 512 bytes, and not zero",
    ),
    (
        ("size = \"1GiB\"", "io = \"direct\""),
        "helio.toml:11:18: group db, volume data: `size` is missing",
        "add size = \"100GiB\", the same on every node",
    ),
    (
        ("size = \"1GiB\"", "size = \"1GiB\"\nio = \"mmap\""),
        "helio.toml:13:6: group db, volume data: io `mmap` is unknown",
        "use direct or buffered",
    ),
    (
        ("members.lyon = [\"/dev/vg0/data\"]", "members.lyon = [\"data\"]"),
        "helio.toml:14:17: group db, volume data: member `data` is not an absolute path",
        "start it with `/`",
    ),
    (
        ("members.lyon", "members.rome"),
        "helio.toml:14:9: group db, volume data: has a member on `rome`, which is not a node of the group",
        "the group's nodes are paris and lyon",
    ),
    (
        (
            "[group.db.volume.data]",
            "[group.db.volume.logs]\nsize = \"1MiB\"\nmembers.paris = [\"/dev//vg0/data\"]\n\
             members.lyon = [\"/dev/vg0/logs\"]\n[group.db.volume.data]",
        ),
        "helio.toml:17:18: group db, volume data: member /dev/vg0/data on node paris already belongs to group db, \
         volume logs",
        "give each volume its own file or device",
    ),
];

/// Every refusal names file, line and column, what is wrong, and what helps.
#[test]
fn what_is_wrong_is_said_with_its_place_and_hint() {
    for ((from, to), message, hint) in CASES {
        assert_eq!(said(from, to), format!("{message}\n  hint: {hint}"));
    }
}

#[test]
fn a_file_that_names_no_node_no_volume_or_is_not_there_is_refused() {
    let said = |text: &str| parse(text).expect_err("was taken").to_string();
    assert_eq!(
        said(""),
        "helio.toml:1:1: has no node\n  hint: add [node.NAME] with address = \"IP:PORT\""
    );
    let (without_volume, _) = GOOD.split_once("[group.db.volume").expect("has a volume");
    assert_eq!(
        said(without_volume),
        "helio.toml:6:8: group db: has no volume\n  hint: add [group.NAME.volume.NAME] with size and members"
    );
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("helio.toml");
    assert_eq!(
        Config::load(&Linux::host(), &missing).expect_err("was taken").to_string(),
        format!(
            "{}: cannot be read: No such file or directory (os error 2)\n  \
             hint: name a readable configuration file with --config",
            missing.display()
        )
    );
}

/// The example shows every key with its default, so it must mean what a file without them means.
#[test]
fn the_example_in_the_docs_reads_and_shows_the_defaults() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/example.toml");
    let config = Config::load(&Linux::host(), &example).expect("reads");
    let bare = GOOD.lines().filter(|line| !line.starts_with("mode") && !line.starts_with("queue"));
    let plain = parse(&bare.collect::<Vec<_>>().join("\n")).expect("reads");
    let (shown, default) = (&config.groups["db"], &plain.groups["db"]);
    assert_eq!((shown.mode, shown.queue), (default.mode, default.queue));
    assert_eq!(shown.queue_source, QueueSource::Auto);
    assert_eq!((shown.timeouts, shown.copy_transfer), (default.timeouts, default.copy_transfer));
    assert_eq!(shown.autosync, default.autosync);
    let (shown, default) = (&shown.volumes["data"], &default.volumes["data"]);
    let keys = |it: &VolumeConfig| (it.io, it.sparse, it.blank);
    assert_eq!(keys(shown), keys(default));
    let view = config.for_node("paris").expect("is there");
    assert_eq!(view.groups[0].peer.map(|it| it.name), Some("lyon"));
}

#[test]
fn a_node_that_is_not_there_is_refused_with_those_that_are() {
    let error = parse(GOOD).expect("reads").for_node("rome").expect_err("found").to_string();
    assert!(error.contains("has no node `rome`") && error.contains("lyon, paris"), "{error}");
}

#[test]
fn the_sndr_preset_is_suns_figures() {
    let config = parse(&GOOD.replace("memory = \"64MiB\"", "preset = \"sndr\"")).expect("reads");
    let group = &config.groups["db"];
    assert_eq!(group.queue.memory, Some(Bytes(16384 * 512)));
    assert_eq!((group.queue.items.0, group.queue_source), (4_194_304, QueueSource::PresetSndr));
}

#[test]
fn a_diff_tells_what_changes_now_from_what_waits() {
    let old = parse(GOOD).expect("reads");
    let new = GOOD
        .replace("mode = \"async\"", "mode = \"sync\"")
        .replace("64MiB", "32MiB")
        .replace("1GiB", "2GiB");
    let changes = diff(&old, &parse(&new).expect("reads"), "paris");
    let texts: Vec<&str> = changes.online.iter().map(|c| c.text.as_str()).collect();
    assert_eq!(texts[0], "group db: mode async -> sync");
    assert!(texts[1].starts_with("group db: queue 64 MiB and 4194304 items"), "{texts:?}");
    assert_eq!(changes.restart, ["group db: volume data changed"]);
    assert_eq!(diff(&old, &old, "paris"), Changes::default());
}

#[test]
fn members_of_this_node_come_and_go_if_one_stays_and_nothing_else_changes() {
    let with = |paris: &str, lyon: &str, size: &str| {
        let members = |node: &str| format!("members.{node} = [\"/dev/vg0/data\"]");
        let named = |node: &str, paths: &str| format!("members.{node} = [{paths}]");
        let text = GOOD
            .replace(&members("paris"), &named("paris", paris))
            .replace(&members("lyon"), &named("lyon", lyon))
            .replace("1GiB", size);
        parse(&text).expect("reads")
    };
    let old = with("\"/a\", \"/b\"", "\"/l\"", "1GiB");
    let lines = |new: &Config, node: &str| {
        let changes = diff(&old, new, node);
        let members: Vec<String> = changes.members.iter().map(ToString::to_string).collect();
        (members, changes.restart)
    };
    let new = with("\"/c\", \"/a\"", "\"/l\", \"/m\"", "1GiB");
    let [come, gone] =
        ["/c added", "/b removed"].map(|what| format!("group db: volume data: member {what}"));
    assert_eq!(lines(&new, "paris"), (vec![come, gone], vec![]));
    let come = String::from("group db: volume data: member /m added");
    assert_eq!(lines(&new, "lyon"), (vec![come], vec![]));
    assert_eq!(lines(&with("\"/b\", \"/a\"", "\"/l\"", "1GiB"), "paris"), (vec![], vec![]));
    let waits = (vec![], vec![String::from("group db: volume data changed")]);
    assert_eq!(lines(&with("\"/c\"", "\"/l\"", "1GiB"), "paris"), waits, "none stays");
    let alone = with("\"/a\"", "\"/l\"", "1GiB");
    let changes = diff(&old, &alone, "lyon");
    let texts: Vec<&str> = changes.online.iter().map(|change| change.text.as_str()).collect();
    assert_eq!(texts, ["group db: member-timeout 30s -> 120s"]);
    assert_eq!(changes.online[0].setting, Setting::Timeouts(alone.groups["db"].timeouts));
    assert_eq!(lines(&with("\"/a\"", "\"/l\"", "2GiB"), "paris"), waits, "its size changes");
}

#[test]
fn a_silent_member_is_removed_before_the_peer_gives_the_node_up() {
    let with = |line: &str| {
        let text = GOOD
            .replace("members.lyon = [\"/dev/vg0/data\"]", "members.lyon = [\"/a\", \"/b\"]")
            .replace("mode = \"async\"", line);
        parse(&text)
    };
    let timeout = |line: &str| with(line).map(|config| config.groups["db"].timeouts.member);
    assert_eq!(timeout(""), Ok(Duration::from_secs(30)));
    assert_eq!(timeout("flush-limit = \"10min\""), Ok(Duration::from_secs(120)));
    assert_eq!(timeout("member-timeout = \"30s\""), Ok(Duration::from_secs(30)));
    let refused = timeout("peer-timeout = \"1s\"\nflush-limit = \"1s\"").expect_err("was taken");
    let why = "`flush-limit` 1s is too short for volumes with several members";
    assert!(refused.to_string().contains(why), "{refused}");
    let refused = timeout("member-timeout = \"31s\"").expect_err("was taken");
    assert_eq!(
        refused.to_string(),
        "helio.toml:8:18: group db: `member-timeout` 31s is too long for volumes with several members\n  \
         hint: use at most 30s, half of flush-limit, or a longer flush-limit"
    );
}

#[test]
fn a_member_may_be_a_table_with_its_read_cost_which_changes_while_the_daemon_runs() {
    let with = |members: &str| {
        let members = format!("members.lyon = [{members}]");
        parse(&GOOD.replace("members.lyon = [\"/dev/vg0/data\"]", &members))
    };
    let old = with("\"/a\", { path = \"/b\" }, { path = \"/c\", read-cost = 3 }").expect("reads");
    let sets = &old.groups["db"].sets;
    let cost = |path: &str| sets.read_cost("data", "lyon", Path::new(path));
    assert_eq!(["/a", "/b", "/c"].map(cost), [None, None, Some(3)]);
    assert_eq!(sets.read_cost("data", "paris", Path::new("/c")), None);
    let new = with("\"/a\", { path = \"/b\", read-cost = 65535 }, \"/c\"").expect("reads");
    let changes = diff(&old, &new, "lyon");
    let texts: Vec<&str> = changes.online.iter().map(|change| change.text.as_str()).collect();
    let [b, c] = ["/b auto -> 65535", "/c 3 -> auto"];
    let cost = |what: &str| format!("group db: volume data: read-cost of {what}");
    assert_eq!(texts, [cost(b), cost(c)]);
    assert_eq!(changes.online[0].setting, Setting::Sets(new.groups["db"].sets.clone()));
    assert_eq!((changes.members, changes.restart), (vec![], vec![]));
    assert_eq!(diff(&old, &new, "paris").online, [], "each node has its own");
    let own = with("\"/a\", { path = \"/b\", own-disk = true }").expect("reads");
    let is_own = |path: &str| own.groups["db"].sets.is_own_disk("data", "lyon", Path::new(path));
    assert_eq!(["/a", "/b"].map(is_own), [false, true]);
    let changes = diff(&with("\"/a\", \"/b\"").expect("reads"), &own, "lyon");
    let texts: Vec<&str> = changes.online.iter().map(|change| change.text.as_str()).collect();
    assert_eq!(texts, ["group db: volume data: own-disk of /b false -> true"]);
    for (members, refusal) in [
        ("{ read-cost = 1 }", "`path` is missing"),
        ("{ path = \"/a\", cost = 1 }", "unknown key `cost`"),
        ("{ path = \"/a\", read-cost = 65536 }", "`read-cost` must be a whole number from 1 to"),
        ("{ path = \"/a\", read-cost = 0 }", "`read-cost` must be a whole number from 1 to"),
        ("7", "must be a list of texts in quotes, or tables"),
    ] {
        let refused = with(members).expect_err(members).to_string();
        assert!(refused.contains(refusal), "{refused}");
    }
}

#[test]
fn limits_and_priorities_of_copies_change_while_the_daemon_runs() {
    let with = |node: &str, group: &str, volume: &str| {
        let text = GOOD
            .replace("127.0.0.1:7121\"", &format!("127.0.0.1:7121\"\n{node}"))
            .replace("mode = \"async\"", group)
            .replace("members.lyon", &format!("{volume}\nmembers.lyon"));
        parse(&text)
    };
    let old = with("", "", "").expect("reads");
    let of = |config: &Config| {
        let sets = &config.groups["db"].sets;
        let priority = sets.volumes["data"].copy_priority;
        (config.nodes["paris"].copies_at_once, sets.merge_delay_factor, priority)
    };
    assert_eq!(of(&old), (4, 200, 5000));
    let group = "mode = \"async\"\ncopy-priority = 7\nmerge-delay-factor = 100000";
    let new = with("copies-at-once = 0", group, "copy-priority = 0").expect("reads");
    assert_eq!(of(&new), (0, 100_000, 0), "the volume's own counts");
    assert_eq!(of(&with("", "copy-priority = 7", "").expect("reads")).2, 7);
    let changes = diff(&old, &new, "paris");
    assert_eq!(changes.nodes, ["node paris: copies-at-once 4 -> 0"]);
    let texts: Vec<&str> = changes.online.iter().map(|change| change.text.as_str()).collect();
    assert_eq!(
        texts,
        [
            "group db: merge-delay-factor 200 -> 100000",
            "group db: volume data: copy-priority 5000 -> 0",
        ]
    );
    assert_eq!(changes.restart, Vec::<String>::new());
    assert_eq!(diff(&old, &new, "lyon").nodes, Vec::<String>::new());
    for (node, group, volume, refusal) in [
        ("copies-at-once = 201", "", "", "`copies-at-once` must be a whole number from 0 to 200"),
        ("", "copy-priority = 10001", "", "`copy-priority` must be a whole number from 0 to 10000"),
        ("", "", "copy-priority = -1", "`copy-priority` must be a whole number from 0 to 10000"),
        ("", "merge-delay-factor = 99", "", "must be a whole number from 100 to 100000"),
    ] {
        let refused = with(node, group, volume).expect_err(refusal).to_string();
        assert!(refused.contains(refusal), "{refused}");
    }
}

#[test]
fn no_setting_changes_in_silence() {
    let old = parse(GOOD).expect("reads");
    let mut new = old.clone();
    let group = new.groups.get_mut("db").expect("it is there");
    group.granularity = Bytes::kib(16);
    group.hot_extents += 1;
    group.safe_copy_dir = Some("/elsewhere".into());
    let lines = ["granularity", "hot-extents", "safe-copy-dir"]
        .map(|what| format!("group db: {what} changed"));
    assert_eq!(diff(&old, &new, "paris").restart, lines);
}

/// The good file with a key for each node; paris has that line more.
fn keyed(key: u8, line: &str) -> Config {
    let key_of = |address: &str, key: u8| {
        let key = KEYS[usize::from(key)];
        format!("{address}\"\nkey = \"{key}\"\n{}", if address.ends_with('1') { line } else { "" })
    };
    let text = GOOD
        .replace("127.0.0.1:7121\"", &key_of("127.0.0.1:7121", key))
        .replace("127.0.0.1:7122\"", &key_of("127.0.0.1:7122", 0));
    parse(&text).expect("reads")
}

const KEYS: [&str; 2] = [
    "helio1:BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwfWZVYx",
    "helio1:CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQlvjZcH",
];

#[test]
fn keys_and_operators_change_now_and_whatever_else_of_the_node_waits() {
    let (old, operators) = (keyed(0, ""), format!("operators = [\"{}\"]\nspin = \"off\"", KEYS[1]));
    let mut new = keyed(1, &operators);
    let changes = diff(&old, &new, "paris");
    let said = [
        format!("node paris: key {} removed", KEYS[0]),
        format!("node paris: key {} added", KEYS[1]),
        format!("node paris: operator {} added", KEYS[1]),
    ];
    assert_eq!(changes.nodes, said);
    assert_eq!(changes.restart, ["node paris changed"]);
    // A first key is no change of keys: a listener without TLS would have to become one with it.
    let none = parse(GOOD).expect("reads");
    let changes = diff(&none, &new, "paris");
    assert_eq!(changes.nodes, Vec::<String>::new());
    assert_eq!(changes.restart, ["node lyon changed", "node paris changed"]);
    new.nodes_as(&none);
    assert_eq!(new.nodes["paris"].keys.len(), 1, "nor does a node lose its last one");
}

#[test]
fn the_example_in_the_docs_is_a_good_file() {
    let text = include_str!("../../../../docs/example.toml");
    let config = Config::parse(text, "docs/example.toml").expect("reads");
    assert_eq!(config.for_node("paris").expect("is there").groups.len(), 1);
}

#[test]
fn a_group_of_more_volumes_than_its_superblock_holds_is_refused() {
    let more = |count: usize| {
        let volume = |n: usize| {
            format!(
                "[group.db.volume.v{n}]\nsize = \"1MiB\"\nmembers.paris = [\"/p{n}\"]\nmembers.lyon = [\"/l{n}\"]\n"
            )
        };
        // One is in the good file.
        parse(&(GOOD.to_owned() + &(1..count).map(volume).collect::<String>()))
    };
    assert!(more(64).is_ok());
    let said = more(65).expect_err("one too many").to_string();
    assert!(said.contains("group db: has 65 volumes") && said.contains("at most 64"), "{said}");
}

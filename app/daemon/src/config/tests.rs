// SPDX-License-Identifier: Apache-2.0
use super::*;

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
    assert_eq!((group.peer_timeout, group.autosync), (Duration::from_secs(6), true));
    let view = config.for_node("lyon").expect("is there");
    assert_eq!((view.groups[0].peer_name, view.node.listen.port()), ("paris", 7122));
}

/// A text of the good file and what takes its place; what is said then, and the remedy.
type Case = ((&'static str, &'static str), &'static str, &'static str);

const CASES: &[Case] = &[
    (
        ("mode = \"async\"", "mood = \"async\""),
        "helio.toml:8:1: group db: unknown key `mood`",
        "known here: nodes, mode, queue, peer-timeout, flush-limit, autosync, link, volume",
    ),
    (
        ("mode = \"async\"", "mode = \"superasync\""),
        "helio.toml:8:8: group db: mode `superasync` comes with the disk queue, which this version does not have",
        "use async",
    ),
    (
        ("[\"paris\", \"lyon\"]", "[\"paris\", \"rome\"]"),
        "helio.toml:7:19: group db: node `rome` is not declared",
        "add [node.NAME] for it, or correct the name",
    ),
    (
        ("[\"paris\", \"lyon\"]", "[\"paris\"]"),
        "helio.toml:7:9: group db: names 1 nodes; a group has exactly two today",
        "name two nodes",
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
        ("members.lyon = [\"/dev/vg0/data\"]", "members.lyon = [\"/a\", \"/b\"]"),
        "helio.toml:14:16: group db, volume data: has 2 members on node lyon; several come with shadow sets",
        "name exactly one today",
    ),
    (
        ("127.0.0.1:7122", "127.0.0.1:7121"),
        "helio.toml:4:11: node lyon: address 127.0.0.1:7121 is already that of node paris",
        "give each node an address of its own",
    ),
    (
        ("127.0.0.1:7122", "10.0.0.1:7122"),
        "helio.toml:4:11: node lyon: `address` 10.0.0.1:7122 is not a loopback address, and peers have no keys yet",
        "use 127.0.0.1 or [::1]; reach another host through a tunnel that authenticates, such as ssh -L",
    ),
    (
        ("[group.db]", "[group.-db]"),
        "helio.toml:6:8: group name `-db` is not allowed",
        "use up to 63 letters, digits, `-`, `_` and `.`, beginning with neither `-` nor `.`",
    ),
    (
        ("disconnected = \"log\"", "disconnected = \"spill\""),
        "helio.toml:9:79: group db, queue, when-full: `disconnected` = \"spill\" comes with the disk queue, which \
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
];

/// Every refusal names file, line and column, what is wrong, and what helps.
#[test]
fn what_is_wrong_is_said_with_its_place_and_remedy() {
    for ((from, to), message, remedy) in CASES {
        assert_eq!(said(from, to), format!("{message}\n  remedy: {remedy}"));
    }
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
    let changes = diff(&old, &parse(&new).expect("reads"));
    let texts: Vec<&str> = changes.online.iter().map(|c| c.text.as_str()).collect();
    assert_eq!(texts[0], "group db: mode async -> sync");
    assert!(texts[1].starts_with("group db: queue 64 MiB and 4194304 items"), "{texts:?}");
    assert_eq!(changes.restart, ["group db: volume data changed"]);
    assert_eq!(diff(&old, &old), Changes::default());
}

#[test]
fn the_example_in_the_docs_is_a_good_file() {
    let text = include_str!("../../../../docs/example.toml");
    let config = Config::parse(text, "docs/example.toml").expect("reads");
    assert_eq!(config.for_node("paris").expect("is there").groups.len(), 1);
}

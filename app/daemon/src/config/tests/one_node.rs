// SPDX-License-Identifier: Apache-2.0
//! Groups of one node.

use super::*;

const ONLY: &str = r#"[node.paris]
address = "127.0.0.1:7121"
[node.lyon]
address = "127.0.0.1:7122"

[group.db]
nodes = ["paris"]
member-timeout = "119s"

[group.db.volume.data]
size = "1GiB"
members.paris = ["/dev/vg0/data", "/dev/vg1/data"]
"#;

#[test]
fn a_group_of_one_node_is_only_that_nodes_and_has_no_peer() {
    let config = parse(ONLY).expect("reads");
    let group = &config.groups["db"];
    assert_eq!((group.nodes.as_slice(), group.on_error), (&["paris".into()][..], OnError::Pass));
    let paris = config.for_node("paris").expect("is there");
    assert!(paris.groups.len() == 1 && paris.groups[0].peer.is_none());
    assert!(config.for_node("lyon").expect("is there").groups.is_empty());
    assert_eq!(group.timeouts.member, Duration::from_secs(119), "half of flush-limit is no limit");
    let plain = parse(&ONLY.replace("member-timeout = \"119s\"\n", "")).expect("reads");
    assert_eq!(plain.groups["db"].timeouts.member, Duration::from_secs(120));
}

#[test]
fn a_second_node_needs_a_restart_and_a_key_of_one_node_is_its_own_affair() {
    let both = ONLY.replace("[\"paris\"]", "[\"paris\", \"lyon\"]");
    let both = both.replace("members.paris", "members.lyon = [\"/dev/vg0/data\"]\nmembers.paris");
    let both = both.replace("119s", "29s");
    let changes = diff(&parse(ONLY).expect("reads"), &parse(&both).expect("reads"), "paris");
    assert!(changes.restart.contains(&"group db: nodes changed".into()), "{changes:?}");
    let key = "key = \"helio1:BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwfWZVYx\"\n";
    let keyed = |text: &str| text.replace("[node.lyon]", &format!("{key}[node.lyon]"));
    assert!(parse(&keyed(ONLY)).is_ok() && parse(&keyed(&both)).is_err());
}

#[test]
fn a_key_that_is_about_a_peer_is_refused_in_a_group_of_one_node() {
    for (key, line) in [
        ("mode", "mode = \"sync\""),
        ("queue", "queue = { memory = \"64MiB\" }"),
        ("peer-timeout", "peer-timeout = \"6s\""),
        ("flush-limit", "flush-limit = \"60s\""),
        ("hold", "hold = \"0s\""),
        ("autosync", "autosync = true"),
        ("on-error", "on-error = \"pass\""),
        ("resync", "resync = { yield = true }"),
        ("safe-copy", "safe-copy = \"off\""),
        ("safe-copy-dir", "safe-copy-dir = \"/var/tmp\""),
        ("link", "link = { congestion = \"cubic\" }"),
    ] {
        let said = parse(&ONLY.replace("member-timeout = \"119s\"", line)).expect_err("refused");
        let at = line.find('=').expect("a value") + 3;
        let expected = format!(
            "helio.toml:8:{at}: group db: `{key}` needs two nodes, and the group has one\n  hint: leave it out, or name a \
             second node"
        );
        assert_eq!(said.to_string(), expected);
    }
}

#[test]
fn a_group_of_one_node_has_the_hooks_that_are_about_no_peer() {
    let hooks = |hooks: &str| {
        let line = format!("hooks = {{ {hooks} }}");
        parse(&ONLY.replace("member-timeout = \"119s\"", &line))
    };
    let both = "freeze = \"/bin/freeze\", thaw = \"/bin/thaw\", timeout = \"9s\"";
    assert!(hooks(both).is_ok_and(|config| config.groups["db"].hooks.thaw.is_some()));
    let said = hooks("fence = \"/bin/fence\"").expect_err("refused");
    let expected = "helio.toml:8:19: group db, hooks: `fence` needs two nodes, and the group has one\n  hint: leave it out, or \
                    name a second node";
    assert_eq!(said.to_string(), expected);
}

#[test]
fn a_group_of_one_node_has_the_alert_that_is_about_no_peer() {
    let with = |line: &str| parse(&ONLY.replace("member-timeout = \"119s\"", line));
    let both = "alerts = { protection-lost = \"5s\" }\nhooks = { protection-lost = \"/bin/page\" }";
    assert!(with(both).is_ok_and(|config| config.groups["db"].hooks.alerts.len() == 1));
    for line in ["alerts = { lag-above = \"5s\" }", "hooks = { lag-above = \"/bin/page\" }"] {
        let said = with(line).expect_err("refused");
        assert!(said.message.contains("`lag-above` needs two nodes"), "{said}");
    }
}

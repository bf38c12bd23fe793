// SPDX-License-Identifier: Apache-2.0
//! The file: wrong in one place, refused at that place.

use crate::common::{assert_says, line_of, refusal, rewrite};
use helio_testkit::{Pair, Plan, TempDir};
use helio_units::Bytes;

fn prepared() -> Pair {
    Plan::new("db").volume("data", Bytes::mib(1)).volume("logs", Bytes::mib(1)).prepare()
}

/// Refused at the line that now holds `to`, in these words.
#[track_caller]
fn assert_refused(from: &str, to: &str, phrases: &[&str]) {
    let pair = prepared();
    rewrite(&pair, from, to);
    let said = refusal("paris", pair.config(), &pair.state("paris"));
    let place = format!("{}:{}:", pair.config().display(), line_of(&pair, to));
    assert_says(&said, &[&place, "\n  hint: "]);
    assert_says(&said, phrases);
    assert!(!pair.state("paris").exists(), "a refused file should leave nothing behind");
}

#[test]
fn an_unknown_key_is_refused_with_those_that_are_known() {
    let phrases = ["group db: unknown key `mood`", "known here: nodes, mode"];
    assert_refused("mode = ", "mood = ", &phrases);
}

#[test]
fn a_node_that_is_not_declared_is_refused() {
    let phrases = ["node `berlin` is not declared", "[node.NAME]"];
    assert_refused("nodes = [\"lyon\"", "nodes = [\"berlin\"", &phrases);
}

#[test]
fn an_address_others_could_reach_is_refused() {
    let pair = prepared();
    let cases = [
        ("listen", "192.0.2.7:7000", "helio key new"),
        ("nbd", "0.0.0.0:10809", "[node.NAME.tls]"),
    ];
    for (key, address, hint) in cases {
        let line = format!("{key} = \"{address}\"");
        rewrite(&pair, "[node.paris]\n", &format!("[node.paris]\n{line}\n"));
        let said = refusal("paris", pair.config(), &pair.state("paris"));
        let place = format!(":{}:", line_of(&pair, &line));
        let culprit = format!("`{key}` {address} is not a loopback address");
        assert_says(&said, &[&place, &culprit, "hint: ", hint]);
        rewrite(&pair, &format!("{line}\n"), "");
    }
}

#[test]
fn words_and_sizes_that_mean_nothing_are_refused() {
    assert_refused("mode = \"async\"", "mode = \"asink\"", &["mode `asink` is unknown"]);
    assert_refused("mode = \"async\"", "mode = async", &["not TOML"]);
    let empty = "paris-logs.img\", \"";
    assert_refused("paris-logs.img", empty, &["member `` is not an absolute path"]);
    let from = "[group.db.volume.data]\nsize = \"1MiB\"";
    for (size, phrase) in [("1000B", "multiple of 512"), ("1 parsec", "`size` = \"1 parsec\"")] {
        let pair = prepared();
        rewrite(&pair, from, &format!("[group.db.volume.data]\nsize = \"{size}\""));
        let said = refusal("paris", pair.config(), &pair.state("paris"));
        let place = format!(":{}:", line_of(&pair, size));
        assert_says(&said, &[&place, "group db, volume data", phrase, "hint: "]);
    }
}

#[test]
fn one_store_under_two_volumes_is_refused() {
    let phrases = ["already belongs to group db, volume data", "its own file or device"];
    let pair = prepared();
    rewrite(&pair, "paris-logs.img", "paris-data.img");
    let said = refusal("paris", pair.config(), &pair.state("paris"));
    assert_says(&said, &phrases);
    // Nor is it two members of one volume.
    let pair = prepared();
    let member = pair.member("paris", "logs").display().to_string();
    rewrite(&pair, &member, &format!("{member}\", \"{member}"));
    let said = refusal("paris", pair.config(), &pair.state("paris"));
    let phrase = format!("{member} on node paris already belongs to group db, volume logs");
    assert_says(&said, &[&phrase, "hint: "]);
}

#[test]
fn a_node_the_file_does_not_have_is_refused_with_those_it_has() {
    let pair = prepared();
    let said = refusal("berlin", pair.config(), &pair.state("paris"));
    assert_says(&said, &["has no node `berlin`", "hint: start with --node", "lyon, paris"]);
}

#[test]
fn a_file_that_is_not_there_is_refused() {
    let scratch = TempDir::new();
    let said = refusal("paris", &scratch.join("none.toml"), &scratch.join("state"));
    assert_says(&said, &["none.toml: cannot be read", "hint: name a readable configuration"]);
}

#[test]
fn a_changed_file_that_is_wrong_is_refused_by_apply_and_the_daemon_lives_on() {
    let mut pair = prepared();
    pair.start("paris");
    rewrite(&pair, "mode = \"async\"", "mode = \"asink\"");
    let told = pair.helio("paris", &["apply"]);
    assert_eq!(told.status.code(), Some(1), "{told}");
    let place = format!("heliograph.toml:{}:", line_of(&pair, "asink"));
    assert_says(&told.stderr, &[&place, "mode `asink` is unknown", "hint: "]);
    rewrite(&pair, "mode = \"asink\"", "mode = \"sync\"");
    let said = pair.helio("paris", &["apply", "--dry-run"]).expect_success();
    assert_says(&said, &["would change: group db: mode async -> sync"]);
    let said = pair.helio("paris", &["apply"]).expect_success();
    assert_says(&said, &["changed: group db: mode async -> sync"]);
}

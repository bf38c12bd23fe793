// SPDX-License-Identifier: Apache-2.0
//! Five situations as both nodes show them. The operator's page shows the same; `HELIO_REWRITE=1` writes them there.

use crate::pages::{page, top};
use helio_e2e::{PATIENCE, begin, connect, group, relayed, wait};
use helio_testkit::{Dice, Pair, Plan, eventually};
use helio_units::{Bytes, Mode};
use helio_wan::Cut;
use std::fs::OpenOptions;
use std::time::Duration;

const PAGE: &str = "docs/operate.md";
const BEGIN: &str = "<!-- situations -->\n";
const END: &str = "<!-- /situations -->";

/// Writes so many MiB at the beginning of the volume.
fn write(pair: &Pair, node: &str, mib: u64) {
    let mut client = connect(pair, node);
    for at in 0..mib * 4 {
        client.write(at << 18, &[7; 1 << 18], false).expect("a primary takes writes");
    }
    client.disconnect().expect("it may go");
}

fn wait_verdict(pair: &Pair, node: &str, word: &str) {
    wait(pair, node, word, |group| group["verdict"]["word"] == word);
}

/// Both nodes come to the verdict; what they show then.
fn shown(pair: &Pair, title: &str, word: &str) -> String {
    let mut text = format!("**{title}**\n");
    for node in ["paris", "lyon"] {
        wait_verdict(pair, node, word);
        let status = pair.helio(node, &["status", "db"]).expect_success();
        for line in status.lines() {
            assert!(line.chars().count() <= 80, "wider than a terminal: {line}");
        }
        text += &format!("\n```text\n{node}$ helio status db\n{status}```\n");
    }
    text
}

/// Healthy, link cut, resync, split brain: one pair behind a relay.
fn of_the_link() -> Vec<String> {
    let dice = Dice::of_test("five_situations_are_shown_as_the_page_shows_them");
    let plan = Plan::new("db").mode(Mode::Sync).volume("data", Bytes::mib(12));
    let plan =
        plan.group_line("resync = { max-rate = \"2MiB\" }").group_line("peer-timeout = \"1s\"");
    let (plan, relay) = relayed(plan, Duration::from_millis(2), 1000, dice.seed());
    let pair = plan.start();
    begin(&pair, "paris");
    let mut all = vec![shown(&pair, "Healthy", "ok")];

    relay.control().cut(Cut::Freeze);
    wait_verdict(&pair, "paris", "at-risk");
    write(&pair, "paris", 1);
    wait(&pair, "lyon", "paris that does not connect again", |group| {
        group["next"].as_str().is_some_and(|next| next.contains("surely down"))
    });
    all.push(shown(&pair, "The link is cut", "at-risk"));

    relay.control().heal();
    wait_verdict(&pair, "paris", "ok");
    pair.helio("paris", &["pause", "db"]).expect_success();
    write(&pair, "paris", 10);
    pair.helio("paris", &["resume", "db"]).expect_success();
    for node in ["paris", "lyon"] {
        wait(&pair, node, "a resync", |group| group["state"] == "syncing");
    }
    wait(&pair, "paris", "a rate", |group| group["sync"]["copied_bytes"].as_u64() > Some(1 << 20));
    all.push(shown(&pair, "A resync runs", "at-risk"));
    wait_verdict(&pair, "paris", "ok");

    relay.control().cut(Cut::Freeze);
    for node in ["paris", "lyon"] {
        wait_verdict(&pair, node, "at-risk");
    }
    write(&pair, "paris", 1);
    pair.helio("lyon", &["promote", "db", "--force", "--yes"]).expect_success();
    write(&pair, "lyon", 2);
    relay.control().heal();
    // Each node has heard of the other one's last write.
    for node in ["paris", "lyon"] {
        eventually(PATIENCE, "the last write of both", || {
            let status = pair.helio(node, &["status", "db"]).expect_success();
            (status.matches("last write").count() == 2).then_some(())
        });
    }
    all.push(shown(&pair, "Split brain", "split-brain"));
    all
}

fn of_a_disk() -> String {
    let pair = Plan::new("db").mode(Mode::Sync).volume("data", Bytes::mib(16)).start();
    begin(&pair, "paris");
    wait_verdict(&pair, "lyon", "ok");
    // A disk that cannot be read any more.
    let member = OpenOptions::new().write(true).open(pair.member("paris", "data"));
    member.and_then(|member| member.set_len(0)).expect("it can be cut");
    connect(&pair, "paris").read(0, &mut [0; 4096]).expect("the peer's copy is read");
    assert!(group(&pair, "paris")["fault"].is_string());
    shown(&pair, "A disk failed", "disk-failed")
}

/// Without what differs from run to run: numbers, and with them where a line is folded.
fn masked(text: &str) -> String {
    // Why a link is down, which stands last, depends on the moment.
    let text: String = text
        .split("```text")
        .map(|one| one.split("\n     link ").next().unwrap_or_default())
        .collect();
    let mut mask = String::new();
    for word in text.split_whitespace() {
        let plain: String = word.chars().filter(|c| !c.is_ascii_digit()).collect();
        let unit = ["", ".", "ms", "s", "min", "(s)", "( ms)", "B", "KiB", "MiB"];
        if !unit.contains(&plain.trim_matches(['(', ')', ','])) {
            mask.push_str(&plain);
            mask.push(' ');
        }
    }
    mask
}

#[test]
fn five_situations_are_shown_as_the_page_shows_them() {
    let mut all = of_the_link();
    all.push(of_a_disk());
    let found = format!("\n{}\n", all.join("\n"));
    let text = page(PAGE);
    let from = text.find(BEGIN).expect("the page has a place for them") + BEGIN.len();
    let to = text.find(END).expect("it ends");
    if std::env::var_os("HELIO_REWRITE").is_some() {
        let new = format!("{}{found}{}", &text[..from], &text[to..]);
        std::fs::write(top().join(PAGE), new).expect("the page can be written");
        return;
    }
    let kept = masked(&text[from..to]);
    assert!(
        kept == masked(&found),
        "{PAGE} shows other situations; HELIO_REWRITE=1 writes these:\n{found}\nmasked:\n{kept}\n{}",
        masked(&found)
    );
}

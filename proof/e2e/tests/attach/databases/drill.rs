// SPDX-License-Identifier: Apache-2.0
//! The drill of the operators' page: its script starts PostgreSQL on the secondary's copy while clients commit on the primary.

use super::*;
use std::fs;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operate.md");

/// The script of the page, as it stands there.
fn script() -> String {
    let page = fs::read_to_string(PAGE).expect("the page is there");
    let (_, section) = page.split_once("\n## Drill\n").expect("the page has a section");
    let (_, from) = section.split_once("```sh\n#!/bin/sh\n").expect("it has a script");
    from.split_once("```\n").expect("the block ends").0.to_owned()
}

#[test]
fn postgres_starts_in_a_drill_of_the_secondary_while_clients_commit() {
    attachable!();
    require!("mke2fs", "setpriv", "runuser");
    let Some(database) = Postgres::find() else { return };
    let mut dice =
        Dice::of_test("postgres_starts_in_a_drill_of_the_secondary_while_clients_commit");
    let stage = Stage::new(Mode::Sync, Bytes::mib(256));
    let mut story = Story { stage, mode: Mode::Sync, primary: "paris", database };
    let place = story.begin();
    let held = story.database.check(&place);
    let writers = story.load(&held, &mut dice);
    let run = |name: &str, script: &str| {
        let file = story.stage.pair.scratch().write(name, script);
        let line =
            format!("TMPDIR={} sh {}", story.stage.pair.scratch().path().display(), file.display());
        story.stage.pair.helio("lyon", &["drill", "db", "--run", &line])
    };
    let broken = script().replace("place/mnt/data", "place/mnt/elsewhere");
    let said = run("broken.sh", &broken).expect_failure();
    assert!(said.contains("the command ended with exit status 1"), "{said}");
    story.stage.assert_nothing_left("lyon");
    let last = |writers: &[Writer]| -> Vec<u64> {
        writers.iter().map(|writer| writer.last.load(Ordering::Acquire)).collect()
    };
    for _ in 0..2 {
        let before = last(&writers);
        let said = run("drill.sh", &script()).expect_success();
        println!("{said}");
        assert!(
            said.contains("recovered to 0/")
                && said.contains("the drill of db on lyon succeeded in ")
        );
        let after = last(&writers);
        assert!(
            before.iter().zip(&after).all(|(before, after)| before < after),
            "{before:?} {after:?}"
        );
        let list = story.stage.pair.helio("lyon", &["snapshot", "list", "db", "--json"]).json();
        assert_eq!(list["snapshots"].as_array().map(Vec::len), Some(0), "{list}");
        story.stage.assert_nothing_left("lyon");
    }
    wait_level(&story.stage.pair, "paris");
    story.database.end();
    writers.into_iter().for_each(|writer| _ = writer.broken());
    story.finish();
}

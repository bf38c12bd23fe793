// SPDX-License-Identifier: Apache-2.0
//! PostgreSQL in snapshots of a secondary, taken while clients commit: in each, mounted and written where it is, it recovers, is whole, and
//! holds every transaction that was acknowledged before the snapshot. The full count: `HELIO_SNAPSHOTS=50 cargo test -p helio-e2e --test attach databases::snapshots`.

use super::*;
use std::fs::remove_file;
use std::path::Path;

const SNAPSHOTS: u64 = 2;

#[test]
fn postgres_recovers_in_every_snapshot_of_a_secondary() {
    attachable!();
    require!("mke2fs", "setpriv");
    let (Some(database), Some(mut another)) = (Postgres::find(), Postgres::find()) else { return };
    let mut dice = Dice::of_test("postgres_recovers_in_every_snapshot_of_a_secondary");
    let stage = Stage::new(Mode::Sync, Bytes::mib(256));
    let mut story = Story { stage, mode: Mode::Sync, primary: "paris", database };
    let place = story.begin();
    let mut held = story.database.check(&place);
    let writers = story.load(&held, &mut dice);
    for round in 0..times("HELIO_SNAPSHOTS", SNAPSHOTS) {
        commit_more(&writers, &held, &mut dice);
        let last = |writer: &Writer| writer.last.load(Ordering::Acquire);
        let acknowledged: Vec<u64> = writers.iter().map(last).collect();
        let name = format!("s{round}");
        story.snapshot("paris", &["create", &format!("db@{name}")]);
        let found = story.restore(&name, &mut another);
        assert!(
            found.len() == acknowledged.len()
                && found.iter().zip(&acknowledged).all(|(found, least)| found >= least),
            "{acknowledged:?} was acknowledged before {name}, which has {found:?}"
        );
        println!("{name}: {found:?}, of which {acknowledged:?} had been acknowledged");
        story.snapshot("paris", &["delete", &format!("db@{name}"), "--yes"]);
        held = acknowledged;
    }
    story.database.end();
    writers.into_iter().for_each(|writer| _ = writer.broken());
    story.finish();
}

impl Story<Postgres> {
    #[track_caller]
    fn snapshot(&self, node: &str, arguments: &[&str]) {
        self.stage.pair.helio(node, &[&["snapshot"], arguments].concat()).expect_success();
    }

    /// Starts a database in a snapshot of the secondary, and returns what it holds.
    fn restore(&self, name: &str, database: &mut Postgres) -> Vec<u64> {
        let (pair, volume) = (&self.stage.pair, format!("{VOLUME}@{name}"));
        let device = eventually(PATIENCE, "the snapshot of the secondary", || {
            let told = pair.helio("lyon", &["attach", &volume]);
            told.status.success().then(|| told.expect_success())
        });
        let (device, place) = (Path::new(device.trim_end()), pair.scratch().join("in-snapshot"));
        std::fs::create_dir_all(&place).expect("room");
        let manner: &[&str] = if device.is_file() { &["-o", "loop"] } else { &[] };
        run(Command::new("mount").args(manner).arg(device).arg(&place)).expect_success();
        // It names the process that writes the original.
        remove_file(place.join("data/postmaster.pid")).expect("the database was running");
        database.open(&place);
        let found = database.check(&place);
        database.end();
        eventually(PATIENCE, "the snapshot to be unused", || {
            run(Command::new("umount").arg(&place)).status.success().then_some(())
        });
        on("fsck.ext4", &["-fn"], device).expect_success();
        pair.helio("lyon", &["detach", &volume]).expect_success();
        found
    }
}

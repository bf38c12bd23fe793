// SPDX-License-Identifier: Apache-2.0
//! A disk that took part in a group is no new one, although it carries nothing of Heliograph's, and whatever the group is called now.

use helio_e2e::{Book, Load, Promise, begin, image, wait_level};
use helio_testkit::{Dice, LoopDevice, Pair, Plan, TempDir, helio};
use helio_units::{Bytes, Mode};
use std::sync::Arc;

const SOME: Load = Load { count: Some(300), ..Load::PLAIN };
const SIZE: Bytes = Bytes::mib(16);

/// What a command that is given the configuration and the state of a node says, which must fail.
fn refused(pair: &Pair, node: &str, command: &str) -> String {
    let (state, config) = (pair.state(node), pair.config());
    let (state, config) = (state.display().to_string(), config.display().to_string());
    let told = helio(&[command, "--node", node, "--config", &config, "--state", &state]);
    assert!(!told.status.success(), "{told}");
    format!("{}{}", told.stdout, told.stderr)
}

fn rename(pair: &Pair, from: &str, to: &str) {
    let text = std::fs::read_to_string(pair.config()).expect("it is there");
    let (from, to) = (format!("group.{from}"), format!("group.{to}"));
    assert!(text.contains(&from), "{text}");
    std::fs::write(pair.config(), text.replace(&from, &to)).expect("there is room");
}

/// The secondary lacks writes. Under the new name neither node would know that, and a promotion of it would overwrite them.
#[test]
fn a_renamed_group_on_block_devices_is_not_a_new_one() {
    let dice = Dice::of_test("a_renamed_group_on_block_devices_is_not_a_new_one");
    let files = TempDir::new();
    let device = |name: &str| LoopDevice::on(&files.file(name, SIZE), &[]);
    let Some([first, second, third]) =
        device("one").zip(device("two")).zip(device("three")).map(|((a, b), c)| [a, b, c])
    else {
        return;
    };
    let plan = Plan::new("db").mode(Mode::Async).volume("data", SIZE);
    let plan = plan.member("paris", "data", first.path()).mirror("paris", "data", second.path());
    let mut pair = plan.member("lyon", "data", third.path()).start();
    begin(&pair, "paris");
    wait_level(&pair, "paris");
    pair.daemon("lyon").terminate();
    let book = Arc::new(Book::new(dice.seed()));
    SOME.run(&pair, "paris", &dice, &book);
    pair.daemon("paris").terminate();
    rename(&pair, "db", "pg");
    for (node, disk) in [("paris", first.path()), ("lyon", third.path())] {
        let other = format!("{} is a disk of group db, by", disk.display());
        for command in ["check", "daemon"] {
            let told = refused(&pair, node, command);
            assert!(told.contains(&other), "{node}: {command}: {told}");
            let way = format!("helio rename group db pg --node {node}");
            assert!(told.contains(&way) && told.contains("its name db again"), "{told}");
        }
    }
    rename(&pair, "pg", "db");
    pair.start("lyon");
    pair.start("paris");
    wait_level(&pair, "paris");
    book.assert_holds("paris", &image(&pair, "paris", book.run()), Promise::Everything);
}

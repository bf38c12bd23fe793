// SPDX-License-Identifier: Apache-2.0
//! A machine is copied: two daemons have the name, the metadata and the disks of one node.

use helio_e2e::{PATIENCE, begin};
use helio_testkit::{Daemon, Plan, eventually, free_port, run};
use helio_units::{Bytes, Mode};
use std::fs;
use std::process::Command;

/// lyon connects to paris, and so does its copy.
#[test]
fn of_two_daemons_of_one_node_only_one_is_followed_and_both_are_named() {
    let mut pair = Plan::new("db").mode(Mode::Async).volume("data", Bytes::mib(16)).start();
    begin(&pair, "paris");
    pair.daemon("lyon").terminate();
    let text = fs::read_to_string(pair.config()).expect("it is there");
    let member = pair.member("lyon", "data");
    let (copy, state) = (pair.scratch().join("copy.img"), pair.scratch().join("copy"));
    fs::copy(&member, &copy).expect("there is room");
    run(Command::new("cp").arg("-a").arg(pair.state("lyon")).arg(&state)).expect_success();
    let [before, after] =
        text.split_once("[node.lyon]\naddress = \"").map(|(a, b)| [a, b]).expect("it is there");
    let (_, after) = after.split_once('"').expect("it is closed");
    let text = format!("{before}[node.lyon]\naddress = \"{}\"{after}", free_port());
    let text = text.replace(&member.display().to_string(), &copy.display().to_string());
    let config = pair.scratch().write("copy.toml", &text);
    pair.start("lyon");
    let mark = pair.daemon("paris").log().len();
    let mut other = Daemon::start("lyon", &config, &state);
    other.wait_ready();
    let why = "group db: two daemons of node lyon run: the one that calls from 127.0.0.1, and one that was started later, and is \
               connected from 127.0.0.1:";
    eventually(PATIENCE, "both daemons in the log of paris", || {
        pair.daemon("paris").log()[mark..].contains(why).then_some(())
    });
    eventually(PATIENCE, "the reason in the status of lyon", || {
        pair.status("lyon").to_string().contains(why).then_some(())
    });
    eventually(PATIENCE, "both daemons in a check on lyon", || {
        let told = pair.check("lyon").stdout;
        (told.contains("FAIL  connection of db with paris: ") && told.contains(why)).then_some(())
    });
    other.terminate();
    helio_e2e::wait_level(&pair, "paris");
}

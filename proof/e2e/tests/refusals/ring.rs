// SPDX-License-Identifier: Apache-2.0
//! A process that may not use io_uring, as in many containers: whichever of its calls is denied, threads take its place, or the start is
//! refused where the ring was asked for.

use crate::common::{assert_says, findings, refusal_under, verb};
use helio_e2e::{BLOCK, connect, group};
use helio_testkit::{Plan, helio_binary};
use helio_units::Bytes;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const DENIED: &str = env!("CARGO_BIN_EXE_helio-denied");
const CALLS: [&str; 3] = ["io_uring_setup", "io_uring_enter", "io_uring_register"];

#[test]
fn a_ring_that_was_asked_for_and_cannot_be_used_is_refused_with_what_allows_it() {
    let plan = Plan::new("db").node_line("paris", "driver = \"ring\"");
    let pair = plan.volume("data", Bytes::mib(1)).prepare();
    for call in CALLS {
        let said = refusal_under(&[DENIED, call], "paris", pair.config(), &pair.state("paris"));
        assert_says(&said, &["`driver = \"ring\"`: io_uring cannot be used"]);
        assert_says(&said, &["kernel.io_uring_disabled=0", "`driver = \"poll\"`"]);
    }
}

#[test]
fn where_no_ring_can_be_used_threads_serve_and_check_says_so() {
    for call in CALLS {
        let mut pair = Plan::new("db").only("paris").volume("data", Bytes::mib(1)).prepare();
        let told = verb(&[DENIED, call], "check", "paris", pair.config(), &pair.state("paris"));
        let all = findings(&told);
        let driver = all.iter().find(|it| it["what"] == "I/O driver").expect("it is looked at");
        assert_eq!(driver["verdict"], "warn", "{call}: {driver}");
        let why = driver["why"].as_str().expect("a text");
        assert_says(why, &["io_uring cannot be used", "poll is used"]);
        let script = pair.scratch().write(
            "denied",
            &format!("#!/bin/sh\nexec {DENIED} {call} {} \"$@\"\n", helio_binary().display()),
        );
        fs::set_permissions(&script, Permissions::from_mode(0o755)).expect("it is ours");
        pair.start_program(Path::new(&script), "paris");
        assert_eq!(pair.status("paris")["driver"], "poll", "{call}");
        pair.helio("paris", &["promote", "db", "--force", "--yes"]).expect_success();
        let mut client = connect(&pair, "paris");
        client.write(0, &[7; BLOCK], true).expect("it is written");
        let mut read = [0; BLOCK];
        client.read(0, &mut read).expect("it is read");
        assert_eq!(read, [7; BLOCK], "{call}");
        assert_eq!(group(&pair, "paris")["role"], "primary");
    }
}

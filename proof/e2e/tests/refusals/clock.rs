// SPDX-License-Identifier: Apache-2.0
//! The wall clock of a running daemon is set: forward, backward, and to before 1970. Nothing but the times shown follows it.

use crate::common::{assert_says, promote, replicating};
use helio_e2e::{connect, wait, wait_level};
use helio_testkit::{Pair, Plan, helio_binary, require, run};
use helio_units::{Bytes, Mode};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// Long beside what a daemon takes to follow its clock, and short beside a step.
const SLACK_MS: i64 = 60_000;

/// Adds the seconds in a file to what the wall clock shows.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec *shown) {
    int result = syscall(SYS_clock_gettime, clock, shown);
    char text[32] = "";
    int step = clock == CLOCK_REALTIME ? open(getenv("STEP_FILE"), O_RDONLY) : -1;
    if (step >= 0) {
        if (read(step, text, sizeof text - 1) > 0) shown->tv_sec += atoll(text);
        close(step);
    }
    return result;
}
"#;

/// Nodes whose daemons see another wall clock than this test.
struct Stepped {
    pair: Pair,
    step: PathBuf,
}

impl Stepped {
    fn start(mut pair: Pair) -> Self {
        let scratch = pair.scratch();
        let (source, shim) = (scratch.write("step.c", SHIM), scratch.join("step.so"));
        let mut compiler = Command::new("cc");
        run(compiler.args(["-shared", "-fPIC", "-o"]).arg(&shim).arg(&source)).expect_success();
        let step = scratch.write("step", "0");
        let [shown, file] = [&shim, &step].map(|path| path.display().to_string());
        let text = format!(
            "#!/bin/sh\nSTEP_FILE={file} LD_PRELOAD={shown} exec {} \"$@\"\n",
            helio_binary().display()
        );
        let program = scratch.write("stepped-helio", &text);
        fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("it is ours");
        for node in ["lyon", "paris"] {
            pair.start_program(&program, node);
        }
        promote(&pair, "paris");
        Self { pair, step }
    }

    /// Sets the wall clocks of both daemons, in seconds from this test's.
    fn set(&self, seconds: i64) {
        let new = self.step.with_extension("new");
        fs::write(&new, seconds.to_string()).expect("there is room");
        fs::rename(&new, &self.step).expect("it is ours");
    }
}

fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("this machine knows the year");
    now.as_millis() as i64
}

/// Fails if a time in the status is later than the status, or older than this test, which began then.
#[track_caller]
fn assert_ages(status: &Value, begun: i64) {
    let most = (now_ms() - begun + SLACK_MS) as u64;
    let at = status["at_ms"].as_u64().expect("a time");
    let group = &status["groups"][0];
    let mut times = vec![
        &group["state_since_ms"],
        &group["verdict"]["since_ms"],
        &group["peer"]["connection_since_ms"],
    ];
    for queue in [&group["queue"], &group["answers"], &group["volumes"][0]["verified"]] {
        let fields = queue.as_object().into_iter().flatten();
        times.extend(fields.filter(|(name, _)| name.ends_with("_ms")).map(|(_, time)| time));
    }
    for time in times {
        let age = at.checked_sub(time.as_u64().expect("a time"));
        assert!(age.is_some_and(|age| age < most), "{age:?} of {time}: {status:#}");
    }
}

#[test]
fn a_wall_clock_that_is_set_changes_the_times_shown_and_nothing_else() {
    require!("cc");
    let begun = now_ms();
    let plan = Plan::new("db").mode(Mode::Sync).volume("data", Bytes::mib(4));
    let stepped = Stepped::start(plan.group_line("hold = \"10s\"").prepare());
    let pair = &stepped.pair;
    pair.helio("paris", &["verify", "start", "db", "--wait"]).expect_success();
    let generation = pair.status("paris")["groups"][0]["generation"].clone();
    let mut client = connect(pair, "paris");
    let real = now_ms() / 1000;
    let (hours, days) = (5 * 3600, 300 * 86_400);
    // The last but one shows 1970, the last the time before it, which helio takes for none.
    for (turn, step) in [hours, -hours, days, 0, 60 - real, -2 * real].into_iter().enumerate() {
        stepped.set(step);
        client.write(4096 * turn as u64, &[turn as u8 + 1; 4096], false).expect("it is answered");
        client.flush().expect("it is answered");
        replicating(pair, "paris");
        wait_level(pair, "paris");
        for node in ["paris", "lyon"] {
            let shows = || now_ms() + step * 1000;
            let from = shows();
            // Between what the clock showed before and what it shows now.
            let is_right = |shown: &Value| {
                let at = shown["at_ms"].as_i64().unwrap_or_default();
                from < 0 || (from - SLACK_MS..shows() + SLACK_MS).contains(&at)
            };
            let status = pair.status(node);
            assert!(is_right(&status), "{node} should show {from}: {status:#}");
            assert_ages(&status, begun);
            assert_eq!(status["groups"][0]["generation"], generation, "{status:#}");
            let said = pair.helio(node, &["status", "db", "-v"]).expect_success();
            assert_says(&said, &["OK  ", "sync"]);
            let events = pair.helio(node, &["events", "--now", "--json"]).expect_success();
            let last = events.lines().last().expect("at least the end of the list");
            let last: Value = serde_json::from_str(last).expect("an event");
            assert!(is_right(&last), "{node} should show {from}: {last}");
        }
        let lease = wait(pair, "lyon", "the lease", |group| group["lease"]["held"] == true);
        let left = lease["lease"]["seconds"].as_f64().expect("it ends");
        assert!((0.0..=10.0).contains(&left), "{lease:#}");
    }
    stepped.set(0);
    let mut pair = stepped.pair;
    for node in ["paris", "lyon"] {
        let log = pair.daemon(node).log();
        assert_says(&log, &["the wall clock was set"]);
        assert!(!log.contains("panicked"), "{log}");
        assert_eq!(log.matches("replicating -> ").count(), 0, "{log}");
    }
    for node in ["paris", "lyon"] {
        assert!(pair.daemon(node).terminate().success());
    }
}

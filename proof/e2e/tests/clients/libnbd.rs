// SPDX-License-Identifier: Apache-2.0
//! libnbd from Python: what no ready-made client asks for in so many words.

use crate::common::{assert_mirrored, command, one_volume};
use helio_testkit::{PYTHON, require, run};
use helio_units::{Bytes, Mode};

/// The stories, told in Python.
const STORIES: &str = include_str!("stories.py");

fn tell(story: &str, mode: Mode) {
    let pair = one_volume(mode, Bytes::mib(16));
    let script = pair.scratch().write("stories.py", STORIES);
    let uri = pair.export("paris", "data");
    run(&mut command(PYTHON, &[&script.to_string_lossy(), story, &uri])).expect_success();
    if story == "several_connections" {
        // The last thing the story did was a flush, on a connection that had written nothing.
        let status = pair.status("paris");
        let cursors = &status["groups"][0]["cursors"];
        assert_eq!(cursors["durable"], cursors["accepted"], "{status}");
    }
    assert_mirrored(&pair, &["data"]);
}

#[test]
fn replies_are_structured_or_simple_as_the_client_likes() {
    require!("python3-libnbd");
    tell("replies", Mode::Sync);
}

#[test]
fn a_write_with_fua_is_a_write() {
    require!("python3-libnbd");
    tell("fua", Mode::Sync);
}

#[test]
fn a_flush_on_one_connection_covers_writes_on_another() {
    require!("python3-libnbd");
    tell("several_connections", Mode::Async);
}

#[test]
fn many_requests_at_once_are_answered_each_as_it_asked() {
    require!("python3-libnbd");
    tell("many_at_once", Mode::Async);
}

#[test]
fn refused_requests_leave_the_connection_usable() {
    require!("python3-libnbd");
    tell("refusals", Mode::Sync);
}

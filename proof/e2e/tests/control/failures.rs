// SPDX-License-Identifier: Apache-2.0
//! No answer: which of the three reasons it is, and what a caller may conclude from it.

use crate::common::assert_ended;
use helio_e2e::halt;
use helio_testkit::{Pair, Plan};
use helio_units::Bytes;
use std::io::Read;
use std::os::unix::net::{UnixListener, UnixStream};

/// A stand-in for a daemon: takes one connection and a request on it, and then does as it likes with it.
fn stand_in(pair: &Pair, then: impl FnOnce(UnixStream) + Send + 'static) -> impl Sized {
    let state = pair.state("paris");
    std::fs::create_dir_all(&state).expect("a folder");
    let listener = UnixListener::bind(state.join("control.sock")).expect("a socket");
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let mut head = [0; 1024];
        let count = stream.read(&mut head).expect("a request");
        assert!(count > 0, "a request");
        then(stream);
    })
}

#[test]
fn a_daemon_that_hangs_is_given_the_time_that_was_said() {
    let mut pair = Plan::new("db").volume("data", Bytes::mib(1)).start();
    halt(&mut pair, "paris");
    let told = pair.helio("paris", &["status", "--timeout", "200ms"]);
    let phrases =
        ["did not respond to GET /v2/status within 200ms", "--timeout", "retry: may help"];
    assert_ended(&told, 5, &phrases);
    pair.daemon("paris").thaw();
    pair.helio("paris", &["status", "--timeout", "30s"]).expect_success();
}

#[test]
fn a_connection_lost_on_the_way_is_not_mistaken_for_no_daemon() {
    let pair = Plan::new("db").volume("data", Bytes::mib(1)).prepare();
    let _daemon = stand_in(&pair, drop);
    let told = pair.helio("paris", &["pause", "db"]);
    let phrases = ["was lost during POST /v2/groups/db/pause", "helio status", "retry: may help"];
    assert_ended(&told, 5, &phrases);
}

#[test]
fn a_stream_that_breaks_off_says_where_to_go_on() {
    let pair = Plan::new("db").volume("data", Bytes::mib(1)).prepare();
    let _daemon = stand_in(&pair, |mut stream| {
        use std::io::Write;
        let line = "{\"sequence\":41,\"at_ms\":1,\"event\":\"alive\"}\n";
        let answer = format!(
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{line}\r\n",
            line.len()
        );
        stream.write_all(answer.as_bytes()).expect("it reads");
    });
    let told = pair.helio("paris", &["events", "--json"]);
    assert!(told.stdout.contains("\"sequence\":41"), "{told}");
    assert_ended(&told, 5, &["helio events --since 41", "was lost during", "\"retry\":true"]);
}

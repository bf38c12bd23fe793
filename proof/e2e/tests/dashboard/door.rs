// SPDX-License-Identifier: Apache-2.0
//! Who gets in: requests as other programs, other pages and other hosts would send them.

use crate::stage::Dashboard;
use helio_e2e::{PATIENCE, begin};
use helio_testkit::{Pair, Plan, in_time, timely};
use helio_units::Bytes;
use rustix::process::Signal;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

fn pair() -> Pair {
    let pair = Plan::new("db").volume("data", Bytes::mib(4)).start();
    begin(&pair, "paris");
    pair
}

/// A request for a snapshot, with these lines in its head.
fn act(path: &str, head: &str) -> String {
    let body = r#"{"node":0,"group":"db","action":"helio snapshot create db@","input":"one"}"#;
    let length = body.len();
    format!("POST {path} HTTP/1.1\n{head}\nContent-Length: {length}\nConnection: close\n\n{body}")
}

#[test]
fn a_wrong_token_origin_or_host_is_refused_and_nothing_is_done() {
    let pair = pair();
    let dashboard = Dashboard::start(&pair, ["paris", "lyon"], &[]);
    let json = "Content-Type: application/json";
    for (request, status) in [
        // Another user of this host, without the token or with one that was guessed.
        (act("/act", &format!("Host: HOST\n{json}")), 403),
        (act("/00000000000000000000000000000000/act", &format!("Host: HOST\n{json}")), 403),
        (act("/TOKEN0/act", &format!("Host: HOST\n{json}")), 403),
        // Another page, which knows the token.
        (act("/TOKEN/act", &format!("Host: HOST\n{json}\nOrigin: http://example.com")), 403),
        (act("/TOKEN/act", &format!("Host: HOST\n{json}\nOrigin: null")), 403),
        (act("/TOKEN/act", &format!("Host: HOST\n{json}\nSec-Fetch-Site: cross-site")), 403),
        // Another host, whose name leads to this address.
        (act("/TOKEN/act", &format!("Host: example.com\n{json}")), 421),
        (act("/TOKEN/act", &format!("Host: 127.0.0.1.example.com\n{json}")), 421),
        (act("/TOKEN/act", &format!("Host: HOST\nHost: HOST\n{json}")), 400),
        (act("http://example.com/TOKEN/act", &format!("Host: HOST\n{json}")), 421),
        ("GET /TOKEN/live HTTP/1.0\nConnection: close\n\n".to_owned(), 421),
        // A form.
        (act("/TOKEN/act", "Host: HOST\nContent-Type: text/plain"), 415),
        ("GET /TOKEN/act HTTP/1.1\nHost: HOST\nConnection: close\n\n".to_owned(), 404),
        ("GET /TOKEN/live HTTP/1.1\nHost: example.com\nConnection: close\n\n".to_owned(), 421),
        ("GET /live HTTP/1.1\nHost: HOST\nConnection: close\n\n".to_owned(), 403),
        ("GET /TOKEN/../etc/passwd HTTP/1.1\nHost: HOST\nConnection: close\n\n".to_owned(), 404),
        ("PUT /TOKEN/ HTTP/1.1\nHost: HOST\nConnection: close\n\n".to_owned(), 405),
    ] {
        let (head, body) = dashboard.send(&request);
        let told = head.split(' ').nth(1);
        assert_eq!(told, Some(status.to_string().as_str()), "{request}\n{head}\n{body}");
        assert!(head.contains("content-security-policy: default-src 'none'"), "{head}");
    }
    let list = pair.helio("paris", &["snapshot", "list", "db", "--json"]).json();
    assert_eq!(list["snapshots"].as_array().map(Vec::len), Some(0), "{list}");
    // The same request, as the page sends it.
    let own = format!("Host: HOST\n{json}\nOrigin: http://HOST\nSec-Fetch-Site: same-origin");
    let (head, body) = dashboard.send(&act("/TOKEN/act", &own));
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}\n{body}");
    let list = pair.helio("paris", &["snapshot", "list", "db", "--json"]).json();
    assert_eq!(list["snapshots"][0]["name"], "one");
}

#[test]
fn what_the_page_asks_for_is_refused_with_a_hint_if_it_cannot_be_done() {
    let pair = pair();
    let mut dashboard = Dashboard::start(&pair, ["paris", "lyon"], &[]);
    let post = |path: &str, body: &str| {
        let length = body.len();
        dashboard.send(&format!(
            "POST /TOKEN/{path} HTTP/1.1\nHost: HOST\nContent-Type: application/json\n\
             Content-Length: {length}\nConnection: close\n\n{body}"
        ))
    };
    for (path, body, code) in [
        ("act", r#"{"node":7,"group":"db","action":"helio pause db"}"#, "bad-request"),
        ("act", r#"{"node":0,"group":"mail","action":"helio pause db"}"#, "bad-request"),
        ("act", r#"{"node":0,"group":"db","action":"helio release db --force"}"#, "bad-request"),
        ("act", r#"{"node":0,"group":"db","action":"rm -r /"}"#, "bad-request"),
        ("act", "{", "bad-request"),
        ("act", r#"{"node":0,"group":"no","action":"helio pause no"}"#, "unknown-group"),
        (
            "act",
            r#"{"node":1,"group":"db","action":"helio promote db --force"}"#,
            "peer-is-primary",
        ),
        ("simulate", r#"{"press":"kill","node":"paris"}"#, "not-found"),
    ] {
        let (head, answer) = post(path, body);
        let error: serde_json::Value = serde_json::from_str(&answer).expect(&head);
        assert_eq!(error["code"], code, "{body}: {answer}");
        assert!(error["hint"].as_str().is_some_and(|hint| !hint.is_empty()), "{answer}");
    }
    assert_eq!(pair.status("lyon")["groups"][0]["role"], "secondary");
    // What the hint recommends can be done at once.
    let promote = r#"{"node":1,"group":"db","action":"helio promote db --force"}"#;
    let (_, answer) = post("act", promote);
    let error: serde_json::Value = serde_json::from_str(&answer).expect("an error");
    assert_eq!(error["offers"][0]["action"], "helio switch db", "{answer}");
    dashboard.process.signal(Signal::INT);
    let ended = dashboard.process.wait_end(PATIENCE, "helio dashboard");
    assert_eq!(ended.code(), Some(0));
}

#[test]
fn processes_without_the_token_do_not_hold_the_server() {
    let pair = pair();
    let dashboard = Dashboard::start(&pair, ["paris", "lyon"], &[]);
    let (host, _) = dashboard.parts();
    let wrong = format!("GET /guessed/ HTTP/1.1\r\nHost: {host}\r\n\r\n");
    let begun = Instant::now();
    // More than the server accepts, silent or with a token that was guessed. They stay open.
    let connections: Vec<TcpStream> = (0..96)
        .map(|n| {
            let mut stream = TcpStream::connect(host).expect("it listens");
            if n % 2 == 0 {
                // The server may have closed it for a newer one.
                let _closed = stream.write_all(wrong.as_bytes());
            }
            stream
        })
        .collect();
    let (head, body) = dashboard.send("GET /TOKEN/ HTTP/1.1\nHost: HOST\nConnection: close\n\n");
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}\n{body}");
    // The newer ones replaced the first silent one.
    let mut silent = &connections[1];
    silent.set_read_timeout(Some(PATIENCE)).expect("a time above zero");
    let closed = match timely(silent.read(&mut [0; 64]), "the end of the oldest connection") {
        Ok(length) => length == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    };
    assert!(closed, "the server speaks to a connection without the token");
    let alone = Duration::from_secs(2);
    in_time(begun.elapsed(), alone, "a connection that newer ones replace, or the server alone,");
}

#[test]
fn it_listens_on_this_host_alone() {
    let pair = pair();
    let refused = pair.helio("paris", &["dashboard", "--listen", "0.0.0.0:0"]).expect_failure();
    assert!(refused.contains("ssh -L"), "{refused}");
    let refused = pair.helio("paris", &["dashboard", "--listen", "127.0.0.2:0"]).expect_failure();
    assert!(refused.contains("127.0.0.1"), "{refused}");
    let paris = pair.state("paris").display().to_string();
    let twice = pair.helio("paris", &["dashboard", "--with", &paris]).expect_failure();
    assert!(twice.contains("names node paris twice"), "{twice}");
    let taken = Dashboard::start(&pair, ["paris", "lyon"], &[]);
    let (host, _) = taken.parts();
    let refused = pair.helio("paris", &["dashboard", "--listen", host]).expect_failure();
    assert!(refused.contains("cannot listen on") && refused.contains("hint: "), "{refused}");
}

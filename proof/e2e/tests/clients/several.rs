// SPDX-License-Identifier: Apache-2.0
//! More than one volume, more than one way in.

use crate::common::{assert_mirrored, assert_same, command, serving, sown, start_serving};
use helio_testkit::{Dice, Plan, eventually_from, free_port, require, run};
use helio_units::{Bytes, Mode};
use std::net::TcpStream;
use std::time::Duration;

#[test]
fn two_volumes_of_a_group_are_two_exports() {
    require!("nbdcopy", "nbdinfo");
    let mut dice = Dice::of_test("two_volumes_of_a_group");
    let volumes = [("data", Bytes::mib(64)), ("logs", Bytes::mib(32))];
    let plan = volumes.iter().fold(Plan::new("db"), |plan, (name, size)| plan.volume(name, *size));
    let pair = serving(plan.mode(Mode::Sync));
    let list = pair.export("paris", "data").replace("/db/data?", "/?");
    let said = run(&mut command("nbdinfo", &["--list", "--json", &list])).json();
    let names = said["exports"].as_array().expect("a list").iter().map(|e| &e["export-name"]);
    let names: Vec<_> = names.collect();
    assert_eq!(names, ["db/data", "db/data:ro", "db/logs", "db/logs:ro"], "{said}");
    for (name, size) in volumes {
        let source = pair.scratch().join(&format!("source-{name}"));
        sown(&source, size, &mut dice);
        let export = pair.export("paris", name);
        run(&mut command("nbdcopy", &[&source.to_string_lossy(), &export])).expect_success();
        assert_mirrored(&pair, &["data", "logs"]);
        assert_same(&source, &pair.member("lyon", name));
    }
}

#[test]
fn an_export_is_served_over_tcp_where_the_file_says_so() {
    require!("nbdcopy");
    let mut dice = Dice::of_test("an_export_is_served_over_tcp");
    let mut pair = Plan::new("db").mode(Mode::Async).volume("data", Bytes::mib(64)).prepare();
    let address = free_port();
    let text = std::fs::read_to_string(pair.config()).expect("it was written");
    let paris = "[node.paris]\n";
    let text = text.replace(paris, &format!("{paris}nbd = \"{address}\"\n"));
    pair.scratch().write("heliograph.toml", &text);
    start_serving(&mut pair);
    let source = pair.scratch().join("source.img");
    sown(&source, Bytes::mib(64), &mut dice);
    let export = format!("nbd://{address}/db/data");
    run(&mut command("nbdcopy", &[&source.to_string_lossy(), &export])).expect_success();
    assert_mirrored(&pair, &["data"]);
    assert_same(&source, &pair.member("lyon", "data"));
}

/// A connection as the kernel shows it: its local port, its state, and its timer.
fn connections() -> Vec<(u16, String, String)> {
    let text = std::fs::read_to_string("/proc/net/tcp").expect("the kernel has it");
    let row = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (_, port) = words[1].split_once(':').expect("an address and a port");
        let port = u16::from_str_radix(port, 16).expect("a number");
        let (timer, _) = words[5].split_once(':').expect("a timer and a time");
        (port, words[3].to_owned(), timer.to_owned())
    };
    text.lines().skip(1).map(row).collect()
}

/// Its host may vanish: without a timer of the kernel, the connection would stay for ever.
#[test]
fn a_silent_client_over_tcp_is_asked_whether_it_is_there() {
    const ESTABLISHED: &str = "01";
    const KEEPALIVE: &str = "02";
    let address = free_port();
    let plan = Plan::new("db").only("paris").volume("data", Bytes::mib(1));
    let _pair = plan.node_line("paris", &format!("nbd = \"{address}\"")).start();
    let _client = TcpStream::connect(address).expect("it listens");
    eventually_from(Duration::from_secs(30), "a timer on the accepted connection", || {
        let shown = connections();
        let here = |(port, state, _): &&(u16, String, String)| {
            *port == address.port() && state == ESTABLISHED
        };
        match shown.iter().find(here) {
            Some((_, _, timer)) if timer == KEEPALIVE => Ok(()),
            _ => Err(format!("{shown:?}")),
        }
    });
}

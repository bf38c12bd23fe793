// SPDX-License-Identifier: Apache-2.0
//! Commands from elsewhere: from operators whose keys a node knows, and from nobody else.

use crate::common::{Caller, apply, assert_says, new_key, node_key};
use helio_e2e::{PATIENCE, wait_level};
use helio_testkit::{
    Pair, Plan, TempDir, Terminal, Told, eventually, free_port, helio, helio_binary, require, run,
};
use helio_tls::{PublicKey, Purpose, TlsError};
use helio_units::Bytes;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A pair of which paris takes commands at an address, from one operator.
struct Stage {
    pair: Pair,
    control: SocketAddr,
    peers: SocketAddr,
    operator: PathBuf,
    server: PublicKey,
    folder: TempDir,
}

impl Stage {
    fn set() -> Self {
        let folder = TempDir::new();
        let (operator, control) = (folder.join("operator.key"), free_port());
        let known = new_key(&operator);
        let plan = Plan::new("db").keys().volume("data", Bytes::mib(4));
        let peers = plan.dialled();
        let pair = plan
            .node_line("paris", &format!("control = \"{control}\""))
            .node_line("paris", &format!("operators = [\"{known}\"]"))
            .start();
        let server = node_key(&pair, "paris");
        Self { pair, control, peers, operator, server, folder }
    }

    /// Runs a verb from elsewhere, as whoever holds the key.
    #[track_caller]
    fn ask(&self, at: SocketAddr, key: &Path, server: PublicKey, verb: &[&str]) -> Told {
        let (at, server) = (at.to_string(), server.to_string());
        let key = key.to_string_lossy();
        helio(&[verb, &["--host", &at, "--key", &key, "--server-key", &server]].concat())
    }

    #[track_caller]
    fn command(&self, verb: &[&str]) -> Told {
        self.ask(self.control, &self.operator, self.server, verb)
    }
}

/// That nothing was asked, and what was said.
#[track_caller]
fn not_asked(told: Told, phrases: &[&str]) {
    assert_eq!(told.status.code(), Some(3), "{told}");
    assert_says(&told.expect_failure(), phrases);
}

#[test]
fn neither_operators_nor_peers_are_served_tls_1_2() {
    require!("openssl");
    let mut stage = Stage::set();
    for door in [stage.control, stage.peers] {
        let door = door.to_string();
        let mut openssl = Command::new("openssl");
        let said = run(openssl.args(["s_client", "-tls1_2", "-connect", &door]));
        let text = format!("{}{}", said.stdout, said.stderr);
        assert!(text.contains("alert protocol version"), "{said}");
    }
    let log = stage.pair.daemon("paris").log();
    assert!(log.contains("does not support TLS 1.3"), "{log}");
}

#[test]
fn an_operator_watches_a_node_from_elsewhere_and_acts_by_key() {
    let stage = Stage::set();
    let mut command = Command::new(helio_binary());
    command.args(["top", "--interval", "200ms", "--host", &stage.control.to_string(), "--key"]);
    command.arg(&stage.operator).args(["--server-key", &stage.server.to_string()]);
    let mut top = Terminal::start(&mut command, 80, 24);
    top.wait_for(&["helio top: paris", "NO PRIMARY", ", connected: "]);
    top.press("m");
    top.wait_for(&["promote db? [y/N]", &format!("--host {}", stage.control)]);
    top.press("y");
    top.wait_for(&["db         OK          primary   replicating"]);
    wait_level(&stage.pair, "paris");
    top.press("q");
    assert_eq!(top.wait_end().code(), Some(0));
}

#[test]
fn an_operator_commands_a_node_from_elsewhere() {
    let stage = Stage::set();
    stage.command(&["promote", "db", "--force", "--yes"]).expect_success();
    wait_level(&stage.pair, "paris");
    let status = stage.command(&["status", "--json"]).json();
    assert_eq!(status["groups"][0]["role"], "primary");
    assert_says(
        &stage.command(&["mode", "db", "sync"]).expect_success(),
        &["the mode of db is sync"],
    );
    let said = stage.command(&["apply"]).expect_success();
    assert_eq!(said, "changed: group db: mode sync -> async\n");
    stage.command(&["events", "--now"]).expect_success();
    stage.command(&["queue", "show", "db"]).expect_success();
    stage.command(&["debug", "events", "db"]).expect_success();
    assert_eq!(stage.command(&["pause", "none"]).status.code(), Some(1), "refused by the daemon");
}

#[test]
fn a_host_name_and_the_environment_lead_to_the_node() {
    let stage = Stage::set();
    let mut status = Command::new(helio_binary());
    status.args(["status", "--json"]);
    status.env("HELIO_HOST", format!("localhost:{}", stage.control.port()));
    status.env("HELIO_KEY", &stage.operator).env("HELIO_SERVER_KEY", stage.server.to_string());
    assert_eq!(run(&mut status).json()["node"], "paris");
    // An option overrules the environment.
    status.arg("--state").arg(stage.pair.state("lyon"));
    assert_eq!(run(&mut status).json()["node"], "lyon");
    let mut elsewhere = Command::new(helio_binary());
    elsewhere.args(["status", "--host", "no.such.host.invalid:1", "--key"]).arg(&stage.operator);
    not_asked(
        run(elsewhere.args(["--server-key", &stage.server.to_string()])),
        &["no daemon responds on no.such.host.invalid:1", "hint: "],
    );
    let told = helio(&["key", "show", "--host", "localhost:1"]);
    assert_eq!(told.status.code(), Some(2), "it works on this host: {told}");
}

#[test]
fn nobody_else_does() {
    let mut stage = Stage::set();
    let stranger = stage.folder.join("stranger.key");
    let unknown = new_key(&stranger).to_string();
    let verb = ["promote", "db", "--force", "--yes"];
    let told = stage.ask(stage.control, &stranger, stage.server, &verb);
    let hint = "add that key to the node's `operators`, and run `helio apply` on its host";
    not_asked(told, &[&format!("it accepts no commands from the key {unknown}"), hint]);
    let lyon = stage.pair.state("lyon").join("node.key");
    let told = stage.ask(stage.control, &lyon, stage.server, &verb);
    not_asked(told, &["it accepts no commands from the key", hint]);
    // The right operator, at the wrong door.
    let told = stage.ask(stage.peers, &stage.operator, stage.server, &verb);
    not_asked(told, &["it accepts no commands there", "give --host the node's `control` address"]);
    let status = stage.pair.status("paris");
    assert_eq!(status["groups"][0]["role"], "secondary", "{status}");
    let log = stage.pair.daemon("paris").log();
    assert_says(&log, &["a control connection was refused", &unknown]);
}

#[test]
fn a_scanner_at_the_control_port_is_logged_once() {
    let mut stage = Stage::set();
    for _ in 0..40 {
        let mut stream = TcpStream::connect(stage.control).expect("it listens");
        stream.write_all(b"GET / HTTP/1.0\r\n\r\n").expect("the daemon reads");
        // An alert, and the end.
        let _reset = stream.read_to_end(&mut Vec::new());
    }
    let refused = "a control connection was refused";
    eventually(PATIENCE, refused, || {
        stage.pair.daemon("paris").log().contains(refused).then_some(())
    });
    let log = stage.pair.daemon("paris").log();
    assert_eq!(log.matches(refused).count(), 1, "{log}");
}

#[test]
fn an_operator_asks_nothing_of_whoever_is_not_the_node() {
    let stage = Stage::set();
    let lyon = node_key(&stage.pair, "lyon");
    let told = stage.ask(stage.control, &stage.operator, lyon, &["status"]);
    let shown = format!("its key is {}, but the expected key is {lyon}", stage.server);
    not_asked(told, &[&shown, "compare with `helio key show` on that host"]);
    let nobody = free_port();
    let told = stage.ask(nobody, &stage.operator, stage.server, &["status"]);
    not_asked(told, &["no daemon responds on", "--host"]);
    // One that speaks, but no TLS.
    let other = TcpListener::bind("127.0.0.1:0").expect("listens");
    let address = other.local_addr().expect("has an address");
    let speaking = std::thread::spawn(move || {
        use std::io::Write;
        let (mut stream, _) = other.accept().expect("somebody comes");
        stream.write_all(b"SSH-2.0-other\r\n").expect("is heard");
    });
    let told = stage.ask(address, &stage.operator, stage.server, &["status"]);
    not_asked(told, &["does not use TLS"]);
    speaking.join().expect("it spoke");
    let missing = stage.folder.join("none.key");
    let told = stage.ask(stage.control, &missing, stage.server, &["status"]);
    assert_says(&told.expect_failure(), &["none.key"]);
    let told = helio(&["status", "--host", "127.0.0.1:1"]);
    assert_eq!(told.status.code(), Some(2), "neither keys nor a guess: {told}");
}

#[test]
fn operators_come_and_go_while_the_daemon_runs() {
    let stage = Stage::set();
    let next = stage.folder.join("next.key");
    let (old, new) = (crate::common::public(&stage.operator), new_key(&next));
    let request = b"GET /v2/status HTTP/1.1\r\nhost: helio\r\n\r\n";
    let mut open = Caller::call(stage.control, &stage.operator, stage.server, Purpose::Control);
    open.send(request);
    open.hear("\"groups\"");

    let [_, said] = apply(&stage.pair, &old.to_string(), &new.to_string());
    assert_says(&said, &[&format!("operator {old} removed"), &format!("operator {new} added")]);
    stage.ask(stage.control, &next, stage.server, &["status"]).expect_success();
    not_asked(stage.command(&["status"]), &["it accepts no commands from the key"]);
    // Also the connection that was there before is of no more use.
    open.send(request);
    let (said, _) = open.hear_out();
    assert_eq!(String::from_utf8_lossy(&said), "");
    let mut refused = Caller::call(stage.control, &stage.operator, stage.server, Purpose::Control);
    refused.send(request);
    let (said, why) = refused.hear_out();
    assert_eq!(said, b"");
    assert!(matches!(why, Some(TlsError::RefusedByPeer { .. })), "{why:?}");
}

#[test]
fn callers_who_say_nothing_keep_no_operator_out() {
    let stage = Stage::set();
    let connect = |_| TcpStream::connect(stage.control).expect("it listens");
    let silent: Vec<TcpStream> = (0..100).map(connect).collect();
    stage.command(&["status"]).expect_success();
    drop(silent);
}

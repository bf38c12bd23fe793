// SPDX-License-Identifier: Apache-2.0
//! The ceilings do what they are measured for: a figure of a program that writes nothing is worth nothing.

use helio_nbd::Client;
use helio_testkit::{Group, PYTHON, TempDir, Told, eventually, free_port, run, say_skipped};
use helio_units::Bytes;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const SIZE: Bytes = Bytes::mib(4);
const PATIENCE: Duration = Duration::from_secs(20);

fn serve(scratch: &TempDir, more: &[&str]) -> Group {
    let socket = scratch.join("bare.sock");
    let mut command = Command::new(env!("CARGO_BIN_EXE_bare-nbd"));
    command.arg(&socket).arg(scratch.file("served", SIZE)).args(more);
    let server = Group::spawn(&mut command).expect("it starts");
    eventually(PATIENCE, "bare-nbd", || UnixStream::connect(&socket).ok());
    server
}

fn client(arguments: &[&str]) -> Told {
    run(Command::new(env!("CARGO_BIN_EXE_bench-client")).args(arguments))
}

/// Whether this machine grants the ring the ceilings are made of; says so where it does not.
fn has_ring(scratch: &TempDir) -> bool {
    let file = scratch.file("probe", Bytes::kib(64));
    let told = client(&["raw", text(&file), "--seconds", "0"]);
    if told.status.success() {
        return true;
    }
    let refusals = ["Operation not permitted", "Function not implemented", "Invalid argument"];
    assert!(
        refusals.iter().any(|why| told.stderr.contains(why)),
        "no refusal of the system: {told}"
    );
    say_skipped(&format!("io_uring and direct I/O: {}", told.stderr.trim()));
    false
}

fn text(path: &Path) -> &str {
    path.to_str().expect("made of ASCII")
}

/// What a client wrote is read back, and lies in the file.
fn writes_arrive(scratch: &TempDir) {
    // The socket is there a moment before anybody listens on it.
    let connect = || Client::connect_unix(scratch.join("bare.sock"), "any").ok();
    let mut client = eventually(PATIENCE, "a server that listens", connect);
    let large: Vec<u8> = (0..1 << 20).map(|n| (n % 251) as u8).collect();
    client.write(1 << 20, &large, false).expect("written");
    client.write(4096, &[7; 4096], false).expect("written");
    client.flush().expect("flushed");
    let mut back = vec![0; large.len()];
    client.read(1 << 20, &mut back).expect("read");
    assert_eq!(back, large);
    client.disconnect().expect("it parts");
    let file = std::fs::read(scratch.join("served")).expect("readable");
    assert_eq!(file[4096..8192], [7; 4096]);
    assert_eq!(file[1 << 20..2 << 20], large);
}

#[test]
fn the_bare_server_writes_what_it_is_sent_through_the_ring() {
    let scratch = TempDir::new();
    if has_ring(&scratch) {
        let _server = serve(&scratch, &["--spin-us", "20"]);
        writes_arrive(&scratch);
    }
}

#[test]
fn the_bare_server_writes_what_it_is_sent_through_the_page_cache() {
    let scratch = TempDir::new();
    let _server = serve(&scratch, &["--buffered"]);
    writes_arrive(&scratch);
}

#[test]
fn the_client_measures_every_mix_on_one_server() {
    let scratch = TempDir::new();
    let _server = serve(&scratch, &["--buffered"]);
    let socket = scratch.join("bare.sock");
    for more in [
        ["--depth", "1", "--mix", "write", "--block", "4096"],
        ["--depth", "16", "--mix", "write-flush", "--block", "4096"],
        ["--depth", "4", "--mix", "sequential", "--block", "1048576"],
    ] {
        let fixed = ["nbd", text(&socket), "--seconds", "0.05"];
        let report = client(&[&fixed[..], &more[..]].concat()).json();
        assert!(report["ops"].as_u64().expect("a number") >= 4, "{more:?}: {report}");
        assert!(report["p50_us"].as_f64().expect("a number") > 0.0, "{more:?}: {report}");
        assert_eq!(report["flush_p50_us"].is_null(), more[3] != "write-flush", "{report}");
    }
    let served = std::fs::read(scratch.join("served")).expect("readable");
    assert!(served.chunks(1 << 20).all(|part| part.iter().any(|byte| *byte != 0)));
}

#[test]
fn both_legs_of_the_two_leg_writer_end_up_equal() {
    let scratch = TempDir::new();
    if !has_ring(&scratch) {
        return;
    }
    let (here, there) = (scratch.file("here", SIZE), scratch.file("there", SIZE));
    let address = free_port();
    let mut command = Command::new(env!("CARGO_BIN_EXE_bare-receiver"));
    let _receiver = Group::spawn(command.arg(address.to_string()).arg(&there)).expect("it starts");
    eventually(PATIENCE, "bare-receiver", || TcpStream::connect(address).ok());
    // One block at a time, so that writes to one place have one order.
    for mix in ["write", "write-flush", "sequential"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bare-two-leg"));
        command.arg(&here).arg(address.to_string());
        let told = run(command.args(["--seconds", "0.1", "--mix", mix, "--spin-us", "20"]));
        assert!(told.json()["ops"].as_u64().expect("a number") > 0);
    }
    let written = std::fs::read(&here).expect("readable");
    assert!(written.chunks(1 << 20).any(|part| part.iter().any(|byte| *byte != 0)));
    assert_eq!(written, std::fs::read(&there).expect("readable"));
}

#[test]
fn a_mirrored_file_is_written_as_the_first_one() {
    let scratch = TempDir::new();
    if !has_ring(&scratch) {
        return;
    }
    let (first, second) = (scratch.file("first", SIZE), scratch.file("second", SIZE));
    // One block at a time, so that writes to one place have one order.
    for mix in ["write", "write-flush", "sequential"] {
        let fixed = ["raw", text(&first), "--mirror", text(&second), "--seconds", "0.1"];
        let report = client(&[&fixed[..], &["--mix", mix]].concat()).json();
        assert!(report["ops"].as_u64().expect("a number") > 0, "{mix}: {report}");
    }
    let written = std::fs::read(&first).expect("readable");
    assert!(written.chunks(1 << 20).any(|part| part.iter().any(|byte| *byte != 0)));
    assert_eq!(written, std::fs::read(&second).expect("readable"));
}

#[test]
fn every_script_of_the_benches_can_be_read_by_python() {
    let folder = std::fs::read_dir(env!("CARGO_MANIFEST_DIR")).expect("the folder is there");
    let paths = folder.map(|entry| entry.expect("it can be read").path());
    let scripts: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "py")).collect();
    assert!(scripts.len() > 10, "{scripts:?}");
    if !Path::new(PYTHON).exists() {
        return say_skipped("python3");
    }
    let parse = "import ast, sys\nfor path in sys.argv[1:]: ast.parse(open(path).read(), path)";
    run(Command::new(PYTHON).args(["-c", parse]).args(scripts)).expect_success();
}

// SPDX-License-Identifier: Apache-2.0
//! Other people's clients against our session. A tool that is not installed is skipped, and says so.

use crate::memory::{Disk, Server};
use helio_units::Bytes;
use std::io::{ErrorKind, Write};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn uri(server: &Server) -> String {
    format!("nbd+unix:///db/data?socket={}", server.socket().display())
}

/// Says that a test does nothing for want of something. `cargo xtask test` reads it, so libtest must not swallow it.
fn say_skipped(what: &str) {
    // Written past the capture that `println` has.
    let _ = writeln!(std::io::stdout().lock(), "skipped: needs {what}");
}

/// What the tool printed; `None` where it is not installed.
fn run(tool: &str, arguments: &[&str]) -> Option<String> {
    // The distribution's scripts expect the distribution's interpreters.
    let path = format!("/usr/bin:{}", std::env::var("PATH").unwrap_or_default());
    let output = match Command::new(tool).args(arguments).env("PATH", path).output() {
        Ok(output) => output,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            say_skipped(tool);
            return None;
        }
        Err(error) => panic!("{tool}: {error}"),
    };
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaints = String::from_utf8_lossy(&output.stderr);
    if complaints.contains("No module named nbd") {
        say_skipped(&format!("{tool} with its Python module"));
        return None;
    }
    assert!(output.status.success(), "{tool} failed: {complaints}\n{printed}");
    Some(printed)
}

#[test]
fn nbdinfo_sees_what_the_export_is() {
    let server = Server::start(&Arc::new(Disk::new(Bytes::mib(8))));
    let Some(printed) = run("nbdinfo", &["--json", &uri(&server)]) else { return };
    let squeezed: String = printed.split_whitespace().collect();
    for fact in [
        r#""protocol":"newstyle-fixed""#,
        r#""export-size":8388608"#,
        r#""export-name":"db/data""#,
        r#""description":"adiskinmemory""#,
        r#""structured":true"#,
        r#""is_read_only":false"#,
        r#""can_cache":true"#,
        r#""can_df":true"#,
        r#""can_fast_zero":true"#,
        r#""can_flush":true"#,
        r#""can_fua":true"#,
        r#""can_multi_conn":true"#,
        r#""can_trim":true"#,
        r#""can_zero":true"#,
        r#""contexts":["base:allocation","heliograph:marks","heliograph:changed"]"#,
        r#""block_size_minimum":1"#,
        r#""block_size_preferred":4096"#,
        r#""block_size_maximum":33554432"#,
    ] {
        assert!(squeezed.contains(fact), "{fact} is not in {printed}");
    }
    let list = run("nbdinfo", &["--list", "--json", &uri(&server)]).unwrap_or_default();
    assert!(list.contains("db/data"), "{list}");
}

#[test]
fn the_map_of_a_volume_is_seen_by_strangers() {
    let disk = Arc::new(Disk::new(Bytes::mib(8)));
    disk.bytes.lock().unwrap()[1 << 20..3 << 20].fill(5);
    let server = Server::start(&disk);
    let script = r#"
h.add_meta_context("base:allocation")
h.add_meta_context("heliograph:marks")
h.add_meta_context("x-unknown:thing")
h.connect_uri(URI)
assert h.can_meta_context("base:allocation") and h.can_meta_context("heliograph:marks")
assert not h.can_meta_context("x-unknown:thing")
seen = {}
def told(context, offset, entries, error):
    seen[context] = entries
h.block_status(8 << 20, 0, told)
m = 1 << 20
assert seen["base:allocation"] == [m, 3, 2 * m, 0, 5 * m, 3], seen
assert seen["heliograph:marks"] == [8 * m, 0], seen
h.block_status(m, m, told, nbd.CMD_FLAG_REQ_ONE)
assert seen["base:allocation"] == [m, 0], seen
assert h.pread(4 * m, 0) == bytes(m) + b"\x05" * (2 * m) + bytes(m)
chunks = []
def chunk(data, offset, sort, error):
    chunks.append((offset, len(data), sort == nbd.READ_HOLE))
h.pread_structured(4 * m, 0, chunk)
assert chunks == [(0, m, True), (m, 2 * m, False), (3 * m, m, True)], chunks
chunks = []
h.pread_structured(4 * m, 0, chunk, nbd.CMD_FLAG_DF)
assert chunks == [(0, 4 * m, False)], chunks
print("well")
"#;
    let script = format!("URI = {:?}\n{script}", uri(&server));
    if let Some(printed) = run("nbdsh", &["-c", &script]) {
        assert_eq!(printed.trim(), "well");
    }
    if let Some(printed) = run("qemu-img", &["map", "--output=json", &uri(&server)]) {
        let squeezed: String = printed.split_whitespace().collect();
        assert!(squeezed.contains(r#""start":1048576,"length":2097152"#), "{printed}");
        assert!(squeezed.contains(r#""zero":true"#), "{printed}");
    }
}

#[test]
fn nbdsh_works_and_errs_as_it_should() {
    let disk = Arc::new(Disk::new(Bytes::mib(8)));
    let server = Server::start(&disk);
    let script = r#"
import errno
h.set_strict_mode(0)
h.pwrite(b"x" * 4096, 512, nbd.CMD_FLAG_FUA)
h.zero(512, 1024, nbd.CMD_FLAG_NO_HOLE)
h.trim(512, 2048)
h.flush()
x, hole = b"x" * 512, bytes(512)
assert h.pread(4096, 512) == x + hole + x + hole + x * 4
def fails(wanted, call):
    try:
        call()
    except nbd.Error as error:
        assert error.errnum == wanted, error
    else:
        assert False, "no error"
size = h.get_size()
fails(errno.EINVAL, lambda: h.pread(512, size))
fails(errno.ENOSPC, lambda: h.pwrite(b"y" * 512, size))
fails(errno.ENOSPC, lambda: h.zero(512, size))
fails(errno.EINVAL, lambda: h.trim(512, size))
fails(errno.EINVAL, lambda: h.pread(0, 0))
h.cache(512, 0)
fails(errno.EINVAL, lambda: h.cache(512, size))
fails(errno.ENOTSUP, lambda: h.zero(512, 0, nbd.CMD_FLAG_FAST_ZERO))
fails(errno.EINVAL, lambda: h.pwrite(bytes(33 << 20), 0))
assert h.pread(512, 2560) == b"x" * 512
print("well")
"#;
    let Some(printed) = run("nbdsh", &["-u", &uri(&server), "-c", script]) else { return };
    assert_eq!(printed.trim(), "well");
    assert_eq!(disk.forced.load(Ordering::SeqCst), 1);
}

#[test]
fn qemu_reads_back_what_it_wrote() {
    let disk = Arc::new(Disk::new(Bytes::mib(8)));
    let server = Server::start(&disk);
    let uri = uri(&server);
    let session = [
        "-f",
        "raw",
        &uri,
        "-c",
        "write -P 0xab 0 64k",
        "-c",
        "write -f -P 0xcd 64k 4k",
        "-c",
        "write -z 16k 16k",
        "-c",
        "discard 32k 4k",
        "-c",
        "flush",
        "-c",
        "read -P 0xab 0 16k",
        "-c",
        "read -P 0 16k 20k",
        "-c",
        "read -P 0xab 36k 28k",
        "-c",
        "read -P 0xcd 64k 4k",
    ];
    if let Some(printed) = run("qemu-io", &session) {
        assert!(!printed.contains("failed"), "{printed}");
        assert!(disk.bytes.lock().unwrap()[..16 << 10].iter().all(|byte| *byte == 0xab));
        assert!(
            disk.forced.load(Ordering::SeqCst) >= 1 || disk.flushes.load(Ordering::SeqCst) >= 1
        );
    }
    if let Some(printed) = run("qemu-img", &["info", &uri]) {
        assert!(printed.contains("8 MiB (8388608 bytes)"), "{printed}");
    }
}

#[test]
fn nbdcopy_brings_home_every_byte() {
    let disk = Arc::new(Disk::new(Bytes::mib(8)));
    for (n, byte) in disk.bytes.lock().unwrap().iter_mut().enumerate() {
        *byte = (n / 4096 % 7) as u8;
    }
    let server = Server::start(&disk);
    let copy = server.folder().join("copy");
    let Some(_) = run("nbdcopy", &[&uri(&server), &copy.display().to_string()]) else { return };
    assert!(std::fs::read(copy).unwrap() == *disk.bytes.lock().unwrap());
}

#[test]
fn fio_verifies_what_it_wrote_at_depth() {
    let server = Server::start(&Arc::new(Disk::new(Bytes::mib(8))));
    let (uri, folder) = (format!("--uri={}", uri(&server)), server.folder().display().to_string());
    let engines = run("fio", &["--enghelp"]).unwrap_or_default();
    if !engines.split_whitespace().any(|engine| engine == "nbd") {
        say_skipped("fio with its nbd engine");
        return;
    }
    let auxiliary = format!("--aux-path={folder}");
    let job = [
        "--name=depth",
        "--ioengine=nbd",
        "--rw=randwrite",
        "--bs=4k",
        "--size=8m",
        "--iodepth=16",
        "--verify=crc32c",
        "--fsync=64",
        "--verify_state_save=0",
        &auxiliary,
        &uri,
    ];
    let printed = run("fio", &job).unwrap_or_default();
    assert!(printed.contains("err= 0"), "{printed}");
}

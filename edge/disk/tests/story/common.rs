// SPDX-License-Identifier: Apache-2.0
//! What the stories share.

use helio_disk::{Io, Member, OpenError, OpenOptions, OtherUsers, Refusal};
use helio_driver::{
    Buffer, Completion, Driver, DriverOptions, Linux, Op, Outcome, PollDriver, Shared, Token,
};
use helio_units::{Bytes, Extent};
use std::fs::OpenOptions as Std;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

/// A folder under the build's own, where direct I/O works if it does for the build.
pub(crate) fn folder() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

pub(crate) fn options(size: Bytes) -> OpenOptions {
    let role = "member of db/data".to_string();
    OpenOptions { size, io: Io::Direct, create: false, sparse: true, role }
}

/// A file of that many bytes, all hole.
pub(crate) fn file_of(folder: &Path, name: &str, size: Bytes) -> PathBuf {
    let path = folder.join(name);
    let file = Std::new().write(true).create_new(true).open(&path).expect("a file");
    file.set_len(size.0).expect("its size");
    path
}

/// Opens a member. The processes that other stories start at that moment hold what this one has open, until they run.
pub(crate) fn open(path: &Path, options: &OpenOptions) -> Result<Member, OpenError> {
    loop {
        match helio_disk::open(path, options, &OtherUsers::of(&Linux::host())) {
            Err(error) if matches!(error.refusal, Refusal::Held | Refusal::Written { .. }) => {
                thread::yield_now();
            }
            other => return other,
        }
    }
}

/// A refusal's two sentences, without the role and path they begin with.
pub(crate) fn refused(path: &Path, options: &OpenOptions) -> OpenError {
    let opened = helio_disk::open(path, options, &OtherUsers::of(&Linux::host()));
    let error = opened.expect_err("it should be refused");
    let begins = format!("member of db/data {}: ", path.display());
    assert!(error.to_string().starts_with(&begins), "{error}");
    error
}

/// Runs one operation to its end.
pub(crate) struct Desk(PollDriver);

impl Desk {
    pub(crate) fn open() -> Self {
        Self(
            PollDriver::new(DriverOptions { workers: 2, ..DriverOptions::default() })
                .expect("starts"),
        )
    }

    pub(crate) fn run(&mut self, op: Op) -> Outcome {
        self.0.submit(Token(1), op);
        let mut out: Vec<Completion> = Vec::new();
        self.0.wait(None, &mut out).expect("waiting works");
        out.pop().expect("it ended").outcome
    }

    pub(crate) fn done(&mut self, op: Op) {
        let outcome = self.run(op);
        assert_eq!(outcome.error(), None, "{outcome:?}");
    }

    pub(crate) fn fill(&mut self, member: &Member, extent: Extent, byte: u8) {
        let payload = filled(extent.length as usize, byte);
        let range = 0..payload.len();
        self.done(member.write(extent, payload, range, false).expect("it fits"));
    }

    pub(crate) fn read(&mut self, member: &Member, extent: Extent) -> Vec<u8> {
        let buffer = Buffer::zeroed(extent.length as usize);
        match self.run(member.read(extent, buffer).expect("it fits")) {
            Outcome::Read { buffer, result: Ok(()) } => buffer.to_vec(),
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn filled(length: usize, byte: u8) -> Shared {
    let mut buffer = Buffer::zeroed(length);
    buffer.fill(byte);
    buffer.into_shared()
}

/// Says that a test does nothing for want of something. `cargo xtask test` reads it, so libtest must not swallow it.
pub(crate) fn say_skipped(what: &str) {
    // Written past the capture that `println` has.
    let _ = writeln!(std::io::stdout().lock(), "skipped: needs {what}");
}

/// A loop device over a file; detached when dropped.
pub(crate) struct Loop(pub(crate) PathBuf);

impl Loop {
    /// `None`, with the reason printed, where this user or machine cannot have one.
    pub(crate) fn on(file: &Path, more: &[&str]) -> Option<Self> {
        let out = Command::new("losetup").args(["--find", "--show"]).args(more).arg(file).output();
        match out {
            Ok(out) if out.status.success() => {
                let path = String::from_utf8(out.stdout).expect("a path");
                Some(Self(PathBuf::from(path.trim())))
            }
            Ok(out) => {
                let why = String::from_utf8_lossy(&out.stderr);
                say_skipped(&format!("loop devices: {}", why.trim()));
                None
            }
            Err(error) => {
                say_skipped(&format!("losetup: {error}"));
                None
            }
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.0).status();
    }
}

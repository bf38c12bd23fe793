// SPDX-License-Identifier: Apache-2.0
//! What the stories share.

use helio_driver::{Completion, Driver, File, Op, Outcome, Token};
use std::collections::HashMap;

/// A driver that sorts completions by token.
pub(crate) struct Desk {
    pub(crate) driver: Box<dyn Driver>,
    ended: HashMap<u64, Outcome>,
    out: Vec<Completion>,
}

impl Desk {
    pub(crate) fn over(driver: impl Driver + 'static) -> Self {
        Self { driver: Box::new(driver), ended: HashMap::new(), out: Vec::new() }
    }

    pub(crate) fn submit(&mut self, token: u64, op: Op) {
        self.driver.submit(Token(token), op);
    }

    /// Waits until the operation named `token` has ended.
    pub(crate) fn outcome(&mut self, token: u64) -> Outcome {
        loop {
            if let Some(outcome) = self.ended.remove(&token) {
                return outcome;
            }
            // Without a limit: the test harness names a story that hangs, and a busy machine breaks none.
            self.driver.wait(None, &mut self.out).expect("waiting works");
            for Completion { token, outcome } in self.out.drain(..) {
                assert!(self.ended.insert(token.0, outcome).is_none(), "{token:?} ended twice");
            }
        }
    }

    pub(crate) fn run(&mut self, op: Op) -> Outcome {
        self.submit(u64::MAX, op);
        self.outcome(u64::MAX)
    }
}

/// A file of that many zero bytes, gone with its handle.
pub(crate) fn scratch(length: u64) -> File {
    let file = tempfile::tempfile().expect("a scratch file");
    file.set_len(length).expect("room for it");
    File::new(file).expect("a handle")
}

/// Says that a test does nothing for want of something, or less. `cargo xtask test` reads it, so libtest must not swallow it.
pub(crate) fn say_skipped(what: &str) {
    use std::io::Write;
    // Written past the capture that `println` has.
    let _ = writeln!(std::io::stdout().lock(), "skipped: needs {what}");
}

/// The same for direct I/O; `None` where the scratch file system has none.
pub(crate) fn scratch_direct(length: u64) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let named = tempfile::NamedTempFile::new().expect("a scratch file");
    named.as_file().set_len(length).expect("room for it");
    let mut options = std::fs::File::options();
    options.read(true).write(true).custom_flags(rustix::fs::OFlags::DIRECT.bits() as i32);
    match options.open(named.path()) {
        Ok(file) => Some(File::new(file).expect("a handle")),
        Err(error) => {
            say_skipped(&format!("direct I/O: {error}"));
            None
        }
    }
}

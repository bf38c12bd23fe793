// SPDX-License-Identifier: Apache-2.0
//! What the stories share.

use helio_driver::{Completion, Driver, File, Op, Outcome, Token};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Far longer than anything here takes: only a test that would hang runs into it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

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
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(outcome) = self.ended.remove(&token) {
                return outcome;
            }
            self.driver.wait(Some(PATIENCE), &mut self.out).expect("waiting works");
            // A driver may wake up for nothing: what woke it was taken before.
            let waits = !self.out.is_empty() || Instant::now() < until;
            assert!(waits, "nothing ended while waiting for {token}");
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
            eprintln!("not tested, no direct I/O here: {error}");
            None
        }
    }
}

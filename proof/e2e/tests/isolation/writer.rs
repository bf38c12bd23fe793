// SPDX-License-Identifier: Apache-2.0
//! A client that writes in a fixed rhythm while something bad happens beside it.

use helio_nbd::Client;
use std::fmt::{Display, Formatter, Result};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Between the end of a write and the next one. A shard never waits for longer than that without something to do.
pub(crate) const PACE: Duration = Duration::from_millis(10);

pub(crate) struct Writer {
    stop: SyncSender<()>,
    thread: JoinHandle<Vec<Duration>>,
}

impl Writer {
    pub(crate) fn start(mut client: Client) -> Self {
        let (stop, stopped) = sync_channel(1);
        let thread = thread::spawn(move || {
            let mut took = Vec::new();
            while stopped.recv_timeout(PACE) == Err(RecvTimeoutError::Timeout) {
                let began = Instant::now();
                let at = (took.len() as u64 % 512) << 12;
                client.write(at, &[7; 4096], took.len() % 4 == 0).expect("it is served");
                took.push(began.elapsed());
            }
            took
        });
        Self { stop, thread }
    }

    /// Ends it; how long its writes took.
    pub(crate) fn stop(self) -> Took {
        self.stop.send(()).expect("it runs");
        let mut took = self.thread.join().expect("its writes succeed");
        took.sort_unstable();
        assert!(!took.is_empty(), "it wrote");
        Took(took)
    }
}

/// How long writes took, in ascending order.
pub(crate) struct Took(Vec<Duration>);

impl Took {
    pub(crate) fn p99(&self) -> Duration {
        self.0[self.0.len() * 99 / 100]
    }

    pub(crate) fn longest(&self) -> Duration {
        self.0[self.0.len() - 1]
    }
}

impl Display for Took {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        write!(f, "{} writes, p99 {:.1?}, longest {:.1?}", self.0.len(), self.p99(), self.longest())
    }
}

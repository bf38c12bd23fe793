// SPDX-License-Identifier: Apache-2.0
//! The writer of a recording: a thread of its own, so that a slow disk makes no request wait.

use super::tap::{Batch, Counts, Sink, Why};
use crate::shard::Clock;
use helio_driver::File;
use helio_format::trace::{BLOCK_HEAD_BYTES, Header, encode_block, encode_end};
use helio_link::checksum;
use helio_units::{Bytes, Items, Moment};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;
use tokio::sync::watch;

/// What a recording leaves free on its file system: others keep their state there.
const LEFT_FREE: Bytes = Bytes::mib(64);
/// How long until the shard is asked again where it had no time to be asked.
const ASK_AGAIN: Duration = Duration::from_millis(50);
/// The clock is read again after this: a wait does not count the time that the machine sleeps.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What the writer is told at its start.
pub(super) struct Writer {
    pub(super) file: File,
    pub(super) path: PathBuf,
    pub(super) limit: Bytes,
    pub(super) clock: Clock,
    /// When the shard is asked to end it, and how; false where it has to be asked again.
    pub(super) until: Option<(Moment, Box<dyn Fn() -> bool + Send>)>,
    pub(super) sink: Sink,
    /// Why it ended.
    pub(super) ended: watch::Sender<Option<String>>,
}

impl Writer {
    /// Writes until the tap says that it was the last, or the bound is reached, or the disk fails.
    pub(super) fn run(mut self, header: &Header) {
        let group = header.group.clone();
        let why = match self.begin(header) {
            Ok(()) => self.follow(),
            Err(why) => why,
        };
        let why = match self.file.sync_all() {
            Ok(()) => why,
            Err(error) => format!("{}: {error}", self.path.display()),
        };
        tracing::info!(group, file = %self.path.display(), why, "the trace ended");
        self.ended.send_replace(Some(why));
    }

    fn begin(&mut self, header: &Header) -> Result<(), String> {
        self.write(&header.encode(checksum)).map_err(|error| self.culprit(&error))
    }

    /// Returns why it ended.
    fn follow(&mut self) -> String {
        let mut bytes = Vec::new();
        loop {
            let Some(Batch { requests, dropped, last }) = self.next() else {
                return "the daemon ended it".to_owned();
            };
            if let Some(first) = requests.first() {
                let at = first.at;
                bytes.clear();
                encode_block(&requests, dropped, checksum, &mut bytes);
                if let Err(why) = self.fits(&bytes).and_then(|()| self.keep(&bytes)) {
                    // What was written of a block is no block; nobody needs more than the blocks before it.
                    let whole = self.counts().bytes.load(Ordering::Relaxed);
                    let _cut = self.file.body().set_length(whole);
                    self.end(at, dropped);
                    return why;
                }
                self.counts().written.fetch_add(requests.len() as u64, Ordering::Relaxed);
            }
            if let Some((at, why, behind)) = last {
                let dropped =
                    if requests.is_empty() { Items(dropped.0 + behind.0) } else { behind };
                self.end(at, dropped);
                return text(why).to_owned();
            }
            let mut empty = requests;
            empty.clear();
            // The tap may have gone meanwhile; then its last batch waits.
            let _unwanted = self.sink.empty.try_send(empty);
        }
    }

    /// The next batch; asks the shard to end the recording when its time is over.
    fn next(&mut self) -> Option<Batch> {
        loop {
            let Some((until, ask)) = &mut self.until else { return self.sink.batches.recv().ok() };
            // Also where batches always wait, because the disk is slower than the requests.
            let now = self.clock.now();
            if now >= *until {
                if ask() {
                    self.until = None;
                } else {
                    *until = now + ASK_AGAIN;
                }
                continue;
            }
            match self.sink.batches.recv_timeout((*until - now).min(LOOK_AGAIN)) {
                Ok(batch) => return Some(batch),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn counts(&self) -> &Counts {
        &self.sink.counts
    }

    /// Whether a block may be written, an end behind it included.
    fn fits(&self, block: &[u8]) -> Result<(), String> {
        let after = self.counts().bytes.load(Ordering::Relaxed) + block.len() as u64;
        if after + BLOCK_HEAD_BYTES as u64 > self.limit.0 {
            return Err(format!("the limit of {} was reached", self.limit));
        }
        let room = self.file.body().room();
        let free = room.map_err(|error| self.culprit(&error.into()))?.free;
        if free.saturating_sub(Bytes(block.len() as u64)) < LEFT_FREE {
            let path = self.path.display();
            return Err(format!("{path}: {LEFT_FREE} are left free on its file system"));
        }
        Ok(())
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.write(bytes).map_err(|error| self.culprit(&error))
    }

    fn culprit(&self, error: &io::Error) -> String {
        format!("{}: {error}", self.path.display())
    }

    fn end(&mut self, at: Moment, dropped: Items) {
        let mut bytes = Vec::new();
        encode_end(at, dropped, checksum, &mut bytes);
        if let Err(error) = self.write(&bytes) {
            tracing::warn!(%error, file = %self.path.display(), "the trace has no end");
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let written = self.counts().bytes.load(Ordering::Relaxed);
        self.file.write_all_at(bytes, written)?;
        self.counts().bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

fn text(why: Why) -> &'static str {
    match why {
        Why::Stopped => "it was stopped",
        Why::TimeOver => "its time was over",
        Why::GroupGone => "the daemon stopped, or the group was released",
    }
}

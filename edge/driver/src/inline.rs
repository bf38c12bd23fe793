// SPDX-License-Identifier: Apache-2.0
//! Doing in place what a worker thread would do no sooner.
//!
//! A hop to a worker and back costs tens of microseconds; copying a page into the page cache costs two. The kernel
//! gives no promise that such a copy does not wait (ext4 refuses to be asked), so it is watched: after one that did,
//! writes go to the workers for a while. To a file that is stuck nothing is written in place: it would stop the whole shard. Nor to one
//! that is served aside (see [`crate::service`]), and one whose write took very long is served there from then on.

use crate::busy::Busy;
use crate::file::Job;
use crate::op::Outcome;
use crate::workers::Task;
use std::time::{Duration, Instant};

/// The most that is copied in place, in bytes.
const LONGEST: u64 = 64 << 10;
/// A write that takes longer has waited for something: memory to be cleaned, or a page to be read.
const SLOW: Duration = Duration::from_millis(1);
/// How long writes then stay away.
const REST: Duration = Duration::from_millis(500);

/// Whether writes are done in place at the moment.
#[derive(Debug, Default)]
pub(crate) struct Inline {
    resting: Option<Instant>,
    busy: Busy,
}

impl Inline {
    /// Does the job where that is expected to be quick, else gives it back.
    pub(crate) fn perform(&mut self, job: Job) -> Result<Outcome, Job> {
        let job = match job.perform_at_once() {
            Ok(outcome) => return Ok(outcome),
            Err(job) => job,
        };
        let began = Instant::now();
        let rests = || self.resting.is_some_and(|until| began < until);
        if !job.is_cached_write(LONGEST) || rests() || self.busy.is_stuck(job.file(), began) {
            return Err(job);
        }
        let (outcome, file) = job.write_in_place()?;
        let ended = Instant::now();
        self.resting = (ended - began > SLOW).then_some(ended + REST);
        file.called(ended - began);
        Ok(outcome)
    }

    /// The files with operations under way that block.
    pub(crate) const fn busy(&mut self) -> &mut Busy {
        &mut self.busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buffer, File, Piece};
    use helio_units::Extent;

    fn write(length: usize, sync: bool) -> Job {
        let file = tempfile::tempfile().expect("a scratch file");
        let file = File::new(file).expect("a handle");
        let pieces = vec![Piece::Shared(Buffer::zeroed(length).into_shared(), 0..length)];
        Job::Write { file, extent: Extent::new(0, length as u64), pieces, sync }
    }

    #[test]
    fn small_writes_to_the_cache_are_done_in_place_until_one_was_slow() {
        let mut inline = Inline::default();
        assert!(matches!(
            inline.perform(write(4096, false)),
            Ok(Outcome::Write { result: Ok(()), .. })
        ));
        assert!(inline.perform(write(4096, true)).is_err(), "a durable one waits for the device");
        assert!(inline.perform(write(1 << 20, false)).is_err(), "a long one takes its time");
        inline.resting = Some(Instant::now() + Duration::from_secs(60));
        assert!(inline.perform(write(4096, false)).is_err());
        inline.resting = Some(Instant::now());
        assert!(inline.perform(write(4096, false)).is_ok());
    }
    #[test]
    fn nothing_is_written_in_place_to_a_file_that_is_stuck() {
        let mut inline = Inline::default();
        let job = write(4096, false);
        let Some(long_ago) = Instant::now().checked_sub(Duration::from_secs(5)) else { return };
        inline.busy().began(job.file(), long_ago);
        let job = inline.perform(job).expect_err("a worker does it");
        inline.busy().ended(job.file(), Instant::now());
        assert!(inline.perform(job).is_ok());
    }
}

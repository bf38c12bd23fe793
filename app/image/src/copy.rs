// SPDX-License-Identifier: Apache-2.0
//! Copying chunks of volumes, by several threads. What is equal is read, and not written.

use crate::store::Store;
use anyhow::Result;
use helio_format::exported::{CHUNK_BYTES, ChunkSet};
use helio_units::{Bytes, Extent, Rate};
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// Threads, each with a read or a write in progress.
const THREADS: usize = 4;
/// Chunks that are read at once.
const CHUNKS_AT_ONCE: u64 = 16;
/// Maximum number of copied runs that wait to be settled.
const DONE_MAX: usize = 64;
/// After so long, what was copied is settled.
const SETTLED_EVERY: Duration = Duration::from_secs(2);
/// A thread that waits for its turn looks whether to stop this often.
const LOOKS_EVERY: Duration = Duration::from_millis(100);

/// A volume of a copy.
#[derive(Clone, Debug)]
pub struct CopyPlan {
    /// Its size.
    pub size: Bytes,
    /// What is copied of it.
    pub chunks: ChunkSet,
    /// What is known of the target.
    pub target: Target,
}

/// What is known of what a volume is copied to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// It reads as zero.
    Blank,
    /// What it has is read, and not written if it is equal.
    Compared,
    /// What it seems to have may be lost: everything is written.
    Suspect,
}

/// Chunks of a volume that are copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// Which volume.
    pub volume: usize,
    /// Which chunks.
    pub chunks: Range<u64>,
    /// How much of them differed, and was written.
    pub written: Bytes,
}

/// How a copy ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// What was read.
    pub read: Bytes,
    /// What differed, and was written.
    pub written: Bytes,
    /// It was stopped before its end.
    pub stopped: bool,
}

/// The source and the target of a volume.
type Ends = (Box<dyn Store>, Box<dyn Store>);

/// Copies the chunks of the plan, at most at the rate `limit`. `open` opens the source and the target of a volume for one thread. `settle`
/// receives the chunks that were copied since its last call and makes them durable. It is called every few seconds and at the end, and not
/// again after it failed.
///
/// # Errors
/// The first error of an end, or of `settle`.
pub fn copy(
    plan: &[CopyPlan],
    limit: Option<Rate>,
    stop: &AtomicBool,
    open: &(dyn Fn(usize) -> Result<Ends> + Sync),
    settle: &mut dyn FnMut(&[Done]) -> Result<()>,
) -> Result<Copied> {
    let work = Work { plan, next: Mutex::new((0, 0)), pace: Pace::new(limit) };
    let ended = AtomicBool::new(false);
    let stopped = || ended.load(Ordering::Relaxed) || stop.load(Ordering::Relaxed);
    let mut copied = Copied::default();
    let mut failure = None;
    thread::scope(|scope| {
        let (sender, copied_runs) = sync_channel(DONE_MAX);
        for _ in 0..THREADS {
            let (sender, work, stopped) = (sender.clone(), &work, &stopped);
            scope.spawn(move || worker(work, open, &sender, stopped));
        }
        drop(sender);
        let (mut unsettled, mut is_lost) = (Vec::new(), false);
        let mut due = Instant::now() + SETTLED_EVERY;
        loop {
            match copied_runs.recv_timeout(due.saturating_duration_since(Instant::now())) {
                Ok(Ok(done)) => {
                    copied.read.0 += length(work.plan, &done);
                    copied.written.0 += done.written.0;
                    unsettled.push(done);
                }
                Ok(Err(why)) => {
                    ended.store(true, Ordering::Relaxed);
                    failure.get_or_insert(why);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if Instant::now() >= due {
                let settled = if is_lost { Ok(()) } else { settle(&unsettled) };
                if let Err(why) = settled {
                    // A flush that succeeds afterwards does not prove what this one lost.
                    is_lost = true;
                    ended.store(true, Ordering::Relaxed);
                    failure.get_or_insert(why);
                }
                unsettled.clear();
                due = Instant::now() + SETTLED_EVERY;
            }
        }
        if !is_lost && let Err(why) = settle(&unsettled) {
            failure.get_or_insert(why);
        }
    });
    copied.stopped = stop.load(Ordering::Relaxed) && work.is_left();
    failure.map_or(Ok(copied), Err)
}

/// How many bytes of its volume these chunks are.
fn length(plan: &[CopyPlan], done: &Done) -> u64 {
    extent(plan[done.volume].size, &done.chunks).length
}

fn extent(size: Bytes, chunks: &Range<u64>) -> Extent {
    let (from, end) = (chunks.start * CHUNK_BYTES, (chunks.end * CHUNK_BYTES).min(size.0));
    Extent::new(from, end - from)
}

/// What is to be copied, in the order of the volumes.
struct Work<'a> {
    plan: &'a [CopyPlan],
    /// The volume and the chunk from which on nothing was given out yet.
    next: Mutex<(usize, u64)>,
    pace: Pace,
}

impl Work<'_> {
    fn next(&self) -> Option<(usize, Range<u64>)> {
        let mut next = self.next.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        while let Some(plan) = self.plan.get(next.0) {
            if let Some(run) = plan.chunks.run_from(next.1, CHUNKS_AT_ONCE) {
                next.1 = run.end;
                return Some((next.0, run));
            }
            *next = (next.0 + 1, 0);
        }
        None
    }

    fn is_left(&self) -> bool {
        self.next().is_some()
    }
}

fn worker(
    work: &Work<'_>,
    open: &(dyn Fn(usize) -> Result<Ends> + Sync),
    sender: &SyncSender<Result<Done>>,
    stopped: &dyn Fn() -> bool,
) {
    let mut opened: Option<(usize, Ends)> = None;
    let mut buffers = [Vec::new(), Vec::new()];
    while !stopped()
        && let Some((volume, chunks)) = work.next()
    {
        let plan = &work.plan[volume];
        let extent = extent(plan.size, &chunks);
        work.pace.wait(extent.length, stopped);
        let mut one = || {
            let ends = match opened.take() {
                Some((of, ends)) if of == volume => ends,
                _ => open(volume)?,
            };
            let (_, (source, target)) = opened.insert((volume, ends));
            let written =
                copy_one(source.as_mut(), target.as_mut(), extent, plan.target, &mut buffers)?;
            Ok(Done { volume, chunks: chunks.clone(), written })
        };
        let done = one();
        let failed = done.is_err();
        // The receiver outlives all threads.
        if sender.send(done).is_err() || failed {
            return;
        }
    }
}

/// Copies an extent, as far as it differs. Returns how much that was.
fn copy_one(
    source: &mut dyn Store,
    target: &mut dyn Store,
    extent: Extent,
    known: Target,
    [new, old]: &mut [Vec<u8>; 2],
) -> Result<Bytes> {
    let length = extent.length as usize;
    new.resize(length, 0);
    old.clear();
    old.resize(length, 0);
    source.read(extent.offset, new)?;
    if known == Target::Compared {
        target.read(extent.offset, old)?;
    }
    let mut written = 0;
    let chunks = new.chunks(CHUNK_BYTES as usize).zip(old.chunks(CHUNK_BYTES as usize));
    let mut at = extent.offset;
    for (new, old) in chunks {
        if new != old || known == Target::Suspect {
            if new.iter().all(|byte| *byte == 0) {
                target.zero(Extent::new(at, new.len() as u64))?;
            } else {
                target.write(at, new)?;
            }
            written += new.len() as u64;
        }
        at += new.len() as u64;
    }
    Ok(Bytes(written))
}

/// Keeps the threads together below a rate.
struct Pace {
    limit: Option<Rate>,
    next: Mutex<Instant>,
}

impl Pace {
    fn new(limit: Option<Rate>) -> Self {
        Self { limit, next: Mutex::new(Instant::now()) }
    }

    /// Waits until so many bytes may be read, or it is stopped.
    fn wait(&self, bytes: u64, stopped: &dyn Fn() -> bool) {
        let Some(limit) = self.limit else { return };
        let turn = {
            let mut next = self.next.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let turn = (*next).max(Instant::now());
            *next = turn + Duration::from_secs_f64(bytes as f64 / limit.0.max(1) as f64);
            turn
        };
        while !stopped()
            && let Some(rest) = turn.checked_duration_since(Instant::now())
            && rest > Duration::ZERO
        {
            thread::park_timeout(rest.min(LOOKS_EVERY));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;
    use std::sync::Arc;

    /// Bytes in memory, which fail in one place.
    #[derive(Clone)]
    struct Disk(Arc<Mutex<Held>>);

    #[derive(Default)]
    struct Held {
        bytes: Vec<u8>,
        bad: Option<u64>,
    }

    impl Disk {
        fn new(bytes: Vec<u8>) -> Self {
            Self(Arc::new(Mutex::new(Held { bytes, bad: None })))
        }

        fn bytes(&self) -> Vec<u8> {
            self.0.lock().expect("it is whole").bytes.clone()
        }
    }

    impl Store for Disk {
        fn read(&mut self, at: u64, buffer: &mut [u8]) -> Result<()> {
            let it = self.0.lock().expect("it is whole");
            if it.bad.is_some_and(|bad| (at..at + buffer.len() as u64).contains(&bad)) {
                return Err(anyhow!("the platter is scratched"));
            }
            buffer.copy_from_slice(&it.bytes[at as usize..][..buffer.len()]);
            Ok(())
        }

        fn write(&mut self, at: u64, bytes: &[u8]) -> Result<()> {
            let mut it = self.0.lock().expect("it is whole");
            it.bytes[at as usize..][..bytes.len()].copy_from_slice(bytes);
            Ok(())
        }

        fn zero(&mut self, extent: Extent) -> Result<()> {
            let mut it = self.0.lock().expect("it is whole");
            it.bytes[extent.offset as usize..extent.end() as usize].fill(0);
            Ok(())
        }

        fn flush(&mut self) -> Result<()> {
            Ok(())
        }
    }

    const SIZE: usize = 100 * CHUNK_BYTES as usize + 512;

    fn plan(runs: &[(u64, u64)]) -> [CopyPlan; 1] {
        let size = Bytes(SIZE as u64);
        let mut set = ChunkSet::new(size);
        runs.iter().for_each(|(from, end)| set.add(*from..*end));
        [CopyPlan { size, chunks: set, target: Target::Compared }]
    }

    fn play(plan: &[CopyPlan], from: &Disk, to: &Disk) -> (Result<Copied>, ChunkSet) {
        let mut settled = ChunkSet::new(Bytes(SIZE as u64));
        let open = |_| Ok((Box::new(from.clone()) as _, Box::new(to.clone()) as _));
        let mut settle = |done: &[Done]| {
            done.iter().for_each(|done| settled.add(done.chunks.clone()));
            Ok(())
        };
        let ended = copy(plan, None, &AtomicBool::new(false), &open, &mut settle);
        (ended, settled)
    }

    #[test]
    fn what_differs_is_written_and_nothing_outside_the_plan() {
        let source: Vec<u8> = (0..SIZE).map(|at| (at / 4096 % 5) as u8).collect();
        let (from, to) = (Disk::new(source.clone()), Disk::new(vec![7; SIZE]));
        let chunk = CHUNK_BYTES as usize;
        to.0.lock().expect("it is whole").bytes[..2 * chunk].copy_from_slice(&source[..2 * chunk]);
        let (ended, settled) = play(&plan(&[(0, 40), (99, 101)]), &from, &to);
        let written = Bytes(39 * CHUNK_BYTES + 512);
        let copied = Copied { read: Bytes(41 * CHUNK_BYTES + 512), written, stopped: false };
        assert_eq!(ended.expect("no end fails"), copied);
        assert_eq!(settled.count(), 42);
        let now = to.bytes();
        assert!(
            now[..40 * chunk] == source[..40 * chunk] && now[99 * chunk..] == source[99 * chunk..]
        );
        assert!(
            now[40 * chunk..99 * chunk].iter().all(|byte| *byte == 7),
            "it was not to be copied"
        );
    }

    #[test]
    fn an_error_ends_the_copy_and_what_was_copied_is_settled() {
        let (from, to) = (Disk::new(vec![1; SIZE]), Disk::new(vec![0; SIZE]));
        from.0.lock().expect("it is whole").bad = Some(80 * CHUNK_BYTES);
        let (ended, settled) = play(&plan(&[(0, 101)]), &from, &to);
        assert_eq!(ended.expect_err("a read failed").to_string(), "the platter is scratched");
        assert!(!settled.has(80) && settled.has(0));
        let now = to.bytes();
        let is_copied = |at: u64| now[(at * CHUNK_BYTES) as usize] == 1;
        assert!((0..101).filter(|at| settled.has(*at)).all(is_copied), "nothing is claimed");
    }

    #[test]
    fn nothing_is_settled_any_more_once_that_failed() {
        let (from, to) = (Disk::new(vec![1; SIZE]), Disk::new(vec![0; SIZE]));
        let open = |_| Ok((Box::new(from.clone()) as _, Box::new(to.clone()) as _));
        let mut calls = 0;
        let mut settle = |_: &[Done]| {
            calls += 1;
            Err(anyhow!("the flush failed"))
        };
        // Slow enough that the first one comes in between.
        let limit = Some(Rate(CHUNK_BYTES * 30));
        let ended = copy(&plan(&[(0, 101)]), limit, &AtomicBool::new(false), &open, &mut settle);
        assert_eq!(ended.expect_err("it failed").to_string(), "the flush failed");
        assert_eq!(calls, 1);
    }

    #[test]
    fn what_may_be_lost_is_written_though_it_is_equal() {
        let (from, to) = (Disk::new(vec![1; SIZE]), Disk::new(vec![1; SIZE]));
        let mut plan = plan(&[(3, 5)]);
        plan[0].target = Target::Suspect;
        let (ended, _) = play(&plan, &from, &to);
        assert_eq!(ended.expect("no end fails").written, Bytes(2 * CHUNK_BYTES));
    }

    #[test]
    fn a_copy_that_is_stopped_says_so() {
        let (from, to) = (Disk::new(vec![1; SIZE]), Disk::new(vec![0; SIZE]));
        let open = |_| Ok((Box::new(from.clone()) as _, Box::new(to.clone()) as _));
        let stop = AtomicBool::new(true);
        let ended = copy(&plan(&[(0, 101)]), Some(Rate(1)), &stop, &open, &mut |_| Ok(()));
        assert_eq!(ended.expect("no end fails"), Copied { stopped: true, ..Copied::default() });
    }

    #[test]
    fn the_threads_together_keep_to_the_rate() {
        let pace = Pace::new(Some(Rate(1 << 20)));
        let begun = Instant::now();
        (0..4).for_each(|_| pace.wait(1 << 16, &|| false));
        assert!(begun.elapsed() >= Duration::from_millis(187), "the fourth waits for three");
    }
}

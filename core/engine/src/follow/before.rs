// SPDX-License-Identifier: Apache-2.0
//! Keeping a secondary's last consistent image while an update overwrites it.
//!
//! ```text
//!   item ──> chunks all preserved? ──yes──> store
//!               │ no                          ^
//!               └──> parked ──> one batch: read, append, flush ──┘
//! ```
//! Before a start makes a consistent image inconsistent, room for the before-images of everything that will be copied
//! is reserved; without it nothing is adopted (rule 10). Then no chunk is overwritten until its bytes are durable in
//! the before-image file; where all of it will be overwritten, that goes on ahead of the items. An image that is
//! inconsistent already keeps what is kept of it; one that never was consistent keeps nothing. The keeping ends once the
//! record says consistent, and not before.
//!
//! The [`Keeper`] decides by facts and requests operations on the file; `role/keeping.rs` does what must follow elsewhere.

use crate::effect::{BeforeOp, Effect};
use crate::event::BeforeOutcome;
use crate::follow::chunks::{ChunkSet, Chunks};
use crate::peer::keeping::Shortage;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::mem;
use core::ops::Range;
use helio_format::before::{CHUNK_BYTES, KeptImage, PAGE_BYTES};
use helio_format::message::Start;
use helio_format::superblock::Superblock;
use helio_ledger::BeforeKept;
use helio_plant::{Plant, planted};
use helio_units::{Bytes, Extent, Generation, Sequence, VolumeIndex};

/// An eighth of what will be copied is reserved beyond it, for what clients write meanwhile, ...
const MARGIN_PART: u64 = 8;
/// ... and that much more, at most that part of the volumes.
const MARGIN: Bytes = Bytes::mib(16);
const MARGIN_OF_ALL: u64 = 64;
/// Most chunks preserved by one flush; as many bytes as the copier has on its way.
const BATCH_CHUNKS: usize = 256;
/// Where all of the image will be overwritten, so many chunks are preserved ahead of the last one an item wanted: what
/// four flushes preserve.
const AHEAD_CHUNKS: u64 = 4 * BATCH_CHUNKS as u64;
/// Bytes of the file that one chunk takes.
const RECORD_BYTES: u64 = CHUNK_BYTES + PAGE_BYTES as u64;

/// How far a restore is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Restore {
    No,
    /// The promotion under way is to restore first.
    Wanted,
    /// The record is on its way that says this image is neither one.
    Recording,
    /// What is kept is being put back.
    Writing,
    /// The record is on its way that says it is the kept image.
    Ending,
}

#[derive(Clone, Debug)]
enum Running {
    Begin {
        image: Box<KeptImage>,
        room: u64,
    },
    /// `starting`: for a start; otherwise for an item that waits.
    Extend {
        room: u64,
        starting: bool,
    },
    Preserve {
        chunks: Vec<u64>,
    },
    Restore,
    End,
}

/// What is being done with the file.
#[derive(Clone, Debug)]
enum File {
    Idle,
    Busy(Running),
    /// It failed, and is of no use until the daemon starts again.
    Failed,
    /// It failed earlier, and a restore tries it all the same.
    FailedRestoring,
}

/// An item that waits until all its chunks are preserved.
#[derive(Clone, Debug)]
struct Parked {
    at: Sequence,
    chunks: Range<u64>,
}

/// What is kept.
#[derive(Clone, Debug)]
enum Held {
    Nothing,
    Sound(KeptImage),
    /// It cannot be restored.
    Damaged(KeptImage),
}

/// How far chunks are preserved before an item wants them.
#[derive(Clone, Copy, Debug, Default)]
struct Ahead {
    /// At most so many chunks: none unless everything will be overwritten.
    most: u64,
    /// Behind the last chunk that an item wanted to overwrite.
    reached: u64,
    /// From there up to here nothing is left to preserve.
    done: u64,
}

impl Ahead {
    /// Where it ends now, of that many chunks.
    fn end(&mut self, total: u64) -> u64 {
        if self.most == 0 {
            return 0;
        }
        let end = (self.reached + self.most).min(total);
        if !(self.reached..=end).contains(&self.done) {
            self.done = self.reached;
        }
        end
    }
}

/// What a start depends on.
pub(crate) struct Facts<'a> {
    /// The record.
    pub(crate) record: &'a Superblock,
    /// The image is consistent.
    pub(crate) consistent: bool,
    /// A volume lies on another disk than the record names.
    pub(crate) foreign: bool,
    /// The start that waits to be adopted.
    pub(crate) start: Option<Start>,
    /// Everything received is applied and durable.
    pub(crate) drained: bool,
    /// The last item in the image, if this incarnation knows it.
    pub(crate) completed: Option<Sequence>,
    /// Bytes that the file may have.
    pub(crate) bound: Option<Bytes>,
}

impl Facts<'_> {
    fn image(&self) -> KeptImage {
        KeptImage {
            lineage: self.record.lineage,
            head: self.completed.unwrap_or(self.record.head),
            exact: self.completed.is_some() || self.record.clean,
            wrote: self.record.wrote,
            alone: self.record.alone,
            ..KeptImage::default()
        }
    }
}

/// What the engine must do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Nothing,
    /// These items are issued.
    Issue(Vec<Sequence>),
    /// The start is not adopted.
    RefuseStart(Shortage),
    /// Items wait for room that is not there: applying stops.
    StopApplying(Shortage),
    /// The file failed earlier: what cannot go on without it stops.
    StopForFailure,
    /// The file failed just now, which is also logged.
    FileFailed,
    /// Flushes of members failed, maybe during a restore.
    FlushesFailed {
        volumes: u64,
        restores: bool,
    },
    /// The image is the kept one, and is to be recorded.
    Restored,
    RestoreFailed(BeforeOutcome),
}

/// See the drawing above.
#[derive(Clone, Debug)]
pub(crate) struct Keeper {
    chunks: Chunks,
    kept: Held,
    preserved: ChunkSet,
    /// Room reserved, in chunks.
    room: u64,
    file: File,
    parked: VecDeque<Parked>,
    ahead: Ahead,
    /// The start that may be adopted, and whether the image was consistent when that was settled.
    ready: Option<(Start, bool)>,
    /// An item waits for room that is not there.
    short: Option<Shortage>,
    restore: Restore,
}

impl Keeper {
    pub(crate) fn new(sizes: &[Bytes]) -> Self {
        Self {
            chunks: Chunks::new(sizes),
            kept: Held::Nothing,
            preserved: ChunkSet::default(),
            room: 0,
            file: File::Idle,
            parked: VecDeque::new(),
            ahead: Ahead::default(),
            ready: None,
            short: None,
            restore: Restore::No,
        }
    }

    /// What lay in the before-image file when the daemon started. Told before anything else.
    pub(crate) fn found(&mut self, found: &BeforeKept) {
        let mut damaged = found.damaged;
        for chunk in &found.chunks {
            match self.chunks.find(*chunk) {
                Some(number) => _ = self.preserved.insert(number),
                None => damaged = true,
            }
        }
        self.room = found.chunks.len() as u64;
        self.kept = if damaged { Held::Damaged(found.image) } else { Held::Sound(found.image) };
    }

    /// The image that is kept, and whether it can be restored.
    pub(crate) const fn kept(&self) -> Option<(&KeptImage, bool)> {
        match &self.kept {
            Held::Nothing => None,
            Held::Sound(image) => Some((image, true)),
            Held::Damaged(image) => Some((image, false)),
        }
    }

    const fn keeps(&self) -> bool {
        self.kept().is_some()
    }

    /// Bytes preserved, by whole chunks.
    pub(crate) const fn bytes(&self) -> Bytes {
        Bytes(self.preserved.count() * CHUNK_BYTES)
    }

    /// An item waits for room that is not there.
    pub(crate) const fn is_short(&self) -> bool {
        self.short.is_some()
    }

    /// The file failed, and is of no use until the daemon starts again.
    pub(crate) const fn has_failed(&self) -> bool {
        matches!(self.file, File::Failed | File::FailedRestoring)
    }

    /// Nothing is being done with the file.
    pub(crate) const fn is_idle(&self) -> bool {
        matches!(self.file, File::Idle | File::Failed)
    }

    /// Whether the follower may adopt that start.
    pub(crate) fn is_ready_for(&self, start: &Start) -> bool {
        self.ready.as_ref().is_some_and(|(ready, _)| ready == start)
    }

    /// Only what items are about to overwrite is preserved from here on.
    pub(crate) fn keep_ahead_no_more(&mut self) {
        self.ahead.most = 0;
    }

    fn forget(&mut self) {
        self.kept = Held::Nothing;
        self.preserved = ChunkSet::default();
        self.room = 0;
        self.short = None;
        self.ahead = Ahead { most: self.ahead.most, ..Ahead::default() };
    }

    /// Whether an item that changes this extent may be issued now. If not, it is parked, and offered again.
    pub(crate) fn admits(&mut self, at: Sequence, volume: VolumeIndex, extent: Extent) -> bool {
        if !self.keeps() || planted(Plant::OverwriteUnpreserved) {
            return true;
        }
        let chunks = self.chunks.touched(volume, extent);
        let waits = chunks.clone().any(|chunk| !self.preserved.has(chunk));
        self.ahead.reached = chunks.end;
        if waits {
            self.parked.push_back(Parked { at, chunks });
        }
        !waits
    }

    /// Items whose chunks are all preserved, or that need none any more.
    fn take_ready(&mut self) -> Vec<Sequence> {
        let (keeps, mut ready) = (self.keeps(), Vec::new());
        self.parked.retain(|item| {
            let waits = keeps && item.chunks.clone().any(|chunk| !self.preserved.has(chunk));
            if !waits {
                ready.push(item.at);
            }
            waits
        });
        ready
    }

    /// Items that wait for it are let go.
    pub(crate) fn forget_parked(&mut self) {
        if !planted(Plant::KeepParked) {
            self.parked.clear();
            self.short = None;
        }
    }

    /// The file failed: items that wait for it are not applied, as if there were no room.
    pub(crate) fn stop_for_failure(&mut self) {
        if !self.parked.is_empty() {
            self.short = Some(Shortage::new(Bytes::ZERO, Bytes::ZERO));
        }
    }

    /// What is kept is of no use any more.
    pub(crate) fn end(&mut self, out: &mut Vec<Effect>) {
        self.ready = None;
        self.run(Running::End, out);
    }

    /// What the simulator must find: the keeping ends while the record still says that the image is not consistent.
    pub(crate) fn end_early(&mut self, out: &mut Vec<Effect>) {
        if planted(Plant::EndKeepingEarly) && self.keeps() && matches!(self.file, File::Idle) {
            self.run(Running::End, out);
        }
    }

    /// Nothing is kept, and no start may be adopted: without a start there is nothing to do.
    pub(crate) fn rests(&self) -> bool {
        !self.keeps() && self.ready.is_none()
    }

    /// Settles what a start needs before it may be adopted, and ends a keeping that nothing needs. Nothing is being done
    /// with the file.
    pub(crate) fn arrange(&mut self, facts: &Facts<'_>, out: &mut Vec<Effect>) -> Next {
        let consistent = facts.consistent;
        self.ready.take_if(|(_, then)| *then != consistent);
        let (held, failed) = (self.keeps(), self.has_failed());
        let Some(start) = facts.start else {
            if consistent && held && !failed {
                self.end(out);
            }
            return Next::Nothing;
        };
        if self.is_ready_for(&start) {
            return Next::Nothing;
        }
        // What waits for room stands in the way of everything behind it.
        let settled = facts.drained || self.is_short();
        let known = facts.record.lineage.generation != Generation::NONE;
        match (start.consistent, consistent) {
            (true, _) => self.ready = Some((start, consistent)),
            _ if !settled => {}
            // What is kept was overwritten on another disk.
            _ if facts.foreign && held && !failed => self.run(Running::End, out),
            (_, true) if failed && known && start.keep => return Next::StopForFailure,
            _ if failed && held => return Next::StopForFailure,
            (_, false) if held && start.keep => {
                return self.reserve(start.to_copy, None, facts.bound, out);
            }
            (_, true) if known && start.keep => {
                let image = Box::new(facts.image());
                return self.reserve(start.to_copy, Some(image), facts.bound, out);
            }
            _ if held => self.run(Running::End, out),
            _ => self.ready = Some((start, consistent)),
        }
        Next::Nothing
    }

    /// Asks for room for what a start will copy: for a new keeping of `image`, or for more of the one there is.
    fn reserve(
        &mut self,
        to_copy: u64,
        image: Option<Box<KeptImage>>,
        bound: Option<Bytes>,
        out: &mut Vec<Effect>,
    ) -> Next {
        if image.is_some() {
            self.preserved = ChunkSet::default();
        }
        self.ahead.most = if to_copy >= self.chunks.bytes().0 { AHEAD_CHUNKS } else { 0 };
        let room = self.room_for(to_copy);
        let wanted = room_bytes(room);
        if let Some(free) = bound.filter(|bound| wanted > *bound) {
            return Next::RefuseStart(Shortage::new(wanted, free));
        }
        let running = match image {
            Some(image) => Running::Begin { image, room },
            None => Running::Extend { room: room.max(self.room), starting: true },
        };
        self.run(running, out);
        Next::Nothing
    }

    /// Room for what a start will copy, in chunks, beyond what is preserved already.
    fn room_for(&self, to_copy: u64) -> u64 {
        let chunks = to_copy.div_ceil(CHUNK_BYTES);
        let wanted = self.preserved.count() + chunks + chunks / MARGIN_PART + self.margin();
        wanted.min(self.chunks.total())
    }

    fn margin(&self) -> u64 {
        (MARGIN.0 / CHUNK_BYTES).min(self.chunks.total() / MARGIN_OF_ALL)
    }

    fn run(&mut self, running: Running, out: &mut Vec<Effect>) {
        let op = match &running {
            Running::Begin { image, room } => BeforeOp::Begin { image: image.clone(), room: *room },
            Running::Extend { room, .. } => BeforeOp::Extend { room: *room },
            Running::Preserve { chunks } => BeforeOp::Preserve {
                chunks: chunks.iter().map(|c| self.chunks.place(*c)).collect(),
            },
            Running::Restore => BeforeOp::Restore,
            Running::End => BeforeOp::End,
        };
        self.file = match self.file {
            File::Failed => File::FailedRestoring,
            _ => File::Busy(running),
        };
        out.push(Effect::Before(op));
    }

    /// Chunks that parked items wait for, more than once where several do.
    fn missing(&self) -> impl Iterator<Item = u64> {
        let wanted = self.parked.iter().flat_map(|item| item.chunks.clone());
        wanted.filter(|chunk| !self.preserved.has(*chunk))
    }

    /// Adds what items will wait for, where there is room for it.
    fn add_ahead(&mut self, batch: &mut ChunkSet, chunks: &mut Vec<u64>) {
        let end = self.ahead.end(self.chunks.total());
        while self.ahead.done < end
            && chunks.len() < BATCH_CHUNKS
            && self.preserved.count() + (chunks.len() as u64) < self.room
        {
            if !self.preserved.has(self.ahead.done) && batch.insert(self.ahead.done) {
                chunks.push(self.ahead.done);
            }
            self.ahead.done += 1;
        }
    }

    /// Preserves what parked items wait for, as much as one flush takes; if the room ran out, applying stops there.
    pub(crate) fn preserve(&mut self, bound: Option<Bytes>, out: &mut Vec<Effect>) -> Next {
        if !matches!(self.file, File::Idle) || self.is_short() || !self.keeps() {
            return Next::Nothing;
        }
        let mut batch = ChunkSet::default();
        let mut chunks = Vec::new();
        for chunk in self.missing() {
            if batch.insert(chunk) {
                chunks.push(chunk);
            }
            if chunks.len() == BATCH_CHUNKS {
                break;
            }
        }
        self.add_ahead(&mut batch, &mut chunks);
        if chunks.is_empty() {
            return Next::Nothing;
        }
        let needed = self.preserved.count() + chunks.len() as u64;
        if needed <= self.room {
            self.run(Running::Preserve { chunks }, out);
            return Next::Nothing;
        }
        let ample = (self.room + self.room / MARGIN_PART + self.margin()).min(self.chunks.total());
        let most = bound.map_or(u64::MAX, |bound| bound.0 / RECORD_BYTES);
        if needed > most {
            return self.run_short(needed, room_bytes(most));
        }
        let room = ample.max(needed).min(most);
        self.run(Running::Extend { room, starting: false }, out);
        Next::Nothing
    }

    fn run_short(&mut self, needed: u64, free: Bytes) -> Next {
        let shortage = Shortage::new(room_bytes(needed), free);
        self.short = Some(shortage);
        Next::StopApplying(shortage)
    }

    /// What was requested of the file ended. `start`: the one that waits to be adopted now.
    pub(crate) fn done(
        &mut self,
        outcome: BeforeOutcome,
        start: Option<Start>,
        consistent: bool,
        out: &mut Vec<Effect>,
    ) -> Next {
        let running = match mem::replace(&mut self.file, File::Idle) {
            File::Busy(running) => running,
            File::FailedRestoring => {
                self.file = File::Failed;
                Running::Restore
            }
            File::Idle | File::Failed => {
                panic!("the before-image file ended an operation that was not requested")
            }
        };
        match (running, outcome) {
            (running, BeforeOutcome::Done) => {
                self.succeeded(running, start.map(|start| (start, consistent)))
            }
            (running, BeforeOutcome::FlushFailed { volumes }) => {
                Next::FlushesFailed { volumes, restores: matches!(running, Running::Restore) }
            }
            (Running::Restore, outcome) => Next::RestoreFailed(outcome),
            (running, BeforeOutcome::NoRoom { free }) => {
                self.refused(running, free, start.is_some(), out)
            }
            (_, BeforeOutcome::Damaged | BeforeOutcome::Failed(_)) => {
                self.file = File::Failed;
                Next::FileFailed
            }
        }
    }

    fn succeeded(&mut self, running: Running, ready: Option<(Start, bool)>) -> Next {
        match running {
            Running::Begin { image, room } => {
                self.forget();
                (self.kept, self.room) = (Held::Sound(*image), room);
                self.ready = ready;
            }
            Running::Extend { room, starting } => {
                self.room = room;
                self.short = None;
                if starting {
                    self.ready = ready;
                }
            }
            Running::Preserve { chunks } => chunks.into_iter().for_each(|chunk| {
                self.preserved.insert(chunk);
            }),
            Running::End => self.forget(),
            Running::Restore => {
                self.restore = Restore::Ending;
                return Next::Restored;
            }
        }
        Next::Issue(self.take_ready())
    }

    /// `starting`: a start waits to be adopted.
    fn refused(
        &mut self,
        running: Running,
        free: Bytes,
        starting: bool,
        out: &mut Vec<Effect>,
    ) -> Next {
        match running {
            Running::Extend { room, starting: false } => {
                let waits = self.missing().take(BATCH_CHUNKS).count() as u64;
                let least = (self.preserved.count() + waits).min(room);
                if least == room || room_bytes(least) > free {
                    return self.run_short(least, free);
                }
                self.run(Running::Extend { room: least, starting: false }, out);
                Next::Nothing
            }
            Running::Begin { room, .. } | Running::Extend { room, .. } if starting => {
                Next::RefuseStart(Shortage::new(room_bytes(room), free))
            }
            Running::Begin { .. } | Running::Extend { .. } => Next::Nothing,
            Running::Preserve { .. } | Running::End | Running::Restore => {
                panic!("room was refused to what asks for none")
            }
        }
    }

    /// Whether the promotion that begins is to restore first.
    pub(crate) fn want_restore(&mut self, wanted: bool) {
        self.restore = if wanted { Restore::Wanted } else { Restore::No };
    }

    /// The image that a promotion would restore.
    pub(crate) fn restores(&self) -> Option<&KeptImage> {
        self.kept().filter(|_| self.restore != Restore::No).map(|(image, _)| image)
    }

    /// A restore is under way.
    pub(crate) const fn is_restoring(&self) -> bool {
        matches!(self.restore, Restore::Recording | Restore::Writing | Restore::Ending)
    }

    /// Begins the restore that is wanted, if what is kept is sound: its record comes first. Returns whether it does.
    pub(crate) fn begin_restore(&mut self) -> bool {
        let begins = self.restore == Restore::Wanted && matches!(self.kept, Held::Sound(_));
        if begins {
            self.restore = Restore::Recording;
        }
        begins
    }

    /// The record says so: the chunks are put back.
    pub(crate) fn put_back(&mut self, out: &mut Vec<Effect>) {
        self.restore = Restore::Writing;
        self.run(Running::Restore, out);
    }

    /// No restore is under way or wanted any more.
    pub(crate) fn end_restore(&mut self) {
        self.restore = Restore::No;
    }
}

fn room_bytes(chunks: u64) -> Bytes {
    Bytes(chunks * RECORD_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_preserved_ahead_as_far_as_four_flushes_go_and_no_further() {
        let mut keeper = Keeper::new(&[Bytes(CHUNK_BYTES * 10 * AHEAD_CHUNKS)]);
        keeper.ahead = Ahead { most: AHEAD_CHUNKS, reached: 3, done: 0 };
        keeper.room = u64::MAX;
        let mut last = 0;
        for _ in 0..2 * AHEAD_CHUNKS as usize / BATCH_CHUNKS {
            let (mut batch, mut chunks) = (ChunkSet::default(), Vec::new());
            keeper.add_ahead(&mut batch, &mut chunks);
            assert!(chunks.len() <= BATCH_CHUNKS);
            last = chunks.last().copied().unwrap_or(last);
        }
        assert_eq!(last, 3 + AHEAD_CHUNKS - 1);
    }

    /// Otherwise a long run of clients' writes would wait for the file system again every few chunks.
    #[test]
    fn the_file_grows_by_an_eighth_of_its_room_at_a_time() {
        const ROOM: u64 = 80_000;
        let mut keeper = Keeper::new(&[Bytes(CHUNK_BYTES * 100 * ROOM)]);
        (keeper.kept, keeper.room) = (Held::Sound(KeptImage::default()), ROOM);
        (0..ROOM).for_each(|chunk| assert!(keeper.preserved.insert(chunk)));
        assert!(!keeper.admits(Sequence(1), VolumeIndex(0), Extent::new(ROOM * CHUNK_BYTES, 4096)));
        let mut out = Vec::new();
        assert_eq!(keeper.preserve(None, &mut out), Next::Nothing);
        let [Effect::Before(BeforeOp::Extend { room })] = out[..] else { panic!("{out:?}") };
        assert!((ROOM + ROOM / 8..ROOM + ROOM / 4).contains(&room), "{room}");
    }
}

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
//! the before-image file; where all of it will be overwritten, that goes on ahead of the items. An image that is inconsistent already keeps what is kept of it; one that never was consistent
//! keeps nothing. The keeping ends once the record says consistent, and not before.

use crate::config::SafeCopy;
use crate::effect::BeforeOp;
use crate::engine::Engine;
use crate::event::BeforeOutcome;
use crate::follow::follower::Follower;
use crate::local::suspect::bit;
use crate::refusal::StoreFault;
use crate::shared::Shared;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use helio_format::before::{CHUNK_BYTES, KeptImage, PAGE_BYTES};
use helio_format::copying::Copying;
use helio_format::message::{Message, Parting, Start};
use helio_ledger::{BeforeKept, Chunk};
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

/// Room that was not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shortage {
    pub(crate) wanted: Bytes,
    pub(crate) free: Bytes,
}

/// What a primary knows of its peer's keeping.
#[derive(Clone, Debug, Default)]
pub(crate) struct PeerKeeping {
    /// The operator gave it up for this update.
    pub(crate) given_up: bool,
    /// Where the stream began that keeps nothing, once the peer may have heard of it on this connection.
    given_up_from: Option<Sequence>,
    /// The stream that flows asked for it.
    asked: bool,
    /// The peer had no room for it.
    pub(crate) refused: Option<Shortage>,
}

impl PeerKeeping {
    /// Whether a stream that begins there is to ask for it; one that keeps the image consistent needs none.
    pub(crate) fn ask(&mut self, from: Sequence, consistent: bool, s: &Shared) -> bool {
        if self.given_up_from.is_some() || consistent {
            // The peer heard of it, and has nothing to give up, or is consistent by now.
            self.is_over();
        }
        self.asked = !consistent && s.config.safe_copy.is_on() && !self.given_up;
        self.given_up_from = Some(from).filter(|_| self.given_up && !consistent);
        self.refused = None;
        self.asked
    }

    /// The peer is met, with an image as of that item. What was given up is given up once: not again if it heard of it.
    pub(crate) fn met(&mut self, consistent: bool, head: Sequence) {
        let reached = if consistent { head } else { head.next() };
        if self.given_up_from.take().is_some_and(|from| reached >= from) {
            self.is_over();
        }
    }

    /// The peer's image is consistent again.
    pub(crate) fn is_over(&mut self) {
        *self = Self::default();
    }
}

/// How far a restore is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Restore {
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

/// An item that waits until all its chunks are preserved.
#[derive(Clone, Debug)]
struct Parked {
    at: Sequence,
    first: u64,
    end: u64,
}

/// See the drawing above.
#[derive(Clone, Debug)]
pub(crate) struct Keeper {
    /// First chunk of each volume, and the count of all at the end.
    starts: Vec<u64>,
    sizes: Vec<Bytes>,
    kept: Option<KeptImage>,
    damaged: bool,
    preserved: ChunkSet,
    /// Room reserved, in chunks.
    room: u64,
    running: Option<Running>,
    parked: VecDeque<Parked>,
    /// Everything will be overwritten.
    whole: bool,
    /// Behind the last chunk that an item wanted to overwrite.
    reached: u64,
    /// From there up to here nothing is left to preserve.
    ahead: u64,
    /// The start that may be adopted, and whether the image was consistent when that was settled.
    ready: Option<(Start, bool)>,
    /// An item waits for room that is not there.
    pub(crate) short: Option<Shortage>,
    pub(crate) restore: Restore,
    /// The file failed, and is of no use until the daemon starts again.
    pub(crate) failed: bool,
}

impl Keeper {
    pub(crate) fn new(sizes: &[Bytes]) -> Self {
        let mut starts = vec![0];
        for size in sizes {
            starts.push(starts[starts.len() - 1] + size.0.div_ceil(CHUNK_BYTES));
        }
        Self {
            starts,
            sizes: sizes.to_vec(),
            kept: None,
            damaged: false,
            preserved: ChunkSet::default(),
            room: 0,
            running: None,
            parked: VecDeque::new(),
            whole: false,
            reached: 0,
            ahead: 0,
            ready: None,
            short: None,
            restore: Restore::No,
            failed: false,
        }
    }

    fn total(&self) -> u64 {
        self.starts[self.starts.len() - 1]
    }

    fn number(&self, volume: VolumeIndex, offset: u64) -> u64 {
        self.starts[usize::from(volume.0)] + offset / CHUNK_BYTES
    }

    fn place(&self, chunk: u64) -> Chunk {
        let volume = self.starts.partition_point(|s| *s <= chunk) - 1;
        let offset = (chunk - self.starts[volume]) * CHUNK_BYTES;
        let length = (self.sizes[volume].0 - offset).min(CHUNK_BYTES);
        (VolumeIndex(volume as u16), Extent::new(offset, length))
    }

    fn found(&mut self, kept: &BeforeKept) {
        let inside = |(volume, extent): &Chunk| {
            self.sizes.get(usize::from(volume.0)).is_some_and(|size| extent.end() <= size.0)
        };
        self.damaged = kept.damaged || !kept.chunks.iter().all(inside);
        for (volume, extent) in kept.chunks.iter().filter(|chunk| inside(chunk)) {
            self.preserved.insert(self.starts[usize::from(volume.0)] + extent.offset / CHUNK_BYTES);
        }
        self.room = kept.chunks.len() as u64;
        self.kept = Some(kept.image);
    }

    /// The image that is kept, and whether it can be restored.
    pub(crate) fn kept(&self) -> Option<(&KeptImage, bool)> {
        self.kept.as_ref().map(|image| (image, !self.damaged))
    }

    /// Only what items are about to overwrite is preserved from here on.
    pub(crate) fn keep_ahead_no_more(&mut self) {
        self.whole = false;
    }

    /// Bytes preserved, by whole chunks.
    pub(crate) fn bytes(&self) -> Bytes {
        Bytes(self.preserved.count * CHUNK_BYTES)
    }

    fn forget(&mut self) {
        self.kept = None;
        self.damaged = false;
        self.preserved = ChunkSet::default();
        self.room = 0;
        self.short = None;
        (self.reached, self.ahead) = (0, 0);
    }

    /// Whether an item that changes this extent may be issued now. If not, it is parked, and offered again.
    pub(crate) fn admits(&mut self, at: Sequence, volume: VolumeIndex, extent: Extent) -> bool {
        if self.kept.is_none() || planted(Plant::OverwriteUnpreserved) {
            return true;
        }
        let first = self.number(volume, extent.offset);
        let end = self.number(volume, extent.end() - 1) + 1;
        let waits = (first..end).any(|chunk| !self.preserved.has(chunk));
        self.reached = end;
        if waits {
            self.parked.push_back(Parked { at, first, end });
        }
        !waits
    }

    /// Items whose chunks are all preserved, or that need none any more.
    fn take_ready(&mut self) -> Vec<Sequence> {
        let Self { parked, preserved, kept, .. } = self;
        let mut ready = Vec::new();
        parked.retain(|item| {
            let waits = kept.is_some() && (item.first..item.end).any(|chunk| !preserved.has(chunk));
            if !waits {
                ready.push(item.at);
            }
            waits
        });
        ready
    }

    /// Whether the follower may adopt that start.
    pub(crate) fn is_ready_for(&self, start: &Start) -> bool {
        self.ready.as_ref().is_some_and(|(ready, _)| ready == start)
    }

    /// Nothing is being done with the file.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.is_none()
    }

    /// Items that wait for it are let go.
    pub(crate) fn forget_parked(&mut self) {
        self.parked.clear();
        self.short = None;
    }

    /// What is kept is of no use any more.
    pub(crate) fn end(&mut self, out: &mut Vec<crate::Effect>) {
        self.ready = None;
        self.run(Running::End, out);
    }

    /// Room for what a start will copy, in chunks, beyond what is preserved already.
    fn room_for(&self, to_copy: u64) -> u64 {
        let chunks = to_copy.div_ceil(CHUNK_BYTES);
        let wanted = self.preserved.count + chunks + chunks / MARGIN_PART + self.margin();
        wanted.min(self.total())
    }

    fn margin(&self) -> u64 {
        (MARGIN.0 / CHUNK_BYTES).min(self.total() / MARGIN_OF_ALL)
    }

    fn run(&mut self, running: Running, s: &mut Vec<crate::Effect>) {
        let op = match &running {
            Running::Begin { image, room } => BeforeOp::Begin { image: image.clone(), room: *room },
            Running::Extend { room, .. } => BeforeOp::Extend { room: *room },
            Running::Preserve { chunks } => {
                BeforeOp::Preserve { chunks: chunks.iter().map(|c| self.place(*c)).collect() }
            }
            Running::Restore => BeforeOp::Restore,
            Running::End => BeforeOp::End,
        };
        self.running = Some(running);
        s.push(crate::Effect::Before(op));
    }

    /// Adds what items will wait for, where there is room for it.
    fn add_ahead(&mut self, batch: &mut ChunkSet, chunks: &mut Vec<u64>) {
        if !self.whole {
            return;
        }
        let end = (self.reached + AHEAD_CHUNKS).min(self.total());
        if !(self.reached..=end).contains(&self.ahead) {
            self.ahead = self.reached;
        }
        while self.ahead < end
            && chunks.len() < BATCH_CHUNKS
            && self.preserved.count + (chunks.len() as u64) < self.room
        {
            if !self.preserved.has(self.ahead) && batch.insert(self.ahead) {
                chunks.push(self.ahead);
            }
            self.ahead += 1;
        }
    }

    /// Preserves what parked items wait for, as much as one flush takes.
    fn preserve(&mut self, bound: Option<Bytes>, out: &mut Vec<crate::Effect>) {
        if self.running.is_some() || self.short.is_some() || self.kept.is_none() || self.failed {
            return;
        }
        let mut batch = ChunkSet::default();
        let mut chunks = Vec::new();
        let wanted = self.parked.iter().flat_map(|item| item.first..item.end);
        for chunk in wanted.filter(|chunk| !self.preserved.has(*chunk)) {
            if batch.insert(chunk) {
                chunks.push(chunk);
            }
            if chunks.len() == BATCH_CHUNKS {
                break;
            }
        }
        self.add_ahead(&mut batch, &mut chunks);
        if chunks.is_empty() {
            return;
        }
        let needed = self.preserved.count + chunks.len() as u64;
        if needed <= self.room {
            self.run(Running::Preserve { chunks }, out);
            return;
        }
        let ample = (self.room + self.room / MARGIN_PART + self.margin()).min(self.total());
        let most = bound.map_or(u64::MAX, |bound| bound.0 / RECORD_BYTES);
        if needed > most {
            self.short = Some(Shortage { wanted: room_bytes(needed), free: room_bytes(most) });
        } else {
            let room = ample.max(needed).min(most);
            self.run(Running::Extend { room, starting: false }, out);
        }
    }
}

fn room_bytes(chunks: u64) -> Bytes {
    Bytes(chunks * RECORD_BYTES)
}

/// Chunks by number, in pages of 4096.
#[derive(Clone, Debug, Default)]
struct ChunkSet {
    pages: BTreeMap<u64, Box<[u64; 64]>>,
    count: u64,
}

impl ChunkSet {
    fn has(&self, chunk: u64) -> bool {
        let page = self.pages.get(&(chunk / 4096));
        page.is_some_and(|page| page[(chunk / 64 % 64) as usize] & (1 << (chunk % 64)) != 0)
    }

    /// Returns whether it is new.
    fn insert(&mut self, chunk: u64) -> bool {
        let page = self.pages.entry(chunk / 4096).or_insert_with(|| Box::new([0; 64]));
        let word = &mut page[(chunk / 64 % 64) as usize];
        let new = *word & (1 << (chunk % 64)) == 0;
        *word |= 1 << (chunk % 64);
        self.count += u64::from(new);
        new
    }
}

impl Engine {
    /// What lay in the before-image file when the daemon started. Told before anything else.
    pub(crate) fn before_found(&mut self, kept: &BeforeKept) {
        self.shared.keeper.found(kept);
    }

    /// Settles what a start needs before it may be adopted, and ends a keeping that nothing needs.
    pub(crate) fn arrange_keeping(&mut self) {
        if self.is_saving() || self.shared.metadata_failed || !self.shared.keeper.is_idle() {
            return;
        }
        let (consistent, foreign) = (self.is_consistent(), self.members.are_foreign());
        let keeper = &mut self.shared.keeper;
        keeper.ready.take_if(|(_, then)| *then != consistent);
        let follower = self.standing.follower();
        let Some(start) = follower.and_then(Follower::starting) else {
            if consistent && keeper.kept.is_some() && !keeper.failed {
                keeper.ready = None;
                keeper.run(Running::End, &mut self.shared.out);
            }
            return;
        };
        if keeper.is_ready_for(&start) {
            return;
        }
        let held = keeper.kept.is_some();
        // What waits for room stands in the way of everything behind it.
        let settled = follower.is_some_and(Follower::is_drained) || keeper.short.is_some();
        let known = self.superblock.lineage.generation != Generation::NONE;
        match (start.consistent, consistent) {
            (true, _) => keeper.ready = Some((start, consistent)),
            _ if !settled => {}
            // What is kept was overwritten on another disk.
            _ if foreign && held && !keeper.failed => {
                keeper.run(Running::End, &mut self.shared.out)
            }
            (_, true) if keeper.failed && known && start.keep => self.file_failed(),
            _ if keeper.failed && held => self.file_failed(),
            (_, false) if held && start.keep => self.reserve(start, None),
            (_, true) if known && start.keep => {
                let image = Box::new(self.image_now());
                self.reserve(start, Some(image));
            }
            _ if held => keeper.run(Running::End, &mut self.shared.out),
            _ => keeper.ready = Some((start, consistent)),
        }
    }

    fn image_now(&self) -> KeptImage {
        let b = &self.superblock;
        let streaming = self.standing.streaming();
        KeptImage {
            lineage: b.lineage,
            head: streaming.map_or(b.head, |follower| follower.completed()),
            exact: streaming.is_some() || b.clean,
            wrote: b.wrote,
            alone: b.alone,
            ..KeptImage::default()
        }
    }

    /// Asks for room for what a start will copy: for a new keeping of `image`, or for more of the one there is.
    fn reserve(&mut self, start: Start, image: Option<Box<KeptImage>>) {
        let s = &mut self.shared;
        if image.is_some() {
            s.keeper.preserved = ChunkSet::default();
        }
        let all = s.config.volumes.iter().fold(Bytes::ZERO, |sum, size| sum + *size);
        s.keeper.whole = start.to_copy >= all.0;
        let room = s.keeper.room_for(start.to_copy);
        let wanted = room_bytes(room);
        match s.config.safe_copy {
            SafeCopy::On { bound: Some(bound) } if wanted > bound => {
                self.refuse_start(Shortage { wanted, free: bound });
            }
            _ => {
                let running = match image {
                    Some(image) => Running::Begin { image, room },
                    None => Running::Extend { room: room.max(s.keeper.room), starting: true },
                };
                s.keeper.run(running, &mut s.out);
            }
        }
    }

    /// The start is not adopted, and its items are not taken.
    fn refuse_start(&mut self, shortage: Shortage) {
        self.refuse_items();
        self.tell_shortage(shortage);
    }

    fn refuse_items(&mut self) {
        if let Some(follower) = self.standing.follower_mut() {
            follower.refuse(&mut self.shared);
        }
    }

    fn starting(&self) -> Option<Start> {
        self.standing.follower().and_then(Follower::starting)
    }

    fn tell_shortage(&mut self, Shortage { wanted, free }: Shortage) {
        let s = &mut self.shared;
        s.warn(format!(
            "no space to preserve the last consistent copy: {wanted} required, {free} available; enlarge the file \
             system or the limit, or run `helio resync {} --give-up-safe-copy` on the primary",
            s.config.group
        ));
        if self.session.peer().is_some() {
            let talk = Copying::NoRoom { wanted: wanted.0, free: free.0 };
            self.shared.send(Message::Copying(talk));
        }
    }

    /// Preserves what items wait for; where the room ran out, applying stops there.
    pub(crate) fn keep_preserving(&mut self) {
        let s = &mut self.shared;
        let SafeCopy::On { bound } = s.config.safe_copy else {
            return s.keeper.preserve(None, &mut s.out);
        };
        let was_short = s.keeper.short.is_some();
        s.keeper.preserve(bound, &mut s.out);
        if let Some(shortage) = s.keeper.short.filter(|_| !was_short) {
            self.ran_short(shortage);
        }
    }

    fn ran_short(&mut self, shortage: Shortage) {
        self.shared.keeper.short = Some(shortage);
        // A source that began in order again since asks for no keeping, and does not heed a want of room.
        let in_order = self.starting().is_some_and(|start| start.consistent);
        self.refuse_items();
        self.tell_shortage(shortage);
        if in_order {
            self.meet_again_for_room();
        }
    }

    /// The source counts on items that were not taken: the two meet again, and settle from where to go on.
    pub(crate) fn meet_again_for_room(&mut self) {
        self.hang_up(
            Parting::RoleChanged,
            String::from("items were not accepted because there is no space"),
        );
    }

    /// What was asked of the before-image file ended.
    pub(crate) fn before_done(&mut self, outcome: BeforeOutcome) {
        let Some(running) = self.shared.keeper.running.take() else {
            panic!("the before-image file ended an operation that was not requested")
        };
        match (running, outcome) {
            (running, BeforeOutcome::Done) => self.before_succeeded(running),
            (running, BeforeOutcome::FlushFailed { volumes }) => {
                self.member_flushes_failed(matches!(running, Running::Restore), volumes);
            }
            (Running::Restore, outcome) => self.restore_failed(outcome),
            (running, BeforeOutcome::NoRoom { free }) => self.before_refused(running, free),
            (_, BeforeOutcome::Damaged | BeforeOutcome::Failed(_)) => {
                self.shared.keeper.failed = true;
                let text = "the before-image file failed; repair it and restart the daemon";
                self.shared.warn(String::from(text));
                if !self.superblock.consistent || self.starting().is_some() {
                    self.file_failed();
                }
            }
        }
    }

    /// What those stores hold of earlier writes is unknown, as behind any flush that fails.
    fn member_flushes_failed(&mut self, restores: bool, volumes: u64) {
        for volume in (0..self.shared.config.volumes.len() as u16).map(VolumeIndex) {
            if volumes & bit(volume) == 0 {
                continue;
            }
            self.own_flush_failed(volume, StoreFault::Io);
            if restores {
                // Chunks that were put back lie in no hot extent.
                let s = &mut self.shared;
                s.suspect.all_of(volume, &s.config);
            }
        }
        if restores {
            self.restore_failed(BeforeOutcome::FlushFailed { volumes });
        }
    }

    fn before_succeeded(&mut self, running: Running) {
        let consistent = self.is_consistent();
        let starting = self.starting();
        let keeper = &mut self.shared.keeper;
        match running {
            Running::Begin { image, room } => {
                keeper.forget();
                (keeper.kept, keeper.room) = (Some(*image), room);
                keeper.ready = starting.map(|start| (start, consistent));
            }
            Running::Extend { room, starting: for_start } => {
                keeper.room = room;
                keeper.short = None;
                if for_start {
                    keeper.ready = starting.map(|start| (start, consistent));
                }
            }
            Running::Preserve { chunks } => {
                chunks.into_iter().for_each(|chunk| {
                    keeper.preserved.insert(chunk);
                });
            }
            Running::End => keeper.forget(),
            Running::Restore => return self.restored(),
        }
        let ready = self.shared.keeper.take_ready();
        if let Some(follower) = self.standing.follower_mut() {
            ready.into_iter().for_each(|at| follower.issue(at, &mut self.shared));
        }
    }

    fn before_refused(&mut self, running: Running, free: Bytes) {
        let needed = |keeper: &Keeper| {
            let waits = keeper.parked.iter().flat_map(|item| item.first..item.end);
            let waits = waits.filter(|chunk| !keeper.preserved.has(*chunk)).take(BATCH_CHUNKS);
            keeper.preserved.count + waits.count() as u64
        };
        let s = &mut self.shared;
        match running {
            Running::Extend { room, starting: false } => {
                let least = needed(&s.keeper).min(room);
                if least < room && room_bytes(least) <= free {
                    s.keeper.run(Running::Extend { room: least, starting: false }, &mut s.out);
                } else {
                    self.ran_short(Shortage { wanted: room_bytes(least), free });
                }
            }
            Running::Begin { room, .. } | Running::Extend { room, .. } => {
                if self.starting().is_some() {
                    self.refuse_start(Shortage { wanted: room_bytes(room), free });
                }
            }
            Running::Preserve { .. } | Running::End | Running::Restore => {
                panic!("room was refused to what asks for none")
            }
        }
    }

    /// Without the file nothing that needs it may go on: applying stops, and the connection ends.
    fn file_failed(&mut self) {
        if !self.shared.keeper.parked.is_empty() {
            let nothing = Shortage { wanted: Bytes::ZERO, free: Bytes::ZERO };
            self.shared.keeper.short = Some(nothing);
        }
        self.refuse_items();
        let text = "the before-image file failed; repair it and restart the daemon";
        self.hang_up(Parting::VolumeFailed, String::from(text));
    }

    /// The peer has no room to keep its image: the update does not go on.
    pub(crate) fn peer_has_no_room(&mut self, wanted: Bytes, free: Bytes) -> Result<(), String> {
        let Some(primary) = self.standing.primary_mut() else {
            return Err(String::from("a lack of space was reported to a node that copies nothing"));
        };
        if primary.flow.is_some() && primary.peer_keeping.asked && primary.lack.is_some() {
            // Marks could not take the queue's place: the two meet again, until there is room or it is given up.
            primary.peer_keeping.refused = Some(Shortage { wanted, free });
            let why = self.needs_room().unwrap_or_default();
            self.hang_up(Parting::RoleChanged, why);
        } else if primary.flow.is_some() && primary.peer_keeping.asked {
            primary.drop_queue("the peer has no space to preserve its copy", &mut self.shared);
            primary.peer_keeping.refused = Some(Shortage { wanted, free });
        }
        Ok(())
    }

    /// Why an update does not begin for want of room.
    pub(crate) fn needs_room(&self) -> Option<String> {
        let Shortage { wanted, free } = self.standing.primary()?.peer_keeping.refused?;
        let (peer, group) = (&self.shared.config.peer, &self.shared.config.group);
        Some(format!(
            "{peer} has no space to preserve its last consistent copy during a resync: {wanted} required, {free} \
             available; enlarge the file system or the limit there and run `helio resync {group}`, or run `helio \
             resync {group} --give-up-safe-copy`"
        ))
    }

    /// Updates without keeping the peer's last consistent image.
    pub(crate) fn give_up_safe_copy(&mut self) {
        if let Some(primary) = self.standing.primary_mut() {
            primary.peer_keeping = PeerKeeping { given_up: true, ..PeerKeeping::default() };
            // An update under way begins anew, so that the peer hears of it.
            if primary.flow.is_some() && primary.owed.has_lost_order() {
                primary.drop_queue(
                    "the operator requested a resync without a safe copy",
                    &mut self.shared,
                );
            }
        }
    }

    /// What the simulator must find: the keeping ends while the record still says that the image is not consistent.
    pub(crate) fn end_keeping_early(&mut self) {
        let s = &mut self.shared;
        if planted(Plant::EndKeepingEarly) && s.keeper.kept.is_some() && s.keeper.is_idle() {
            s.keeper.run(Running::End, &mut s.out);
        }
    }

    pub(crate) fn run_restore(&mut self) {
        let s = &mut self.shared;
        s.keeper.run(Running::Restore, &mut s.out);
    }
}

#[cfg(test)]
#[path = "before_tests.rs"]
mod tests;

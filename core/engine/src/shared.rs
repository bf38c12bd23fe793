// SPDX-License-Identifier: Apache-2.0
//! What every room of the engine may use: configuration, the time it was told, the effects it collects, and the
//! names of operations under way.

use crate::config::Config;
use crate::effect::{Answer, Effect, Keep, Loudness, Note, StoreOp};
use crate::event::StoreOutcome;
use crate::follow::before::Keeper;
use crate::follow::follower::{FollowerIo, ITEMS_MAX};
use crate::local::lack::Reader;
use crate::local::suspect::{AcceptIo, Suspect};
use crate::peer::lease::Lease;
use crate::peer::primary::PrimaryIo;
use crate::peer::read_server::PeerRead;
use crate::refusal::{Denial, Refusal};
use crate::resync::digest::TellerIo;
use crate::resync::seed::SeedIo;
use crate::resync::verify::Verify;
use crate::role::pause::Pause;
use crate::stream::blocks::Blocks;
use crate::stream::flushes::Flushes;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use helio_bitmap::{Change, HotExtents, Parked};
use helio_format::message::Message;
use helio_plant::{Plant, planted};
use helio_units::{Extent, IoId, Moment, PayloadId, RequestId, VolumeIndex};

/// Who asked for an operation on the store, and what for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A client reads.
    Read(Reader),
    Primary(PrimaryIo),
    Follower(FollowerIo),
    /// The copier's source asks what this node holds.
    Teller(TellerIo),
    /// The primary reads here.
    PeerRead(PeerRead),
    Seed(SeedIo),
    Accept(AcceptIo),
    /// The last flush of a primary that leaves.
    Leave(VolumeIndex),
    /// A flush that lets hot extents go.
    Cover(VolumeIndex),
}

macro_rules! asks {
    ($($owner:ident($io:ty)),*) => {$(
        impl From<$io> for Purpose {
            fn from(io: $io) -> Self {
                Self::$owner(io)
            }
        }
    )*};
}

asks!(Primary(PrimaryIo), Follower(FollowerIo), Teller(TellerIo), Seed(SeedIo), Accept(AcceptIo));

/// Counters for status; they only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Reads asked for by clients.
    pub reads: u64,
    /// Writes accepted from clients.
    pub writes: u64,
    /// Flushes accepted from clients.
    pub flushes: u64,
    /// Discards accepted from clients.
    pub discards: u64,
    /// Write-zeroes accepted from clients.
    pub zeroes: u64,
    /// Bytes read by clients.
    pub read_bytes: u64,
    /// Bytes written by clients.
    pub write_bytes: u64,
    /// Requests answered.
    pub answered: u64,
    /// Of these, writes, zeroes, discards and flushes that took their way over the line.
    pub timed: u64,
    /// How long those took from acceptance to answer, added up.
    pub time: Duration,
}

/// An operation on the store that was asked for and has not ended.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    purpose: Purpose,
    volume: VolumeIndex,
    what: What,
    /// Its number among the flushes, once it was issued.
    flush: Option<u64>,
}

/// What it means to the cover.
#[derive(Clone, Copy, Debug)]
enum What {
    Changes(Extent),
    Flushes(u64),
    Looks,
}

#[derive(Clone, Debug)]
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) now: Moment,
    pub(crate) out: Vec<Effect>,
    pub(crate) counters: Counters,
    /// When a client changed data last.
    pub(crate) last_write: Option<Moment>,
    pub(crate) cover: HotExtents<StoreOp>,
    pub(crate) blocks: Blocks,
    /// What a follower keeps of its last consistent image.
    pub(crate) keeper: Keeper,
    /// Where a verify is; it outlives the primary that runs it.
    pub(crate) verify: Verify,
    /// What may be answered without the peer, and who may take over without being asked.
    pub(crate) lease: Lease,
    /// Whether this process must check that it was not succeeded while it was paused.
    pub(crate) pause: Pause,
    /// Stores are written uncovered: the peer recorded that this node's metadata tells nothing.
    pub(crate) uncovered: bool,
    /// The metadata file cannot be written.
    pub(crate) metadata_failed: bool,
    /// What flushes that failed left of this node's copies.
    pub(crate) suspect: Suspect,
    /// A follower holds this many items at most, and one more.
    pub(crate) receive_items: usize,
    flushes: Flushes,
    ios: Vec<Option<UnderWay>>,
    free: Vec<u32>,
}

impl Shared {
    pub(crate) fn new(config: Config, blocks: Blocks) -> Self {
        let (ios, free) = (Vec::new(), Vec::new());
        let cover = HotExtents::new(&config.volumes, config.hot_extents as usize);
        Self {
            cover,
            blocks,
            keeper: Keeper::new(&config.volumes),
            verify: Verify::new(config.volumes.len()),
            lease: Lease::default(),
            pause: Pause::default(),
            uncovered: false,
            metadata_failed: false,
            suspect: Suspect::default(),
            receive_items: ITEMS_MAX,
            flushes: Flushes::new(config.volumes.len()),
            config,
            now: Moment::ZERO,
            out: Vec::new(),
            counters: Counters::default(),
            last_write: None,
            ios,
            free,
        }
    }

    /// Nothing can be recorded.
    pub(crate) fn metadata_refusal(&self) -> Refusal {
        let (group, node) = (&self.config.group, &self.config.node);
        Refusal::new(
            "metadata-failed",
            format!("the metadata file of {group} on {node} cannot be written"),
            format!(
                "the log shows the error; repair the file system of the state directory, then restart the daemon of {node}"
            ),
        )
    }

    /// Whether an answer without the peer's word must wait.
    pub(crate) fn withholds(&self) -> bool {
        self.lease.withholds(self.now) || self.pause.withholds()
    }

    /// What that means for a primary's clients.
    pub(crate) fn withheld_text(&self) -> Option<String> {
        self.lease.text(&self.config.peer, self.now).or_else(|| self.pause.text(&self.config))
    }

    /// Asks for an operation on the store. What changes bytes waits until its extents are hot.
    pub(crate) fn store(&mut self, volume: VolumeIndex, op: StoreOp, purpose: impl Into<Purpose>) {
        let purpose = purpose.into();
        let slot = self.free.pop().unwrap_or_else(|| {
            self.ios.push(None);
            (self.ios.len() - 1) as u32
        });
        let what = match op {
            StoreOp::Write { extent, .. }
            | StoreOp::Zero { extent, .. }
            | StoreOp::Discard { extent, .. }
                if !self.uncovered && !matches!(purpose, Purpose::Accept(_)) =>
            {
                What::Changes(extent)
            }
            StoreOp::Flush => What::Flushes(self.cover.flush_begins(volume)),
            _ => What::Looks,
        };
        self.ios[slot as usize] = Some(UnderWay { purpose, volume, what, flush: None });
        let io = IoId(u64::from(slot));
        if let What::Changes(extent) = what {
            let at = match purpose {
                Purpose::Primary(PrimaryIo::Local(at))
                | Purpose::Follower(FollowerIo::Apply(at)) => Some(at),
                _ => None,
            };
            if !self.cover.enter(volume, extent, at) && !planted(Plant::CoverAfterIssue) {
                self.cover.park(io, volume, op, extent);
                return;
            }
        }
        self.issue(io, volume, op);
    }

    /// Hands an operation to the store.
    pub(crate) fn issue(&mut self, io: IoId, volume: VolumeIndex, op: StoreOp) {
        if op.is_flush()
            && let Some(under_way) = &mut self.ios[io.0 as usize]
        {
            under_way.flush = Some(self.flushes.begin(volume));
        }
        self.out.push(Effect::Store { io, volume, op });
    }

    /// The store reports the end of an operation. What the engine may take as ended now, [`Self::next_ended`] tells.
    pub(crate) fn ended(&mut self, io: IoId, outcome: StoreOutcome) {
        let under_way = self.ios.get(io.0 as usize).and_then(Option::as_ref);
        match under_way.and_then(|under_way| Some((under_way.volume, under_way.flush?))) {
            Some(flush) => self.flushes.end(flush, io, outcome),
            None => self.flushes.pass(io, outcome),
        }
    }

    /// The next operation that has ended.
    pub(crate) fn next_ended(&mut self) -> Option<(IoId, StoreOutcome)> {
        self.flushes.next_ended()
    }

    /// Asks the ledger for what the cover wants, and returns what that was.
    pub(crate) fn keep_hot(&mut self) -> Option<Change> {
        let change = self.cover.change()?;
        let Change { ticket, add, remove } = &change;
        let keep = Keep::Hot { ticket: *ticket, add: add.clone(), remove: remove.clone() };
        self.out.push(Effect::Keep(keep));
        Some(change)
    }

    /// A change of the hot extents is durable: what waited for it is issued.
    pub(crate) fn hot_kept(&mut self, change: &Change) {
        for Parked { io, volume, op, .. } in self.cover.kept(change) {
            self.issue(io, volume, op);
        }
    }

    /// Why the operation that just ended was asked for. Each ends exactly once.
    pub(crate) fn finish_io(&mut self, io: IoId, ok: bool) -> Purpose {
        let slot = io.0 as usize;
        let Some(under_way) = self.ios.get_mut(slot).and_then(Option::take) else {
            panic!("store operation {} ended twice or never began", io.0);
        };
        self.free.push(slot as u32);
        let UnderWay { purpose, volume, what, flush } = under_way;
        if !ok && flush.is_some() {
            self.cover.distrust_flushes(volume);
        }
        match what {
            What::Changes(extent) => self.cover.leave(volume, extent),
            What::Flushes(number) => self.cover.flush_ended(volume, number, ok),
            What::Looks => {}
        }
        purpose
    }

    /// Whether anything is under way on the store of that volume, or of any.
    pub(crate) fn works_on(&self, volume: Option<VolumeIndex>) -> bool {
        self.ios.iter().flatten().any(|io| volume.is_none_or(|volume| io.volume == volume))
    }

    /// Whether work of a primary's own is under way, or of a follower's.
    pub(crate) fn works_for(&self, primary: bool) -> bool {
        self.ios.iter().flatten().any(|io| match io.purpose {
            Purpose::Primary(_) => primary,
            Purpose::Follower(_) => !primary,
            _ => false,
        })
    }

    /// Whether a client's read is under way here.
    pub(crate) fn reads_under_way(&self) -> bool {
        self.ios.iter().flatten().any(|io| matches!(io.purpose, Purpose::Read(_)))
    }

    pub(crate) fn send(&mut self, message: Message) {
        self.out.push(Effect::Send(message));
    }

    pub(crate) fn release(&mut self, payload: PayloadId) {
        self.out.push(Effect::Release(payload));
    }

    /// Answers a client with what its read of this node's store came to.
    pub(crate) fn answer_read(&mut self, request: RequestId, outcome: StoreOutcome) {
        let answer = match outcome {
            StoreOutcome::Read { payload, .. } => Answer::Read(payload),
            StoreOutcome::Failed(fault) => Answer::Denied(Denial::Store(fault)),
            other => panic!("a read ended as {other:?}"),
        };
        self.reply(request, answer);
    }

    /// Nobody needs what an operation brought.
    pub(crate) fn let_go(&mut self, outcome: &StoreOutcome) {
        if let StoreOutcome::Read { payload, .. } = outcome {
            self.release(payload.id);
        }
    }

    pub(crate) fn reply(&mut self, request: RequestId, answer: Answer) {
        self.counters.answered += 1;
        self.out.push(Effect::Reply { request, answer });
    }

    pub(crate) fn info(&mut self, text: String) {
        self.out.push(Effect::Note(Note { loudness: Loudness::Info, text }));
    }

    pub(crate) fn warn(&mut self, text: String) {
        self.out.push(Effect::Note(Note { loudness: Loudness::Warning, text }));
    }
}

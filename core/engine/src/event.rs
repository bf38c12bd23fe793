// SPDX-License-Identifier: Apache-2.0
//! Everything the engine can be told.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use helio_format::copying::{Digest, PageBits};
use helio_format::disks::Disk;
use helio_format::message::Message;
use helio_format::snapshot::SnapshotAct;
use helio_format::superblock::Superblock;
use helio_ledger::BeforeFound;
use helio_stack::{CopyIo, LayerSetting, PoolOutcome, SetOp, Shortage, Stack, StoreFault};
use helio_units::{
    Bytes, CopyName, Extent, Generation, IoId, Mode, Moment, Payload, Rate, RequestId, VolumeIndex,
    WallTime,
};

/// What a client wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Read the extent.
    Read(Extent),
    /// Store the payload.
    Write {
        /// Where.
        extent: Extent,
        /// What; exactly as long as the extent.
        payload: Payload,
        /// Answer only once these bytes are durable.
        fua: bool,
    },
    /// Make the extent read as zero.
    Zero {
        /// Where.
        extent: Extent,
        /// Space may be freed.
        punch: bool,
        /// Answer only once the zeros are durable.
        fua: bool,
    },
    /// Give the extent's space back.
    Discard {
        /// Where.
        extent: Extent,
        /// Answer only once it is durable.
        fua: bool,
    },
    /// Make durable what was answered.
    Flush,
}

/// A request of a client; answered exactly once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its name.
    pub id: RequestId,
    /// On which volume.
    pub volume: VolumeIndex,
    /// What.
    pub operation: Operation,
}

/// How an operation on a store ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreOutcome {
    /// It is done.
    Done,
    /// The bytes read, or their digests.
    Read {
        /// Where they are.
        payload: Payload,
        /// All bytes are zero; reported for [`ReadAs::BytesOrZero`](crate::ReadAs::BytesOrZero) only.
        zero: bool,
    },
    /// The digests asked for, in order.
    Digests(Vec<Digest>),
    /// Whether nothing is allocated there.
    Empty(bool),
    /// What differs from the digests given, or everything where none were given, in order.
    Differing(Vec<Run>),
    /// It was compared: the blocks that differ, neighbours together.
    Verified(Vec<Extent>),
    /// It failed.
    Failed(StoreFault),
    /// It was done on a copy and failed: the copy is gone, or cannot be read or written. That says nothing of the volumes.
    CopyFailed(StoreFault),
    /// It was not begun, and nothing was touched: there is no room for what must be preserved first.
    Refused(Shortage),
}

/// A stretch that differs from the peer's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Where.
    pub extent: Extent,
    /// Its bytes, or none where all of them are zero here.
    pub payload: Option<Payload>,
}

/// What an operator wants compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifyWish {
    /// Only this volume.
    pub volume: Option<VolumeIndex>,
    /// Copy what differs to the peer, in order.
    pub repair: bool,
    /// Most bytes compared a second.
    pub rate: Option<Rate>,
    /// From the start, not from where the last one stopped.
    pub restart: bool,
}

/// What a verify leaves to the next start of the daemon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyMemory {
    /// One was under way.
    pub run: Option<VerifyWish>,
    /// How far each volume was compared, and how many bytes differed so far.
    pub places: Vec<(u64, Bytes)>,
    /// Differences that nobody mended.
    pub listed: Vec<(VolumeIndex, Extent)>,
    /// And how many more there were.
    pub beyond: u64,
}

/// How a primary takes its peer's copy over its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reversal {
    /// Everywhere.
    pub full: bool,
    /// Even if its own is the last complete copy.
    pub last_copy: bool,
}

/// An operator's command, or the daemon's on its behalf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Become primary. `force` where the peer cannot agree.
    Promote {
        /// Without the peer's word.
        force: bool,
    },
    /// As [`Command::Promote`], and where the copy here is not consistent, restore the kept image first.
    Restore {
        /// Without the peer's word.
        force: bool,
    },
    /// Stop being primary, everything delivered where the peer is there.
    Demote,
    /// Change roles with the peer, from either side, without loss.
    Switch,
    /// Give up what only this node holds, so that it may follow its peer.
    Yield {
        /// Of this generation, or not at all.
        generation: Generation,
        /// Even if it is the last complete copy.
        last_copy: bool,
    },
    /// Stop replication and record dirty regions only.
    Pause,
    /// End a pause, as [`Command::Resync`] does.
    Resume,
    /// Copy dirty regions, then replicate.
    Resync,
    /// Mark everything as dirty, then copy it as [`Command::Resync`] does.
    FullResync,
    /// Take the peer's copy over this node's own, where they may differ, or everywhere.
    Reverse(Reversal),
    /// Another disk lies in the place of a volume's, which is lost ([`crate::View::may_replace`]).
    Replace {
        /// Which volume.
        volume: VolumeIndex,
        /// The identity of the new disk; 0 where it has none.
        identity: u128,
        /// The smallest unit of its requests in bytes.
        block: u32,
    },
    /// The copy of a volume is taken for what it is although a flush of it failed ([`crate::View::may_accept`]).
    Accept {
        /// Which volume.
        volume: VolumeIndex,
    },
    /// As [`Command::Resync`], and the peer need not keep its last consistent image meanwhile.
    GiveUpSafeCopy,
    /// Ask for another mode.
    Mode(Mode),
    /// Let the queue's high-water marks and counts begin anew, and the times of answers.
    ResetQueueMarks,
    /// Stop cleanly; the daemon ends behind it.
    Stop,
    /// Compare the two copies.
    Verify(VerifyWish),
    /// Compare no more; the place is kept.
    StopVerify,
    /// A disk is shipped for the first sync: marks begin anew, and nothing travels.
    SeedBegin {
        /// The calendar's time, in ms since 1970.
        at: u64,
    },
    /// The disk is in place: compare samples, then copy what was marked since.
    SeedEnd,
    /// Add or remove a member of a volume, or compare its members. Done when that began.
    Set(SetOp),
    /// Cut a point-in-time copy, or drop one: on a primary, at the same place of the line on the peer, too. Done when it is held
    /// here, or is not any more.
    Snapshot(SnapshotAct),
    /// The volumes are to hold what the copy of that name holds. Done when that is so; what is put back on the disks follows, and so does
    /// the peer.
    RestoreSnapshot(CopyName),
    /// Cut or drop one on this node alone. A secondary cuts at an item up to which it has applied everything.
    SnapshotHere(SnapshotAct),
}

impl Command {
    /// Whether it is about the peer, or the copy there.
    pub(crate) const fn needs_peer(&self) -> bool {
        match self {
            Self::Promote { .. }
            | Self::Restore { .. }
            | Self::Demote
            | Self::Accept { .. }
            | Self::ResetQueueMarks
            | Self::Stop
            | Self::Set(_)
            | Self::Snapshot(_)
            | Self::RestoreSnapshot(_)
            | Self::SnapshotHere(_) => false,
            Self::Switch
            | Self::Yield { .. }
            | Self::Pause
            | Self::Resume
            | Self::Resync
            | Self::FullResync
            | Self::Reverse(_)
            | Self::Replace { .. }
            | Self::GiveUpSafeCopy
            | Self::Mode(_)
            | Self::Verify(_)
            | Self::StopVerify
            | Self::SeedBegin { .. }
            | Self::SeedEnd => true,
        }
    }
}

/// Names a command, so that its end can be reported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CommandId(pub u64);

/// Names a question to the operator's hook, so that its answer counts for no other; the first one is 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HookQuestion(pub u64);

/// What was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// A change of the hot extents.
    Hot {
        /// Its name.
        ticket: u64,
    },
    /// A page of marks.
    Marks {
        /// Which.
        page: u32,
    },
}

/// What a volume was found to lie on when the daemon started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberFound {
    /// The identity of the store; 0 where it has none.
    pub identity: u128,
    /// The smallest unit of its requests in bytes: a power of two; 0 where nothing tells.
    pub block: u32,
    /// Volume, path and identity, for people.
    pub shown: String,
}

/// One of the things that tell the disk of a member of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnDisk {
    /// As it is told to the peer.
    pub disk: Disk,
    /// The path of the member, for people.
    pub path: String,
}

/// What the metadata file held when the process began.
#[derive(Clone, Debug)]
pub struct Durable {
    /// The superblock.
    pub superblock: Superblock,
    /// Hot extents, by their numbers.
    pub hot: Vec<u64>,
    /// Pages of marks with any bit set.
    pub marks: Vec<(u32, PageBits)>,
    /// How often the metadata was changed.
    pub sequence: u64,
    /// What each volume lies on.
    pub members: Vec<MemberFound>,
    /// The layers between the engine and its members, as the host composed them.
    pub layers: Stack,
}

impl Durable {
    /// That record, and nothing else.
    #[must_use]
    pub fn new(superblock: Superblock) -> Self {
        Self {
            superblock,
            hot: Vec::new(),
            marks: Vec::new(),
            sequence: 0,
            members: Vec::new(),
            layers: Stack::default(),
        }
    }
}

/// Everything the engine can be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A client asks.
    Request(Request),
    /// A store's operation ended.
    StoreDone {
        /// Which.
        io: IoId,
        /// How.
        outcome: StoreOutcome,
    },
    /// The superblock asked to be saved is durable, or could not be made so.
    SuperblockSaved {
        /// It is durable.
        ok: bool,
        /// How often the metadata was changed, with this.
        sequence: u64,
    },
    /// What the metadata file was asked to keep is durable, or could not be made so.
    Kept {
        /// What.
        kept: Kept,
        /// It is durable.
        ok: bool,
        /// How often the metadata was changed, with this.
        sequence: u64,
    },
    /// What lay in the pool of before-images when the daemon started, where it has copies; told first of all.
    BeforeFound(Box<BeforeFound>),
    /// A layer's record is durable, or cannot be written.
    Recorded {
        /// It is.
        ok: bool,
        /// How often the metadata was changed, with this.
        sequence: u64,
    },
    /// A client reads a point-in-time copy, or writes to its branch. The name is the request's number, which the answer repeats.
    CopyIo(CopyIo),
    /// Payloads were compared.
    Compared {
        /// The question's name.
        name: u64,
        /// They hold the same bytes.
        equal: bool,
    },
    /// What was asked of the pool of before-images ended.
    PoolDone(PoolOutcome),
    /// A connection to the peer stands; nothing has been said yet.
    Connected,
    /// The peer says something. An item's payload lies in the pool already.
    Message(Message),
    /// The connection is gone.
    Disconnected {
        /// Why, for people.
        why: alloc::string::String,
    },
    /// An attempt to reach the peer came to nothing. On a node that never dials: its peer did not connect in the time in
    /// which it would have.
    DialFailed {
        /// When it began.
        began: Moment,
    },
    /// The socket took bytes of what was sent.
    LinkTook {
        /// How many, payload and frames.
        bytes: u64,
    },
    /// The socket's own figures.
    LinkMeasured {
        /// Smoothed round trip.
        round_trip: Duration,
        /// Delivery rate.
        rate: Rate,
    },
    /// An operator commands.
    Command {
        /// Which command.
        id: CommandId,
        /// What.
        command: Command,
    },
    /// Configuration that can change while running.
    Reconfigure {
        /// The new one; names and volumes are unchanged.
        config: crate::config::Config,
    },
    /// What the calendar shows now; told before anything else, where anybody knows, and again when it was set.
    Calendar(WallTime),
    /// What a verify of an earlier start knew; told before anything else.
    VerifyRemembered(VerifyMemory),
    /// The operator's hook was asked whether an update may begin.
    HookAnswered {
        /// Which question, of [`crate::Effect::AskHook`].
        question: HookQuestion,
        /// It said yes, or nothing; otherwise why not.
        refused: Option<String>,
    },
    /// Who of this node's own machine cannot do without its role, as operators know them; the peer's wish does not take
    /// it from them.
    Held {
        /// None: nobody.
        by: Option<String>,
    },
    /// Which volumes clients of this node use, those of its peer's copy apart: bit n volume n. What they were told of its
    /// blocks stays as it is meanwhile; told before anything that arrives after a client came.
    Used {
        /// None where it is zero.
        volumes: u64,
    },
    /// The host sets something of layers.
    Layers(LayerSetting),
    /// The disks that the volumes lie on from now on. A host that tells them does so before every connection, and when a member changes.
    Disks(Vec<OwnDisk>),
    /// A metadata file failed, whether another one counts or not. It replaces what was told of this before.
    MetadataFault {
        /// What failed.
        what: String,
        /// What an operator does about it.
        hint: String,
    },
    /// The time asked for by [`crate::View::deadline`] has come.
    Tick,
}

// SPDX-License-Identifier: Apache-2.0
//! What two nodes say to each other about one group: typed bodies of frames.
//!
//! All integers are little-endian; names are a length byte and UTF-8; a lineage is as [`crate::lineage`] says. A body is valid if and only if every
//! field decodes, flags are 0 or 1, counts are within their bounds, and no byte is left over. Positions and numbers of
//! generations are below 2^63; metadata sequences, what a peer remembers of them and the number of the generation that a
//! peer writes or follows are below 2^62.
//!
//! | kind | body, in order |
//! |---|---|
//! | 1 hello | group name, node name, incarnation u64, role u8, serving flag, clean flag, consistent flag, wrote flag, alone flag, trusted flag, sure flag, doubts flag, discarded flag, suspect flag, keeps flag, lineage, head u64, received u64, durable u64, granularity u32, metadata sequence u64, remembers u64, volumes u16, (size u64, member's block u32, volume's block u32) each, report as kind 28; blocks are powers of two from 512 to 4096, the member's at most the volume's |
//! | 2 start | lineage, from u64, consistent flag, keep flag, whole flag, to copy u64, stream u32 |
//! | 3 item | sequence u64, after u64, kind u8, flags u8, volume u16, offset u64, length u64 (36 bytes; payload follows for writes and verifies) |
//! | 4 ack | stream u32, received u64, completed u64, durable u64, ranges u8, (first u64, last u64) each |
//! | 5 ping | token u64, accepted u64, completed u64, metadata sequence u64, backlog bytes u64, backlog items u64, backlog age in milliseconds u64, hurry flag, state u8 and mode u8 (0 from a secondary, else 1 + index in the vocabulary's list) |
//! | 6 pong | token u64, flushing flag, waits flag, short flag, metadata sequence u64 |
//! | 7 goodbye | reason u8, text (u16 length, UTF-8, at most 512 bytes) |
//! | 8 promote request | generation u64 u64, durable u64 |
//! | 9 promote reply | granted flag, text |
//! | 10 to 16, 32, 33 | [`crate::copying`] |
//! | 17 to 19 | [`crate::roles`] |
//! | 21 to 23 | [`crate::lease`] |
//! | 24, 27 | [`crate::invalid`] |
//! | 25, 26 | [`crate::reading`] (payload follows some) |
//! | 28 | [`crate::report`] |
//! | 29 | [`crate::snapshot`] |
//! | 34 | [`crate::disks`] |

use crate::copying::Copying;
use crate::cursor::{Reader, Short, Writer, code_of, from_code};
use crate::disks::{self, Disk};
use crate::invalid::Invalid;
use crate::lease::Lease;
use crate::lineage::Lineage;
use crate::reading::{Reading, Told};
use crate::report::Report;
use crate::roles::Roles;
use crate::snapshot::Snapshot;
use alloc::string::String;
use alloc::vec::Vec;
use helio_units::{
    Extent, Generation, Mode, Payload, PayloadId, Role, Sequence, State, VolumeIndex,
};

pub use crate::cursor::{COUNTED_BELOW, NAME_BYTES_MAX, TEXT_BYTES_MAX};

/// Most volumes one group may have; bounds what a stranger's hello makes us allocate.
pub const VOLUMES_MAX: usize = 64;
/// Most ranges one acknowledgement carries; more wait for the next one.
pub const RANGES_MAX: usize = 16;
/// Longest body of any message, in bytes; a frame that announces more is refused unread.
pub const BODY_BYTES_MAX: usize = 8192;
/// Smallest block of a member, in bytes.
pub const BLOCK_MIN: u32 = 512;
/// Largest block of a member, in bytes: copies are compared in pieces of that many.
pub const BLOCK_MAX: u32 = 4096;
/// Most payload of a verify, in bytes: a digest of 16 for every block of 4 KiB it compares.
pub const VERIFY_BYTES_MAX: u32 = 4096;
/// Most payload one item may carry, in bytes: the largest write a front end may hand us.
pub const PAYLOAD_BYTES_MAX: u32 = 32 << 20;

/// What a node tells of itself when a connection begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The group this connection is about.
    pub group: String,
    /// The sender's name.
    pub node: String,
    /// Drawn anew at every start of the sender's daemon: memory survived if and only if it is unchanged.
    pub incarnation: u64,
    /// The role recorded durably.
    pub role: Role,
    /// Whether the sender is serving as primary right now.
    pub serving: bool,
    /// Whether `head` is exact: its last stop was clean, or it has not stopped since.
    pub clean: bool,
    /// Whether the sender's image keeps the order promise.
    pub consistent: bool,
    /// Whether the sender accepted writes of its own, as a primary, in its generation.
    pub wrote: bool,
    /// In that generation the sender gave answers that its peer may know nothing of.
    pub alone: bool,
    /// The sender's marks and hot extents cover everything in which its image may differ from the other's.
    pub trusted: bool,
    /// Its generation began from an image that lacked nothing the sender had ever confirmed; where it does not lead,
    /// one of its own would begin so now, too.
    pub sure: bool,
    /// The sender recorded that the receiver's metadata tells nothing of what it did last.
    pub doubts: bool,
    /// An operator said that what the sender holds counts for nothing. Without this, a sender without a history whose
    /// metadata the receiver remembers has lost it.
    pub discarded: bool,
    /// A flush of the sender's store failed, and what its copy holds of earlier writes is unknown until it was rewritten.
    pub suspect: bool,
    /// The sender preserves its last consistent image, from before an update that has not ended; or the update is about to end.
    pub keeps: bool,
    /// The generation the sender writes or follows, and its ancestors.
    pub lineage: Lineage,
    /// The last position in the sender's image, exact where `clean`.
    pub head: Sequence,
    /// Received in memory, of its generation.
    pub received: Sequence,
    /// Known durable, of its generation.
    pub durable: Sequence,
    /// Bytes one mark covers.
    pub granularity: u32,
    /// How often the sender's metadata was changed: it never counts back, unless the metadata is an older one.
    pub metadata: u64,
    /// The highest such count of the receiver that the sender ever heard of.
    pub remembers: u64,
    /// Sizes of the group's volumes in bytes, in their order.
    pub sizes: Vec<u64>,
    /// Their block sizes, in the same order.
    pub blocks: Vec<Blocks>,
    /// For the receiver's status.
    pub report: Report,
}

impl Hello {
    /// Whether this node's data belongs to a primary's write order. It does not after an operator discarded the node's writes.
    #[must_use]
    pub const fn is_on_line(&self) -> bool {
        self.wrote || !self.alone
    }

    /// Whether an operator discarded this node's copy, and no resync to it began since.
    #[must_use]
    pub const fn was_given_up(&self) -> bool {
        self.discarded || !self.is_on_line()
    }

    /// Whether nothing proves what this node's copy holds, and it is not primary: an operator accepted it as it is, or its metadata is
    /// new.
    #[must_use]
    pub const fn is_unproven(&self) -> bool {
        matches!(self.role, Role::Secondary) && !self.clean && !self.trusted
    }
}

/// The block sizes of one volume on one node: every request is a multiple of them, and begins at one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// What the sender's member requires, in bytes.
    pub member: u32,
    /// The largest that a member of the volume has required so far, on either node, as far as the sender has recorded.
    pub volume: u32,
}

/// Whether a member or volume may have blocks of so many bytes.
#[must_use]
pub const fn is_block(bytes: u32) -> bool {
    bytes.is_power_of_two() && bytes >= BLOCK_MIN && bytes <= BLOCK_MAX
}

/// A primary begins, or begins again, to stream: the next item is `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The generation of the items that follow, and its ancestors.
    pub lineage: Lineage,
    /// The first item that follows.
    pub from: Sequence,
    /// False where the receiver's image is out of order until a [`ItemKind::Consistent`] marker completes.
    pub consistent: bool,
    /// Where it is not: the receiver is to keep its last consistent image meanwhile, or to refuse.
    pub keep: bool,
    /// The sender has everything marked: what the receiver's own marks may lack, these have.
    pub whole: bool,
    /// Bytes in regions that will be copied.
    pub to_copy: u64,
    /// Which of its sender's streams this is, counted from one: acknowledgements name it.
    pub stream: u32,
    /// A cut is shipped: what its sender writes meanwhile is not sent, so positions are left out. Behind the marker the image is what
    /// it was at the item that the marker comes after.
    pub ships: bool,
}

/// What an item does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ItemKind {
    /// Stores payload.
    Write,
    /// Makes the extent read as zero; `punch` allows freeing the space.
    Zero,
    /// Gives the space back; the extent reads as zero afterwards.
    Discard,
    /// Makes everything that completed on its volume before it durable.
    Flush,
    /// A marker: everything up to here makes a consistent image, on every volume, durably.
    Consistent,
    /// The copier compared the extent and found nothing to send.
    Same,
    /// Compares the extent with the digests in its payload, and changes nothing.
    Verify,
    /// Something is done about point-in-time copies, once everything before it has completed and before anything behind it begins.
    Snapshot,
}

impl ItemKind {
    const ALL: [Self; 8] = [
        Self::Write,
        Self::Zero,
        Self::Discard,
        Self::Flush,
        Self::Consistent,
        Self::Same,
        Self::Verify,
        Self::Snapshot,
    ];

    fn code(self) -> u8 {
        match self {
            Self::Write => 1,
            Self::Zero => 2,
            Self::Discard => 3,
            Self::Flush => 4,
            Self::Consistent => 5,
            Self::Same => 6,
            Self::Verify => 7,
            Self::Snapshot => 8,
        }
    }

    fn from_code(code: u8) -> Result<Self, Short> {
        Self::ALL.into_iter().find(|k| k.code() == code).ok_or(Short)
    }

    /// Whether it changes bytes of a volume.
    #[must_use]
    pub const fn changes_data(self) -> bool {
        matches!(self, Self::Write | Self::Zero | Self::Discard)
    }

    /// Whether it is about an extent of a volume.
    #[must_use]
    pub const fn has_place(self) -> bool {
        !matches!(self, Self::Flush | Self::Consistent | Self::Snapshot)
    }

    /// Whether payload travels with it.
    #[must_use]
    pub const fn has_payload(self) -> bool {
        matches!(self, Self::Write | Self::Verify)
    }
}

/// One item on a group's line as it travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    /// Its place on the line.
    pub sequence: Sequence,
    /// The highest place answered when it was accepted: it must not be issued before all up to there completed.
    pub after: Sequence,
    /// What it does.
    pub kind: ItemKind,
    /// Its own bytes must be durable when it completes.
    pub fua: bool,
    /// For [`ItemKind::Zero`]: space may be freed.
    pub punch: bool,
    /// It is the copier's, not a client's.
    pub resync: bool,
    /// Where.
    pub volume: VolumeIndex,
    /// Where on the volume; empty for flushes and markers.
    pub extent: Extent,
    /// The bytes, for writes. On the wire they follow the body; the identifier never travels.
    pub payload: Option<Payload>,
}

/// Completed items beyond the contiguous prefix, as closed ranges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    count: u8,
    ranges: [(Sequence, Sequence); RANGES_MAX],
}

impl Ranges {
    /// Adds one sequence, extending the last range where it continues it. Returns false where it is full.
    pub fn push(&mut self, at: Sequence) -> bool {
        let count = usize::from(self.count);
        if let Some((_, last)) = self.ranges[..count].last_mut()
            && last.next() == at
        {
            *last = at;
            return true;
        }
        self.push_range(at, at)
    }

    fn push_range(&mut self, first: Sequence, last: Sequence) -> bool {
        let count = usize::from(self.count);
        if count == RANGES_MAX {
            return false;
        }
        self.ranges[count] = (first, last);
        self.count += 1;
        true
    }

    /// The ranges, first and last inclusive.
    #[must_use]
    pub fn as_slice(&self) -> &[(Sequence, Sequence)] {
        &self.ranges[..usize::from(self.count)]
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// How far a receiver is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    /// The stream that was taken up last, as its [`Start`] names it: what is told here is said of that one alone.
    pub stream: u32,
    /// Every item up to here is in memory or further.
    pub received: Sequence,
    /// Every item up to here has completed.
    pub completed: Sequence,
    /// Every item up to here is on stable storage.
    pub durable: Sequence,
    /// Items beyond `completed` that have completed since the last acknowledgement.
    pub ranges: Ranges,
}

/// Are you there; and what you are missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ping {
    /// Comes back in the pong.
    pub token: u64,
    /// The sender's accepted head, zero from a secondary.
    pub accepted: Sequence,
    /// Completed on the sender's own store, zero from a secondary: its own records cover it from here on.
    pub completed: Sequence,
    /// The sender's metadata count.
    pub metadata: u64,
    /// What the receiver lacks, as an upper bound: bytes accepted and not yet completed there, and dirty regions.
    pub backlog_bytes: u64,
    /// Items accepted and not yet completed at the receiver.
    pub backlog_items: u64,
    /// The age of the oldest of all that, in milliseconds.
    pub backlog_age: u64,
    /// The sender's queue is full: flush at once.
    pub hurry: bool,
    /// The group's state as its primary sees it; none from a secondary.
    pub state: Option<State>,
    /// The mode asked of the primary, so that its follower takes over in the same; none from a secondary.
    pub mode: Option<Mode>,
}

/// Why a node ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parting {
    /// The daemon stops.
    Stopping,
    /// The two must not mirror each other; the text says which rule.
    Refused,
    /// The other side broke the protocol.
    Protocol,
    /// The sender's store failed.
    VolumeFailed,
    /// A role changed; connect again and say hello anew.
    RoleChanged,
}

impl Parting {
    const ALL: [Self; 5] =
        [Self::Stopping, Self::Refused, Self::Protocol, Self::VolumeFailed, Self::RoleChanged];

    fn code(self) -> u8 {
        match self {
            Self::Stopping => 1,
            Self::Refused => 2,
            Self::Protocol => 3,
            Self::VolumeFailed => 4,
            Self::RoleChanged => 5,
        }
    }

    fn from_code(code: u8) -> Result<Self, Short> {
        Self::ALL.into_iter().find(|p| p.code() == code).ok_or(Short)
    }
}

/// Everything that can be said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// First words of each side.
    Hello(Hello),
    /// The stream begins.
    Start(Start),
    /// An item of the line.
    Item(Item),
    /// How far the receiver is.
    Ack(Ack),
    /// Are you there.
    Ping(Ping),
    /// Yes; `flushing` and `waits` ask for patience.
    Pong {
        /// The ping's.
        token: u64,
        /// A flush of the store is under way.
        flushing: bool,
        /// The store waits: a disk has not completed an operation for a while.
        waits: bool,
        /// Hot extents run short until the primary tells how far it is.
        short: bool,
        /// The sender's metadata count.
        metadata: u64,
    },
    /// The connection ends.
    Goodbye {
        /// The kind of reason.
        parting: Parting,
        /// For people.
        text: String,
    },
    /// May the sender become primary without force? If both nodes ask at once, their names decide which one answers first.
    PromoteRequest {
        /// The generation it follows.
        generation: Generation,
        /// How far its image is durable.
        durable: Sequence,
    },
    /// The answer.
    PromoteReply {
        /// Whether it may.
        granted: bool,
        /// Why not.
        text: String,
    },
    /// About what may differ.
    Copying(Copying),
    /// About roles.
    Roles(Roles),
    /// About the hold lease.
    Lease(Lease),
    /// About metadata that cannot be written.
    Invalid(Invalid),
    /// About regions that the primary lacks.
    Reading(Reading),
    /// For the receiver's status.
    Report(Report),
    /// About the snapshot item that follows.
    Snapshot(Snapshot),
    /// What the volumes of the sender lie on.
    Disks(Vec<Disk>),
}

impl Message {
    /// The kind byte of its frame.
    #[must_use]
    pub const fn code(&self) -> u8 {
        match self {
            Self::Hello(_) => 1,
            Self::Start(_) => 2,
            Self::Item(_) => 3,
            Self::Ack(_) => 4,
            Self::Ping(_) => 5,
            Self::Pong { .. } => 6,
            Self::Goodbye { .. } => 7,
            Self::PromoteRequest { .. } => 8,
            Self::PromoteReply { .. } => 9,
            Self::Copying(talk) => talk.code(),
            Self::Roles(talk) => talk.code(),
            Self::Lease(talk) => talk.code(),
            Self::Invalid(talk) => talk.code(),
            Self::Reading(talk) => talk.code(),
            Self::Report(_) => 28,
            Self::Snapshot(_) => 29,
            Self::Disks(_) => 34,
        }
    }

    /// The payload that follows its body.
    #[must_use]
    pub const fn payload(&self) -> Option<Payload> {
        match self {
            Self::Item(item) => item.payload,
            Self::Reading(talk) => talk.payload(),
            _ => None,
        }
    }

    /// Gives the payload that arrived with it its name here.
    pub const fn name_payload(&mut self, id: PayloadId) {
        match self {
            Self::Item(Item { payload: Some(payload), .. })
            | Self::Reading(Reading::Told { what: Told::Bytes(payload), .. }) => payload.id = id,
            _ => {}
        }
    }

    /// Bytes of payload that follow its body.
    #[must_use]
    pub fn payload_length(&self) -> u32 {
        self.payload().map_or(0, |payload| payload.length)
    }

    /// Appends the body to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut w = Writer(out);
        match self {
            Self::Hello(hello) => encode_hello(hello, &mut w),
            Self::Start(start) => {
                start.lineage.encode(&mut w);
                w.sequence(start.from);
                w.flag(start.consistent);
                w.flag(start.keep);
                w.flag(start.whole);
                w.u64(start.to_copy);
                w.u32(start.stream);
                w.flag(start.ships);
            }
            Self::Item(item) => encode_item(item, &mut w),
            Self::Ack(ack) => {
                w.u32(ack.stream);
                w.sequence(ack.received);
                w.sequence(ack.completed);
                w.sequence(ack.durable);
                w.u8(ack.ranges.count);
                for (first, last) in ack.ranges.as_slice() {
                    w.sequence(*first);
                    w.sequence(*last);
                }
            }
            Self::Ping(ping) => {
                w.u64(ping.token);
                w.sequence(ping.accepted);
                w.sequence(ping.completed);
                w.u64(ping.metadata);
                w.u64(ping.backlog_bytes);
                w.u64(ping.backlog_items);
                w.u64(ping.backlog_age);
                w.flag(ping.hurry);
                w.u8(code_of(&State::ALL, ping.state));
                w.u8(code_of(&Mode::ALL, ping.mode));
            }
            Self::Pong { token, flushing, waits, short, metadata } => {
                w.u64(*token);
                w.flag(*flushing);
                w.flag(*waits);
                w.flag(*short);
                w.u64(*metadata);
            }
            Self::Goodbye { parting, text } => {
                w.u8(parting.code());
                w.text(text);
            }
            Self::PromoteRequest { generation, durable } => {
                w.generation(*generation);
                w.sequence(*durable);
            }
            Self::PromoteReply { granted, text } => {
                w.flag(*granted);
                w.text(text);
            }
            Self::Copying(talk) => talk.encode(&mut w),
            Self::Roles(talk) => talk.encode(&mut w),
            Self::Lease(talk) => talk.encode(&mut w),
            Self::Invalid(talk) => talk.encode(&mut w),
            Self::Reading(talk) => talk.encode(&mut w),
            Self::Report(report) => report.encode(&mut w),
            Self::Snapshot(snapshot) => snapshot.encode(&mut w),
            Self::Disks(disks) => disks::encode(disks, &mut w),
        }
    }

    /// Reads the body of a frame of kind `code` that announces `payload_length` bytes of payload.
    ///
    /// # Errors
    /// Says which kind of message could not be read.
    pub fn decode(code: u8, body: &[u8], payload_length: u32) -> Result<Self, BadBody> {
        let bad = |_: Short| BadBody { code };
        let mut r = Reader(body);
        let message = Self::decode_fields(code, &mut r, payload_length).map_err(bad)?;
        r.finished().map_err(bad)?;
        if message.payload_length() != payload_length {
            return Err(BadBody { code });
        }
        Ok(message)
    }

    fn decode_fields(code: u8, r: &mut Reader<'_>, payload_length: u32) -> Result<Self, Short> {
        Ok(match code {
            1 => Self::Hello(decode_hello(r)?),
            2 => Self::Start(Start {
                lineage: decode_lineage(r)?,
                from: r.sequence()?,
                consistent: r.flag()?,
                keep: r.flag()?,
                whole: r.flag()?,
                to_copy: r.u64()?,
                stream: r.u32()?,
                ships: r.flag()?,
            }),
            3 => Self::Item(decode_item(r, payload_length)?),
            4 => Self::Ack(decode_ack(r)?),
            5 => Self::Ping(Ping {
                token: r.u64()?,
                accepted: r.sequence()?,
                completed: r.sequence()?,
                metadata: r.count()?,
                backlog_bytes: r.u64()?,
                backlog_items: r.u64()?,
                backlog_age: r.u64()?,
                hurry: r.flag()?,
                state: from_code(&State::ALL, r.u8()?)?,
                mode: from_code(&Mode::ALL, r.u8()?)?,
            }),
            6 => Self::Pong {
                token: r.u64()?,
                flushing: r.flag()?,
                waits: r.flag()?,
                short: r.flag()?,
                metadata: r.count()?,
            },
            7 => Self::Goodbye { parting: Parting::from_code(r.u8()?)?, text: r.text()? },
            8 => Self::PromoteRequest { generation: r.generation()?, durable: r.sequence()? },
            9 => Self::PromoteReply { granted: r.flag()?, text: r.text()? },
            10..=16 | 32..=33 => Self::Copying(Copying::decode(code, r)?),
            17..=19 => Self::Roles(Roles::decode(code, r)?),
            21..=23 => Self::Lease(Lease::decode(code, r)?),
            24 | 27 => Self::Invalid(Invalid::decode(code, r)?),
            25 | 26 => Self::Reading(Reading::decode(code, r, payload_length)?),
            28 => Self::Report(Report::decode(r)?),
            29 => Self::Snapshot(Snapshot::decode(r)?),
            34 => Self::Disks(disks::decode(r)?),
            _ => return Err(Short),
        })
    }
}

/// A frame's body does not decode as its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadBody {
    /// The frame's kind byte.
    pub code: u8,
}

fn encode_hello(hello: &Hello, w: &mut Writer<'_>) {
    w.name(&hello.group);
    w.name(&hello.node);
    w.u64(hello.incarnation);
    w.u8(match hello.role {
        Role::Primary => 1,
        Role::Secondary => 2,
    });
    w.flag(hello.serving);
    w.flag(hello.clean);
    w.flag(hello.consistent);
    w.flag(hello.wrote);
    w.flag(hello.alone);
    w.flag(hello.trusted);
    w.flag(hello.sure);
    w.flag(hello.doubts);
    w.flag(hello.discarded);
    w.flag(hello.suspect);
    w.flag(hello.keeps);
    hello.lineage.encode(w);
    w.sequence(hello.head);
    w.sequence(hello.received);
    w.sequence(hello.durable);
    w.u32(hello.granularity);
    w.u64(hello.metadata);
    w.u64(hello.remembers);
    assert!(hello.sizes.len() <= VOLUMES_MAX, "a group of {} volumes", hello.sizes.len());
    w.u16(hello.sizes.len() as u16);
    assert_eq!(hello.sizes.len(), hello.blocks.len(), "a block size for every volume");
    for (size, blocks) in hello.sizes.iter().zip(&hello.blocks) {
        w.u64(*size);
        w.u32(blocks.member);
        w.u32(blocks.volume);
    }
    hello.report.encode(w);
}

/// A generation that this node may go on from.
fn decode_lineage(r: &mut Reader<'_>) -> Result<Lineage, Short> {
    let lineage = Lineage::decode(r)?;
    if lineage.generation.number < COUNTED_BELOW { Ok(lineage) } else { Err(Short) }
}

fn decode_hello(r: &mut Reader<'_>) -> Result<Hello, Short> {
    let mut hello = Hello {
        group: r.name()?,
        node: r.name()?,
        incarnation: r.u64()?,
        role: match r.u8()? {
            1 => Role::Primary,
            2 => Role::Secondary,
            _ => return Err(Short),
        },
        serving: r.flag()?,
        clean: r.flag()?,
        consistent: r.flag()?,
        wrote: r.flag()?,
        alone: r.flag()?,
        trusted: r.flag()?,
        sure: r.flag()?,
        doubts: r.flag()?,
        discarded: r.flag()?,
        suspect: r.flag()?,
        keeps: r.flag()?,
        lineage: decode_lineage(r)?,
        head: r.sequence()?,
        received: r.sequence()?,
        durable: r.sequence()?,
        granularity: r.u32()?,
        metadata: r.count()?,
        remembers: r.count()?,
        sizes: Vec::new(),
        blocks: Vec::new(),
        report: Report::default(),
    };
    let count = usize::from(r.u16()?);
    if count > VOLUMES_MAX {
        return Err(Short);
    }
    for _ in 0..count {
        hello.sizes.push(r.u64()?);
        let blocks = Blocks { member: r.u32()?, volume: r.u32()? };
        if !is_block(blocks.member) || !is_block(blocks.volume) || blocks.member > blocks.volume {
            return Err(Short);
        }
        hello.blocks.push(blocks);
    }
    hello.report = Report::decode(r)?;
    Ok(hello)
}

const FUA: u8 = 1;
const PUNCH: u8 = 2;
const RESYNC: u8 = 4;

fn encode_item(item: &Item, w: &mut Writer<'_>) {
    w.sequence(item.sequence);
    w.sequence(item.after);
    w.u8(item.kind.code());
    let flag = |on: bool, bit: u8| if on { bit } else { 0 };
    w.u8(flag(item.fua, FUA) | flag(item.punch, PUNCH) | flag(item.resync, RESYNC));
    w.u16(item.volume.0);
    w.u64(item.extent.offset);
    w.u64(item.extent.length);
}

fn decode_item(r: &mut Reader<'_>, payload_length: u32) -> Result<Item, Short> {
    let sequence = r.sequence()?;
    let after = r.sequence()?;
    let kind = ItemKind::from_code(r.u8()?)?;
    let flags = r.u8()?;
    let volume = VolumeIndex(r.u16()?);
    let extent = Extent::new(r.u64()?, r.u64()?);
    let payload =
        kind.has_payload().then_some(Payload { id: PayloadId(0), length: payload_length });
    let whole = match kind {
        ItemKind::Write => extent.length == u64::from(payload_length),
        ItemKind::Verify => {
            payload_length.is_multiple_of(16) && (1..=VERIFY_BYTES_MAX).contains(&payload_length)
        }
        ItemKind::Snapshot => after.next() == sequence,
        _ => true,
    };
    let placed = kind.has_place() == (extent.length > 0);
    if flags & !(FUA | PUNCH | RESYNC) != 0 || after >= sequence || !whole || !placed {
        return Err(Short);
    }
    Ok(Item {
        sequence,
        after,
        kind,
        fua: flags & FUA != 0,
        punch: flags & PUNCH != 0,
        resync: flags & RESYNC != 0,
        volume,
        extent,
        payload,
    })
}

fn decode_ack(r: &mut Reader<'_>) -> Result<Ack, Short> {
    let mut ack = Ack {
        stream: r.u32()?,
        received: r.sequence()?,
        completed: r.sequence()?,
        durable: r.sequence()?,
        ranges: Ranges::default(),
    };
    for _ in 0..r.u8()? {
        let (first, last) = (r.sequence()?, r.sequence()?);
        if first > last || first <= ack.completed || last > ack.received {
            return Err(Short);
        }
        if !ack.ranges.push_range(first, last) {
            return Err(Short);
        }
    }
    if ack.completed > ack.received || ack.durable > ack.completed {
        return Err(Short);
    }
    Ok(ack)
}

#[cfg(test)]
#[path = "message_tests.rs"]
pub(crate) mod tests;

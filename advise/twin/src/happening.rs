// SPDX-License-Identifier: Apache-2.0
//! The journal of a cluster: what happened, in order, for whoever judges or tells it.

use crate::disk::Lie;
use crate::node::Side;
use crate::{Place, Stamp};
use helio_engine::{CommandId, Denial, Refusal};
use helio_units::{Moment, RequestId, Sequence, VolumeIndex};

/// How a node came down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Died {
    /// The process was killed; what it wrote is still there.
    Killed,
    /// The power went.
    Power,
    /// It stopped cleanly.
    Stopped,
    /// Its daemon goes on without the group.
    Unserved,
}

/// A client's answer, with the bytes in place of their name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replied {
    /// Done as the mode promises.
    Done,
    /// The blocks read.
    Read(Vec<Stamp>),
    /// Not done.
    Denied(Denial),
}

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Happening {
    /// A node asks again and again for a moment that has passed.
    Spins {
        /// Which node.
        side: Side,
    },
    /// A node sends a ping, which tells its peer how it stands.
    Pinged {
        /// Which node.
        side: Side,
        /// The ping's.
        token: u64,
    },
    /// The operator's hook was asked whether an update may begin.
    HookAsked {
        /// It takes its time.
        slow: bool,
        /// It refuses.
        refuses: bool,
    },
    /// A store was asked for something that does not keep to its blocks.
    Misfit {
        /// Which node's.
        side: Side,
        /// For what.
        words: String,
    },
    /// A primary sends a client's change for the first time. Where its own store is not told first, this is its place in the order of the
    /// bytes.
    Sent {
        /// By which node.
        side: Side,
        /// As which item of its line.
        at: Sequence,
        /// On which volume, and what; one stamp per block from `first` on.
        volume: VolumeIndex,
        /// The first block.
        first: u32,
        /// What each block will hold.
        stamps: Vec<Stamp>,
    },
    /// A store was told to change blocks; the order of these is the order of the bytes.
    Issued {
        /// On which node.
        side: Side,
        /// On which volume, and what; one stamp per block from `first` on.
        volume: VolumeIndex,
        /// The first block.
        first: u32,
        /// What each block will hold.
        stamps: Vec<Stamp>,
        /// By a node that holds the line as primary.
        leading: bool,
    },
    /// A block of a live image changed.
    Changed {
        /// On which node.
        side: Side,
        /// Which block.
        place: Place,
        /// What it holds now.
        stamp: Stamp,
        /// By an item this node put on the line as primary.
        leading: bool,
    },
    /// A follower compared, and calls this different from what its primary holds at that item.
    Differs {
        /// Which node.
        side: Side,
        /// Which block.
        place: Place,
    },
    /// A client was answered.
    Replied {
        /// By which node.
        side: Side,
        /// Which request.
        request: RequestId,
        /// How.
        answer: Replied,
    },
    /// A superblock is durable; [`crate::Node::superblock`] shows it.
    Saved {
        /// On which node.
        side: Side,
    },
    /// A command ended.
    Commanded {
        /// On which node.
        side: Side,
        /// Which.
        id: CommandId,
        /// How.
        result: Result<String, Refusal>,
    },
    /// The two nodes are connected, as far as this one knows.
    Connected {
        /// Which node.
        side: Side,
    },
    /// A node receives the goodbye of its peer's daemon, which does not serve the group.
    TurnedAway {
        /// Which node.
        side: Side,
    },
    /// A node learns that an attempt to connect came to nothing.
    DialFailed {
        /// Which node.
        side: Side,
        /// When the attempt began.
        began: Moment,
    },
    /// A node runs.
    Started {
        /// Which.
        side: Side,
    },
    /// A node runs no more.
    Died {
        /// Which.
        side: Side,
        /// How.
        how: Died,
    },
    /// An item of its primary's arrives at a node.
    Received {
        /// At which node.
        side: Side,
        /// Its position.
        at: Sequence,
        /// Of which volume.
        volume: VolumeIndex,
        /// Its first block.
        first: u32,
        /// How many blocks it has.
        blocks: u32,
        /// What they become; empty where they are equal as they are.
        stamps: Vec<Stamp>,
    },
    /// A stream begins: positions count anew.
    StreamBegins {
        /// At which node.
        side: Side,
    },
    /// A follower reports everything up to that position as durable.
    Reported {
        /// Which node.
        side: Side,
        /// The position.
        durable: Sequence,
    },
    /// A flush fails that began while another one was under way.
    FlushOverlapped,
    /// A flush failed, or a process ended behind one, and the disk dropped blocks that it had not made durable.
    Dropped {
        /// On which node.
        side: Side,
        /// Of which volumes: a bit each.
        volumes: u64,
        /// Blocks that read as written, and are lost with the power.
        hidden: usize,
        /// Blocks that read as they were before, and as what.
        visible: Vec<(Place, Stamp)>,
    },
    /// Some sectors of a block were written and some were not.
    Torn {
        /// On which node.
        side: Side,
    },
    /// A disk reported success and did something else.
    Lied {
        /// On which node.
        side: Side,
        /// What it did.
        lie: Lie,
        /// The blocks that do not hold, or were not read as, what was written there.
        places: Vec<Place>,
    },
    /// A node ends the connection since it calls what the other said an offence.
    Accused {
        /// Which node.
        side: Side,
        /// In its words.
        words: String,
    },
    /// A node says something to its operator.
    Noted {
        /// Which node.
        side: Side,
        /// In its words.
        words: String,
    },
    /// While a node was down, something older or foreign was put in the place of its files.
    Restored {
        /// Which node.
        side: Side,
        /// Of the metadata file alone: its disks are what they were.
        alone: bool,
    },
    /// While a node was down, its before-image file was lost.
    BeforeLost {
        /// Which node.
        side: Side,
    },
    /// While a node was down, its metadata was lost.
    MetadataLost {
        /// Which node.
        side: Side,
    },
    /// Its metadata is back as it was.
    MetadataFound {
        /// Which node.
        side: Side,
    },
    /// An operator discarded what the node holds: it joins as new.
    Discarded {
        /// Which node.
        side: Side,
    },
    /// It is another disk that was put there.
    Swapped {
        /// Which node.
        side: Side,
    },
    /// It is the disk that its record is about.
    PutBack {
        /// Which node.
        side: Side,
    },
    /// For the story alone, and only when it is told.
    Told {
        /// Which node.
        side: Side,
        /// In words.
        words: String,
    },
}

// SPDX-License-Identifier: Apache-2.0
//! What differs between a host that keeps what every block holds and one that keeps sizes only.

use crate::Side;
use crate::happening::Happening;
use crate::host::{Due, Host, Io};
use crate::node::Node;
use core::fmt::Debug;
use helio_engine::{Answer, Event, PoolOp, PoolOutcome, StoreOutcome};
use helio_format::message::Message;
use helio_ledger::{Change, Kept};
use helio_stack::LayerRecord;
use helio_units::{Bytes, Moment, Payload, PayloadId, RequestId};

/// The payloads of one node: what its engine names, until it is released.
pub trait Payloads: Debug {
    /// What comes with a message.
    type Data;

    /// Takes what came with a message, and names it.
    fn receive(&mut self, message: &Message, data: Self::Data) -> PayloadId;

    /// Lets a payload go.
    fn release(&mut self, id: PayloadId);
}

/// What follows a step of a file.
#[derive(Debug)]
pub enum Step {
    /// Its next step ends then.
    Ends(Moment),
    /// The operation is over.
    Over(PoolOutcome),
}

/// With content or without: what nodes consist of, and what takes time between them.
///
/// A [`Host`] performs what engines ask for, in one place. What it performs that on is given here: a store, a metadata file, a
/// before-image file, payloads, a link; and how a process takes its events.
pub trait Content: Debug + Sized {
    /// The payloads of a node.
    type Pool: Payloads;
    /// All volumes of a node.
    type Disk: Debug;
    /// Its metadata file.
    type Metadata: Debug;
    /// Its before-image file.
    type Before: Debug;
    /// How its process takes events.
    type Process: Debug;
    /// What lies between the nodes.
    type Wire: Debug;
    /// What falls due of the process of a node.
    type NodeDue: Debug;
    /// What else falls due.
    type Due: Copy + Debug + 'static;

    /// What has one moment at which it falls due, which can be changed.
    const TIMERS: &'static [Self::Due];

    /// Which of several things comes first that fall due at one moment: the one with the lowest rank.
    fn rank(due: &Due<Self>) -> u8;

    /// Something falls due of the process of a node.
    fn node_due(host: &mut Host<Self>, side: Side, due: Self::NodeDue);

    /// Something else falls due.
    fn due(host: &mut Host<Self>, due: Self::Due);

    /// The process of a node takes an event.
    fn event(host: &mut Host<Self>, side: Side, event: Event);

    /// Something happened, if anything keeps a list of it.
    fn happened(&mut self, _: impl FnOnce() -> Happening) {}

    /// Whether that list has every event and effect in words.
    fn is_story(&self) -> bool {
        false
    }

    /// A client is answered.
    fn reply(host: &mut Host<Self>, side: Side, request: RequestId, answer: Answer);

    /// A store operation begins at `at`. Returns when it ends.
    fn store(host: &mut Host<Self>, side: Side, asked: &Io, at: Moment) -> Moment;

    /// Until when an operation does not end that was to end now, where that disk is silent.
    fn silent(_: &mut Host<Self>, _: Side, _: &Io) -> Option<Moment> {
        None
    }

    /// A store operation ends.
    fn stored(host: &mut Host<Self>, side: Side, asked: Io) -> StoreOutcome;

    /// A node looks at bytes that it holds, and needs no more.
    fn look(host: &mut Host<Self>, side: Side, asked: Io, payload: Payload) -> StoreOutcome;

    /// The metadata file is asked for a change at `at`. Returns when its next step ends, if one begins by that.
    fn keep(node: &mut Node<Self>, change: Change, at: Moment) -> Option<Moment>;

    /// A step of the metadata file ends. Returns what is kept now, or refused, and when the next step ends.
    fn kept(node: &mut Node<Self>, now: Moment) -> (Vec<Kept>, Option<Moment>);

    /// How the metadata file is to be changed for what a layer records of members.
    fn record(_: &Node<Self>, record: LayerRecord) -> Change {
        panic!("no layer of this host records {record:?}")
    }

    /// Whether two payloads hold the same.
    fn compare(_: &Node<Self>, pair: [PayloadId; 2]) -> bool {
        panic!("no layer of this host compares {pair:?}")
    }

    /// How often the metadata file was durably changed.
    fn sequence(node: &Node<Self>) -> u64;

    /// A superblock was saved, or could not be.
    fn saved(_: &mut Host<Self>, _: Side, _: bool) {}

    /// The before-image file begins an operation at `at`.
    fn preserve(node: &mut Node<Self>, op: PoolOp, at: Moment) -> Step;

    /// A step of the before-image file ends.
    fn preserved(host: &mut Host<Self>, side: Side) -> Step;

    /// A message of that size, whose bytes are `body` without its payload, is sent to the peer.
    fn send(host: &mut Host<Self>, side: Side, message: Message, body: &[u8], size: Bytes);

    /// The engine ends the connection at `at`.
    fn hang_up(host: &mut Host<Self>, side: Side, refused: bool, at: Moment);

    /// From `at` on the process reads nothing from its peer, or reads on.
    fn pause(host: &mut Host<Self>, side: Side, pause: bool, at: Moment);

    /// The process ends by itself, if it can.
    fn stopped(_: &mut Host<Self>, _: Side) {}
}

// SPDX-License-Identifier: Apache-2.0
//! A virtual machine that goes back to a snapshot of its disks and its memory: the process goes on where it was, in the
//! same incarnation, and only its peer can know that time has passed.

use crate::cluster::Cluster;
use crate::happening::Happening;
use crate::node::{Node, Side};
use helio_engine::{Engine, Event};
use helio_units::{Moment, Sequence};

/// A machine with its memory, at a moment at which nothing was under way on it.
#[derive(Clone, Debug)]
pub struct Suspended {
    node: Box<Node>,
    connected: bool,
    at: Moment,
}

impl Suspended {
    /// How often the metadata had durably changed.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.node.metadata.sequence()
    }

    /// The last item that it had received.
    #[must_use]
    pub fn head(&self) -> Sequence {
        let status = |engine: &Engine| engine.view().status(Moment::ZERO).cursors.head;
        self.node.engine.as_ref().map_or(Sequence::ZERO, status)
    }
}

impl Cluster {
    /// A snapshot of a machine with its memory, if nothing is under way on it.
    #[must_use]
    pub fn suspend(&self, side: Side) -> Option<Suspended> {
        let node = self.node(side);
        let end = &self.wire.ends[side.index()];
        let quiet = node.is_quiet() && !node.hangs(self.now()) && end.inbox.is_empty();
        let (connected, at) = (end.epoch.is_some(), self.now());
        quiet.then(|| Suspended { node: Box::new(node.clone()), connected, at })
    }

    /// The machine goes on where it was suspended. Its connections are gone, and no clock on it counted the time. The node
    /// is down.
    pub fn resume(&mut self, side: Side, suspended: &Suspended) {
        assert!(!self.node(side).is_up(), "{side} runs while its machine goes back");
        self.content.journal.push(Happening::Restored { side, alone: false });
        self.put_disk(side, &suspended.node.disk.contents());
        let (now, life) = (self.now(), self.node(side).life());
        let node = self.node_mut(side);
        *node = (*suspended.node).clone();
        node.go_on_at(now, suspended.at, life + 1);
        self.content.journal.push(Happening::Started { side });
        self.wire.ends[side.index()].failures = 0;
        self.dial_later(side, false);
        if suspended.connected {
            let why = String::from("connection reset");
            self.handle(side, Event::Disconnected { why });
        }
        self.handle(side, Event::Tick);
    }
}

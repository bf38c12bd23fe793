// SPDX-License-Identifier: Apache-2.0
//! One node: its engine, and what takes time around it.

use super::disk::Disk;
use super::pair::{PairConfig, Processor};
use super::records::Records;
use crate::Side;
use crate::metadata::new_superblock;
use core::time::Duration;
use helio_engine::{Durable, Engine, Event};
use helio_format::message::Message;
use helio_netmodel::Dice;
use helio_units::Moment;
use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct Node {
    pub(super) engine: Engine,
    pub(super) disk: Disk,
    pub(super) records: Records,
    /// When the before-image file is done with what it was asked.
    pub(super) before: Moment,
    /// What came since the last turn.
    pub(super) inbox: Vec<Event>,
    /// Bytes that came with it and are looked at: payload in and out.
    pub(super) moved: u64,
    /// The next turn begins then; never where nothing has come.
    pub(super) turn: Moment,
    /// The turn under way ends then.
    pub(super) busy: Moment,
    /// When the engine wants to be settled anyhow.
    pub(super) wake: Moment,
    /// What the socket took and the engine was not told yet.
    pub(super) took: u64,
    /// The engine reads nothing from its peer; what arrives meanwhile lies here, with its bytes.
    pub(super) paused: bool,
    pub(super) unread: VecDeque<(Option<Message>, u64)>,
    /// It believes in the connection.
    pub(super) connected: bool,
}

impl Node {
    pub(super) fn new(side: Side, config: &PairConfig, dice: &Dice) -> Self {
        let mut settings = config.settings.clone();
        (settings.node, settings.peer) = (side.name().into(), side.other().name().into());
        let mut own = dice.split_nth("lean", side.index() as u64);
        let durable = Durable::new(new_superblock(&settings));
        let disk = Disk::new(config.disks[side.index()], own.split("disk"));
        let (incarnation, seed) = (own.next_u64(), own.next_u64());
        Self {
            engine: Engine::new(settings, durable, incarnation, seed, Moment::ZERO),
            disk,
            records: Records::new(),
            before: Moment::NEVER,
            inbox: Vec::new(),
            moved: 0,
            turn: Moment::ZERO,
            busy: Moment::ZERO,
            wake: Moment::NEVER,
            took: 0,
            paused: false,
            unread: VecDeque::new(),
            connected: false,
        }
    }

    /// Something came: the next turn takes it.
    pub(super) fn tell(&mut self, now: Moment, event: Event) {
        self.inbox.push(event);
        self.stir(now);
    }

    /// A turn is due, as soon as the one under way has ended.
    pub(super) fn stir(&mut self, now: Moment) {
        self.turn = self.turn.min(now.max(self.busy));
    }

    /// When something of its own is due.
    pub(super) fn next(&self) -> Moment {
        let files = self.records.next.min(self.before);
        self.turn.min(self.wake).min(self.disk.next()).min(files)
    }

    /// How long a turn takes that handles so many events and moves so many bytes.
    pub(super) fn turn_time(&mut self, work: Processor, events: u64) -> Duration {
        let bytes = core::mem::take(&mut self.moved);
        let nanos =
            work.event.as_nanos() as u64 * events + work.kib.as_nanos() as u64 * bytes / 1024;
        work.turn + Duration::from_nanos(nanos)
    }
}

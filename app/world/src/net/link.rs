// SPDX-License-Identifier: Apache-2.0
//! What a story does with links.

use super::{Net, SocketOptions};
use crate::machine::SimMachine;
use crate::world::{Inner, MachineId, World};
use helio_netmodel::{DropReason, Profile, Verdict};
use helio_units::{Bytes, Moment};

impl Inner {
    /// Whether nothing arrives on a link.
    pub(super) fn is_cut(&self, from: MachineId, to: MachineId) -> bool {
        self.net.cut.contains(&(from, to)) || !self.is_up(to) || !self.is_up(from)
    }

    pub(super) fn offer(&mut self, from: MachineId, to: MachineId, size: Bytes) -> Verdict {
        let now = self.now;
        self.net.offer(from, to, now, size)
    }
}

impl Net {
    fn offer(&mut self, from: MachineId, to: MachineId, now: Moment, size: Bytes) -> Verdict {
        self.link(from, to);
        match self.links.get_mut(&(from, to)) {
            Some(link) => link.offer(now, size, &mut self.dice),
            None => Verdict::Drop(DropReason::Down),
        }
    }

    fn set_profile(&mut self, from: MachineId, to: MachineId, profile: Profile) {
        self.link(from, to).set_profile(profile);
    }
}

impl World {
    /// Changes the sizes and times of all sockets.
    pub fn set_sockets(&self, options: SocketOptions) {
        self.lock().net.options = options;
    }

    /// Gives the link between two machines a profile, in each direction.
    pub fn set_link(&self, one: &SimMachine, other: &SimMachine, profile: &Profile) {
        let mut inner = self.lock();
        let (one, other) = (one.id(), other.id());
        inner.net.set_profile(one, other, profile.clone());
        inner.net.set_profile(other, one, profile.clone());
        inner.unblock(|from, to| [(one, other), (other, one)].contains(&(from, to)));
    }

    /// Cuts the link from one machine to another: nothing arrives, and neither end gets an error.
    pub fn cut_way(&self, from: &SimMachine, to: &SimMachine) {
        let mut inner = self.lock();
        let way = (from.id(), to.id());
        if inner.net.cut.insert(way) {
            inner.tell(format_args!("the link from {} to {} is cut", way.0.0, way.1.0));
            inner.lose_flights(|from, to| (from, to) == way);
        }
    }

    /// Cuts the link between two machines, in both directions.
    pub fn cut(&self, one: &SimMachine, other: &SimMachine) {
        self.cut_way(one, other);
        self.cut_way(other, one);
    }

    /// Lets the link between two machines carry again. Senders that were blocked try again after a while.
    pub fn heal(&self, one: &SimMachine, other: &SimMachine) {
        let mut inner = self.lock();
        let ways = [(one.id(), other.id()), (other.id(), one.id())];
        for way in ways {
            if inner.net.cut.remove(&way) {
                inner.tell(format_args!("the link from {} to {} carries again", way.0.0, way.1.0));
            }
        }
        inner.unblock(|from, to| ways.contains(&(from, to)));
    }

    /// Resets every connection between two machines. Whether there was one.
    pub fn reset_connections(&self, one: &SimMachine, other: &SimMachine) -> bool {
        let mut inner = self.lock();
        let pair = [one.id(), other.id()];
        inner.tell(format_args!("the connections of {} and {} are reset", pair[0].0, pair[1].0));
        let between = |inner: &Inner| {
            let all = inner.net.connections.iter();
            let between = all.filter(|(_, connection)| {
                let ends = [super::End::Connecter, super::End::Acceptor];
                ends.iter().all(|end| pair.contains(&connection.side(*end).machine))
                    && connection.side(ends[0]).machine != connection.side(ends[1]).machine
            });
            between.map(|(id, _)| *id).collect::<Vec<_>>()
        };
        let between = between(&inner);
        let any = !between.is_empty();
        between.into_iter().for_each(|id| inner.break_both(id));
        any
    }

    /// How many connections the machines still keep something for.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.lock().net.connections()
    }
}

impl Inner {
    /// A machine has power again.
    pub(crate) fn wake_links(&mut self, machine: MachineId) {
        self.unblock(|from, to| from == machine || to == machine);
    }
}

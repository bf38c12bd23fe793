// SPDX-License-Identifier: Apache-2.0
//! Room for what is held for all clients together: long reads wait for it, and clients that do not read their replies make room.

use super::{Clients, RETRY};
use helio_driver::Driver;
use helio_nbd::{Command, Request, Step};
use helio_units::Moment;
use std::time::Duration;

/// A longer read, in bytes, waits until there is room for it.
const SHORT_READ: u64 = 256 << 10;
/// While a read of another client waits, a client has that long to read the replies that its socket was given, and a second more for each so
/// many bytes.
pub(super) const TAKING_PATIENCE: Duration = Duration::from_secs(10);
pub(super) const TAKEN_A_SECOND: u64 = 2 << 20;

/// The slots of those whose read waits for room, each once, in their order.
#[derive(Debug, Default)]
pub(super) struct Queue(Vec<usize>);

impl Queue {
    /// Not again if a reply to an earlier request woke it while it waits.
    fn add(&mut self, slot: usize) {
        if !self.0.contains(&slot) {
            self.0.push(slot);
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a read waits that is not of this slot.
    fn has_another(&self, slot: usize) -> bool {
        self.0.iter().any(|waiting| *waiting != slot)
    }

    /// All of them, which are to be tried again.
    pub(super) fn take(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.0)
    }
}

impl Clients {
    /// Whether a request may begin: a long read only behind those that wait already, and where there is room for its data.
    pub(super) fn has_room(&self, slot: usize, request: &Request) -> bool {
        let length = request.extent.length;
        if request.command != Command::Read || length <= SHORT_READ {
            return true;
        }
        let Some(client) = &self.slots[slot] else { return false };
        let held = self.held - client.counted + client.held();
        held == 0 || self.postponed.is_empty() && held + length <= self.plenty
    }

    /// A read waits for room. From now on, clients that do not read their replies are watched.
    pub(super) fn postpone(&mut self, slot: usize, request: Request) {
        if let Some(client) = &mut self.slots[slot] {
            client.postponed = Some(request);
            self.postponed.add(slot);
            self.next_expiry = Moment::ZERO;
        }
    }

    /// Looks again whether there is room for a read that waits.
    pub(super) fn take_postponed(&mut self, slot: usize, request: Request) -> Option<Step> {
        if !self.has_room(slot, &request) {
            self.postponed.add(slot);
            return None;
        }
        self.slots[slot].as_mut()?.postponed = None;
        Some(Step::Request(request))
    }

    /// Disconnects clients that do not read their replies while reads of other clients wait for room. Returns when to look again.
    pub(super) fn expire_takers(&mut self, now: Moment, driver: &mut dyn Driver) -> Moment {
        // The socket of another client may be given replies before that.
        let mut next = if self.postponed.is_empty() { Moment::NEVER } else { now + RETRY };
        for slot in 0..self.slots.len() {
            let Some(client) = &mut self.slots[slot] else { continue };
            let until = client.takes_until(self.postponed.has_another(slot), now);
            if now < until {
                next = next.min(until);
                continue;
            }
            let why = "it did not read its replies while reads of other clients waited for memory";
            self.log.refused(client.from, why, now);
            // Its send ends with an error, and then it is gone.
            driver.cancel(client.stream.socket());
            self.leave(slot);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_waits_once_and_not_for_itself() {
        let mut queue = Queue::default();
        assert!(!queue.has_another(1));
        [1, 1].into_iter().for_each(|slot| queue.add(slot));
        assert!(!queue.has_another(1) && queue.has_another(2));
        [2, 1].into_iter().for_each(|slot| queue.add(slot));
        assert!(queue.has_another(1));
        assert_eq!((queue.take(), queue.is_empty()), (vec![1, 2], true));
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Room for what is held for all clients together: the data of long reads waits for it, and a client that does not take it makes room.

use super::{Clients, RETRY};
use helio_driver::Driver;
use helio_nbd::{Command, Request, Step};
use helio_units::Moment;
use std::time::Duration;

/// A longer read, in bytes, waits until there is room for it beside what is held for all clients.
const SHORT_READ: u64 = 256 << 10;
/// While one waits, a client must have taken a batch of answers within that long, and a second more for each so many bytes.
pub(super) const TAKING_PATIENCE: Duration = Duration::from_secs(10);
pub(super) const TAKEN_A_SECOND: u64 = 2 << 20;

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

    /// A read waits for room, and those who do not take their answers are watched from now on.
    pub(super) fn postpone(&mut self, slot: usize, request: Request) {
        if let Some(client) = &mut self.slots[slot] {
            client.postponed = Some(request);
            self.postponed.push(slot);
            self.next_expiry = Moment::ZERO;
        }
    }

    /// Looks again whether there is room for a read that waits.
    pub(super) fn take_postponed(&mut self, slot: usize, request: Request) -> Option<Step> {
        if !self.has_room(slot, &request) {
            self.postponed.push(slot);
            return None;
        }
        self.slots[slot].as_mut()?.postponed = None;
        Some(Step::Request(request))
    }

    /// While reads wait for room, those go who do not take their answers. Returns when the next one must have.
    pub(super) fn expire_takers(&mut self, now: Moment, driver: &mut dyn Driver) -> Moment {
        let waits = !self.postponed.is_empty();
        // Others may begin to take answers meanwhile.
        let mut next = if waits { now + RETRY } else { Moment::NEVER };
        for slot in 0..self.slots.len() {
            let Some(client) = &mut self.slots[slot] else { continue };
            let until = client.takes_until(waits, now);
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

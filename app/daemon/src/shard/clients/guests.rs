// SPDX-License-Identifier: Apache-2.0
//! Connections that have not chosen an export: anybody may open them, so they are counted apart from clients.

use super::Clients;
use super::client::Client;
use crate::shard::crowd::makes_room;
use helio_driver::Driver;
use helio_plant::{Plant, planted};
use helio_units::Moment;

/// The most connections that have not chosen an export. There is room for all clients, since all may connect at once.
pub(crate) const fn guests_of(clients: u32) -> u32 {
    match clients {
        ..64 => 64,
        64..1024 => clients,
        _ => 1024,
    }
}

impl Clients {
    /// At the limit, closes a guest of the host that has the most (those of the Unix socket count as one host): one that is leaving, or else
    /// one that sent nothing, or else the oldest.
    pub(super) fn make_room(&mut self, now: Moment, driver: &mut dyn Driver) {
        if self.guests() < guests_of(self.most) as usize {
            return;
        }
        let guests = || {
            let all = self.slots.iter().enumerate();
            all.filter_map(|(n, it)| Some((n, it.as_ref().filter(|it| it.place.is_none())?)))
        };
        let rank = |guest: &Client| (!guest.leaving, guest.spoke, guest.until);
        let crowd = guests().map(|(slot, guest)| (slot, guest.host(), rank(guest)));
        let Some(slot) = makes_room(crowd) else { return };
        if let Some(guest) = self.free(slot, driver) {
            let why = "a newer connection took its place before it chose an export";
            self.log.refused(guest.from, why, now);
        }
    }

    /// Whether no more clients may choose an export.
    pub(super) fn are_full(&self) -> bool {
        self.chosen >= self.most && !planted(Plant::ClientsUnbounded)
    }

    /// Connections that have not chosen an export.
    pub(crate) fn guests(&self) -> usize {
        self.slots.iter().flatten().filter(|client| client.place.is_none()).count()
    }
}

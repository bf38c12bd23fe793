// SPDX-License-Identifier: Apache-2.0
//! Connections that have not chosen an export: anybody may open them, so they are counted apart from clients.

use super::Clients;
use super::client::Client;
use helio_driver::Driver;
use helio_plant::{Plant, planted};
use helio_units::Moment;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Most connections that have not chosen an export. Anybody may open them, so they take no place of those who use a volume; and there is a
/// place for each of these, should all of them come at once.
pub(crate) const fn guests_of(clients: u32) -> u32 {
    match clients {
        ..64 => 64,
        64..1024 => clients,
        _ => 1024,
    }
}

impl Clients {
    /// Where there are too many guests already, one goes: of the host that has most of them (all that came over the Unix socket count as one),
    /// one that is leaving anyway, or said nothing, or came first.
    pub(super) fn make_room(&mut self, now: Moment, driver: &mut dyn Driver) {
        let guests = || {
            let all = self.slots.iter().enumerate();
            all.filter_map(|(n, it)| Some((n, it.as_ref().filter(|it| it.place.is_none())?)))
        };
        let mut hosts = BTreeMap::<_, u32>::new();
        guests().for_each(|(_, guest)| *hosts.entry(guest.host()).or_default() += 1);
        if hosts.values().sum::<u32>() < guests_of(self.most) {
            return;
        }
        let least = |(_, guest): &(usize, &Client)| {
            let of_host = hosts.get(&guest.host()).copied().unwrap_or_default();
            (Reverse(of_host), !guest.leaving, guest.spoke, guest.until)
        };
        let Some((slot, _)) = guests().min_by_key(least) else { return };
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

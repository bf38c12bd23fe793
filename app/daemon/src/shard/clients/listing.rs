// SPDX-License-Identifier: Apache-2.0
//! The clients for those who ask who they are, and the end of connections that an operator closes.

use super::client::Client;
use super::{Catalogue, Clients};
use crate::shard::clock::Clock;
use crate::shard::group::Group;
use crate::shard::requests::Place;
use helio_api::NbdClient;
use helio_driver::Driver;
use helio_engine::Refusal;
use helio_units::{Bytes, Items};

/// Clients that one turn lists at most.
const LISTED_MOST: usize = 64;
/// Clients that a refusal names; of the others it gives the number.
const NAMED_MOST: usize = 3;

/// Clients that were listed in one turn.
#[derive(Debug)]
pub(crate) struct ListedClients {
    pub(crate) clients: Vec<NbdClient>,
    pub(crate) guests: Items,
    /// The place of the next ones, if there are more.
    pub(crate) next: Option<usize>,
}

/// Whose connections an operator closes.
#[derive(Clone, Debug)]
pub(crate) enum Closing {
    /// The connection of that number.
    Number(u32),
    /// Those to a group, or to one volume of it.
    All { group: String, volume: Option<String> },
}

impl Clients {
    /// Some of the clients, from that place on.
    pub(crate) fn listed(&self, from: usize, groups: &[Group], clock: &Clock) -> ListedClients {
        let chosen = |n: &usize| self.slots[*n].as_ref().is_some_and(|it| it.place.is_some());
        let mut places = (from..self.slots.len()).filter(chosen);
        let some = places.by_ref().take(LISTED_MOST);
        let some = some.filter_map(|n| shown(self.slots[n].as_ref()?, groups, clock)).collect();
        ListedClients { clients: some, guests: Items(self.guests() as u64), next: places.next() }
    }

    /// Closes connections of clients: nothing more is read from them, and they go once what they have under way is replied to. Returns
    /// who they are.
    pub(crate) fn close(
        &mut self,
        which: &Closing,
        groups: &[Group],
        driver: &mut dyn Driver,
    ) -> Result<Vec<String>, Refusal> {
        let mut closed = Vec::new();
        for slot in 0..self.slots.len() {
            let Some(client) = &self.slots[slot] else { continue };
            let Some(place) = client.place else { continue };
            let (group, volume) = (&groups[place.group], usize::from(place.volume.0));
            let meant = match which {
                Closing::Number(number) => client.epoch == *number,
                Closing::All { .. } if client.leaving => false,
                Closing::All { group: name, volume: only } => {
                    let volume = group.volumes.get(volume);
                    let is_it = |only: &String| volume.is_some_and(|it| it.name == *only);
                    group.name == *name && only.as_ref().is_none_or(is_it)
                }
            };
            if !meant {
                continue;
            }
            if client.is_own() {
                if let Closing::Number(number) = which {
                    return Err(of_a_device(*number));
                }
                continue;
            }
            let who = client.who();
            tracing::info!(group = %group.name, client = %who, number = client.epoch, "the operator closes the connection of an NBD client");
            closed.push(who);
            self.leave(slot);
            self.pump_slot(slot, driver);
        }
        match which {
            Closing::Number(number) if closed.is_empty() => Err(no_client(*number)),
            _ => Ok(closed),
        }
    }

    /// Who may write to a group: the first ones, and how many more there are. Connections of devices are not among them.
    pub(crate) fn writers(&self, group: usize) -> String {
        let writes = |place: Place| place.group == group && place.target.writes_volume();
        let all = self.slots.iter().flatten().filter(|it| !it.leaving && !it.is_own());
        named(all.filter(|it| it.place.is_some_and(writes)))
    }

    /// Who reads or writes a group, or did and is not gone yet. Connections of devices are not among them.
    pub(crate) fn users(&self, group: usize) -> String {
        let uses = |it: &&Client| it.place.is_some_and(|place| place.group == group);
        named(self.slots.iter().flatten().filter(|it| !it.is_own()).filter(uses))
    }
}

fn named<'a>(mut all: impl Iterator<Item = &'a Client>) -> String {
    let mut names: Vec<String> = all.by_ref().take(NAMED_MOST).map(Client::who).collect();
    match all.count() {
        0 => {}
        more => names.push(format!("{more} more")),
    }
    names.join(", ")
}

fn shown(client: &Client, groups: &[Group], clock: &Clock) -> Option<NbdClient> {
    let place = client.place?;
    let group = &groups[place.group];
    let volume = group.volumes.get(usize::from(place.volume.0))?;
    Some(NbdClient {
        number: client.epoch,
        group: group.name.clone(),
        volume: volume.name.clone(),
        export: Catalogue::name(group, place),
        address: client.from.map(|from| from.to_string()),
        process: client.process.filter(|_| !client.is_own()),
        program: None,
        attached: client.is_own(),
        read_only: place.target.is_read_only(),
        connected_ms: clock.wall(client.since),
        requests: Items(client.load.requests()),
        held_bytes: Bytes(client.held()),
        closing: client.leaving,
    })
}

fn no_client(number: u32) -> Refusal {
    let text = format!("this node has no NBD client with the number {number}");
    Refusal::new("unknown-client", text, "`helio client list` shows the numbers")
}

fn of_a_device(number: u32) -> Refusal {
    let text = format!("connection {number} belongs to a volume that this node attached");
    Refusal::new("in-use", text, "`helio detach GROUP/VOLUME` ends it")
}

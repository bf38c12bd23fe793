// SPDX-License-Identifier: Apache-2.0
//! Who uses a group: what a refusal says of them, and the end of their connections.

use super::{Closing, Shard, unknown, unknown_volume};
use helio_driver::Driver;
use helio_engine::Refusal;
use helio_units::VolumeIndex;

impl<D: Driver> Shard<D> {
    /// NBD connections to a group that no attached device has.
    pub(super) fn nbd_clients(&self, index: usize) -> u64 {
        let volumes = (0..self.groups[index].volumes.len() as u16).map(VolumeIndex);
        let all: u64 = volumes.map(|volume| self.clients.count(index, volume)).sum();
        all.saturating_sub(self.attached.held(index).count() as u64)
    }

    /// Refuses what changes the content of volumes under those who use them.
    pub(super) fn refuse_in_use(&self, index: usize) -> Result<(), Refusal> {
        if self.nbd_clients(index) > 0 {
            let why = ": their caches would be wrong";
            return Err(self.used_by_clients(index, why, "try again"));
        }
        let devices = self.attached.devices(index);
        match devices.is_empty() {
            true => Ok(()),
            false => Err(self.attached.refusal(index, &self.groups, &devices)),
        }
    }

    /// The refusal of what NBD clients prevent, why they do, and what to do once they are gone.
    pub(super) fn used_by_clients(&self, index: usize, why: &str, then: &str) -> Refusal {
        let (count, name) = (self.nbd_clients(index), &self.groups[index].name);
        let who = match self.clients.writers(index) {
            who if who.is_empty() => String::new(),
            who => format!(" ({who})"),
        };
        let text = format!("{count} NBD connection(s) use {name}{who}{why}");
        let hint = format!(
            "unmount and disconnect them, or `helio client close --all {name}`; then {then}"
        );
        Refusal::new("in-use", text, hint)
    }

    /// Closes connections of clients.
    pub(super) fn close_clients(&mut self, which: &Closing) -> Result<Vec<String>, Refusal> {
        if let Closing::All { group, volume } = which {
            let index = self.find(group).ok_or_else(|| unknown(group))?;
            let has =
                |wanted: &String| self.groups[index].volumes.iter().any(|it| it.name == *wanted);
            if let Some(volume) = volume.as_ref().filter(|volume| !has(volume)) {
                return Err(unknown_volume(group, volume));
            }
        }
        self.clients.close(which, &self.groups, &mut self.driver)
    }
}

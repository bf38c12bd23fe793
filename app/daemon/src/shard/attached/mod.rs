// SPDX-License-Identifier: Apache-2.0
//! Attached volumes of a shard: a front end that reads the kernel's requests for a volume that is a device of this
//! machine, and writes replies to them.
//!
//! What one device may have under way is bounded in requests and bytes; beyond that the kernel's messages stay in the
//! kernel, and nobody else notices.

mod device;
mod line;

use crate::shard::clients::{Catalogue, export_of, is_in_copy};
use crate::shard::group::{Group, User};
use crate::shard::requests::{
    Asker, Ended, Failure, Io, Load, Operation, Origin, Place, Reply, Requests,
};
use crate::shard::token::{Kind, token};
use crate::shard::unknown_volume;
use device::Device;
use helio_attach::{Fault, Shape, Work};
use helio_driver::{Driver, Op};
use helio_engine::{Denial, Engine, Refusal, StoreFault};
use helio_nbd::{Exports, OpenRefusal};
use helio_units::Bytes;
pub(crate) use line::End;
use line::{Line, Taken};
use std::collections::BTreeSet;
use tokio::sync::oneshot;

/// Messages of one device taken in a row; then others have their turn.
const BATCH: usize = 64;

/// The code of a refusal only because of attached devices: who reports it replaces its text by one that says what uses
/// them, and its code by `in-use`.
pub(crate) const ATTACHED: &str = "attached";

/// What the control plane wants attached: the volume, the kernel's end, and who is told when it ends.
#[derive(Debug)]
pub(crate) struct Plug {
    pub(crate) group: String,
    pub(crate) volume: String,
    pub(crate) read_only: bool,
    /// The tenure the device is of; nothing of another one is served to be written.
    pub(crate) tenure: u64,
    /// What operators know it as.
    pub(crate) name: String,
    pub(crate) end: End,
    /// Told why, at the end.
    pub(crate) gone: oneshot::Sender<String>,
}

/// What a volume would be as a device now.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    pub(crate) shape: Shape,
    /// Of this node as the group's primary.
    pub(crate) tenure: u64,
}

/// An NBD client's export that is a device of this machine.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) group: String,
    pub(crate) volume: String,
    /// As [`Plug::tenure`].
    pub(crate) tenure: u64,
    /// What operators know it as.
    pub(crate) title: String,
}

/// All attached volumes of a shard.
#[derive(Default)]
pub(crate) struct Attached {
    slots: Vec<Option<Device>>,
    epochs: u32,
    /// Groups whose devices came or went since the last look; some more than once.
    changed: Vec<usize>,
    /// Devices that wait for memory.
    starving: Vec<usize>,
    /// Devices of the machine that NBD clients serve: the group, the volume's name, what operators know it as.
    held: Vec<(usize, (String, String), String)>,
}

impl Attached {
    /// Serves a volume on the kernel's end, where an NBD client could have it now.
    pub(crate) fn plug(&mut self, plug: Plug, io: &mut Io<'_>) -> Result<Shape, Refusal> {
        let Plug { group, volume, read_only, tenure, name, end, gone } = plug;
        let (shape, place) = open(&group, &volume, read_only, io.groups)?;
        is_of_tenure(place, tenure, io.groups)?;
        let line = Line::begin(end, shape, &name).map_err(|error| {
            let text = format!("the kernel refuses to serve {group}/{volume}: {error}");
            Refusal::new("attach-failed", text, "use another interface: --via fuse")
        })?;
        self.epochs = self.epochs.wrapping_add(1);
        let slot = self.slots.iter().position(Option::is_none).unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.slots[slot] = Some(Device {
            epoch: self.epochs,
            group,
            volume,
            name,
            place,
            line,
            load: Load::default(),
            waiting: false,
            ended: false,
            gone: Some(gone),
        });
        self.changed.push(place.group);
        // At once: a hello of the peer may be the next thing that is read.
        io.groups[place.group].used_by(User::Devices, self.used(place.group), io.now);
        self.wake(slot, io);
        Ok(shape)
    }

    /// An NBD client's export is a device of the machine, until its volume is let go.
    pub(crate) fn hold(&mut self, hold: Hold, groups: &[Group]) -> Result<(), Refusal> {
        let Hold { group, volume, tenure, title } = hold;
        let (_, place) = open(&group, &volume, false, groups)?;
        is_of_tenure(place, tenure, groups)?;
        self.held.push((place.group, (group, volume), title));
        self.changed.push(place.group);
        Ok(())
    }

    /// Lets go of a volume's device, whoever uses it.
    pub(crate) fn unplug(&mut self, group: &str, volume: &str, io: &mut Io<'_>) {
        let ours = |(g, v): &(String, String)| g == group && v == volume;
        self.changed.extend(self.held.iter().filter(|(_, name, _)| ours(name)).map(|(at, ..)| *at));
        self.held.retain(|(_, name, _)| !ours(name));
        let named = |device: &Device| device.group == group && device.volume == volume;
        for slot in 0..self.slots.len() {
            if self.slots[slot].as_ref().is_some_and(named) {
                self.deny(slot, io.requests);
                self.end(slot, "detached", io.driver);
                self.slots[slot] = None;
            }
        }
    }

    /// The group failed: what its devices have under way ends with an error, and they end.
    pub(crate) fn abandon(
        &mut self,
        (group, why): (usize, &str),
        requests: &mut Requests,
        driver: &mut dyn Driver,
    ) {
        self.held.retain(|(at, ..)| *at != group);
        for slot in 0..self.slots.len() {
            if self.slots[slot].as_ref().is_some_and(|device| device.place.group == group) {
                self.deny(slot, requests);
                self.end(slot, why, driver);
                self.slots[slot] = None;
            }
        }
    }

    /// Fails what a device has under way: its replies are not awaited any more, and the kernel may wait for them before it
    /// removes the device.
    fn deny(&mut self, slot: usize, requests: &mut Requests) {
        let Some(device) = &mut self.slots[slot] else { return };
        for asker in requests.forget(Origin::Device(slot)) {
            if let Asker::Device { unique, .. } = asker {
                device.line.failed(unique, Fault::Io);
            }
        }
        device.line.hand_over();
    }

    /// The devices that can change volumes of a group, as operators know them.
    pub(crate) fn writers(&self, group: usize) -> Vec<&str> {
        let devices = self.slots.iter().flatten();
        let ours = devices
            .filter(|d| !d.ended && d.place.group == group && d.place.target.writes_volume());
        ours.map(|device| device.name.as_str()).chain(self.held(group)).collect()
    }

    /// The devices of a group that the kernel's NBD client serves, each over one connection.
    pub(crate) fn held(&self, group: usize) -> impl Iterator<Item = &str> {
        let held = self.held.iter().filter(move |(at, ..)| *at == group);
        held.map(|(_, _, title)| title.as_str())
    }

    /// The volumes of a group that devices use, those on a secondary's copy apart: bit n volume n.
    pub(crate) fn used(&self, group: usize) -> u64 {
        let places = self.slots.iter().flatten().filter(|device| !device.ended).map(|d| d.place);
        let used = places.filter(|place| place.group == group && place.target.uses_volume());
        used.fold(0, |mask, place| mask | 1 << place.volume.0)
    }

    /// Devices that this shard serves; each has a socket.
    pub(crate) fn count(&self) -> usize {
        self.slots.iter().flatten().count()
    }

    /// Memory of the pool that devices hold for their next request.
    pub(crate) fn awaiting(&self) -> Bytes {
        self.slots.iter().flatten().fold(Bytes::ZERO, |sum, device| sum + device.line.held())
    }

    /// All devices of a group, also those that end, as operators know them.
    pub(crate) fn devices(&self, group: usize) -> Vec<&str> {
        let devices = self.slots.iter().flatten().filter(|d| d.place.group == group);
        devices.map(|device| device.name.as_str()).chain(self.held(group)).collect()
    }

    /// A refusal because of these devices of a group, with how all of the group are detached, those of NBD clients included.
    pub(crate) fn refusal(&self, group: usize, groups: &[Group], devices: &[&str]) -> Refusal {
        let slots = self.slots.iter().flatten().filter(|device| device.place.group == group);
        let ours = slots.map(|device| device.volume.clone());
        let held = self.held.iter().filter(|(at, ..)| *at == group);
        let volumes: BTreeSet<String> =
            ours.chain(held.map(|(_, (_, volume), _)| volume.clone())).collect();
        let name = &groups[group].name;
        let commands = volumes.iter().map(|volume| format!("`helio detach {name}/{volume}`"));
        let text = format!("{name} is attached as {}", devices.join(", "));
        let hint = format!("unmount it, then {}", commands.collect::<Vec<_>>().join(", "));
        Refusal::new(ATTACHED, text, hint)
    }

    /// Groups whose devices came or went since the last call; some more than once.
    pub(crate) fn changed(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.changed)
    }

    /// Devices that waited for memory, to be tried again.
    pub(crate) fn starved(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.starving)
    }

    /// Ends everybody of a group, or everybody: it is primary here no more, or the daemon stops. What they have under
    /// way is still answered.
    pub(crate) fn dismiss(&mut self, group: Option<usize>, why: &str, driver: &mut dyn Driver) {
        for slot in 0..self.slots.len() {
            let place = self.slots[slot].as_ref().map(|device| device.place);
            if place.is_some_and(|place| group.is_none_or(|group| place.group == group)) {
                self.end(slot, why, driver);
            }
        }
    }

    /// How a group stands. Readers of what is another thing now are ended.
    pub(crate) fn role_seen(&mut self, group: usize, engine: &Engine, driver: &mut dyn Driver) {
        let primary = engine.view().is_primary();
        for slot in 0..self.slots.len() {
            let place = self.slots[slot].as_ref().map(|device| device.place);
            let changed = |p: Place| p.target.goes_with_role() && p.target.is_copy() == primary;
            if place.is_some_and(|place| place.group == group && changed(place)) {
                self.end(slot, "the node's role changed", driver);
            }
        }
    }

    /// There is a message, or none will come any more.
    pub(crate) fn ready(&mut self, slot: usize, epoch: u32, io: &mut Io<'_>) {
        if let Some(device) = self.device(slot, epoch) {
            device.waiting = false;
            self.wake(slot, io);
        }
    }

    fn device(&mut self, slot: usize, epoch: u32) -> Option<&mut Device> {
        self.slots.get_mut(slot)?.as_mut().filter(|device| device.epoch == epoch)
    }

    /// Takes messages as far as bounds allow, and then waits for the next.
    pub(crate) fn wake(&mut self, slot: usize, io: &mut Io<'_>) {
        for _ in 0..BATCH {
            let Some(device) = &mut self.slots[slot] else { return };
            if device.ended || device.waiting || device.is_full() {
                break;
            }
            match device.line.take(io.pool) {
                Taken::Work { unique, work } => self.begin(slot, unique, work, io),
                Taken::Answered => {}
                Taken::Nothing => break,
                Taken::Starved => {
                    device.line.hand_over();
                    self.starving.push(slot);
                    return;
                }
                Taken::Over(why) => self.end(slot, &why, io.driver),
            }
        }
        self.settle(slot, io.driver);
    }

    /// Waits for the next message, or lets go of what has ended.
    fn settle(&mut self, slot: usize, driver: &mut dyn Driver) {
        let Some(device) = &mut self.slots[slot] else { return };
        device.line.hand_over();
        if device.ended {
            if device.load.is_idle() {
                self.slots[slot] = None;
            }
        } else if !device.waiting && !device.is_full() {
            device.waiting = true;
            let socket = device.line.socket().clone();
            driver.submit(token(Kind::AttachReady, slot, device.epoch), Op::Ready { socket });
        }
    }

    fn end(&mut self, slot: usize, why: &str, driver: &mut dyn Driver) {
        let Some(device) = &mut self.slots[slot] else { return };
        if std::mem::replace(&mut device.ended, true) {
            return;
        }
        device.line.hand_over();
        driver.cancel(device.line.socket());
        if let Some(gone) = device.gone.take() {
            // Who wanted to know may have stopped listening.
            let _nobody_listens = gone.send(why.to_owned());
        }
        self.changed.push(device.place.group);
        if device.load.is_idle() {
            self.slots[slot] = None;
        }
    }

    /// A request: what the kernel can ask for, as an operation.
    fn begin(&mut self, slot: usize, unique: u64, work: Work, io: &mut Io<'_>) {
        let Some(device) = &mut self.slots[slot] else { return };
        let operation = match work {
            Work::Read { extent, .. } => Operation::Read(extent),
            Work::Write { extent, durable } => {
                let payload = device.line.payload(extent.length as usize, io.pool);
                Operation::Write { extent, payload, fua: durable }
            }
            Work::Flush => Operation::Flush,
            Work::Zero { extent, punch } => Operation::Zero { extent, punch, fua: false },
        };
        device.load.begin(operation.bytes());
        if let Some(Ended { bytes, reply, .. }) =
            io.submit(Asker::Device { slot, unique, work }, device.place, operation)
        {
            self.ended(slot, (unique, &work), (bytes, reply));
        }
    }

    /// A request of a device ended.
    pub(crate) fn ended(
        &mut self,
        slot: usize,
        (unique, work): (u64, &Work),
        (bytes, reply): (u64, Reply),
    ) {
        let Some(device) = &mut self.slots[slot] else { return };
        device.load.end(bytes);
        match (reply, work) {
            (Reply::Read(data), Work::Read { skip, length, .. }) => {
                device.line.done(unique, work, &data[*skip..skip + length]);
            }
            (Reply::Done, Work::Write { .. } | Work::Flush | Work::Zero { .. }) => {
                device.line.done(unique, work, &[]);
            }
            (Reply::Failed(failure), _) => device.line.failed(unique, fault(failure)),
            (reply @ (Reply::Done | Reply::Read(_) | Reply::Map(_)), work) => {
                panic!("{work:?} of a device cannot end as {reply:?}")
            }
        }
    }
}

/// A device remembers the volume as it was in the tenure it is of: it is not served to be written in another.
fn is_of_tenure(place: Place, tenure: u64, groups: &[Group]) -> Result<(), Refusal> {
    if !place.target.writes_volume() || groups[place.group].engine.view().tenure() == tenure {
        return Ok(());
    }
    let text = "this node was secondary in between, and another node may have written the volume";
    Err(Refusal::later("attach-failed", text, "attach it again"))
}

/// What an NBD client would find under the volume's name.
pub(crate) fn open(
    group: &str,
    volume: &str,
    read_only: bool,
    groups: &[Group],
) -> Result<(Shape, Place), Refusal> {
    let is_snapshot = is_in_copy(volume);
    let open = |read_only| Catalogue::new(groups, false).open(&export_of(group, volume, read_only));
    let is_served = |name: &str| groups.iter().any(|group| group.name == name && group.is_served());
    let is_used_alone = groups.iter().any(|it| it.name == group && it.admits(false).is_err());
    let unknown = || unknown_volume(group, volume);
    let found = open(read_only).map_err(|refusal| match refusal {
        OpenRefusal::Unknown => unknown(),
        OpenRefusal::Policy(text) if is_snapshot && !read_only && open(true).is_ok() => {
            Refusal::new("attach-failed", text, "add --read-only")
        }
        OpenRefusal::Policy(text) if is_snapshot && is_served(group) => Refusal::later(
            "unknown-snapshot",
            text,
            format!("`helio snapshot list {group}` lists the snapshots"),
        ),
        OpenRefusal::Policy(text) if is_used_alone => {
            Refusal::later("in-use", text, "attach it when that client has gone")
        }
        OpenRefusal::Policy(text) => Refusal::later(
            "not-primary",
            text,
            "attach it on the primary, or add --read-only for the copy as it is",
        ),
    })?;
    // What an export is called beyond its volume is no part of a volume's name.
    if found.read_only != read_only || Place::of(found.handle).alone {
        return Err(unknown());
    }
    let shape = Shape {
        size: found.size,
        block: found.minimum_block,
        read_only: found.read_only,
        trims: found.trim,
    };
    Ok((shape, Place::of(found.handle)))
}

/// The kernel's error for a failure.
const fn fault(failure: Failure) -> Fault {
    match failure {
        Failure::Denied(Denial::OutOfBounds | Denial::Unaligned) => Fault::Invalid,
        Failure::Denied(Denial::QueueFull | Denial::Store(StoreFault::NoSpace)) => Fault::NoSpace,
        Failure::Denied(
            Denial::NotPrimary
            | Denial::Store(
                StoreFault::Io
                | StoreFault::Short
                | StoreFault::Silent
                | StoreFault::Unrecorded
                | StoreFault::Unissued
                | StoreFault::Other(_),
            ),
        )
        | Failure::ReadOnly
        | Failure::Inconsistent => Fault::Io,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shard::requests::FAILURES;

    #[test]
    fn every_failure_has_its_error_for_the_kernel() {
        let [io, invalid, no_space] = [Fault::Io, Fault::Invalid, Fault::NoSpace];
        let errors = [io, invalid, invalid, no_space, no_space, io, io, io, io, io, io, io, io];
        for (failure, error) in FAILURES.into_iter().zip(errors) {
            assert_eq!(fault(failure), error, "{}", failure.text());
        }
    }
}

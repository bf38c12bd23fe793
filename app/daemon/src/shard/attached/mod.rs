// SPDX-License-Identifier: Apache-2.0
//! Attached volumes of a shard: the kernel's requests for a volume that is a device of this machine go the same way as
//! an NBD client's.
//!
//! What one device may have under way is bounded in requests and bytes; beyond that the kernel's messages stay in the
//! kernel, and nobody else notices.

mod device;
mod line;

use crate::shard::clients::{Catalogue, Io, Place};
use crate::shard::group::{Group, User, read_buffer};
use crate::shard::token::{Kind, token};
use device::Device;
use helio_attach::{Fault, Shape, Work};
use helio_driver::{Driver, Op, Outcome, Shared};
use helio_engine::{Answer, Denial, Engine, Operation, Refusal, Request, StoreFault};
use helio_nbd::{Exports, OpenRefusal};
use helio_units::{Extent, RequestId, VolumeIndex};
pub(crate) use line::End;
use line::{Line, Taken};
use std::collections::BTreeSet;
use tokio::sync::oneshot;

/// Sets the engine's names for requests of devices apart from those of NBD clients.
const OURS: u64 = 1 << 63;
/// Messages of one device taken in a row; then others have their turn.
const BATCH: usize = 64;
/// The longest zeroes given to the engine at once, in bytes.
const LONGEST_EFFECT: u64 = 4 << 30;

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

/// A request under way, found by its name.
#[derive(Clone, Copy, Debug)]
struct Owner {
    device: usize,
    epoch: u32,
    unique: u64,
    work: Work,
    /// Zeroes still to be made when this part is.
    rest: Option<Extent>,
    bytes: u64,
}

/// All attached volumes of a shard.
#[derive(Default)]
pub(crate) struct Attached {
    slots: Vec<Option<Device>>,
    epochs: u32,
    owners: Vec<Option<Owner>>,
    free_owners: Vec<usize>,
    /// Groups asked something of since somebody wanted to know.
    told: Vec<usize>,
    /// Groups whose devices came or went since somebody wanted to know.
    changed: Vec<usize>,
    /// Devices that wait for memory.
    starving: Vec<usize>,
    /// Devices of the machine that NBD clients serve: the group, the volume's name, what operators know it as.
    held: Vec<(usize, (String, String), String)>,
}

/// Whether a request of the engine is one of a device.
pub(crate) const fn is_ours(request: RequestId) -> bool {
    request.0 & OURS != 0
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
            requests: 0,
            bytes: 0,
            waiting: false,
            ended: false,
            gone: Some(gone),
            unfinished: Vec::new(),
        });
        self.told.push(place.group);
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
                self.deny(slot);
                self.end(slot, "detached", io.driver);
                self.slots[slot] = None;
            }
        }
    }

    /// The group failed: what its devices have under way ends with an error, and they end.
    pub(crate) fn abandon(&mut self, group: usize, why: &str, driver: &mut dyn Driver) {
        self.held.retain(|(at, ..)| *at != group);
        for slot in 0..self.slots.len() {
            if self.slots[slot].as_ref().is_some_and(|device| device.place.group == group) {
                self.deny(slot);
                self.end(slot, why, driver);
                self.slots[slot] = None;
            }
        }
    }

    /// Answers what a device has under way with an error: nobody will look for the answers any more, and the kernel may
    /// wait for them before it takes the device away.
    fn deny(&mut self, slot: usize) {
        let Some(device) = &mut self.slots[slot] else { return };
        let ours = |owner: &&Owner| owner.device == slot && owner.epoch == device.epoch;
        for owner in self.owners.iter().flatten().filter(ours) {
            device.line.failed(owner.unique, Fault::Io);
        }
        for (unique, ..) in std::mem::take(&mut device.unfinished) {
            device.line.failed(unique, Fault::Io);
        }
        device.line.hand_over();
    }

    /// The devices of a group that can be written to, as operators know them.
    pub(crate) fn writers(&self, group: usize) -> Vec<&str> {
        let devices = self.slots.iter().flatten();
        let ours = devices.filter(|d| !d.ended && d.place.group == group && !d.place.read_only);
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
        let used = places.filter(|place| place.group == group && !place.aside);
        used.fold(0, |mask, place| mask | 1 << place.volume.0)
    }

    /// All devices of a group, also those that end, as operators know them.
    pub(crate) fn devices(&self, group: usize) -> Vec<&str> {
        let devices = self.slots.iter().flatten().filter(|d| d.place.group == group);
        devices.map(|device| device.name.as_str()).chain(self.held(group)).collect()
    }

    /// A refusal because of these devices of a group, with how all of the group are detached, those of NBD clients included.
    pub(crate) fn refusal(&self, group: usize, groups: &[Group], devices: &[&str]) -> Refusal {
        let slots = self.slots.iter().flatten().filter(|device| device.place.group == group);
        let ours = slots.map(|device| groups[group].config.name_of(device.place.volume));
        let held = self.held.iter().filter(|(at, ..)| *at == group);
        let volumes: BTreeSet<String> =
            ours.chain(held.map(|(_, (_, volume), _)| volume.clone())).collect();
        let name = &groups[group].name;
        let commands = volumes.iter().map(|volume| format!("`helio detach {name}/{volume}`"));
        let text = format!("{name} is attached as {}", devices.join(", "));
        let hint = format!("unmount it, then {}", commands.collect::<Vec<_>>().join(", "));
        Refusal::new(ATTACHED, text, hint)
    }

    /// Groups that devices asked something of since the last call; some more than once.
    pub(crate) fn groups_told(&mut self) -> std::vec::Drain<'_, usize> {
        self.told.drain(..)
    }

    /// Groups whose devices came or went since the last call.
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
            if place.is_some_and(|p| p.group == group && p.read_only && p.aside == primary) {
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
        self.go_on(slot, io);
        for _ in 0..BATCH {
            let Some(device) = &mut self.slots[slot] else { return };
            if device.ended || device.waiting || device.is_full() {
                break;
            }
            match device.line.take(io.pool) {
                Taken::Work { unique, work: Work::Zero { extent, punch } } => {
                    self.zero(slot, unique, extent, punch, io);
                }
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
            if device.requests == 0 {
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
        self.told.push(device.place.group);
        self.changed.push(device.place.group);
        if device.requests == 0 {
            self.slots[slot] = None;
        }
    }

    fn own(&mut self, slot: usize, unique: u64, work: Work, bytes: u64) -> usize {
        let epoch = self.slots[slot].as_mut().map_or(0, |device| {
            device.requests += 1;
            device.bytes += bytes;
            device.epoch
        });
        let owner = Owner { device: slot, epoch, unique, work, rest: None, bytes };
        let at = self.free_owners.pop().unwrap_or_else(|| {
            self.owners.push(None);
            self.owners.len() - 1
        });
        self.owners[at] = Some(owner);
        at
    }

    fn begin(&mut self, slot: usize, unique: u64, work: Work, io: &mut Io<'_>) {
        let Some(device) = &mut self.slots[slot] else { return };
        let Place { group, volume, aside, .. } = device.place;
        let operation = match work {
            Work::Read { extent, .. } if aside => {
                let member = &io.groups[group].volumes[usize::from(volume.0)].member;
                match member.read(extent, read_buffer(io.pool, extent.length as usize)) {
                    Ok(op) => {
                        let at = self.own(slot, unique, work, extent.length);
                        io.driver.submit(token(Kind::AttachAside, at, 0), op);
                    }
                    Err(_) => device.line.failed(unique, Fault::Invalid),
                }
                return;
            }
            Work::Read { extent, .. } => Operation::Read(extent),
            Work::Write { extent, durable } => {
                let buffer = device.line.payload(extent.length as usize, io.pool);
                let payload = io.groups[group].payloads.insert(buffer);
                Operation::Write { extent, payload, fua: durable }
            }
            Work::Flush | Work::Zero { .. } => Operation::Flush,
        };
        let bytes = match work {
            Work::Read { extent, .. } | Work::Write { extent, .. } => extent.length,
            Work::Flush | Work::Zero { .. } => 0,
        };
        let at = self.own(slot, unique, work, bytes);
        self.tell(at, (group, volume), operation, io);
    }

    /// Begins with as much as the engine takes at once.
    fn zero(&mut self, slot: usize, unique: u64, whole: Extent, punch: bool, io: &mut Io<'_>) {
        let Some(Place { group, volume, .. }) = self.slots[slot].as_ref().map(|d| d.place) else {
            return;
        };
        let extent = Extent::new(whole.offset, whole.length.min(LONGEST_EFFECT));
        let at = self.own(slot, unique, Work::Zero { extent, punch }, 0);
        if let Some(owner) = &mut self.owners[at] {
            let left = whole.length - extent.length;
            owner.rest = (left > 0).then(|| Extent::new(extent.end(), left));
        }
        self.tell(at, (group, volume), Operation::Zero { extent, punch, fua: false }, io);
    }

    fn tell(
        &mut self,
        at: usize,
        (group, volume): (usize, VolumeIndex),
        operation: Operation,
        io: &mut Io<'_>,
    ) {
        self.told.push(group);
        let id = RequestId(OURS | at as u64);
        io.groups[group].request(io.now, Request { id, volume, operation });
    }

    /// Long zeroes of which a part was made.
    fn go_on(&mut self, slot: usize, io: &mut Io<'_>) {
        let Some(device) = &mut self.slots[slot] else { return };
        for (unique, rest, punch) in std::mem::take(&mut device.unfinished) {
            self.zero(slot, unique, rest, punch, io);
        }
    }

    /// The engine answers a request. Returns the device's slot if it is still there.
    pub(crate) fn answer(
        &mut self,
        request: RequestId,
        answer: Answer,
        data: Option<Shared>,
    ) -> Option<usize> {
        let owner = self.disown((request.0 & !OURS) as usize)?;
        let Owner { device: slot, epoch, unique, work, rest, .. } = owner;
        let device = self.device(slot, epoch)?;
        match (answer, data, work, rest) {
            (Answer::Denied(denial), ..) => device.line.failed(unique, fault(denial)),
            (_, Some(data), Work::Read { skip, length, .. }, _) => {
                device.line.done(unique, &work, &data[skip..skip + length]);
            }
            (_, _, Work::Zero { punch, .. }, Some(rest)) => {
                device.unfinished.push((unique, rest, punch));
            }
            _ => device.line.done(unique, &work, &[]),
        }
        Some(slot)
    }

    /// A read of a secondary's copy ended.
    pub(crate) fn aside_done(&mut self, at: usize, outcome: Outcome, io: &mut Io<'_>) {
        let Some(Owner { device: slot, epoch, unique, work, .. }) = self.disown(at) else { return };
        let Some(device) = self.device(slot, epoch) else { return };
        let group = &io.groups[device.place.group];
        match (outcome, work) {
            (Outcome::Read { buffer, result: Ok(()) }, Work::Read { skip, length, .. })
                if group.engine.view().words().consistent =>
            {
                device.line.done(unique, &work, &buffer[skip..skip + length]);
            }
            (outcome, _) => {
                if let Some(error) = outcome.error() {
                    tracing::error!(group = %group.name, %error, "store failed");
                }
                device.line.failed(unique, Fault::Io);
            }
        }
        self.wake(slot, io);
    }

    /// A request is under way no more.
    fn disown(&mut self, at: usize) -> Option<Owner> {
        let owner = self.owners.get_mut(at)?.take()?;
        self.free_owners.push(at);
        if let Some(device) = self.device(owner.device, owner.epoch) {
            device.requests -= 1;
            device.bytes -= owner.bytes;
        }
        Some(owner)
    }
}

/// A device remembers the volume as it was in the tenure it is of: it is not served to be written in another.
fn is_of_tenure(place: Place, tenure: u64, groups: &[Group]) -> Result<(), Refusal> {
    if place.read_only || groups[place.group].engine.view().tenure() == tenure {
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
    let suffix = if read_only { ":ro" } else { "" };
    let name = format!("{group}/{volume}{suffix}");
    let found = Catalogue(groups).open(&name).map_err(|refusal| match refusal {
        OpenRefusal::Unknown => Refusal::new(
            "unknown-volume",
            format!("this node has no volume {group}/{volume}"),
            "`helio status` lists the volumes",
        ),
        OpenRefusal::Policy(text) => Refusal::later(
            "not-primary",
            text,
            "attach it on the primary, or add --read-only for the copy as it is",
        ),
    })?;
    let shape = Shape {
        size: found.size,
        block: found.minimum_block,
        read_only: found.read_only,
        trims: found.trim,
    };
    Ok((shape, Place::of(found.handle)))
}

const fn fault(denial: Denial) -> Fault {
    match denial {
        Denial::OutOfBounds | Denial::Unaligned => Fault::Invalid,
        Denial::QueueFull | Denial::Store(StoreFault::NoSpace) => Fault::NoSpace,
        Denial::NotPrimary | Denial::Store(_) => Fault::Io,
    }
}

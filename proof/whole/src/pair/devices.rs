// SPDX-License-Identifier: Apache-2.0
//! Attached volumes: the programs that use them, what the operator does with them, and what goes wrong with them.

use super::act::{Luck, Order};
use super::run::{Run, Wish};
use super::watch::Effect;
use crate::client::{DeviceTurn, Habits, Program, Stepped};
use crate::model::{Action, Answer, Promise, Request, Ticket, Violation};
use helio_api::{AttachState, Attachments};
use helio_netmodel::Dice;
use helio_units::{Moment, Role};
use helio_world::{Manner, OpenDevice, Upset, World};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// A program opens devices so often.
const OPENS_MAX: u32 = 24;
/// A daemon that stops gets a second signal so long after the first one at the latest.
const INSISTS_AFTER: u64 = 20_000;

/// A program, and the device that it has open.
struct Opened {
    program: Program,
    device: OpenDevice,
    node: usize,
    /// Whether the node was the one that clients use, so that the model judges.
    judged: bool,
    /// It closes the device then.
    leaves: Moment,
}

/// One program of a volume after the other.
struct Slot {
    group: usize,
    volume: usize,
    opened: Option<Opened>,
    next: Moment,
    dice: Dice,
    opens: u32,
}

/// Something that is to be attached is not, or something is that is not to be.
const fn left(detail: String) -> Violation {
    Violation::new(Promise::Attached, detail)
}

/// What the operator does at a later moment.
#[derive(Clone, Copy, Debug)]
enum Later {
    Insist(usize),
    Upset(usize),
    Detach { node: usize, group: usize, volume: usize },
}

/// A request to detach, which makes everything durable if it flushes the device.
struct Flushed {
    group: usize,
    volume: usize,
    flush: Ticket,
    /// How many flushes of its device had succeeded before.
    before: u64,
}

/// See the module.
pub(super) struct Devices {
    slots: Vec<Slot>,
    later: Vec<(Moment, Later)>,
    /// Requests to detach, by their number.
    detaches: BTreeMap<u64, Flushed>,
    dice: Dice,
    /// What the nodes say is attached.
    pub(super) lists: [Option<Attachments>; 2],
}

impl Devices {
    pub(super) fn new(world: &World) -> Self {
        let (slots, later, detaches, lists) = <_>::default();
        Self { slots, later, detaches, dice: world.dice("devices"), lists }
    }

    /// When something happens by itself.
    pub(super) fn due(&self) -> Moment {
        let slots = self.slots.iter().map(|slot| match &slot.opened {
            Some(opened) => slot.next.min(opened.leaves),
            None if slot.opens < OPENS_MAX => slot.next,
            None => Moment::NEVER,
        });
        slots.chain(self.later.iter().map(|(at, _)| *at)).min().unwrap_or(Moment::NEVER)
    }

    /// Programs ask for nothing more, and open nothing.
    pub(super) fn retire(&mut self) {
        self.later.retain(|(_, later)| !matches!(later, Later::Upset(_)));
        for slot in &mut self.slots {
            (slot.opens, slot.next) = (OPENS_MAX, Moment::NEVER);
            if let Some(opened) = &mut slot.opened {
                opened.program.retire();
                slot.next = Moment::ZERO;
            }
        }
    }

    /// Whether a program waits for a device of a group.
    pub(super) fn wait(&self, group: usize) -> bool {
        self.slots.iter().any(|slot| slot.group == group && slot.opened.is_some())
    }

    fn leave_soon(&mut self, within: u64, now: Moment, which: impl Fn(&Slot, usize) -> bool) {
        for slot in &mut self.slots {
            let found = slot.opened.as_ref().is_some_and(|opened| which(slot, opened.node));
            if let Some(opened) = slot.opened.as_mut().filter(|_| found) {
                opened.leaves = now + Duration::from_millis(self.dice.below(within));
            }
        }
    }
}

impl Run {
    /// Programs of every volume, so many at most; and some volumes are attached from the begin.
    pub(super) fn begin_devices(&mut self, most: usize) {
        for group in 0..self.groups.len() {
            for volume in 0..self.groups[group].shape.volumes.len() {
                for number in 0..2 {
                    let dice = self.world.dice(&format!("program {group} {volume} {number}"));
                    let (opened, next, opens) = (None, Moment::ZERO, 0);
                    self.devices.slots.push(Slot { group, volume, opened, next, dice, opens });
                }
                if self.devices.dice.chance(1, 3) {
                    let body = self.attachment(group, volume, false, "auto");
                    self.post(0, group, "attach", &body, Wish::Other);
                    self.upset_later();
                }
            }
        }
        self.devices.slots.truncate(most);
    }

    /// The operator ends the programs that use devices of a group, whatever they wait for.
    pub(super) fn end_programs(&mut self, group: usize) {
        let model = &mut self.groups[group].model;
        for slot in self.devices.slots.iter_mut().filter(|slot| slot.group == group) {
            if let Some(Opened { mut program, mut device, judged, .. }) = slot.opened.take() {
                program.give_up(&mut device, judged.then_some(&mut *model));
            }
        }
    }

    /// Draws what will go wrong with the devices of a story that has some from its begin.
    fn upset_later(&mut self) {
        let (now, dice) = (self.world.now(), &mut self.devices.dice);
        for _ in 0..dice.below(4) {
            let at = now + Duration::from_millis(dice.below(30_000));
            self.devices.later.push((at, Later::Upset(usize::from(dice.chance(1, 4)))));
        }
    }

    fn attachment(&self, group: usize, volume: usize, read_only: bool, via: &str) -> Value {
        let name = self.groups[group].shape.volumes[volume].name;
        json!({ "volume": name, "read_only": read_only, "via": via })
    }

    /// Attaches a volume somewhere.
    pub(super) fn attach(&mut self, drawn: usize, group: usize, dice: &mut Dice) {
        let volume = dice.below(self.groups[group].shape.volumes.len() as u64) as usize;
        let serves = self.groups[group].serves.filter(|_| dice.chance(3, 4));
        let node = serves.unwrap_or(drawn);
        let read_only = dice.chance(if self.groups[group].serves == Some(node) { 1 } else { 3 }, 4);
        let via = ["auto", "auto", "auto", "auto", "fuse", "fuse", "ublk", "nbd"];
        let body = self.attachment(group, volume, read_only, via[dice.below(8) as usize]);
        self.post(node, group, "attach", &body, Wish::Other);
    }

    /// Detaches a volume: now and with force, or after its users were asked to leave, or without asking them.
    pub(super) fn detach(&mut self, node: usize, group: usize, force: bool, dice: &mut Dice) {
        let volume = dice.below(self.groups[group].shape.volumes.len() as u64) as usize;
        if force || dice.chance(1, 3) {
            return self.detach_now(node, group, volume, force);
        }
        let now = self.world.now();
        let ours = |slot: &Slot, at| at == node && slot.group == group && slot.volume == volume;
        self.devices.leave_soon(1000, now, ours);
        let at = now + Duration::from_millis(1000 + dice.below(3000));
        self.devices.later.push((at, Later::Detach { node, group, volume }));
    }

    fn detach_now(&mut self, node: usize, group: usize, volume: usize, force: bool) {
        if self.nodes[node].daemon.is_none() {
            return;
        }
        let name = self.groups[group].shape.volumes[volume].name;
        let body = json!({ "volume": name, "force": force });
        let before = self.device_flushes(node, group, volume);
        self.post(node, group, "detach", &body, Wish::Detach);
        let judged = &mut self.groups[group];
        // By force nothing is flushed; the flush of a detach that it ends was asked for before.
        if judged.serves == Some(node) && !force {
            let (connection, model) = (judged.model.connected(), &mut judged.model);
            let request = Request { connection, volume: volume as u16, action: Action::Flush };
            let flush = model.begin(request);
            let flushed = Flushed { group, volume, flush, before };
            self.devices.detaches.insert(self.requests, flushed);
        }
    }

    fn device_flushes(&self, node: usize, group: usize, volume: usize) -> u64 {
        let shape = &self.groups[group].shape;
        let machine = &self.nodes[node].machine;
        self.world.settled_devices(machine, shape.name, shape.volumes[volume].name)
    }

    /// A response to a request to detach. If the device was flushed, that was a flush of its volume.
    pub(super) fn detached(
        &mut self,
        node: usize,
        number: u64,
        status: u16,
    ) -> Result<(), Violation> {
        let Some(Flushed { group, volume, flush, before }) = self.devices.detaches.remove(&number)
        else {
            return Ok(());
        };
        let flushes = self.device_flushes(node, group, volume);
        let group = &mut self.groups[group];
        if status != 200 || flushes == before || group.serves != Some(node) {
            return Ok(());
        }
        group.model.acknowledged(flush, Answer::Done)
    }

    /// Detaches the volume that advice names.
    pub(super) fn detach_named(&mut self, node: usize, group: usize, (name, force): (&str, bool)) {
        let volumes = &self.groups[group].shape.volumes;
        let named = volumes.iter().position(|volume| volume.name == name);
        if let Some(volume) = named {
            self.detach_now(node, group, volume, force);
        }
    }

    /// Asks what is attached.
    pub(super) fn list_attachments(&mut self, node: usize) {
        self.ask("/v2/attachments", node, Wish::Attachments);
    }

    /// A daemon stops: the programs that use its devices leave, or it gets a second signal before they do.
    pub(super) fn users_of_stopped(&mut self, node: usize) {
        let now = self.world.now();
        let patient = self.devices.dice.chance(3, 4);
        if patient {
            self.devices.leave_soon(5000, now, |_, at| at == node);
        }
        let most = if patient { INSISTS_AFTER } else { 5000 };
        let insists = Duration::from_millis(self.devices.dice.below(most) + most / 2);
        self.devices.later.push((now + insists, Later::Insist(node)));
    }

    /// Something goes wrong with the devices of a node. Whether it has any.
    pub(super) fn upset_devices(&mut self, node: usize, dice: &mut Dice) -> bool {
        let what = Upset::draw(dice);
        self.world.tell(format_args!("{}: {what:?}", self.nodes[node].name));
        self.nodes[node].machine.upset(what, dice)
    }

    /// Everything of devices goes on.
    pub(super) fn step_devices(&mut self, now: Moment) -> Result<(), Violation> {
        while let Some(at) = self.devices.later.iter().position(|(at, _)| *at <= now) {
            match self.devices.later.remove(at).1 {
                Later::Insist(node) => {
                    if let Some(daemon) = &self.nodes[node].daemon {
                        daemon.insist();
                    }
                }
                Later::Upset(node) => {
                    let mut dice = self.devices.dice.split_nth("upset", now.0);
                    if self.upset_devices(node, &mut dice) {
                        self.struck(Luck::Devices, Effect::Once);
                    }
                }
                Later::Detach { node, group, volume } => {
                    self.in_order(Order::Detach, |run| run.detach_now(node, group, volume, false));
                }
            }
        }
        for n in 0..self.devices.slots.len() {
            self.open_device(n, now);
            self.step_program(n, now)?;
        }
        match self.world.device_violation() {
            Some(why) => Err(Violation::new(Promise::Protocol, why)),
            None => Ok(()),
        }
    }

    /// Opens a device if there is one.
    fn open_device(&mut self, n: usize, now: Moment) {
        let Self { world, nodes, groups, devices, .. } = self;
        let slot = &mut devices.slots[n];
        if slot.opened.is_some() || slot.opens >= OPENS_MAX || now < slot.next {
            return;
        }
        slot.next = now + Duration::from_millis(200 + slot.dice.below(2000));
        let group = &mut groups[slot.group];
        let serves = group.serves;
        let node = serves.filter(|_| slot.dice.chance(7, 8));
        let node = node.unwrap_or_else(|| slot.dice.below(2) as usize);
        let (name, volume) = (group.shape.name, group.shape.volumes[slot.volume].name);
        let machine = &nodes[node].machine;
        let paths = world.device_paths(machine, name, volume);
        let (Some(first), Some(last)) = (paths.first(), paths.last()) else { return };
        let path = if slot.dice.chance(1, 5) { last } else { first };
        let (judged, read_only) = (serves == Some(node), world.is_read_only(machine, path));
        // A node that clients do not use may be a primary that does not know of the other one. And the operator keeps programs away while
        // a copy is given back, or replaced by the other node's.
        if !judged && read_only == Some(false) || judged && group.closed.is_some() {
            return;
        }
        let mounted = slot.dice.chance(1, 3) && path.starts_with("/dev");
        let manner = Manner {
            writes: read_only == Some(false),
            mounted: mounted.then(|| PathBuf::from(format!("/srv/{volume}"))),
            hidden: slot.dice.chance(1, 8),
        };
        let Ok(device) = world.open_device(machine, path, manner) else { return };
        slot.opens += 1;
        let dice = &mut slot.dice;
        let export = format!("{name}/{volume}");
        let habits = Habits::draw(&export, slot.volume as u16, &mut |below| dice.below(below));
        let program = Program::new(habits, judged.then_some(&mut group.model));
        slot.next = now;
        slot.opened = Some(Opened { program, device, node, judged, leaves: Moment::NEVER });
    }

    fn step_program(&mut self, n: usize, now: Moment) -> Result<(), Violation> {
        let Self { world, nodes, groups, devices, .. } = self;
        let Slot { group, opened: found, dice, next, .. } = &mut devices.slots[n];
        let Some(opened) = found else { return Ok(()) };
        if now >= opened.leaves {
            opened.program.retire();
            opened.leaves = Moment::NEVER;
        }
        let model = opened.judged.then_some(&mut groups[*group].model);
        let device = &mut opened.device;
        let mut turn = DeviceTurn { device, now, dice: &mut |below| dice.below(below), model };
        match opened.program.step(&mut turn)? {
            // It is stepped whenever something happens, too.
            Stepped::Waits(at) => *next = at.max(now + Duration::from_micros(100)),
            Stepped::Ended(ending) => {
                world.tell(format_args!("program {n} at {}: {ending:?}", nodes[opened.node].name));
                *found = None;
                *next = now + Duration::from_millis(1 + dice.below(3000));
            }
        }
        Ok(())
    }

    /// Once everything is in sync and no program is left: what is to be attached is attached, and nothing else is left of devices.
    pub(super) fn judge_devices(&self) -> Result<(), Violation> {
        for node in 0..2 {
            let name = self.nodes[node].name;
            let Some(list) = &self.devices.lists[node] else {
                return Err(left(format!("{name} does not list its attached volumes")));
            };
            for one in &list.attachments {
                let group = self.groups.iter().position(|it| it.shape.name == one.group);
                let status = group.and_then(|group| self.group_status(node, group));
                let primary = status.is_some_and(|it| it.role == Role::Primary);
                if (primary || one.read_only) && one.state != AttachState::Attached {
                    let why = one.reason.clone().unwrap_or_default();
                    return Err(left(format!(
                        "{name}: {}/{} is not attached: {why}",
                        one.group, one.volume
                    )));
                }
                let machine = &self.nodes[node].machine;
                let paths = self.world.device_paths(machine, &one.group, &one.volume);
                if one.state == AttachState::Attached && paths.is_empty() {
                    return Err(left(format!(
                        "{name}: {}/{} has no device",
                        one.group, one.volume
                    )));
                }
            }
            let attached = list.attachments.iter().filter(|it| it.state == AttachState::Attached);
            let files =
                attached.filter_map(|it| it.file.clone()).map(PathBuf::from).collect::<Vec<_>>();
            if let Some(other) = self.nodes[node].machine.left_over(&files) {
                return Err(left(format!("{name}: {} is left, and not attached", other.display())));
            }
        }
        let waits = self.world.unanswered();
        if waits.is_empty() {
            Ok(())
        } else {
            Err(Violation::new(
                Promise::AnsweredOnce,
                format!("without a response: {}", waits.join(", ")),
            ))
        }
    }
}

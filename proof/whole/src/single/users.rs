// SPDX-License-Identifier: Apache-2.0
//! Those who use the volume `data`: NBD clients, and programs on its device. Each is in a slot of its own.

use super::{GROUP, Single, nbd_socket};
use crate::client::{Client, DeviceTurn, Ending, Habits, Program, Stepped, Turn};
use crate::model::{Promise, Violation};
use helio_netmodel::Dice;
use helio_units::Moment;
use helio_world::{Manner, OpenDevice, SimStream, Stream};
use std::collections::VecDeque;
use std::time::Duration;

/// What a user decides by: bytes of the caller first, then dice.
#[derive(Debug)]
struct Chance {
    bytes: VecDeque<u8>,
    dice: Dice,
}

impl Chance {
    fn below(&mut self, below: u64) -> u64 {
        let mut taken = || self.bytes.pop_front().map(u64::from);
        let drawn = if below <= 256 {
            taken()
        } else {
            taken().map(|low| low | taken().unwrap_or_default() << 8)
        };
        drawn.map_or_else(|| self.dice.below(below), |drawn| drawn % below)
    }
}

/// A client, and its connection.
#[derive(Debug)]
pub(super) struct User {
    client: Client,
    stream: Option<SimStream>,
    next: Moment,
    chance: Chance,
    pub(super) ending: Option<Ending>,
}

/// A program, and the device that it has open.
#[derive(Debug)]
pub(super) struct Opened {
    program: Program,
    device: OpenDevice,
    next: Moment,
    chance: Chance,
}

/// Whether a violation is about contents.
const fn is_about_contents(promise: Promise) -> bool {
    matches!(
        promise,
        Promise::ReadsBack | Promise::DurableHere | Promise::AtPeer | Promise::KnownBytes
    )
}

impl Single {
    fn chance(&self, slot: usize) -> Chance {
        let dice = self.world.dice(&format!("user {slot}"));
        Chance { bytes: VecDeque::new(), dice }
    }

    /// A client in that slot connects, unless one is connected there: the one that has lost its connection if it has these habits,
    /// else a new one.
    pub fn connect(&mut self, slot: usize, habits: Habits) {
        if self.users.get(&slot).is_some_and(|user| user.stream.is_some()) {
            return;
        }
        let stream = Some(self.world.connect(&self.node.machine, &nbd_socket()));
        match self.users.get_mut(&slot).filter(|user| user.client.has(&habits)) {
            Some(user) => {
                user.client.connected(&mut self.model);
                (user.stream, user.next, user.ending) = (stream, Moment::ZERO, None);
            }
            None => {
                let chance = self.chance(slot);
                let client = Client::new(habits, &mut self.model);
                let user = User { client, stream, next: Moment::ZERO, chance, ending: None };
                self.users.insert(slot, user);
            }
        }
    }

    /// A client makes so many requests. The bytes decide which.
    pub fn request(&mut self, slot: usize, count: u32, choices: &[u8]) {
        if let Some(user) = self.users.get_mut(&slot) {
            user.client.request(count);
            user.chance.bytes = choices.iter().copied().collect();
            user.next = Moment::ZERO;
        }
    }

    /// A client leaves once everything is answered.
    pub fn leave(&mut self, slot: usize) {
        if let Some(user) = self.users.get_mut(&slot) {
            user.client.retire();
            user.next = Moment::ZERO;
        }
    }

    /// A client is gone without a word, and does not return.
    pub fn give_up(&mut self, slot: usize) {
        if let Some(User { mut client, stream: Some(mut stream), .. }) = self.users.remove(&slot) {
            client.give_up(&mut stream, &mut self.model);
        }
    }

    /// The connection of a client is reset.
    pub fn reset(&mut self, slot: usize) {
        if let Some(User { stream: Some(stream), .. }) = self.users.get_mut(&slot) {
            stream.reset();
        }
    }

    /// A program in that slot opens the device of `data`: its loop device, or the file below it.
    pub fn open_device(&mut self, slot: usize, by_file: bool, mut manner: Manner) {
        let paths = self.world.device_paths(&self.node.machine, GROUP, "data");
        let path = if by_file { paths.last() } else { paths.first() };
        let Some(path) = path.filter(|_| !self.programs.contains_key(&slot)) else { return };
        manner.mounted = manner.mounted.filter(|_| path.starts_with("/dev"));
        let Ok(device) = self.world.open_device(&self.node.machine, path, manner) else { return };
        let habits = Habits { requests: 0, ..Habits::plain("db/data", 0) };
        let habits = Habits { leaving: crate::client::Leaving::Retired, ..habits };
        let program = Program::new(habits, Some(&mut self.model));
        let opened = Opened { program, device, next: Moment::ZERO, chance: self.chance(slot) };
        self.programs.insert(slot, opened);
    }

    /// A program makes so many requests. The bytes decide which.
    pub fn request_device(&mut self, slot: usize, count: u32, choices: &[u8]) {
        if let Some(opened) = self.programs.get_mut(&slot) {
            opened.program.request(count);
            opened.chance.bytes = choices.iter().copied().collect();
            opened.next = Moment::ZERO;
        }
    }

    /// A signal interrupts a program.
    pub fn interrupt(&mut self, slot: usize) {
        if let Some(opened) = self.programs.get_mut(&slot) {
            opened.device.interrupt();
        }
    }

    /// A program closes its device once everything has ended.
    pub fn close_device(&mut self, slot: usize) {
        if let Some(opened) = self.programs.get_mut(&slot) {
            opened.program.retire();
            opened.next = Moment::ZERO;
        }
    }

    /// A program is killed.
    pub fn kill_program(&mut self, slot: usize) {
        if let Some(Opened { mut program, mut device, .. }) = self.programs.remove(&slot) {
            program.give_up(&mut device, Some(&mut self.model));
        }
    }

    /// All leave, and clients that have lost their connection do not return.
    pub(super) fn retire(&mut self) {
        self.users.retain(|_, user| user.stream.is_some());
        let (users, programs): (Vec<_>, Vec<_>) =
            (self.users.keys().copied().collect(), self.programs.keys().copied().collect());
        users.into_iter().for_each(|slot| self.leave(slot));
        programs.into_iter().for_each(|slot| self.close_device(slot));
    }

    /// Whether one is still there.
    pub(super) fn are_there(&self) -> bool {
        !self.programs.is_empty() || self.users.values().any(|user| user.stream.is_some())
    }

    /// How the last connection of a client ended; none while it is connected.
    #[must_use]
    pub fn ending(&self, slot: usize) -> Option<Ending> {
        self.users.get(&slot)?.ending
    }

    /// When one does something by itself.
    pub(super) fn users_due(&self) -> Moment {
        let users = self.users.values().filter(|user| user.stream.is_some());
        let users = users.map(|user| user.next);
        users.chain(self.programs.values().map(|it| it.next)).min().unwrap_or(Moment::NEVER)
    }

    pub(super) fn step_users(&mut self, now: Moment) -> Result<(), Violation> {
        let judged = self.is_judged();
        for user in self.users.values_mut() {
            let Some(stream) = &mut user.stream else { continue };
            let chance = &mut user.chance;
            let dice = &mut |below: u64| chance.below(below);
            let mut turn = Turn { stream, now, dice, model: &mut self.model };
            match user.client.step(&mut turn) {
                // It is stepped whenever something happens, too.
                Ok(Stepped::Waits(next)) => user.next = next.max(now + Duration::from_micros(100)),
                Ok(Stepped::Ended(ending)) => (user.stream, user.ending) = (None, Some(ending)),
                Err(why) if !judged && is_about_contents(why.promise) => {
                    user.client.give_up(stream, &mut self.model);
                    user.stream = None;
                }
                Err(why) => return Err(why),
            }
        }
        Ok(())
    }

    pub(super) fn step_programs(&mut self, now: Moment) -> Result<(), Violation> {
        let (judged, mut gone) = (self.is_judged(), Vec::new());
        for (slot, opened) in &mut self.programs {
            let chance = &mut opened.chance;
            let dice = &mut |below: u64| chance.below(below);
            let (device, model) = (&mut opened.device, Some(&mut self.model));
            let mut turn = DeviceTurn { device, now, dice, model };
            match opened.program.step(&mut turn) {
                Ok(Stepped::Waits(at)) => opened.next = at.max(now + Duration::from_micros(100)),
                Ok(Stepped::Ended(_)) => gone.push(*slot),
                Err(why) if !judged && is_about_contents(why.promise) => gone.push(*slot),
                Err(why) => return Err(why),
            }
        }
        gone.iter().for_each(|slot| drop(self.programs.remove(slot)));
        Ok(())
    }
}

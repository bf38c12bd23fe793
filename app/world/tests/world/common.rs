// SPDX-License-Identifier: Apache-2.0
//! What the stories share.

use helio_driver::{
    Address, Buffer, Completion, Driver, File, Host, Mode, OFlags, Op, Outcome, Piece, Token,
};
use helio_units::{Extent, Moment};
use helio_world::{MachineOptions, Process, SimDriver, SimMachine, World};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

pub(crate) const MEMBER: &str = "/db.img";

pub(crate) fn machine(world: &World, number: u8) -> SimMachine {
    world.machine(MachineOptions {
        name: format!("node {number}"),
        address: [10, 0, 0, number].into(),
        disk: 64 << 20,
        calendar: Duration::from_secs(1_700_000_000),
    })
}

/// A world of two machines.
pub(crate) fn two(seed: u64) -> (World, SimMachine, SimMachine) {
    let world = World::new(seed, true);
    let (paris, tokyo) = (machine(&world, 1), machine(&world, 2));
    (world, paris, tokyo)
}

pub(crate) fn inet(number: u8, port: u16) -> Address {
    Address::Inet(([10, 0, 0, number], port).into())
}

/// A process with a driver, and the operations that have ended.
pub(crate) struct Desk {
    pub(crate) world: World,
    pub(crate) process: Process,
    pub(crate) driver: SimDriver,
    ended: BTreeMap<u64, Outcome>,
}

impl Desk {
    pub(crate) fn on(world: &World, machine: &SimMachine) -> Self {
        let process = machine.process();
        let driver = process.driver();
        Self { world: world.clone(), process, driver, ended: BTreeMap::new() }
    }

    pub(crate) fn host(&self) -> Host {
        self.process.host()
    }

    pub(crate) fn submit(&mut self, token: u64, op: Op) {
        self.driver.submit(Token(token), op);
    }

    /// Takes what has ended by now.
    pub(crate) fn look(&mut self) {
        while self.driver.is_ready() {
            let mut out = Vec::new();
            self.driver.wait(None, &mut out).expect("waiting works");
            for Completion { token, outcome } in out {
                assert!(self.ended.insert(token.0, outcome).is_none(), "{token:?} ended twice");
            }
        }
    }

    /// How it has ended by now.
    pub(crate) fn ended(&mut self, token: u64) -> Option<Outcome> {
        self.look();
        self.ended.remove(&token)
    }

    /// Lets the world go on until an operation has ended.
    pub(crate) fn outcome(&mut self, token: u64) -> Outcome {
        loop {
            if let Some(outcome) = self.ended(token) {
                return outcome;
            }
            assert!(self.world.advance(), "nothing happens any more, {token} has not ended");
        }
    }

    pub(crate) fn run(&mut self, op: Op) -> Outcome {
        self.submit(u64::MAX, op);
        self.outcome(u64::MAX)
    }

    pub(crate) fn write(&mut self, file: &File, at: u64, bytes: &[u8]) {
        let outcome = self.run(write(file, at, bytes));
        assert_eq!(outcome.error(), None);
    }
}

/// Lets the world go on for so long.
pub(crate) fn pass(world: &World, span: Duration) {
    let until = world.now() + span;
    world.alarm(until);
    while world.now() < until {
        world.advance();
    }
}

/// Lets the world go on until nothing is to happen.
pub(crate) fn settle(world: &World) -> Moment {
    while world.advance() {}
    world.now()
}

pub(crate) fn create(host: &Host, path: &str) -> File {
    let flags = OFlags::RDWR | OFlags::CREATE;
    host.open(Path::new(path), flags, Mode::RUSR | Mode::WUSR).expect("it is created")
}

/// A file of that length whose name and content are durable.
pub(crate) fn durable(host: &Host, path: &str, bytes: &[u8]) -> File {
    let file = create(host, path);
    file.write_all_at(bytes, 0).expect("there is room");
    file.sync_all().expect("it is flushed");
    host.sync_folder(Path::new("/")).expect("its name is flushed");
    file
}

pub(crate) fn write(file: &File, at: u64, bytes: &[u8]) -> Op {
    let mut buffer = Buffer::zeroed(bytes.len());
    buffer.copy_from_slice(bytes);
    let pieces = vec![Piece::Shared(buffer.into_shared(), 0..bytes.len())];
    Op::Write {
        file: file.clone(),
        extent: Extent::new(at, bytes.len() as u64),
        pieces,
        sync: false,
    }
}

pub(crate) fn read(file: &File, at: u64, length: u64) -> Op {
    let buffer = Buffer::zeroed(length as usize);
    Op::Read { file: file.clone(), extent: Extent::new(at, length), buffer }
}

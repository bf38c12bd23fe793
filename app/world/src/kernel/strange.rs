// SPDX-License-Identifier: Apache-2.0
//! Requests that a sound kernel does not make, and such that the daemon does not serve; and what it promises to respond.

use super::connection::FuseId;
use super::wire::{self, Body, Expects, HEADER, Version, opcode};
use crate::machine::SimMachine;
use crate::world::{Inner, World};
use helio_netmodel::Dice;
use helio_units::Extent;

/// Operations of FUSE that a file of fixed size does not need, and one that does not exist.
const NOT_SERVED: [u32; 12] = [opcode::LOOKUP, 5, 8, 12, 21, 22, 23, 31, 39, 40, 46, 9999];

/// What is sent: the operation, its body, and what the response is to be.
struct Strange {
    opcode: u32,
    body: Vec<u8>,
    expects: Expects,
}

const fn strange(opcode: u32, body: Vec<u8>, expects: Expects) -> Strange {
    Strange { opcode, body, expects }
}

impl Inner {
    /// Sends one to the daemon.
    pub(super) fn send_strange(&mut self, id: FuseId, dice: &mut Dice) {
        let known = self.kernels.connections.get(&id).and_then(|it| it.attributes);
        let Some(known) = known else { return };
        if dice.chance(1, 16) {
            // A message without a whole header names no request.
            let length = dice.below(HEADER as u64) as usize;
            self.send_raw(id, None, (Expects::Nothing, 0), |_| vec![0xee; length]);
            return;
        }
        if dice.chance(1, 16) {
            // An interrupt of a request that does not exist.
            self.interrupt(id, 2 << 40 | dice.below(1 << 20) << 1);
            return;
        }
        let place = (known.size, u64::from(known.block).max(512), known.read_only);
        let Strange { opcode, body, expects } = draw(place, dice);
        self.send_raw(id, None, (expects, opcode), |unique| wire::message(unique, opcode, &body));
    }
}

impl World {
    /// Sends a request with a body of any kind to the daemon that has a volume attached. Whether it has.
    #[must_use]
    pub fn send_any(
        &self,
        machine: &SimMachine,
        (group, volume): (&str, &str),
        (opcode, body): (u32, &[u8]),
    ) -> bool {
        let mut inner = self.lock();
        let file = (machine.id(), super::file_of(group, volume));
        let Some(id) = inner.kernels.mounts.get(&file).copied() else { return false };
        inner.send_raw(id, None, (Expects::Anything, opcode), |unique| {
            wire::message(unique, opcode, body)
        });
        true
    }
}

fn draw((size, block, read_only): (u64, u64, bool), dice: &mut Dice) -> Strange {
    let failed = Expects::Error;
    // What changes nothing because nothing may be changed is refused before its place is looked at.
    let change = |error: i32| failed(if read_only { libc::EROFS } else { error });
    let write = |extent: Extent, payload: u64| {
        let mut body = wire::transfer(extent, false);
        body.resize(body.len() + payload as usize, 0xee);
        body
    };
    let first = Extent::new(0, block);
    let init = |minor: u32, major: u32| wire::init(Version { major, minor });
    match dice.below(18) {
        0..3 => {
            let drawn = NOT_SERVED[dice.below(NOT_SERVED.len() as u64) as usize];
            strange(drawn, vec![0; dice.below(64) as usize], failed(libc::ENOSYS))
        }
        3 => {
            let mut body = wire::transfer(first, false);
            body.truncate(dice.below(40) as usize);
            let opcode = [opcode::READ, opcode::WRITE][dice.below(2) as usize];
            strange(opcode, body, failed(libc::EPROTO))
        }
        4 => {
            let mut body = wire::fallocate(first, 0);
            body.truncate(dice.below(28) as usize);
            strange(opcode::FALLOCATE, body, failed(libc::EPROTO))
        }
        5 => strange(opcode::WRITE, write(first, block - 1), failed(libc::EPROTO)),
        6 => strange(opcode::WRITE, write(first, block + 1), failed(libc::EPROTO)),
        7 => strange(opcode::WRITE, write(Extent::new(1, block), block), change(libc::EINVAL)),
        8 => strange(opcode::WRITE, write(Extent::new(size, block), block), change(libc::ENOSPC)),
        9 => {
            let body = wire::transfer(Extent::new(size, block), false);
            strange(opcode::READ, body, Expects::Body(0, &[]))
        }
        10 => strange(opcode::FALLOCATE, wire::fallocate(first, 0), failed(libc::EOPNOTSUPP)),
        11 => {
            let how = libc::FALLOC_FL_ZERO_RANGE;
            let body = wire::fallocate(Extent::new(size, block), how);
            strange(opcode::FALLOCATE, body, change(libc::ENOSPC))
        }
        12 => {
            let mut body = Body::default().u32(1 << 3).0;
            body.resize(88, 0);
            strange(opcode::SETATTR, body, failed(libc::EPERM))
        }
        13 => strange(opcode::FORGET, vec![0; 8], Expects::Nothing),
        14 => strange(opcode::BATCH_FORGET, vec![0; 8], Expects::Nothing),
        15 => strange(opcode::FLUSH, vec![0; 24], Expects::Body(0, &[])),
        16 => strange(opcode::DESTROY, Vec::new(), Expects::Body(0, &[])),
        _ => match dice.below(3) {
            0 => strange(opcode::INIT, init(27, 7), failed(libc::EPROTO)),
            1 => strange(opcode::INIT, init(36, 8), failed(libc::EPROTO)),
            _ => strange(opcode::INIT, init(60, 7), Expects::Body(64, &[])),
        },
    }
}

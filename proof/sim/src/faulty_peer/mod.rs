// SPDX-License-Identifier: Apache-2.0
//! A well-framed but faulty peer: one engine, and at the other end whatever the decoder lets through.
//!
//! Two sound nodes never say what an attacker, a bug or another version may say: cursors that go backwards or beyond what
//! was sent, items of volumes that do not exist, streams out of the blue. Here a peer says such things among sound ones,
//! so that it is heard in every state. The engine must not panic, must close the connection where the words are
//! impossible, must not answer a client because of them, must ask the store for nothing outside of its volumes, must
//! give every payload back exactly once, and must bound what it holds of a peer that floods it.

mod desk;
mod flood;
mod says;

use crate::coverage::Coverage;
use crate::promise::{Promise, Violation, hold};
use desk::Desk;
use helio_engine::{Command, CommandId, Event, Operation, Request, Reversal};
use helio_netmodel::Dice;
use helio_units::{Extent, RequestId, VolumeIndex};
use says::Peer;

/// What the coverage report calls what the peer does wrong. Counted where the engine hung up because of it, or paused
/// receiving because of a flood of items.
pub(crate) const LABELS: [&str; 8] = [
    "peer-floods-items",
    "peer-floods-questions",
    "peer-acks-unsent",
    "peer-acks-backwards",
    "peer-item-misplaced",
    "peer-item-out-of-order",
    "peer-starts-unasked",
    "peer-talks-nonsense",
];

/// Turns of one story.
const TURNS: u64 = 400;

/// Runs the story of a seed.
pub(crate) fn run(dice: &Dice, coverage: &mut Coverage) -> Result<(), Violation> {
    let mut dice = dice.split("faulty peer");
    let leads = dice.chance(1, 2);
    let mut desk = Desk::new(&mut dice);
    let mut peer = Peer::new(leads);
    if leads {
        let command = Command::Promote { force: true };
        desk.tell(Event::Command { id: CommandId(1), command })?;
    }
    for turn in 0..TURNS {
        match dice.below(100) {
            0..40 => desk.do_one(&mut dice)?,
            40..50 => ask(&mut desk, turn, &mut dice)?,
            50..53 => desk.let_time_pass(&mut dice)?,
            53..55 => desk.reconfigure(&mut dice)?,
            55..57 => command(&mut desk, turn, &mut dice)?,
            57..58 => {
                desk.disconnect()?;
                peer.forget();
            }
            _ if !desk.is_connected() => {
                desk.connect()?;
                peer.forget();
            }
            _ => peer.speak(&mut desk, &mut dice, coverage)?,
        }
    }
    desk.end(&mut dice)?;
    hold(desk.leftovers() == 0, Promise::Bounded, || {
        let (left, shown) = (desk.leftovers(), desk.describe());
        format!("{left} payloads of a peer that is gone are left over: {shown}")
    })
}

/// A client of this node's asks.
fn ask(desk: &mut Desk, turn: u64, dice: &mut Dice) -> Result<(), Violation> {
    let size = desk.sizes()[0];
    let length = 4096 * (1 + dice.below(4));
    let extent = Extent::new(4096 * dice.below((size.0 - length) / 4096 + 1), length);
    let operation = match dice.below(10) {
        0 => Operation::Flush,
        1 => Operation::Read(extent),
        2 => Operation::Zero { extent, punch: true, fua: false },
        3 => Operation::Discard { extent, fua: dice.chance(1, 4) },
        _ => {
            let payload = desk.payload(length as u32, false);
            Operation::Write { extent, payload, fua: dice.chance(1, 8) }
        }
    };
    desk.asked += 1;
    let request = Request { id: RequestId(turn), volume: VolumeIndex(0), operation };
    desk.tell(Event::Request(request))
}

/// An operator commands.
fn command(desk: &mut Desk, turn: u64, dice: &mut Dice) -> Result<(), Violation> {
    let command = match dice.below(9) {
        0 => Command::Pause,
        1 | 2 => Command::Resync,
        3 => Command::FullResync,
        4 => Command::Demote,
        5 => Command::Switch,
        6 => Command::Promote { force: dice.chance(1, 2) },
        7 => Command::Reverse(Reversal { full: dice.chance(1, 2), last_copy: false }),
        _ => Command::Verify(helio_engine::VerifyWish {
            volume: None,
            repair: dice.chance(1, 2),
            rate: None,
            restart: true,
        }),
    };
    desk.tell(Event::Command { id: CommandId(10 + turn), command })
}

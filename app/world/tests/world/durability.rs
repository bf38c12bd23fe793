// SPDX-License-Identifier: Apache-2.0
//! Whatever is written, flushed, killed and cut: what was flushed is never lost, and what is read is something that was written.

use crate::common::{Desk, MEMBER, durable, read, settle, two, write};
use helio_driver::{File, Mode, OFlags, Op, Outcome};
use helio_netmodel::Dice;
use helio_world::{FileFault, SimMachine, World};
use std::collections::BTreeMap;
use std::path::Path;

const SECTORS: usize = 4;
const SECTOR: u64 = 512;

/// What a sector may hold after a power cut, in the order in which it was written.
#[derive(Clone, Debug)]
struct Known {
    may: Vec<u64>,
    /// How many of them have ended; at most one more is under way.
    ended: usize,
}

struct Play {
    world: World,
    machine: SimMachine,
    desk: Desk,
    file: File,
    known: Vec<Known>,
    /// Writes under way: of which sector. Flushes: how many writes of each sector had ended.
    writes: BTreeMap<u64, usize>,
    flushes: BTreeMap<u64, Vec<u64>>,
    failed: bool,
    value: u64,
    cuts: u64,
}

impl Play {
    fn new(seed: u64) -> Self {
        let (world, machine, _) = two(seed);
        let desk = Desk::on(&world, &machine);
        let file = durable(&desk.host(), MEMBER, &[0; SECTORS * SECTOR as usize]);
        let known = vec![Known { may: vec![0], ended: 1 }; SECTORS];
        let (writes, flushes) = (BTreeMap::new(), BTreeMap::new());
        Self {
            world,
            machine,
            desk,
            file,
            known,
            writes,
            flushes,
            failed: false,
            value: 0,
            cuts: 0,
        }
    }

    fn write(&mut self, sector: usize) {
        if self.writes.values().any(|other| *other == sector) {
            return;
        }
        self.value += 1;
        let bytes = self.value.to_le_bytes().repeat(SECTOR as usize / 8);
        self.desk.submit(self.value, write(&self.file, sector as u64 * SECTOR, &bytes));
        self.known[sector].may.push(self.value);
        self.writes.insert(self.value, sector);
    }

    fn flush(&mut self, fails: bool) {
        if fails {
            self.machine.fail(Path::new(MEMBER), FileFault::Flush, 1).expect("it is there");
        }
        self.value += 1;
        let op = if self.value.is_multiple_of(2) {
            Op::SyncData { file: self.file.clone() }
        } else {
            Op::SyncAll { file: self.file.clone() }
        };
        self.desk.submit(self.value, op);
        let last = self.known.iter().map(|known| known.may[known.ended - 1]);
        self.flushes.insert(self.value, last.collect());
    }

    /// Takes what has ended.
    fn look(&mut self) {
        for token in self.writes.keys().copied().collect::<Vec<_>>() {
            if let Some(outcome) = self.desk.ended(token) {
                assert_eq!(outcome.error(), None);
                let sector = self.writes.remove(&token).expect("it was under way");
                self.known[sector].ended = self.known[sector].may.len();
            }
        }
        for token in self.flushes.keys().copied().collect::<Vec<_>>() {
            let Some(Outcome::SyncData(result)) = self.desk.ended(token) else { continue };
            let covered = self.flushes.remove(&token).expect("it was under way");
            self.failed |= result.is_err();
            if self.failed {
                continue;
            }
            for (known, last) in self.known.iter_mut().zip(covered) {
                let first = known.may.iter().position(|value| *value == last).unwrap_or(0);
                known.may.drain(..first);
                known.ended -= first;
            }
        }
    }

    /// The process is dead and so is what it had under way, or the machine lost its power.
    fn restart(&mut self, power: bool) {
        if power {
            self.machine.cut_power();
            self.machine.boot();
        } else {
            self.desk.process.kill();
        }
        settle(&self.world);
        self.desk = Desk::on(&self.world, &self.machine);
        let flags = OFlags::RDWR;
        self.file = self.desk.host().open(Path::new(MEMBER), flags, Mode::empty()).expect("opened");
        self.writes.clear();
        self.flushes.clear();
        self.cuts += u64::from(power);
        let bytes = self.file.read_all().expect("it can be read");
        for (known, sector) in self.known.iter_mut().zip(bytes.chunks(SECTOR as usize)) {
            let value = u64::from_le_bytes(sector[..8].try_into().expect("eight bytes"));
            assert_eq!(sector, value.to_le_bytes().repeat(SECTOR as usize / 8), "a torn sector");
            let may = if power { &known.may[..] } else { &known.may[known.ended - 1..] };
            assert!(may.contains(&value), "{value} of {known:?}");
            if power {
                known.may = vec![value];
            } else if *known.may.last().expect("never empty") != value {
                known.may.truncate(known.ended);
            }
            known.ended = known.may.len();
        }
        self.failed &= !power;
    }

    fn check_read(&mut self, sector: usize) {
        let busy = self.writes.values().any(|other| *other == sector);
        let token = u64::MAX - 1;
        self.desk.submit(token, read(&self.file, sector as u64 * SECTOR, SECTOR));
        let Outcome::Read { buffer, result } = self.desk.outcome(token) else { panic!("a read") };
        assert_eq!(result, Ok(()));
        let value = u64::from_le_bytes(buffer[..8].try_into().expect("eight bytes"));
        let known = &self.known[sector];
        let may = &known.may[known.ended - 1..];
        assert!(may.contains(&value) && (busy || may.len() == 1), "{value} of {known:?}");
    }
}

#[test]
fn what_was_flushed_is_never_lost_and_what_is_read_was_written() {
    let mut cuts = 0;
    for seed in 0..150 {
        let mut play = Play::new(seed);
        let mut dice = Dice::new(seed).split("steps");
        for _ in 0..60 {
            match dice.below(24) {
                0 => play.restart(true),
                1 => play.restart(false),
                2 => play.flush(true),
                3..6 => play.flush(false),
                6..8 => play.check_read(dice.below(SECTORS as u64) as usize),
                8..12 => {
                    play.world.advance();
                }
                _ => play.write(dice.below(SECTORS as u64) as usize),
            }
            play.look();
        }
        cuts += play.cuts;
    }
    assert!(cuts > 200, "{cuts}");
}

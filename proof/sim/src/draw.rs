// SPDX-License-Identifier: Apache-2.0
//! Which misfortune strikes next.

use crate::apply::Setting;
use crate::driver::Driver;
use crate::faults::{Fault, Pausing};
use crate::forks::FORKS;
use crate::kinds::Kind;
use crate::scenario::pick;
use helio_netmodel::Dice;
use helio_twin::{Breakage, Lie, MetadataFault, Side, StoreVerb};
use helio_units::Mode;

/// A kind by its odds, which are parts of their sum.
fn drawn(odds: &[(u32, Kind)], dice: &mut Dice) -> Kind {
    let mut roll = dice.below(odds.iter().map(|(n, _)| u64::from(*n)).sum()) as u32;
    for (odds, kind) in odds {
        if roll < *odds {
            return *kind;
        }
        roll -= odds;
    }
    Kind::Weather
}

impl Driver {
    pub(crate) fn draw_fault(&mut self) -> Fault {
        let dice = &mut self.dice;
        let side = pick(dice, &Side::BOTH);
        match drawn(&self.odds, dice) {
            Kind::Weather => Fault::Weather,
            Kind::Silence => Fault::Cut(Breakage::Silent),
            Kind::OneWay => Fault::Cut(Breakage::SilentFrom(side)),
            Kind::Reset => Fault::Cut(Breakage::Reset),
            Kind::HalfOpen => Fault::Cut(Breakage::HalfOpen(side)),
            Kind::LateClose => Fault::LateClose,
            Kind::Kill => Fault::Kill { side, power: false },
            Kind::Power => Fault::Kill { side, power: true },
            Kind::Both => Fault::BothDown { power: dice.chance(1, 2) },
            Kind::Disk if dice.chance(1, 3) => Fault::Overlap(side),
            Kind::Disk => {
                let verbs = [StoreVerb::Read, StoreVerb::Write, StoreVerb::Flush];
                Fault::Disk { side, verb: pick(dice, &verbs) }
            }
            Kind::Full => Fault::FullDisk(side),
            Kind::Slow => Fault::SlowDisk(side),
            Kind::Metadata => {
                let faults = [MetadataFault::Write, MetadataFault::Flush];
                match dice.below(3) {
                    0 => Fault::MetadataFull(side),
                    _ => Fault::Metadata { side, fault: pick(dice, &faults) },
                }
            }
            Kind::Hang => Fault::Hang(side),
            Kind::Pause => {
                let all =
                    [Pausing::Plain, Pausing::StaleClock, Pausing::Unsent, Pausing::Uncounted];
                Fault::Pause(pick(dice, &all))
            }
            Kind::Clock => Fault::ClockLeap(side),
            Kind::Operator => match dice.below(6) {
                0 | 1 => Fault::Log,
                2 => Fault::Update,
                3 => Fault::Full,
                4 => Fault::Mode(pick(dice, &Mode::ALL)),
                _ => Fault::Measure,
            },
            Kind::Switch => Fault::Switch,
            Kind::Stop => Fault::CleanStop(side),
            Kind::Haste => Fault::Haste,
            Kind::Split => Fault::SplitBrain,
            Kind::Room => Fault::Room { side, fails: dice.chance(1, 6) },
            Kind::Usurp => Fault::Usurp { power: dice.chance(1, 3) },
            Kind::RolledBack => Fault::RollBack(side),
            Kind::Suspended => Fault::Suspend(side),
            Kind::MetadataRestored => Fault::RestoreMetadata(side),
            Kind::MetadataLost => Fault::LoseMetadata { side, zeroed: dice.chance(1, 3) },
            Kind::BeforeLost => Fault::LoseBefore { side, zeroed: dice.chance(1, 3) },
            Kind::Forks => Fault::Forks { side, left: FORKS },
            Kind::WrongDisk => Fault::WrongDisk(side),
            Kind::LyingFlush => Fault::LyingFlush(side),
            Kind::LyingStorage => Fault::Lie { side, lie: pick(dice, &Lie::ALL) },
            Kind::Lease => Fault::Lease,
            Kind::Seed => Fault::Seed,
            Kind::Reverse => Fault::Reverse { full: dice.chance(1, 4), tries: 0 },
            Kind::Blocks => Fault::Blocks(side),
            Kind::Apply => Fault::Apply {
                setting: pick(dice, &Setting::ALL),
                only: dice.chance(1, 2).then_some(side),
            },
            Kind::Hook => Fault::Hook { side, refuses: dice.chance(1, 2) },
            Kind::Replace => Fault::Replace { side, tries: 0 },
            Kind::Unserved => Fault::Unserved(side),
            Kind::SilentDisk => Fault::SilentDisk(side),
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
//! What can go wrong, and what mends it.

use crate::apply::Setting;
use crate::driver::{Act, Driver};
use crate::kinds::Kind;
use crate::oracle::Oracle;
use crate::scenario::{pick, span, weather};
use crate::sets::hides_lie;
use crate::silence::gives_stores_up;
use core::time::Duration;
use helio_engine::{Command, Reversal, StoreFault};
use helio_format::superblock::Superblock;
use helio_twin::{Breakage, Cluster, Happening, Hook, Lie, MetadataFault, Side, StoreVerb};
use helio_units::{Mode, Rate, Role};

/// A misfortune, or what an operator does at the wrong moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Weather,
    Cut(Breakage),
    Kill {
        side: Side,
        power: bool,
    },
    BothDown {
        power: bool,
    },
    Disk {
        side: Side,
        verb: StoreVerb,
    },
    /// A flush that begins while another one is under way.
    Overlap(Side),
    /// No room for writes.
    FullDisk(Side),
    SlowDisk(Side),
    Metadata {
        side: Side,
        fault: MetadataFault,
    },
    /// The file system of a metadata file with holes fills up.
    MetadataFull(Side),
    Hang(Side),
    Pause(Pausing),
    ClockLeap(Side),
    /// The next connection is accepted long after it stands for the one who dials.
    LateClose,
    Log,
    Update,
    Full,
    Mode(Mode),
    Switch,
    CleanStop(Side),
    /// A change of roles, and in the middle of it a stop of either node, or a connection that breaks.
    Haste,
    SplitBrain,
    /// The serving node dies, and the other takes over at once.
    Usurp {
        power: bool,
    },
    Measure,
    /// A snapshot of the machine is taken; the next time it is put back.
    RollBack(Side),
    /// A snapshot of a secondary's machine with its memory is taken; the next time it goes back to that.
    Suspend(Side),
    /// The metadata file is backed up; the next time it is put back.
    RestoreMetadata(Side),
    /// The metadata file is lost: it is missing, or reads as zeros.
    LoseMetadata {
        side: Side,
        zeroed: bool,
    },
    /// The before-image file is lost: it is missing, or reads as zeros.
    LoseBefore {
        side: Side,
        zeroed: bool,
    },
    /// A primary is killed and promoted again, so many times.
    Forks {
        side: Side,
        left: u32,
    },
    WrongDisk(Side),
    LyingFlush(Side),
    /// A disk reports success and does something else.
    Lie {
        side: Side,
        lie: Lie,
    },
    /// Silence while a lease is held.
    Lease,
    /// The file system of a before-image file fills up, or the file fails.
    Room {
        side: Side,
        fails: bool,
    },
    /// The peer is to begin anew, from a disk that is shipped.
    Seed,
    /// The operator takes the secondary's copy, and tries again while clients are in the way.
    Reverse {
        full: bool,
        tries: u32,
    },
    /// A setting is applied, on one node or on both.
    Apply {
        setting: Setting,
        only: Option<Side>,
    },
    /// What a node's hook does from now on.
    Hook {
        side: Side,
        refuses: bool,
    },
    /// A node restarts, and its disk has other blocks.
    Blocks(Side),
    /// A disk is lost, and another one put in its place as soon as the node agrees.
    Replace {
        side: Side,
        tries: u32,
    },
    /// A group fails, and its daemon goes on without it.
    Unserved(Side),
    /// A disk ends nothing for a while.
    SilentDisk(Side),
}

/// How the serving node's process is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pausing {
    /// Between two events.
    Plain,
    /// Between reading its clock and acting on the next event.
    StaleClock,
    /// Between deciding on an acknowledgement and sending it.
    Unsent,
    /// Nothing on its machine counts the time.
    Uncounted,
}

impl Pausing {
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Plain => "pause",
            Self::StaleClock => "pause-stale-clock",
            Self::Unsent => "pause-unsent",
            Self::Uncounted => "pause-uncounted",
        }
    }
}

impl Fault {
    /// Of which kind it is, and what the coverage report calls it.
    pub(crate) fn class(self) -> (Kind, &'static str) {
        match self {
            Self::Weather => (Kind::Weather, "weather"),
            Self::Cut(Breakage::Silent) => (Kind::Silence, "silence"),
            Self::Cut(Breakage::SilentFrom(_)) => (Kind::OneWay, "one-way"),
            Self::Cut(Breakage::Reset) => (Kind::Reset, "reset"),
            Self::Cut(Breakage::HalfOpen(_)) => (Kind::HalfOpen, "half-open"),
            Self::LateClose => (Kind::LateClose, "late-close"),
            Self::Kill { power: false, .. } => (Kind::Kill, "kill"),
            Self::Kill { power: true, .. } => (Kind::Power, "power"),
            Self::BothDown { .. } => (Kind::Both, "both-down"),
            Self::Disk { verb: StoreVerb::Read, .. } => (Kind::Disk, "read-fails"),
            Self::Disk { verb: StoreVerb::Write | StoreVerb::PlainWrite, .. } => {
                (Kind::Disk, "write-fails")
            }
            Self::Disk { verb: StoreVerb::Flush, .. } => (Kind::Disk, "flush-fails"),
            Self::Overlap(_) => (Kind::Disk, "overlapped-flush-fails"),
            Self::FullDisk(_) => (Kind::Full, "disk-full"),
            Self::Room { fails: true, .. } => (Kind::Room, "before-file-fails"),
            Self::Room { .. } => (Kind::Room, "no-room"),
            Self::SlowDisk(_) => (Kind::Slow, "slow-disk"),
            Self::Metadata { fault: MetadataFault::Write, .. } => {
                (Kind::Metadata, "metadata-write-fails")
            }
            Self::Metadata { fault: MetadataFault::Flush, .. } => {
                (Kind::Metadata, "metadata-flush-fails")
            }
            Self::MetadataFull(_) => (Kind::Metadata, "metadata-full"),
            Self::Hang(_) => (Kind::Hang, "hang"),
            Self::Pause(how) => (Kind::Pause, how.label()),
            Self::ClockLeap(_) => (Kind::Clock, "clock-leaps"),
            Self::Log => (Kind::Operator, "log"),
            Self::Update => (Kind::Operator, "update"),
            Self::Full => (Kind::Operator, "full"),
            Self::Mode(_) => (Kind::Operator, "mode"),
            Self::Measure => (Kind::Operator, "measure"),
            Self::Switch => (Kind::Switch, "switch"),
            Self::CleanStop(_) => (Kind::Stop, "clean-stop"),
            Self::Haste => (Kind::Haste, "haste"),
            Self::SplitBrain => (Kind::Split, "split-brain"),
            Self::Usurp { .. } => (Kind::Usurp, "usurp"),
            Self::LoseMetadata { zeroed: true, .. } => (Kind::MetadataLost, "metadata-zeroed"),
            Self::LoseMetadata { .. } => (Kind::MetadataLost, "metadata-missing"),
            Self::LoseBefore { zeroed: true, .. } => (Kind::BeforeLost, "before-zeroed"),
            Self::LoseBefore { .. } => (Kind::BeforeLost, "before-missing"),
            Self::Forks { .. } => (Kind::Forks, "forks"),
            Self::RollBack(_) => (Kind::RolledBack, "rolled-back"),
            Self::Suspend(_) => (Kind::Suspended, "resumed"),
            Self::RestoreMetadata(_) => (Kind::MetadataRestored, "metadata-restored"),
            Self::WrongDisk(_) => (Kind::WrongDisk, "wrong-disk"),
            Self::LyingFlush(_) => (Kind::LyingFlush, "lying-flush"),
            Self::Lie { lie, .. } => (Kind::LyingStorage, lie.label()),
            Self::Lease => (Kind::Lease, "lease"),
            Self::Seed => (Kind::Seed, "seed"),
            Self::Reverse { .. } => (Kind::Reverse, "reverse"),
            Self::Apply { setting, .. } => (Kind::Apply, setting.label()),
            Self::Hook { .. } => (Kind::Hook, "hook-delays"),
            Self::Blocks(_) => (Kind::Blocks, "blocks-change"),
            Self::Replace { .. } => (Kind::Replace, "disk-replaced-leading"),
            Self::Unserved(_) => (Kind::Unserved, "unserved"),
            Self::SilentDisk(_) => (Kind::SilentDisk, "disk-silent"),
        }
    }

    /// Whether there is anything for it to break now.
    fn lands(self, cluster: &Cluster) -> bool {
        let up = |side: Side| cluster.node(side).is_up();
        match self {
            Self::Cut(Breakage::Reset | Breakage::HalfOpen(_)) => cluster.wire.is_whole(),
            Self::Kill { side, .. } => up(side),
            Self::BothDown { .. } => Side::BOTH.into_iter().all(up),
            Self::Hang(side) => up(side) && !cluster.node(side).hangs(cluster.now()),
            Self::CleanStop(side) | Self::Blocks(side) => up(side),
            Self::Lease => lease_holder(cluster).is_some(),
            Self::Haste => Side::BOTH.into_iter().any(up),
            Self::Switch
            | Self::SplitBrain
            | Self::Usurp { .. }
            | Self::Reverse { tries: 0, .. } => {
                Side::BOTH.into_iter().any(|side| cluster.node(side).serves())
            }
            // One that is counted already, and one that is counted once it is done or noticed.
            Self::Reverse { .. }
            | Self::Replace { .. }
            | Self::Apply { .. }
            | Self::Hook { .. }
            | Self::Forks { .. }
            | Self::Lie { .. }
            | Self::Overlap(_) => false,
            // Counted once the process noticed, or the peer.
            Self::Pause(_) | Self::Unserved(_) | Self::SilentDisk(_) => false,
            _ => true,
        }
    }
}

/// Who could take over by its hold lease now.
fn lease_holder(cluster: &Cluster) -> Option<Side> {
    let holds = |side: &Side| {
        cluster.node(*side).engine.as_ref().is_some_and(|e| e.view().lease_held().is_some())
    };
    Side::BOTH.into_iter().find(holds)
}

impl Fault {
    /// Whether it puts something old, or nothing, in the place of a node's files; it is counted once that is done.
    fn restores(self) -> bool {
        matches!(
            self,
            Self::RollBack(_)
                | Self::Suspend(_)
                | Self::RestoreMetadata(_)
                | Self::LoseMetadata { .. }
                | Self::LoseBefore { .. }
                | Self::WrongDisk(_)
                | Self::Seed
        )
    }
}

impl Driver {
    pub(crate) fn later(&mut self, cluster: &Cluster, act: Act) {
        let (least, most) = (Duration::from_millis(5), Duration::from_secs(4));
        let when = cluster.now() + span(&mut self.dice, least, most);
        self.at(when, act);
    }

    /// Whether that fault does not strike now: the story leaves it out, or more would be lost than both nodes held.
    fn spares(&self, fault: Fault, cluster: &Cluster, oracle: &Oracle) -> bool {
        let (kind, _) = fault.class();
        self.leaves_out(kind)
            || (kind == Kind::LyingFlush && !self.disks_lie)
            || hides_lie(fault, cluster)
            // A copy is not taken over another's whose node has yet to come to terms with what it remembers.
            || matches!(fault, Fault::Reverse { .. })
                && Side::BOTH.into_iter().any(|side| oracle.is_restored(side))
            // A node that lacks regions has the other's copy alone: to take that away too is a second loss.
            || fault.restores() && Side::BOTH.into_iter().any(|side| lacks(cluster, side))
    }

    pub(crate) fn strike(&mut self, fault: Fault, cluster: &mut Cluster, oracle: &mut Oracle) {
        if self.spares(fault, cluster, oracle) || self.befalls_mirror(fault, cluster) {
            return;
        }
        if fault.lands(cluster) && !fault.restores() {
            self.coverage.struck(fault.class().1);
        }
        match fault {
            Fault::Weather => {
                let profile = weather(&mut self.dice);
                cluster.wire.set_profile(&profile);
            }
            Fault::Cut(how) => self.cut(how, cluster),
            Fault::Kill { side, power } => self.kill(side, power, cluster),
            Fault::BothDown { power } => {
                Side::BOTH.into_iter().for_each(|side| self.kill(side, power, cluster));
            }
            Fault::Metadata { side, fault } => cluster.node_mut(side).metadata.fail_next(fault),
            Fault::MetadataFull(side) => {
                cluster.node_mut(side).metadata.fill_up();
                self.later(cluster, Act::MendMetadata(side));
            }
            Fault::Hang(side) => {
                let (least, most) = (Duration::from_millis(10), Duration::from_secs(8));
                let until = cluster.now() + span(&mut self.dice, least, most);
                if cluster.node(side).is_up() && !cluster.node(side).hangs(cluster.now()) {
                    self.try_lease(cluster);
                    cluster.hang(side, until);
                }
            }
            Fault::Pause(how) => self.pause(how, cluster),
            Fault::Disk { .. }
            | Fault::Overlap(_)
            | Fault::SlowDisk(_)
            | Fault::FullDisk(_)
            | Fault::Room { .. }
            | Fault::Lie { .. }
            | Fault::LyingFlush(_) => self.wear(fault, cluster, oracle),
            Fault::RollBack(_)
            | Fault::Suspend(_)
            | Fault::RestoreMetadata(_)
            | Fault::LoseMetadata { .. }
            | Fault::LoseBefore { .. }
            | Fault::WrongDisk(_)
            | Fault::ClockLeap(_)
            | Fault::LateClose => self.tamper(fault, cluster),
            Fault::Apply { setting, only } => self.apply(setting, only, cluster, oracle),
            Fault::Hook { side, refuses } => {
                let (least, most) = (Duration::from_millis(1), Duration::from_secs(4));
                let takes = span(&mut self.dice, least, most);
                cluster.node_mut(side).hook = Hook { takes, refuses };
            }
            Fault::Blocks(side) => self.change_blocks(side, cluster),
            Fault::Forks { side, left } => self.fork_often(side, left, cluster, oracle),
            Fault::Replace { side, tries } => self.replace(side, tries, cluster, oracle),
            Fault::Unserved(side) => self.unserve(side, cluster),
            Fault::SilentDisk(side) => self.silence_disk(side, cluster, oracle),
            _ => self.meddle(fault, cluster, oracle),
        }
    }

    fn cut(&mut self, how: Breakage, cluster: &mut Cluster) {
        self.tally.link_cuts += 1;
        cluster.break_link(how);
        if let Breakage::HalfOpen(_) = how {
            self.delay_acceptance(cluster);
        } else if how != Breakage::Reset {
            self.later(cluster, Act::MendLink);
            self.try_lease(cluster);
        }
    }

    /// A disk that fails, tires, fills up or lies, or a before-image file that does.
    fn wear(&mut self, fault: Fault, cluster: &mut Cluster, oracle: &mut Oracle) {
        // With every policy a failed flush or FUA ends what the copy is worth.
        let reads = matches!(fault, Fault::Disk { verb: StoreVerb::Read, .. });
        if let Fault::Disk { side, .. } | Fault::Overlap(side) | Fault::FullDisk(side) = fault
            && (gives_stores_up(cluster) || !reads)
            && (!cluster.node(side.other()).has_its_disk() || oracle.is_restored(side.other()))
        {
            // Where both nodes lose what they had, nobody is left who has it; an older disk is not what the peer had.
            return;
        }
        match fault {
            Fault::Disk { side, verb } => {
                let faults = [StoreFault::Io, StoreFault::NoSpace, StoreFault::Short];
                let how = pick(&mut self.dice, &faults);
                let (hit, verb) = self.hit_by(side, verb, cluster);
                hit.on(cluster.node_mut(side)).for_each(|disk| disk.fail_next(verb, how));
            }
            Fault::Overlap(side) => {
                let hit = self.hit(side, cluster);
                let fault = StoreFault::Io;
                hit.on(cluster.node_mut(side)).for_each(|disk| disk.fail_overlapping(fault));
            }
            Fault::SlowDisk(side) => {
                let times = 2 + self.dice.below(60) as u32;
                let hit = self.hit(side, cluster);
                hit.on(cluster.node_mut(side)).for_each(|disk| disk.slow_down(times));
                self.later(cluster, Act::MendDisk(side));
            }
            Fault::FullDisk(side) => {
                let hit = self.hit(side, cluster);
                hit.on(cluster.node_mut(side)).for_each(|disk| disk.fill_up(true));
                self.later(cluster, Act::MendDisk(side));
            }
            Fault::LyingFlush(side) => {
                oracle.expect_less();
                self.lied = true;
                cluster.node_mut(side).disk.lie(true);
                self.later(cluster, Act::MendDisk(side));
            }
            Fault::Lie { side, lie } => {
                for _ in 0..=self.dice.below(8) {
                    cluster.node_mut(side).disk.lie_next(lie);
                }
            }
            Fault::Room { side, fails } => {
                let chunks = if self.dice.chance(1, 2) { self.dice.below(24) } else { 0 };
                let before = &mut cluster.node_mut(side).before;
                if fails { before.fail_next() } else { before.limit(chunks) }
            }
            _ => {}
        }
    }

    /// What an operator does at the wrong moment.
    fn meddle(&mut self, fault: Fault, cluster: &mut Cluster, oracle: &mut Oracle) {
        let serving = Side::BOTH.into_iter().find(|side| cluster.node(*side).serves());
        match fault {
            Fault::Log | Fault::Update | Fault::Full | Fault::Mode(_) => {
                let side = serving.unwrap_or(Side::Paris);
                let engine = cluster.node(side).engine.as_ref();
                let paused = engine.is_some_and(|it| it.view().status(cluster.now()).paused);
                let command = match fault {
                    Fault::Log => Command::Pause,
                    Fault::Full => Command::FullResync,
                    Fault::Mode(mode) => Command::Mode(mode),
                    _ if paused => Command::Resume,
                    _ => Command::Resync,
                };
                self.command(cluster, oracle, side, command);
                if fault == Fault::Log {
                    self.later(cluster, Act::Break(Fault::Update));
                }
            }
            Fault::Switch => {
                if let Some(side) = serving {
                    self.switch_over(side, cluster, oracle);
                }
            }
            Fault::Haste => {
                self.hasten(serving, cluster, oracle);
            }
            Fault::CleanStop(side) => {
                self.command(cluster, oracle, side, Command::Stop);
                self.later(cluster, Act::Start(side));
            }
            Fault::SplitBrain => {
                if let Some(side) = serving {
                    self.strike(Fault::Cut(Breakage::Silent), cluster, oracle);
                    let side = side.other();
                    self.perform(Act::TakeOver(side), cluster, oracle);
                }
            }
            Fault::Usurp { power } => {
                if let Some(side) = serving {
                    self.try_lease(cluster);
                    self.kill(side, power, cluster);
                    let (least, most) = (Duration::from_micros(20), Duration::from_millis(100));
                    let when = cluster.now() + span(&mut self.dice, least, most);
                    self.at(when, Act::TakeOver(side.other()));
                }
            }
            Fault::Lease => {
                if let Some(side) = lease_holder(cluster) {
                    self.outlive_lease(side, cluster);
                }
            }
            Fault::Seed => {
                if let Some(side) = serving {
                    self.ship(side, cluster, oracle);
                }
            }
            Fault::Measure => {
                let round_trip =
                    span(&mut self.dice, Duration::from_millis(1), Duration::from_millis(300));
                cluster.measure_link(serving.unwrap_or(Side::Lyon), round_trip, Rate::mbit(1000));
            }
            Fault::Reverse { full, tries } => {
                if let Some(side) = serving {
                    self.take_back(side, (full, tries), cluster, oracle);
                }
            }
            _ => {}
        }
    }

    /// Logging first, so that there is something to throw away; then the reversal, which no client may be in the way of.
    fn take_back(
        &mut self,
        side: Side,
        (full, tries): (bool, u32),
        cluster: &mut Cluster,
        oracle: &mut Oracle,
    ) {
        let engine = cluster.node(side).engine.as_ref();
        // Nobody throws his own away for a disk that is not there any more.
        let there = cluster.node(side.other()).has_its_disk();
        if tries > 40 || !there || engine.is_none_or(|engine| engine.view().lacks_regions()) {
            return;
        }
        let reverse = Command::Reverse(Reversal { full, last_copy: false });
        let command = if tries == 0 { Command::Pause } else { reverse };
        self.command(cluster, oracle, side, command);
        let (least, most) = (Duration::from_micros(100), Duration::from_millis(30));
        let pause = span(&mut self.dice, least, most) * if tries == 0 { 10 } else { 1 };
        let again = Fault::Reverse { full, tries: tries + 1 };
        self.at(cluster.now() + pause, Act::Break(again));
    }

    /// Roles begin to change; soon something else is in the way.
    fn hasten(&mut self, serving: Option<Side>, cluster: &mut Cluster, oracle: &mut Oracle) {
        let side = pick(&mut self.dice, &Side::BOTH);
        let command = match serving {
            Some(_) => Command::Switch,
            None => Command::Promote { force: false },
        };
        let serving = serving.unwrap_or(side);
        self.command(cluster, oracle, serving, command);
        let next = match self.dice.below(6) {
            0..4 => Fault::CleanStop(serving),
            _ if command != Command::Switch => Fault::CleanStop(serving),
            4 => Fault::CleanStop(serving.other()),
            _ => Fault::Cut(Breakage::Reset),
        };
        // A question is answered sooner than a queue is delivered.
        let most = if command == Command::Switch { 80 } else { 12 };
        let (least, most) = (Duration::from_micros(20), Duration::from_millis(most));
        let pause = span(&mut self.dice, least, most);
        self.at(cluster.now() + pause, Act::Break(next));
    }

    fn switch_over(&mut self, serving: Side, cluster: &mut Cluster, oracle: &mut Oracle) {
        match self.dice.below(4) {
            0 => {
                self.command(cluster, oracle, serving, Command::Switch);
            }
            1 => {
                self.command(cluster, oracle, serving.other(), Command::Switch);
            }
            _ => {
                let id = self.command(cluster, oracle, serving, Command::Demote);
                self.switching.insert(id, serving.other());
            }
        }
    }

    /// Silence around the moment at which the lease of this side runs out, and promotions nobody asked for in it.
    fn outlive_lease(&mut self, side: Side, cluster: &mut Cluster) {
        cluster.break_link(Breakage::Silent);
        let config = &cluster.node(side).config;
        let (timeout, hold) = (config.peer_timeout, config.hold);
        for _ in 0..4 {
            let wait = timeout + span(&mut self.dice, hold / 50, hold + timeout);
            self.at(cluster.now() + wait, Act::Unasked(side));
        }
        let mended = span(&mut self.dice, timeout, (timeout + hold) * 2);
        self.at(cluster.now() + mended, Act::MendLink);
    }

    /// Trouble that comes when two have just met, when a conversation has the most to lose.
    pub(crate) fn aftershock(&mut self, cluster: &Cluster, side: Side) {
        let (_, strikes) = self.next_misfortune();
        if !strikes {
            return;
        }
        let dice = &mut self.dice;
        let fault = match dice.below(8) {
            0..3 => Fault::Cut(Breakage::Reset),
            3 => Fault::Kill { side, power: dice.chance(1, 3) },
            4 => Fault::Log,
            5 => Fault::Update,
            6 => Fault::Switch,
            _ => Fault::Usurp { power: dice.chance(1, 3) },
        };
        let (least, most) = (Duration::from_micros(100), Duration::from_millis(400));
        let when = cluster.now() + span(dice, least, most);
        self.at(when, Act::Break(fault));
    }

    /// A primary goes on alone, or its peer's image is between two: when its loss costs most.
    pub(crate) fn worst_moment(&mut self, cluster: &Cluster, happening: &Happening) {
        if self.healing {
            return;
        }
        match happening {
            Happening::Noted { side, words }
                if words.contains("-> queuing")
                    && cluster.node(*side).serves()
                    && self.dice.chance(1, 5) =>
            {
                let fault = Fault::Usurp { power: self.dice.chance(1, 3) };
                self.shortly(fault, Duration::from_millis(10), cluster);
            }
            // The only moment at which a peer can take the place of a disk.
            Happening::Noted { side, words }
                if words.contains("-> replicating")
                    && cluster.node(*side).serves()
                    && gives_stores_up(cluster)
                    && self.dice.chance(1, 8) =>
            {
                self.shortly(Fault::SilentDisk(*side), Duration::from_millis(20), cluster);
            }
            // Items wait for room, and who takes over goes back to the kept image.
            Happening::Noted { words, .. }
                if words.contains("no space to preserve") && self.dice.chance(5, 6) =>
            {
                let fault = Fault::Usurp { power: self.dice.chance(1, 3) };
                self.shortly(fault, Duration::from_millis(50), cluster);
            }
            Happening::Saved { side } => {
                let record = cluster.node(*side).superblock();
                let malice = self.malice;
                let between = record.is_some_and(|record| !record.consistent);
                if between && self.dice.chance(malice, 8) {
                    // What was reserved is all there is.
                    let fault = Fault::Room { side: *side, fails: false };
                    self.shortly(fault, Duration::from_millis(20), cluster);
                }
                if between && self.dice.chance(malice, 16) {
                    let fault = Fault::LoseBefore { side: *side, zeroed: self.dice.chance(1, 3) };
                    self.shortly(fault, Duration::from_millis(100), cluster);
                }
                if between && self.dice.chance(malice, 8) {
                    let fault = match self.dice.below(3) {
                        0 => Fault::Usurp { power: self.dice.chance(1, 3) },
                        _ => Fault::SplitBrain,
                    };
                    self.shortly(fault, Duration::from_millis(150), cluster);
                }
            }
            _ => {}
        }
    }

    /// A misfortune at a moment that is not left to chance alone.
    pub(crate) fn shortly(&mut self, fault: Fault, most: Duration, cluster: &Cluster) {
        let (_, strikes) = self.next_misfortune();
        if strikes {
            let when = cluster.now() + span(&mut self.dice, Duration::from_micros(50), most);
            self.at(when, Act::Break(fault));
        }
    }

    /// An orchestrator finds that the serving node does not answer it, and promotes the other without force.
    pub(crate) fn try_lease(&mut self, cluster: &Cluster) {
        let serving = Side::BOTH.into_iter().find(|side| cluster.node(*side).serves());
        let hold = cluster.node(Side::Paris).config.hold;
        if let Some(side) = serving.filter(|_| !hold.is_zero()) {
            for _ in 0..3 {
                let when = cluster.now() + span(&mut self.dice, hold / 20, hold * 3 / 2);
                self.at(when, Act::Unasked(side.other()));
            }
        }
    }

    pub(crate) fn kill(&mut self, side: Side, power: bool, cluster: &mut Cluster) {
        if cluster.node(side).is_unserved() {
            cluster.end_daemon(side);
        }
        if !cluster.node(side).is_up() || self.resumed.is_some() {
            return;
        }
        self.tally.crashes += u64::from(!power);
        self.tally.power_cuts += u64::from(power);
        cluster.kill(side, power);
        self.later(cluster, Act::Start(side));
    }
}

/// Whether a node's image is not whole because it gave it up for its peer's.
pub(crate) fn lacks(cluster: &Cluster, side: Side) -> bool {
    let node = cluster.node(side);
    let recorded = |record: &Superblock| record.role == Role::Primary && !record.consistent;
    node.engine.as_ref().is_some_and(|engine| engine.view().lacks_regions())
        || node.superblock().is_some_and(recorded)
}

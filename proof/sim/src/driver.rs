// SPDX-License-Identifier: Apache-2.0
//! What is done to the two nodes from outside, at its time: misfortunes, their hints, the operator's rounds.

use crate::coverage::Coverage;
use crate::faults::{Fault, Pausing};
use crate::forks::Forking;
use crate::kinds::{Kind, odds};
use crate::oracle::Oracle;
use crate::retry::Given;
use crate::scenario::pick;
use crate::seed::Shipping;
use crate::telling::Telling;
use helio_engine::{Command, CommandId, LinkState};
use helio_netmodel::Dice;
use helio_replay::Step;
use helio_twin::{Cluster, MachineImage, MetadataBytes, Side, Suspended};
use helio_units::{Moment, RequestId};
use std::collections::BTreeMap;

/// In one story of so many, disks lie about reads and writes.
const LYING_ONE_IN: u64 = 40;

/// What waits for its time.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// Something breaks, and the next misfortune is drawn.
    Misfortune,
    /// A given thing breaks.
    Break(Fault),
    /// The link carries again.
    MendLink,
    /// A node is started.
    Start(Side),
    /// A disk is quick and sound again.
    MendDisk(Side),
    /// There is room for a metadata file again.
    MendMetadata(Side),
    /// The operator looks after things.
    Round,
    /// A node takes over by force.
    TakeOver(Side),
    /// What the file of a flight recorder says.
    Scripted { side: Side, id: RequestId, step: Step },
    /// What changes there from now on is marked, for a disk that is to be shipped.
    ShipBegin(Side),
    /// A little more of a disk that is to be shipped is copied from there.
    ShipCopy(Side),
    /// It is put in place there.
    ShipPlace(Side),
    /// A promotion that belongs to a planned switch; tried so many times more.
    Promote(Side, u32),
    /// A promotion without force, whoever serves.
    Unasked(Side),
    /// A command that was refused for now is given again.
    Again(Side, Command),
    /// The before-image file of a node that is down is lost.
    LoseBefore { side: Side, zeroed: bool },
}

/// Counts for the summary.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) crashes: u64,
    pub(crate) power_cuts: u64,
    pub(crate) link_cuts: u64,
    pub(crate) wipes: u64,
    pub(crate) yields: u64,
    /// Changes of data that a script asked for.
    pub(crate) scripted_writes: u64,
    pub(crate) verifies: u64,
}

/// The hand of fate and of the operator.
#[derive(Debug)]
pub(crate) struct Driver {
    pub(crate) dice: Dice,
    /// What is likely in this story.
    pub(crate) odds: Vec<(u32, Kind)>,
    /// The operator creates and deletes point-in-time copies.
    pub(crate) copies: bool,
    /// And restores the volumes from them.
    pub(crate) restores: bool,
    /// Disks may lie in this story.
    pub(crate) disks_lie: bool,
    /// How often, in eighths, a primary dies when that costs most.
    pub(crate) malice: u64,
    queue: BTreeMap<(Moment, u64), Act>,
    ties: u64,
    pub(crate) commands: u64,
    /// Demotions that belong to a planned switch.
    pub(crate) switching: BTreeMap<CommandId, Side>,
    /// Since when nobody serves.
    pub(crate) orphaned: Option<Moment>,
    /// What breaks is mended and stays so.
    pub(crate) healing: bool,
    pub(crate) tally: Tally,
    /// What is left out of the story.
    telling: Telling,
    root: Dice,
    drawn: u64,
    /// How much of a script is still to come.
    pub(crate) scripted: usize,
    /// The node whose files went back in this story.
    pub(crate) tampered: Option<Side>,
    /// A disk lied in this story.
    pub(crate) lied: bool,
    /// The operator let a copy begin of which nothing is kept.
    pub(crate) keeps_nothing: bool,
    /// What an administrator keeps of each node, and may put back one day.
    pub(crate) images: [Option<MachineImage>; 2],
    /// The disks that were taken out of each node and may be put back.
    pub(crate) taken_out: [Option<MachineImage>; 2],
    /// Each node's machine with its memory, which may go back to that.
    pub(crate) suspended: [Option<Suspended>; 2],
    /// The machine that went back with its memory. Until the two have met, connected or refused, no process ends and the primary
    /// stays primary: otherwise no node could detect that the machine went back.
    pub(crate) resumed: Option<Side>,
    /// Metadata that was lost and may be found again.
    pub(crate) missing: [Option<MetadataBytes>; 2],
    pub(crate) coverage: Coverage,
    /// How a node was paused that did not notice yet.
    pub(crate) pausing: [Option<Pausing>; 2],
    pub(crate) shipping: Shipping,
    /// A node that forks while its peer cannot reach it.
    pub(crate) forking: Option<Forking>,
    /// A setting that was applied is not in force.
    pub(crate) misapplied: Option<String>,
    /// Commands that have not ended.
    pub(crate) open: BTreeMap<CommandId, Side>,
    /// What each node was commanded last.
    pub(crate) given: [Given; 2],
    /// A command that is about to be given again.
    pub(crate) repeating: Option<(Side, Command)>,
}

impl Driver {
    pub(crate) fn new(dice: &Dice, telling: &Telling) -> Self {
        let asked_for = |kind| telling.with.contains(&kind);
        let storage_lies =
            dice.split("storage").chance(1, LYING_ONE_IN) || asked_for(Kind::LyingStorage);
        let is_out = |kind| kind == Kind::LyingStorage && !storage_lies;
        Self {
            dice: dice.split("driver"),
            odds: odds(&mut dice.split("odds"), asked_for, is_out),
            copies: dice.split("copies").chance(1, 3),
            restores: dice.split("restores").chance(1, 4),
            disks_lie: dice.split("lies").chance(1, 12) || asked_for(Kind::LyingFlush),
            malice: pick(&mut dice.split("malice"), &[0, 0, 1, 2, 6]),
            queue: BTreeMap::new(),
            ties: 0,
            commands: 0,
            switching: BTreeMap::new(),
            orphaned: None,
            healing: false,
            tally: Tally::default(),
            telling: telling.clone(),
            root: dice.clone(),
            drawn: 0,
            scripted: 0,
            tampered: None,
            lied: false,
            keeps_nothing: false,
            images: [None, None],
            taken_out: [None, None],
            suspended: [None, None],
            resumed: None,
            missing: [None, None],
            coverage: Coverage::default(),
            pausing: [None; 2],
            shipping: Shipping::default(),
            forking: None,
            misapplied: None,
            open: BTreeMap::new(),
            given: [Given::Over; 2],
            repeating: None,
        }
    }

    /// Another misfortune begins. Its dice are its own, so that leaving one out does not change the next. Returns its
    /// number, and whether it may strike.
    pub(crate) fn next_misfortune(&mut self) -> (u64, bool) {
        self.drawn += 1;
        self.dice = self.root.split_nth("misfortune", self.drawn);
        (self.drawn, !self.telling.skips(self.drawn))
    }

    /// Whether misfortunes of a kind are left out.
    pub(crate) fn leaves_out(&self, kind: Kind) -> bool {
        self.telling.without.contains(&kind)
    }

    pub(crate) fn at(&mut self, when: Moment, act: Act) {
        self.ties += 1;
        self.queue.insert((when, self.ties), act);
    }

    /// How many hints are on their way.
    pub(crate) fn ailing(&self) -> usize {
        let hint = |act: &&Act| {
            matches!(act, Act::MendLink | Act::Start(_) | Act::MendDisk(_) | Act::MendMetadata(_))
        };
        self.queue.values().filter(hint).count()
    }

    pub(crate) fn next_at(&self) -> Moment {
        self.queue.first_key_value().map_or(Moment::NEVER, |((at, _), _)| *at)
    }

    pub(crate) fn take(&mut self) -> Option<Act> {
        self.queue.pop_first().map(|(_, act)| act)
    }

    /// Forgets what was planned.
    pub(crate) fn clear(&mut self) {
        self.queue.clear();
        self.switching.clear();
        self.shipping_planned_no_more();
    }

    /// Commands a node; the name tells promotions from others.
    pub(crate) fn command(
        &mut self,
        cluster: &mut Cluster,
        oracle: &mut Oracle,
        side: Side,
        command: Command,
    ) -> CommandId {
        self.commands += 2;
        let node = cluster.node(side);
        // A secondary that asks for a change of roles is promoted with its peer's word.
        let promotion = match command {
            Command::Promote { force } | Command::Restore { force } => Some(force),
            Command::Switch if !node.serves() => Some(false),
            _ => None,
        };
        if command == Command::GiveUpSafeCopy {
            oracle.safe_copy_given_up();
            self.keeps_nothing = true;
        }
        let id = CommandId(self.commands + u64::from(promotion.is_some()));
        let ends = matches!(command, Command::Stop | Command::Demote | Command::Switch);
        if ends && self.resumed.is_some() && !self.healing {
            return id;
        }
        if let Some(force) = promotion {
            // Whoever puts an old file back forces nothing there before the two have met: a limit that
            // docs/reference/recovery.md names.
            let status =
                node.engine.as_ref().map(|e| e.view().status(node.clock.read(cluster.now())));
            let met = status.is_some_and(|status| status.link.state != LinkState::Connecting);
            let blind = force && oracle.is_restored(side) && !met;
            if blind || !node.is_up() || node.hangs(cluster.now()) {
                return id;
            }
            oracle.promotion_commanded(cluster, side, id, force);
        }
        if cluster.command(side, id, command) {
            self.given(side, id, command);
        }
        id
    }
}

// SPDX-License-Identifier: Apache-2.0
//! The operator: goes round now and then, reads the status and does what it and the documents say.

use crate::coverage::row_of;
use crate::driver::{Act, Driver};
use crate::faults::Fault as Misfortune;
use crate::oracle::Oracle;
use core::time::Duration;
use helio_engine::{Command, Engine, Fault, LinkState, Status};
use helio_format::superblock::Superblock;
use helio_twin::{Cluster, Disk, Happening, Node, Side};
use helio_units::{Generation, Mode, Moment, Role, State};

/// Between two rounds.
const ROUND: Duration = Duration::from_millis(900);
/// Nobody serves for this long before the operator promotes somebody.
const PATIENCE: Duration = Duration::from_millis(2500);

impl Driver {
    pub(crate) fn perform(&mut self, act: Act, cluster: &mut Cluster, oracle: &mut Oracle) {
        match act {
            Act::Misfortune => {}
            // The connection was to break before everything was mended.
            Act::Break(Misfortune::Cut(_)) if self.healing => {}
            Act::Break(fault) => self.strike(fault, cluster, oracle),
            Act::MendLink => {
                self.link_returns(cluster);
                cluster.mend_link(None);
            }
            Act::Start(side) => self.start(side, cluster),
            Act::MendDisk(side) => {
                let node = cluster.node_mut(side);
                for disk in node.disks_mut() {
                    disk.slow_down(1);
                    disk.fill_up(false);
                    disk.lie(false);
                }
                node.mirrors.iter_mut().for_each(Disk::find);
            }
            Act::MendMetadata(side) => cluster.node_mut(side).metadata.mend(),
            Act::Round => {
                self.round(cluster, oracle);
                let next = cluster.now() + ROUND;
                self.at(next, Act::Round);
            }
            Act::Scripted { side, id, step } => self.scripted((side, id, step), cluster, oracle),
            Act::ShipBegin(side) => self.ship_begin(side, cluster, oracle),
            Act::ShipCopy(side) => self.ship_copy(side, cluster),
            Act::ShipPlace(side) => self.ship_place(side, cluster),
            Act::TakeOver(side) => {
                let restores = self.dice.chance(5, 6);
                let force = true;
                let command =
                    if restores { Command::Restore { force } } else { Command::Promote { force } };
                self.command(cluster, oracle, side, command);
            }
            Act::Unasked(side) => {
                if !cluster.node(side).serves() {
                    let (node, now) = (cluster.node(side), cluster.now());
                    let hears =
                        node.is_up() && !node.hangs(now) && self.missing[side.index()].is_some();
                    let record = node.superblock().filter(|_| hears);
                    if record.is_some_and(|r| r.lineage.generation == Generation::NONE) {
                        self.coverage.struck("blank-promoted");
                    }
                    let other = cluster.node(side.other()).engine.as_ref();
                    if other.is_some_and(|other| other.view().standing() == "asking") {
                        self.coverage.struck("promotions-crossed");
                    }
                    self.command(cluster, oracle, side, Command::Promote { force: false });
                }
            }
            Act::Again(side, command) => {
                self.repeating = Some((side, command));
                self.command(cluster, oracle, side, command);
                self.repeating = None;
            }
            Act::LoseBefore { side, zeroed } => self.lose_before(side, zeroed, cluster),
            Act::Promote(side, tries) => {
                if tries > 0 && !Side::BOTH.iter().any(|s| cluster.node(*s).serves()) {
                    let command = Command::Promote { force: false };
                    self.command(cluster, oracle, side, command);
                    let again = cluster.now() + Duration::from_millis(400);
                    self.at(again, Act::Promote(side, tries - 1));
                }
            }
        }
    }

    /// Starts a node; where its metadata cannot be read, it joins as new.
    pub(crate) fn start(&mut self, side: Side, cluster: &mut Cluster) {
        if cluster.node(side).is_up() {
            return;
        }
        if cluster.start(side).is_err() {
            self.wipe(side, cluster);
        }
    }

    /// Stops a node, discards what it holds and starts it again: it joins as new.
    fn wipe(&mut self, side: Side, cluster: &mut Cluster) {
        self.tally.wipes += 1;
        self.shipping_over();
        if cluster.node(side).is_up() {
            cluster.kill(side, false);
        }
        cluster.discard(side);
        assert!(cluster.start(side).is_ok(), "a new metadata file cannot be read");
    }

    /// A demotion of a planned switch succeeded: the other node's turn.
    pub(crate) fn notice(&mut self, cluster: &Cluster, journal: &[Happening]) {
        for happening in journal {
            self.shipping_heard(cluster, happening);
            self.hear_of_commands(cluster, happening);
            // A connection that ends at once is seen by no round. Where neither node leads, the two may refuse each other for ever, and
            // one of them must be restarted before an operator can decide: a refusal is a meeting, too.
            if matches!(happening, Happening::Noted { words, .. } if row_of(words).is_some()) {
                self.resumed.take_if(|_| self.healing);
            }
            if let Happening::Commanded { id, result, .. } = happening
                && let Some(side) = self.switching.remove(id)
                && result.is_ok()
            {
                let when = cluster.now() + Duration::from_millis(self.dice.below(600));
                self.at(when, Act::Promote(side, 3));
                if self.dice.chance(1, 3) {
                    // Another operator has the same idea.
                    let later = Duration::from_micros(self.dice.below(3000));
                    self.at(when + later, Act::Unasked(side.other()));
                }
            }
            if let Happening::Connected { side } = happening
                && !self.healing
                && self.dice.chance(1, 12)
            {
                self.aftershock(cluster, *side);
            }
            self.worst_moment(cluster, happening);
        }
    }

    fn round(&mut self, cluster: &mut Cluster, oracle: &mut Oracle) {
        let now = cluster.now();
        // Its connections were reset when it went back, so one that there is now began with a handshake since.
        let met = |side: Side| {
            let engine = cluster.node(side).engine.as_ref();
            engine
                .is_some_and(|engine| engine.view().status(now).link.state == LinkState::Connected)
        };
        self.resumed.take_if(|side| !oracle.is_restored(*side) || (self.healing && met(*side)));
        for side in Side::BOTH {
            self.find_metadata(side, cluster);
            if self.healing {
                self.start(side, cluster);
            }
            let node = cluster.node(side);
            let Some(engine) = node.engine.as_ref().filter(|_| !node.hangs(now)) else { continue };
            let status = engine.view().status(node.clock.read(now));
            let leading = status.role == Role::Primary;
            let awaits = engine.view().is_primary() && engine.view().seeding().is_some();
            let restarts = starts_again(engine, &status) && self.resumed.is_none();
            if restarts && (self.healing || self.dice.chance(1, 2)) {
                // The hint of a failed store or metadata file: mend it and restart the daemon.
                cluster.kill(side, false);
                self.start(side, cluster);
                continue;
            }
            self.look_after_sets(side, cluster, oracle);
            let judged = self.judge_suspect(side, cluster, oracle);
            if judged || self.send_every_write(side, &status, cluster, oracle) {
                continue;
            }
            // A primary that lacks regions shows another state.
            let short = leading && status.reason.contains("has no space to preserve");
            if (status.state == State::NeedsRoom || short) && self.dice.chance(1, 3) {
                // Both of its hints.
                if self.dice.chance(1, 2) {
                    cluster.node_mut(side.other()).before.mend();
                } else {
                    self.command(cluster, oracle, side, Command::GiveUpSafeCopy);
                    continue;
                }
            }
            let lost =
                status.fault.as_ref().is_some_and(|fault| fault.what.contains("served from"));
            if leading && lost && (self.healing || self.dice.chance(1, 5)) {
                // Its store is to be replaced: the other one leads meanwhile.
                self.command(cluster, oracle, side, Command::Demote);
                continue;
            }
            let idle = matches!(status.state, State::Logging | State::NeedsRoom)
                && status.link.state == LinkState::Connected;
            let wants = idle || status.fault.is_some();
            if awaits {
                if status.link.state == LinkState::Connected || self.healing {
                    self.await_disk(side, cluster, oracle);
                }
            } else if leading && wants && (self.healing || self.dice.chance(1, 3)) {
                self.command(cluster, oracle, side, Command::Resync);
            }
        }
        self.verify_now_and_then(cluster, oracle);
        self.copy_now_and_then(cluster, oracle);
        self.rejoin(cluster, oracle);
        self.find_a_primary(cluster, oracle);
    }

    /// Without room for a cut, the peer gets every write. Returns whether that was commanded.
    fn send_every_write(
        &mut self,
        side: Side,
        status: &Status,
        cluster: &mut Cluster,
        oracle: &mut Oracle,
    ) -> bool {
        let wanted = status.role == Role::Primary
            && status.reason.contains("no cut could be sent")
            && self.dice.chance(1, 4);
        if wanted {
            self.command(cluster, oracle, side, Command::Mode(Mode::Async));
        }
        wanted
    }

    /// A node that the serving one refuses for good gives its side up, or joins as new; of two that serve, one gives way.
    fn rejoin(&mut self, cluster: &mut Cluster, oracle: &mut Oracle) {
        let now = cluster.now();
        let serving: Vec<Side> =
            Side::BOTH.into_iter().filter(|side| cluster.node(*side).serves()).collect();
        let why = |side: Side| {
            let node = cluster.node(side);
            let engine = node.engine.as_ref();
            engine
                .map(|engine| engine.view().status(node.clock.read(now)).link.why)
                .unwrap_or_default()
        };
        let told = Side::BOTH.map(why);
        let heard = |label: &str| told.iter().any(|why| why.contains(label));
        if serving.len() == 2 && heard("two-primaries") {
            let victim = serving[self.dice.below(2) as usize];
            self.command(cluster, oracle, victim, Command::Demote);
        }
        if let [serving] = serving[..]
            && heard("source-lacks")
        {
            // Its peer's copy, whatever it became, is all there is.
            self.command(cluster, oracle, serving, Command::Demote);
        }
        let lost = [
            "diverged",
            "both-crashed",
            "split-brain",
            "unrelated",
            "metadata-lost",
            "newer-elsewhere",
            "source-rolled-back",
        ]
        .into_iter()
        .any(heard);
        if let [serving] = serving[..]
            && lost
            && cluster.node(serving.other()).is_up()
            && !cluster.node(serving).hangs(now)
        {
            self.give_up(serving.other(), cluster, oracle);
        }
    }

    /// What `helio resolve` does; or the metadata is removed, where that is given up as well.
    fn give_up(&mut self, side: Side, cluster: &mut Cluster, oracle: &mut Oracle) {
        let record = cluster.node(side).superblock();
        if record.is_some_and(|r| r.role == Role::Secondary && r.alone && !r.wrote) {
            // It gave up already, and mostly has not met its peer since; where it has and is still refused, the other
            // forgot the generation it went back to, and it joins as new.
            if self.dice.chance(1, 6) {
                self.wipe(side, cluster);
            }
            return;
        }
        let engine = cluster.node(side).engine.as_ref();
        let stake = engine.and_then(|engine| engine.view().stake(false).ok());
        match stake.filter(|_| self.dice.chance(2, 3)) {
            Some(stake) => {
                self.tally.yields += 1;
                self.shipping_over();
                let command = Command::Yield { generation: stake.generation, last_copy: false };
                self.command(cluster, oracle, side, command);
            }
            None => self.wipe(side, cluster),
        }
    }

    fn find_a_primary(&mut self, cluster: &mut Cluster, oracle: &mut Oracle) {
        let now = cluster.now();
        if Side::BOTH.iter().any(|side| cluster.node(*side).serves()) {
            self.orphaned = None;
            return;
        }
        if now - *self.orphaned.get_or_insert(now) < PATIENCE {
            return;
        }
        // A node that took part before one that never did, older files or not; the one that led before the one that followed.
        let worth = |side: &Side| {
            let node = cluster.node(*side);
            let record = node.superblock().filter(|_| node.is_up() && !node.hangs(now));
            let sound = |r: &&Superblock| r.consistent && r.suspect == 0 && node.has_its_disk();
            record.filter(sound).map_or((0, false, 0, 0), |r| {
                let led = u64::from(r.role == Role::Primary);
                let number = r.lineage.generation.number;
                (1 + u64::from(number > 0), !oracle.is_restored(*side), number, led)
            })
        };
        let known = |side: &Side| {
            cluster.node(*side).superblock().is_some_and(|r| r.lineage.generation.number > 0)
        };
        let best = Side::BOTH.into_iter().max_by_key(worth).unwrap_or(Side::Paris);
        if worth(&best).0 == 0 {
            // What loses no write comes first.
            if Side::BOTH.into_iter().any(|side| self.put_right_disk_back(side, cluster)) {
                return;
            }
            if Side::BOTH.into_iter().any(|side| self.accept_suspect(side, cluster, oracle)) {
                return;
            }
            self.restore_one(cluster, oracle);
            return;
        }
        let whole = |side: &Side| cluster.node(*side).superblock().is_some_and(|r| r.consistent);
        if known(&best.other()) && !known(&best) && whole(&best.other()) {
            self.accept_suspect(best.other(), cluster, oracle);
            return;
        }
        let force = self.dice.chance(1, 2);
        let peer_lives = cluster.node(best.other()).is_up();
        let force = force && (!peer_lives || self.healing || self.dice.chance(1, 4));
        self.command(cluster, oracle, best, Command::Promote { force });
    }

    /// No copy is consistent: one that keeps a consistent image goes back to it.
    fn restore_one(&mut self, cluster: &mut Cluster, oracle: &mut Oracle) {
        let now = cluster.now();
        let keeps = |side: &Side| {
            let node = cluster.node(*side);
            let engine = node.engine.as_ref().filter(|_| !node.hangs(now));
            engine
                .is_some_and(|engine| engine.view().status(now).safe_copy.is_some_and(|c| c.sound))
        };
        if let Some(side) = Side::BOTH.into_iter().find(keeps) {
            let refused = self.healing && self.dice.chance(1, 3);
            let force = !cluster.node(side.other()).is_up() || refused;
            self.command(cluster, oracle, side, Command::Restore { force });
            return;
        }
        // A primary that lacked regions crashed or laid its role down, and its peer crashed before it was in order again:
        // its copy is all there is.
        let lacked = |side: &Side| {
            let record = cluster.node(*side).superblock();
            record.is_some_and(|r| (r.role == Role::Primary || r.wrote) && !r.consistent)
        };
        let out_of_order = |side: &Side| {
            let record = cluster.node(side.other()).superblock();
            lacked(side) && record.is_some_and(|r| !r.consistent)
        };
        if let Some(side) = Side::BOTH.into_iter().find(out_of_order) {
            self.wipe(side.other(), cluster);
        }
    }
}

/// Whether the status of a node that runs asks the operator for a restart.
pub(crate) fn owes_restart(node: &Node, now: Moment) -> bool {
    let engine = node.engine.as_ref();
    engine.is_some_and(|engine| starts_again(engine, &engine.view().status(node.clock.read(now))))
}

/// Whether the operator restarts the daemon because of the fault that its status shows. That may be the fault of a volume while
/// the metadata cannot be written either.
fn starts_again(engine: &Engine, status: &Status) -> bool {
    let unrecorded = engine.view().words().metadata_failed;
    let Some(Fault { what, hint }) = &status.fault else { return false };
    let awaited = what.contains("another disk") || what.contains("suspect");
    let silent = what.contains("is silent: an operation");
    let waits = hint.contains("the resync then continues") || ((awaited || silent) && !unrecorded);
    // A restore that failed is taken up at a start only.
    let stuck = what.starts_with("the rest of a restore");
    !waits && (status.role != Role::Primary || unrecorded || stuck)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;
    use crate::telling::Telling;
    use helio_engine::CommandId;
    use helio_netmodel::Dice;
    use helio_twin::MetadataFault;

    /// Whether the operator still lets no process end for a machine that went back, after one of the nodes said `words`.
    fn waits_after(words: &str, healing: bool) -> bool {
        let dice = Dice::new(1);
        let cluster = Scenario::new(&dice).cluster(&dice, false);
        let mut driver = Driver::new(&dice, &Telling::of(1));
        (driver.healing, driver.resumed) = (healing, Some(Side::Lyon));
        let (side, words) = (Side::Paris, words.to_owned());
        driver.notice(&cluster, &[Happening::Noted { side, words }]);
        driver.resumed.is_some()
    }

    #[test]
    fn metadata_that_failed_asks_for_a_restart_until_there_was_one() {
        let dice = Dice::new(1);
        let mut cluster = Scenario::new(&dice).cluster(&dice, false);
        let side = Side::Paris;
        let owes = |cluster: &Cluster| owes_restart(cluster.node(side), cluster.now());
        let pass = |cluster: &mut Cluster| cluster.run_until(cluster.now() + ROUND);
        Side::BOTH.iter().for_each(|side| assert!(cluster.start(*side).is_ok(), "{side}"));
        cluster.command(side, CommandId(1), Command::Promote { force: true });
        pass(&mut cluster);
        assert!(cluster.node(side).serves() && !owes(&cluster), "nothing failed");
        cluster.node_mut(side).metadata.fail_next(MetadataFault::Write);
        cluster.command(side, CommandId(2), Command::Demote);
        pass(&mut cluster);
        assert!(owes(&cluster), "its new role cannot be recorded");
        cluster.node_mut(side).metadata.mend();
        pass(&mut cluster);
        assert!(owes(&cluster), "the daemon writes nothing any more");
        cluster.kill(side, false);
        assert!(!owes(&cluster) && cluster.start(side).is_ok(), "it starts");
        pass(&mut cluster);
        assert!(!owes(&cluster), "it was restarted");
    }

    #[test]
    fn a_machine_that_went_back_is_met_where_it_is_refused_too() {
        for met in
            ["lyon connected as diverged", "source-rolled-back: paris is older; promote lyon"]
        {
            assert!(!waits_after(met, true), "{met}");
            assert!(waits_after(met, false), "{met}");
        }
        for other in ["lyon: syncing -> logging: connection reset", "lyon refused: another group"] {
            assert!(waits_after(other, true), "{other}");
        }
    }
}

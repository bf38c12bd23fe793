// SPDX-License-Identifier: Apache-2.0
//! The operator: what is asked of the daemons, and what their responses mean for the clients.

use super::act::Order;
use super::luck::Ends;
use super::run::{Asked, Group, Run, Wish};
use super::upkeep::Task;
use super::watch::{Strike, Until};
use crate::coverage::{Change, Met};
use crate::model::{Heir, Promise, Violation};
use helio_netmodel::Dice;
use helio_units::Mode;
use helio_world::SimDaemon;
use serde_json::{Value, json};

/// A request longer than a queue is let in alone.
const LONGEST_REQUEST: u64 = 1 << 20;

impl Group {
    /// What a node discards by an order that it carried out, or may have carried out before it ended: what it accepts without what a failed
    /// flush lost, if clients used it last, and its own side of a reversal.
    pub(super) fn discard(&mut self, node: usize, wish: Wish) {
        let discards = match wish {
            Wish::Reverse => true,
            Wish::Resolve | Wish::Accept => self.last_served == Some(node),
            _ => false,
        };
        if discards {
            self.model.failed_over(Heir::LostPower);
        }
    }
}

impl Run {
    /// Gives an order, at any node, and follows it. A fault may strike soon after its request.
    pub(super) fn order(&mut self, order: Order, strike: Option<Strike>, dice: &mut Dice) {
        let (order, place) = self.place_order(order, dice);
        if let Some(strike) = strike {
            self.arm(order, strike);
        }
        if matches!(order, Order::Demote | Order::Switch) && dice.chance(1, 2) {
            // It is refused while clients are connected.
            self.end_clients(place.1);
        }
        self.in_order(order, |run| run.give(order, place, dice));
        if !order.begins_later() {
            self.fire(order);
        }
    }

    /// Where an order is given. Where it seems best to an operator who wants to serve the clients, an order to promote takes its place
    /// half the time: random ones would seldom be carried out.
    fn place_order(&self, order: Order, dice: &mut Dice) -> (Order, (usize, usize)) {
        let (order, (node, group)) = self.choose_place(order, dice);
        let Group { forgotten, last_served, .. } = &self.groups[group];
        // Without a record a node is promoted whatever it holds: the operator knows which one clients used last.
        match (order, last_served) {
            (Order::Promote, Some(last)) if *forgotten == [true; 2] => (order, (*last, group)),
            // Few stories have keys.
            (Order::Look, _) if self.scenario.has_keys => (Order::ChangeKey, (node, group)),
            _ => (order, (node, group)),
        }
    }

    fn choose_place(&self, order: Order, dice: &mut Dice) -> (Order, (usize, usize)) {
        let (node, group) = (dice.below(2) as usize, dice.below(self.groups.len() as u64) as usize);
        let node = self.groups[group].shape.alone.unwrap_or(node);
        let Group { serves, shape, .. } = &self.groups[group];
        let (serves, has_peer) = (*serves, shape.alone.is_none());
        let promotes = dice.chance(1, 2);
        match serves {
            None if promotes => (Order::Promote, (node, group)),
            Some(lost) if promotes && has_peer && self.nodes[lost].daemon.is_none() => {
                (Order::ForcePromote, (1 - lost, group))
            }
            Some(primary) if promotes && matches!(order, Order::Demote | Order::Switch) => {
                (order, (primary, group))
            }
            _ => (order, (node, group)),
        }
    }

    pub(super) fn give(&mut self, order: Order, (node, group): (usize, usize), dice: &mut Dice) {
        if self.nodes[node].daemon.is_none() {
            return;
        }
        let volumes = &self.groups[group].shape.volumes;
        let volume = volumes[dice.below(volumes.len() as u64) as usize].clone();
        let paths = volume.paths(self.groups[group].shape.name, node);
        let path = &paths[dice.below(paths.len() as u64) as usize];
        let member = json!({ "volume": volume.name, "path": path });
        let (verb, body, wish) = match order {
            Order::Stop | Order::Upgrade | Order::RestoreBackup => {
                return self.stop_for(order, node, dice);
            }
            Order::Status => return self.look(node),
            Order::Explain => return self.get(node, group, "explain"),
            Order::Recorder => return self.get(node, group, "debug/events"),
            Order::Promote => {
                ("promote", promotion(false), Wish::Promote { forced: false, restored: false })
            }
            Order::ForcePromote => return self.force_promote(node, group),
            Order::Demote => ("demote", json!({}), Wish::Demote),
            Order::Switch => ("switch", json!({ "force": false }), Wish::Switch),
            Order::Pause => ("pause", json!({}), Wish::Other),
            Order::Resume => ("resume", json!({}), Wish::Other),
            Order::Resync | Order::FullResync => {
                let full = order == Order::FullResync;
                let safe = !full && dice.chance(1, 4);
                ("resync", json!({ "full": full, "give_up_safe_copy": safe }), Wish::Other)
            }
            Order::Mode => {
                let mode = [Mode::Sync, Mode::NearSync, Mode::Async][dice.below(3) as usize];
                ("mode", json!({ "mode": mode.to_string() }), Wish::Other)
            }
            Order::Queue => {
                self.groups[group].queue_was_set = true;
                let bytes = 262_144 << dice.below(4);
                ("queue/set", json!({ "memory": { "bytes": bytes } }), Wish::Other)
            }
            Order::Verify => ("verify", json!({}), Wish::Other),
            Order::VerifyStop => ("verify/stop", json!({}), Wish::Other),
            Order::MemberRemove => ("member/remove", member, Wish::Other),
            Order::MemberAdd => ("member/add", member, Wish::Other),
            Order::MemberMerge => ("member/merge", json!({ "volume": volume.name }), Wish::Other),
            Order::Apply => return self.apply(node),
            Order::Attach => return self.attach(node, group, dice),
            Order::Detach => return self.detach(node, group, false, dice),
            Order::ForceDetach => return self.detach(node, group, true, dice),
            Order::Attachments => return self.list_attachments(node),
            Order::QueueReset => ("queue/reset", json!({}), Wish::Other),
            Order::Resolve => {
                let name = self.nodes[node].name;
                ("resolve", json!({ "discard": name, "confirmed": true }), Wish::Resolve)
            }
            Order::MemberReplace => ("member/replace", confirmed(volume.name), Wish::Replace),
            Order::MemberAccept => ("member/accept", confirmed(volume.name), Wish::Accept),
            Order::MemberSet => {
                let cost = json!({ "cost": 1 + dice.below(100) });
                let body = json!({ "volume": volume.name, "path": path, "read_cost": cost });
                ("member/set", body, Wish::Other)
            }
            _ => return self.give_more(order, node, group, dice),
        };
        self.post(node, group, verb, &body, wish);
    }

    /// Orders that are more than one request to a group.
    fn give_more(&mut self, order: Order, node: usize, group: usize, dice: &mut Dice) {
        match order {
            Order::TakeOver => self.take_over(group, dice),
            Order::SeedBegin => self.begin_seed(node, group),
            Order::SeedEnd => self.end_seed(node, group),
            Order::ChangeFile => self.change_file(dice),
            Order::SpoilFile => self.spoil_file(node, dice),
            Order::ChangeKey => self.change_key(node),
            Order::Release => {
                self.close(node, group, Task::Release { force: dice.chance(1, 8) });
            }
            Order::Adopt => self.begin_adoption(group),
            Order::Reverse => {
                self.close(node, group, Task::Reverse { full: dice.chance(1, 2) });
            }
            Order::SavedDelete => {
                let body = json!({ "all": true, "confirmed": true });
                self.send((node, None), "POST", "/v2/saved/delete".into(), &body, Wish::Other);
            }
            _ => {
                let name = self.groups[group].shape.name;
                let path = match dice.below(8) {
                    0 => format!("/v2/groups/{name}"),
                    1 => format!("/v2/groups/{name}/queue"),
                    2 => "/v2/saved".to_owned(),
                    3 => "/v2/attachments".to_owned(),
                    4 => "/v2/events?now=true".to_owned(),
                    5 => "/v2/clients".to_owned(),
                    6 => {
                        let (body, path) = (json!({ "group": name }), "/v2/clients/close");
                        return self.send((node, None), "POST", path.into(), &body, Wish::Other);
                    }
                    _ => {
                        let body = json!({ "dry_run": true });
                        return self.send(
                            (node, None),
                            "POST",
                            "/v2/apply".into(),
                            &body,
                            Wish::Other,
                        );
                    }
                };
                self.send((node, None), "GET", path, &Value::Null, Wish::Other);
            }
        }
    }

    /// Promotes a node although its peer does not agree, and only if the daemon of the peer does not run.
    pub(super) fn force_promote(&mut self, node: usize, group: usize) {
        // What such a copy is worth, neither node knows: the other one would not know of this generation.
        let Group { promised, last_served, .. } = &self.groups[group];
        if promised.is_blank(node) && *last_served == Some(1 - node) {
            return;
        }
        if self.nodes[1 - node].daemon.is_none() {
            let wish = Wish::Promote { forced: true, restored: false };
            self.post(node, group, "promote", &promotion(true), wish);
        }
    }

    fn stop_for(&mut self, order: Order, node: usize, dice: &mut Dice) {
        self.nodes[node].is_older |= order == Order::Upgrade;
        if order == Order::RestoreBackup {
            self.nodes[node].images.restore(true);
        }
        self.stop(node, std::time::Duration::from_millis(10 + dice.below(20_000)));
    }

    /// Stops a daemon, and starts it again later.
    pub(super) fn stop(&mut self, node: usize, starts: std::time::Duration) {
        self.world.tell(format_args!("{}: stops", self.nodes[node].name));
        self.follow(Met::Order(Order::Stop), Until::Ended { node });
        self.follow(Met::Change(Change::Stop), Until::Ended { node });
        if let Some(daemon) = &mut self.nodes[node].daemon {
            daemon.stop();
        }
        self.users_of_stopped(node);
        self.note_end(node, false);
        self.ends.push((self.world.now() + starts, Ends::Start(node)));
    }

    pub(super) fn apply(&mut self, node: usize) {
        let body = json!({ "dry_run": false });
        self.send((node, None), "POST", "/v2/apply".into(), &body, Wish::Apply);
    }

    pub(super) fn look(&mut self, node: usize) {
        self.ask("/v2/status", node, Wish::Status);
    }

    /// Asks a node for something that is of no group.
    pub(super) fn ask(&mut self, path: &str, node: usize, wish: Wish) {
        self.send((node, None), "GET", path.into(), &Value::Null, wish);
    }

    fn get(&mut self, node: usize, group: usize, what: &str) {
        let path = format!("/v2/groups/{}/{what}", self.groups[group].shape.name);
        self.send((node, None), "GET", path, &Value::Null, Wish::Other);
    }

    pub(super) fn post(&mut self, node: usize, group: usize, verb: &str, body: &Value, wish: Wish) {
        let path = format!("/v2/groups/{}/{verb}", self.groups[group].shape.name);
        self.send((node, Some(group)), "POST", path, body, wish);
    }

    pub(super) fn send(
        &mut self,
        (node, group): (usize, Option<usize>),
        method: &'static str,
        path: String,
        body: &Value,
        wish: Wish,
    ) {
        let name = self.nodes[node].name;
        let Some(daemon) = &mut self.nodes[node].daemon else { return };
        self.requests += 1;
        let number = self.requests;
        self.world.tell(format_args!("{}: request {number}: {method} {path} {body}", name));
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        daemon.request(number, method, path, body);
        self.asked.insert(number, Asked { node, group, wish });
    }

    /// A response: what it means for the clients.
    ///
    /// # Errors
    /// The promise that it breaks, or a bound that what the node reports passes.
    pub(super) fn responded(
        &mut self,
        node: usize,
        number: u64,
        status: u16,
        body: &[u8],
    ) -> Result<(), Violation> {
        let Some(Asked { wish, group, .. }) = self.asked.remove(&number) else { return Ok(()) };
        if wish != Wish::Status {
            let text = String::from_utf8_lossy(body);
            let text: String = text.chars().take(400).collect();
            self.world.tell(format_args!(
                "{}: response {number}: {status} {text}",
                self.nodes[node].name
            ));
        }
        let is_invalid = self.ends.iter().any(|(_, it)| matches!(it, Ends::File));
        if wish == Wish::Refusal && status == 200 && is_invalid {
            let name = self.nodes[node].name;
            let detail = format!("{name} applies an invalid configuration file");
            return Err(Violation::new(Promise::Refuses, detail));
        }
        if matches!(wish, Wish::Release | Wish::Reverse) {
            self.open(node, group);
        }
        if wish == Wish::Apply && status == 200 {
            self.nodes[node].unapplied = self.needs_restart(node, body);
        }
        if wish == Wish::Status && status == 200 {
            self.status[node] = serde_json::from_slice(body).ok();
            self.check_bounds(node)?;
            self.note_judged(node);
        }
        if wish == Wish::Attachments && status == 200 {
            self.devices.lists[node] = serde_json::from_slice(body).ok();
        }
        match group {
            Some(group) if status == 200 => {
                for change in self.changes_of(node, group, wish) {
                    self.changed(change, number);
                }
                self.done(node, group, (wish, body))?;
            }
            Some(group) => {
                let adopts = self.groups[group].adopts == Some(node);
                match wish {
                    // Not every step succeeded.
                    Wish::Release if self.is_released(node, group) => {
                        self.released(node, group, body)?;
                    }
                    Wish::Release if adopts => self.groups[group].adopts = None,
                    _ => {}
                }
                self.refused(node, group, body);
            }
            // The reason may be any group of the file.
            None if status != 200 && wish == Wish::Apply => {
                (0..self.groups.len()).for_each(|group| self.refused(node, group, body));
            }
            None => {}
        }
        self.followed(
            false,
            |until| matches!(until, Until::Response { request, .. } if request == number),
        );
        Ok(())
    }

    /// The members of every group that a node serves have been judged.
    fn note_judged(&mut self, node: usize) {
        let groups: Vec<usize> = (0..self.groups.len())
            .filter(|group| self.group_status(node, *group).is_some())
            .collect();
        self.nodes[node].images.judged(|group| groups.contains(&group));
    }

    /// Whether a restart is needed to serve a group of the file. The operator applies the file again until then.
    fn needs_restart(&mut self, node: usize, body: &[u8]) -> bool {
        let applied: Value = serde_json::from_slice(body).unwrap_or_default();
        let needed = applied["restart_needed"].as_array().into_iter().flatten();
        let mut any = false;
        for added in needed.filter_map(|it| it.as_str()?.strip_suffix(" added")) {
            let names = |group: &Group| added.strip_prefix("group ") == Some(group.shape.name);
            if let Some(group) = self.groups.iter_mut().find(|group| names(group)) {
                group.hints.push((node, "restart the daemon".to_owned()));
                any = true;
            }
        }
        any
    }

    /// What a node has reported is within its bounds.
    fn check_bounds(&self, node: usize) -> Result<(), Violation> {
        let Some(status) = &self.status[node] else { return Ok(()) };
        for group in &status.groups {
            // A bound that was lowered counts once the queue fits.
            let ours = self.groups.iter().find(|it| it.shape.name == group.name);
            let is_fixed = ours.is_some_and(|it| !it.queue_was_set);
            let queue = group.queue.as_ref().filter(|it| is_fixed && it.bound_source == "file");
            let Some(queue) = queue else { continue };
            let most = queue.bound_bytes.0 + LONGEST_REQUEST;
            if queue.bytes.0 > most || queue.items.0 > queue.bound_items.0 {
                let detail = format!("the queue of {} passes its bound: {queue:?}", group.name);
                return Err(Violation::new(Promise::Bounded, detail));
            }
        }
        Ok(())
    }

    /// No node has more clients than it may have.
    pub(super) fn check_clients(&self) -> Result<(), Violation> {
        for node in &self.nodes {
            let census = node.daemon.as_ref().and_then(SimDaemon::census);
            let clients = census.map_or(0, |it| (it.clients.in_use - it.guests) as u64);
            if clients > self.clients_max {
                let detail = format!("{} has {clients} clients", node.name);
                return Err(Violation::new(Promise::Bounded, detail));
            }
        }
        Ok(())
    }

    /// The changes of roles that an order comes to which was carried out.
    fn changes_of(&self, node: usize, group: usize, wish: Wish) -> Vec<Change> {
        let Group { serves, last_served, .. } = &self.groups[group];
        match wish {
            Wish::Promote { forced, .. } if *serves != Some(node) => {
                let lost = *last_served == Some(1 - node) && self.nodes[1 - node].daemon.is_none();
                let promoted = if forced { Change::ForcePromote } else { Change::Promote };
                [promoted].into_iter().chain(lost.then_some(Change::Failover)).collect()
            }
            Wish::Demote => vec![Change::Demote],
            Wish::Switch => vec![Change::Switch],
            _ => Vec::new(),
        }
    }

    /// What an order that was carried out means for the clients of a group.
    fn done(
        &mut self,
        node: usize,
        group: usize,
        (wish, body): (Wish, &[u8]),
    ) -> Result<(), Violation> {
        let it = &mut self.groups[group];
        match wish {
            Wish::Promote { .. } | Wish::Switch => it.forgotten = [false; 2],
            // What it had recorded counts for nothing any more.
            Wish::Resolve => it.forgotten[node] = true,
            _ => {}
        }
        match wish {
            Wish::Promote { forced: true, restored } if it.last_served != Some(node) => {
                // The node that they used may run, and serve them.
                self.disconnect_clients(group);
                return self.fail_over(node, group, restored);
            }
            Wish::Promote { .. } if it.last_served == Some(node) => it.serves = Some(node),
            // It was primary before its peer was promoted by a hold lease: nothing changed.
            Wish::Promote { .. } if is_needless(body) => {}
            Wish::Promote { .. } => {
                // A promotion by a hold lease does not stop the old primary: the operator ends its clients.
                self.end_clients(group);
                self.hand_over(node, group);
            }
            Wish::Switch => {
                let now = 1 - it.serves.unwrap_or(node);
                self.hand_over(now, group);
            }
            Wish::Demote if it.serves == Some(node) => it.serves = None,
            Wish::Replace if it.serves != Some(node) => it.model.peer_changed(),
            Wish::Release => return self.released(node, group, body),
            Wish::SeedBegin | Wish::SeedEnd => self.seeded(node, group, wish),
            _ => it.discard(node, wish),
        }
        Ok(())
    }
}

/// Whether a promotion changed nothing, by its response.
fn is_needless(body: &[u8]) -> bool {
    String::from_utf8_lossy(body).contains(" is primary here already")
}

impl Run {
    /// A refusal: what it recommends.
    fn refused(&mut self, node: usize, group: usize, body: &[u8]) {
        let text: Value = serde_json::from_slice(body).unwrap_or_default();
        if let Some(hint) = text["hint"].as_str() {
            self.groups[group]
                .hints
                .push((node, hint.replace(" here", &format!(" on {}", self.nodes[node].name))));
        }
    }
}

pub(super) fn promotion(force: bool) -> Value {
    json!({ "force": force, "confirmed": force })
}

fn confirmed(volume: &str) -> Value {
    json!({ "volume": volume, "confirmed": true })
}

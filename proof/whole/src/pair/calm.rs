// SPDX-License-Identifier: Apache-2.0
//! Liveness: once nothing goes wrong any more, everything becomes level within a bound of virtual time, and the operator does only
//! what the status recommends.

use super::run::{Run, Wish};
use crate::model::{Promise, Violation};
use helio_api::GroupStatus;
use helio_units::{Role, State, Verdict};
use serde_json::{Value, json};
use std::time::Duration;

/// How long it may take.
const BOUND: Duration = Duration::from_secs(1200);
/// How long what is under way may take once everything is level.
const SETTLES: Duration = Duration::from_secs(10);
/// How often the operator looks.
const LOOKS: Duration = Duration::from_secs(5);

impl Run {
    /// Waits until everything is level.
    ///
    /// # Errors
    /// What is not.
    pub(super) fn calm_down(&mut self) -> Result<(), Violation> {
        self.end_all_luck();
        let until = self.world.now() + BOUND;
        while self.world.now() < until {
            self.pass(LOOKS)?;
            // One may have been told to stop before.
            (0..2).for_each(|node| self.start(node));
            self.take_all_back();
            for node in (0..2).filter(|node| self.nodes[*node].unapplied).collect::<Vec<_>>() {
                self.apply(node);
            }
            self.status = [None, None];
            self.look(0);
            self.look(1);
            self.pass(Duration::from_millis(500))?;
            if self.all_level() {
                return self.pass(SETTLES).and_then(|()| self.let_clients_leave());
            }
            self.advised += 1;
            for group in 0..self.groups.len() {
                if !self.is_level(group) {
                    self.follow_advice(group);
                }
            }
        }
        let told: Vec<String> = (0..2).map(|node| self.words(node)).collect();
        let bound = BOUND.as_secs();
        let why = format!("not in sync {bound} s after the last misfortune: {}", told.join("; "));
        let late = (0..self.groups.len()).filter(|it| !self.is_level(*it));
        if late.into_iter().all(|group| self.is_lost(group)) {
            self.lost = Some(why);
            return Ok(());
        }
        Err(Violation::new(Promise::InSyncAgain, why))
    }

    /// Whether both nodes say that no copy of a group is complete: misfortune damaged both, and a backup is needed.
    fn is_lost(&self, group: usize) -> bool {
        let says = |node| {
            let status = self.group_status(node, group);
            status.is_some_and(|it| it.next.starts_with("no node has a complete copy: restore"))
        };
        says(0) && says(1)
    }

    /// Every client gets its responses, and the end of its connection if it broke a rule.
    fn let_clients_leave(&mut self) -> Result<(), Violation> {
        for _ in 0..12 {
            if (0..self.groups.len()).all(|group| !self.clients_wait(group)) {
                return self.attached_volumes_are_back();
            }
            self.pass(LOOKS)?;
        }
        let waits = (0..self.groups.len()).filter(|group| self.clients_wait(*group));
        let names: Vec<&str> = waits.map(|group| self.groups[group].shape.name).collect();
        let names = names.join(", ");
        let detail = format!("clients of {names} wait for ever, and their group is in sync");
        Err(Violation::new(Promise::Ends, detail))
    }

    /// Once no program uses a device any more, what is to be attached is attached.
    fn attached_volumes_are_back(&mut self) -> Result<(), Violation> {
        self.pass(LOOKS)?;
        self.devices.lists = [None, None];
        (0..2).for_each(|node| self.list_attachments(node));
        self.pass(Duration::from_millis(500))?;
        self.judge_devices()
    }

    fn words(&self, node: usize) -> String {
        let name = self.nodes[node].name;
        let Some(status) = &self.status[node] else {
            let why = self.nodes[node].why.clone().unwrap_or_default();
            return format!("{name} does not respond {why}");
        };
        let group = |it: &GroupStatus| {
            format!("{} {} {} {:?} ({})", it.name, it.role, it.state, it.verdict, it.next)
        };
        let groups: Vec<String> = status.groups.iter().map(group).collect();
        let failed: Vec<String> =
            status.failed.iter().map(|it| format!("{}: {}", it.name, it.reason)).collect();
        format!("{name}: {} {}", groups.join(", "), failed.join(", "))
    }

    pub(super) fn group_status(&self, node: usize, group: usize) -> Option<&GroupStatus> {
        let name = self.groups[group].shape.name;
        self.status[node].as_ref()?.groups.iter().find(|it| it.name == name)
    }

    pub(super) fn is_level(&self, group: usize) -> bool {
        if let Some(node) = self.groups[group].shape.alone {
            return self.is_whole_alone(node, group);
        }
        let (Some(one), Some(other)) = (self.group_status(0, group), self.group_status(1, group))
        else {
            return false;
        };
        let roles = [one.role, other.role];
        roles.contains(&Role::Primary)
            && roles.contains(&Role::Secondary)
            && [one, other].iter().all(|it| {
                it.verdict.word == Verdict::Ok
                    && it.state == State::Replicating
                    && it.lag.bytes.0 == 0
                    && is_whole(it)
            })
    }

    /// Whether every group is level. What refusals recommended to one that is has become needless: it is no advice for a later day.
    pub(super) fn all_level(&mut self) -> bool {
        let groups = 0..self.groups.len();
        let level: Vec<usize> = groups.filter(|group| self.is_level(*group)).collect();
        level.iter().for_each(|group| self.groups[*group].hints.clear());
        level.len() == self.groups.len()
    }

    /// Whether a group of one node serves, and nothing is missing on a member.
    fn is_whole_alone(&self, node: usize, group: usize) -> bool {
        !self.groups[group].shape.listed
            || self.group_status(node, group).is_some_and(|it| {
                it.verdict.word == Verdict::Ok && it.role == Role::Primary && is_whole(it)
            })
    }

    /// Does one thing that the status of either node, or a refusal since, recommends; most often what the refusal does, so that a chain
    /// of refusals comes to its end.
    pub(super) fn follow_advice(&mut self, group: usize) {
        let mut all = std::mem::take(&mut self.groups[group].hints);
        let hints = all.len();
        for node in 0..2 {
            if let Some(status) = self.group_status(node, group) {
                all.push((node, status.next.clone()));
            } else if let Some(status) = &self.status[node] {
                let name = self.groups[group].shape.name;
                let failed = status.failed.iter().find(|it| it.name == name);
                all.extend(failed.map(|it| (node, it.hint.clone())));
            }
        }
        for (node, it) in self.nodes.iter().enumerate().filter(|(_, it)| it.daemon.is_none()) {
            all.extend(it.why.clone().map(|why| (node, why)));
        }
        let (mut steps, mut hinted) = (Vec::new(), 0);
        for (n, (node, text)) in all.iter().enumerate() {
            self.world.tell(format_args!("{}: advice: {text}", self.nodes[*node].name));
            steps.extend(self.steps(*node, text, group));
            steps.dedup();
            hinted = if n < hints { steps.len() } else { hinted };
        }
        if steps.is_empty() {
            return;
        }
        let mut dice = self.world.dice("advice").split_nth("look", self.advised as u64);
        let among = if hinted > 0 && dice.chance(3, 4) { hinted } else { steps.len() };
        let (node, step) = steps[dice.below(among as u64) as usize].clone();
        self.take_step(node, group, &step);
    }

    /// The commands in a text, and where they are to be given: at the node that is named behind one, or where the text was shown.
    fn steps(&self, shown: usize, text: &str, group: usize) -> Vec<(usize, String)> {
        let (mut steps, last) = (Vec::new(), self.groups[group].last_served);
        // An operator who has the newest disk does nothing else.
        if text.contains("put the newest disk of") && self.nodes[shown].images.is_unjudged(group) {
            return vec![(shown, "put back".to_owned())];
        }
        let text = self.applicable(text, group);
        let text = text.as_str();
        if text.contains("restart") {
            let named = self.nodes.iter().position(|it| text.contains(&format!("on {}", it.name)));
            steps.push((named.unwrap_or(shown), "restart".to_owned()));
        }
        if text.contains("name the disk of a full member") {
            steps.push((shown, "list members".to_owned()));
        }
        if text.contains("disconnect them") || text.contains("end the processes") {
            steps.push((shown, "disconnect".to_owned()));
        }
        let mut rest = text;
        while let Some((_, behind)) = rest.split_once("`helio ")
            && let Some((command, behind)) = behind.split_once('`')
        {
            let named =
                |node: &super::node::Node| behind.starts_with(&format!(" on {}", node.name));
            match (self.nodes.iter().position(named), behind.starts_with(" on the node that")) {
                // The one that clients used last has what they may find.
                (_, true) => {
                    let nodes = last.map_or_else(|| vec![0, 1], |last| vec![last]);
                    steps.extend(nodes.into_iter().map(|node| (node, command.to_owned())));
                }
                (at, _) => steps.push((at.unwrap_or(shown), command.to_owned())),
            }
            rest = behind;
        }
        // What keeps a device and does not end loses it.
        if text.contains("; with --force they get")
            && let Some((at, command)) = steps.last().cloned()
        {
            steps.push((at, command + " --force"));
        }
        steps
    }

    /// A text without the sentences whose condition does not hold: that a node was primary last, or was not; or that it has
    /// the writes. If one of them has a history, the nodes judge that themselves.
    fn applicable(&self, text: &str, group: usize) -> String {
        let last = self.groups[group].last_served;
        let is_new =
            |node| self.group_status(node, group).is_some_and(|it| it.generation.starts_with("0."));
        let are_new = is_new(0) && is_new(1);
        let applies = |sentence: &&str| {
            self.nodes.iter().enumerate().all(|(n, node)| {
                let says = |what: &str| sentence.contains(&format!("{} {what}", node.name));
                let served = says("was primary last") || are_new && says("has them");
                !(served && last == Some(1 - n) || says("was secondary") && last == Some(n))
            })
        };
        text.split_inclusive(". ").filter(applies).collect()
    }

    /// A member of a volume that its node does not list as full, if there is one.
    fn missing_member(&self, node: usize, group: usize, volume: &str) -> Option<String> {
        let it = &self.groups[group].shape;
        let shape = it.volumes.iter().find(|shape| shape.name == volume)?;
        let full = self.full_members(node, group, shape);
        let missing = shape.paths(it.name, node).into_iter().find(|path| !full.contains(path))?;
        Some(missing.display().to_string())
    }

    fn take_step(&mut self, node: usize, group: usize, step: &str) {
        // What the operator is to choose: the node that clients did not use last, and every volume in its turn.
        let other = self.groups[group].last_served.map_or(1, |last| 1 - last);
        let volumes = &self.groups[group].shape.volumes;
        let step = step.replace("NODE", self.nodes[other].name);
        let step = step.replace("VOLUME", volumes[self.advised / 2 % volumes.len()].name);
        let node = if step.starts_with("resolve") && step.ends_with(self.nodes[other].name) {
            other
        } else {
            node
        };
        let words: Vec<&str> = step.split(' ').collect();
        let volume = |name: &str| name.split('/').nth(1).unwrap_or_default().to_owned();
        let (verb, body, wish): (&str, Value, Wish) = match words[..] {
            ["apply"] => {
                return self.apply(node);
            }
            ["disconnect"] => return self.end_clients(group),
            ["list", "members"] => return self.list_members(),
            ["seed", "end", _] => return self.end_seed(node, group),
            ["put", "back"] => {
                self.nodes[node].images.return_newest(group);
                return self.stop(node, Duration::from_millis(100));
            }
            ["restart"] => return self.stop(node, Duration::from_millis(100)),
            ["promote", _, ref more @ ..] => {
                let forced = more.contains(&"--force");
                let restore = more.contains(&"--restore");
                let body = json!({ "force": forced, "confirmed": forced, "restore": restore });
                ("promote", body, Wish::Promote { forced, restored: restore })
            }
            ["demote", _] => ("demote", json!({}), Wish::Demote),
            ["resume", _] => ("resume", json!({}), Wish::Other),
            ["resync", _, ref more @ ..] => {
                let (full, safe) =
                    (more.contains(&"--full"), more.contains(&"--give-up-safe-copy"));
                ("resync", json!({ "full": full, "give_up_safe_copy": safe }), Wish::Other)
            }
            ["resolve", _, "--discard", name, ..] => {
                ("resolve", json!({ "discard": name, "confirmed": true }), Wish::Resolve)
            }
            ["metadata", "create", name, ..] => {
                let named = self.groups.iter().position(|it| it.shape.name == name);
                return named.into_iter().for_each(|group| _ = self.create_metadata(node, group));
            }
            ["detach", name, ref more @ ..] => {
                let forced = more.contains(&"--force");
                return self.detach_named(node, group, (&volume(name), forced));
            }
            ["member", what, name, ..] if name.contains('/') => {
                return self.member_step(node, group, (what, &volume(name)));
            }
            _ => return,
        };
        self.post(node, group, verb, &body, wish);
    }

    fn member_step(&mut self, node: usize, group: usize, (what, volume): (&str, &str)) {
        let confirmed = json!({ "volume": volume, "confirmed": true });
        match what {
            "add" => {
                let Some(path) = self.missing_member(node, group, volume) else { return };
                let body = json!({ "volume": volume, "path": path });
                self.post(node, group, "member/add", &body, Wish::Other);
            }
            "replace" => self.post(node, group, "member/replace", &confirmed, Wish::Replace),
            "accept" => self.post(node, group, "member/accept", &confirmed, Wish::Accept),
            _ => {}
        }
    }
}

/// Whether nothing is missing on a member.
fn is_whole(group: &GroupStatus) -> bool {
    group.volumes.iter().all(|volume| {
        volume.unmerged_bytes.0 == 0
            && volume.members.iter().all(|it| it.left_bytes.is_none_or(|left| left.0 == 0))
    })
}

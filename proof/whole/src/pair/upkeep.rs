// SPDX-License-Identifier: Apache-2.0
//! What an operator does in several steps: takes over for a node that is gone, releases a group and takes it back, and takes the copy of
//! the secondary back.

use super::act::Order;
use super::luck::Ends;
use super::run::{Run, Stale, Wish};
use crate::model::{Heir, Promise, Violation};
use helio_disk::STAMP;
use helio_driver::{Machine, Mode, OFlags};
use helio_netmodel::Dice;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// How long an operator waits for clients to leave.
const LEAVE_WITHIN: Duration = Duration::from_secs(1);

/// What is done to a group once its clients have left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    Release { force: bool },
    Reverse { full: bool },
}

impl Task {
    /// The order that it is the last step of.
    pub(super) const fn order(self) -> Order {
        match self {
            Self::Release { .. } => Order::Release,
            Self::Reverse { .. } => Order::Reverse,
        }
    }
}

impl Run {
    /// The node that serves a group goes down, and its peer takes over.
    pub(super) fn take_over(&mut self, group: usize, dice: &mut Dice) {
        let it = &self.groups[group];
        let Some(node) = it.serves.filter(|_| it.shape.alone.is_none()) else { return };
        self.down(node, dice.chance(1, 2));
        let now = self.world.now();
        let order = Duration::from_millis(20 + dice.below(8000));
        let starts = order + Duration::from_millis(dice.below(20_000));
        self.ends.push((now + order, Ends::TakeOver { node: 1 - node, group }));
        self.ends.push((now + starts, Ends::Start(node)));
    }

    /// The clients of a group leave, and do not return before the task is done.
    pub(super) fn close(&mut self, node: usize, group: usize, task: Task) {
        self.groups[group].closed = Some(node);
        self.send_clients_away(group);
        self.ends.push((self.world.now() + LEAVE_WITHIN, Ends::Task { node, group, task }));
    }

    /// The clients of a group have left.
    pub(super) fn do_task(&mut self, node: usize, group: usize, task: Task) {
        if self.nodes[node].daemon.is_none() {
            self.groups[group].adopts = None;
            return self.open(node, Some(group));
        }
        match task {
            Task::Release { force } => {
                let body = json!({ "force": force, "keep_metadata": false });
                self.post(node, group, "release", &body, Wish::Release);
            }
            Task::Reverse { full } => {
                let body = json!({ "full": full, "confirmed": true });
                self.post(node, group, "resync/reverse", &body, Wish::Reverse);
            }
        }
    }

    /// What was done on that node is done, or ended with its daemon: clients may return.
    pub(super) fn open(&mut self, node: usize, group: Option<usize>) {
        for (n, it) in self.groups.iter_mut().enumerate() {
            if it.closed == Some(node) && group.is_none_or(|group| group == n) {
                it.closed = None;
            }
        }
    }

    /// A node no longer serves a group: its members are free, and what they hold is what the clients may find. Operations on a disk that
    /// does not respond may not have completed: then the response names the member. The operator keeps the copy of the other node in two
    /// cases: the response says that this one is not complete, or the group was adopted on the other node and that has not met this one since.
    ///
    /// # Errors
    /// The promise that is broken.
    pub(super) fn released(
        &mut self,
        node: usize,
        group: usize,
        body: &[u8],
    ) -> Result<(), Violation> {
        let name = self.groups[group].shape.name;
        let response: Value = serde_json::from_slice(body).unwrap_or_default();
        let warnings = response["warnings"].as_array().into_iter().flatten();
        // Where not every step succeeded, the warnings are in the hint.
        let hints = response["hint"].as_str().into_iter().flat_map(|hint| hint.split("; "));
        let warnings: Vec<&str> = warnings.filter_map(Value::as_str).chain(hints).collect();
        let hung = self.nodes[node].has_faults;
        let message = response["message"].as_str().or(response["error"].as_str());
        let message = message.unwrap_or_default();
        let whole = !message.contains("not a complete and consistent copy");
        for volume in self.groups[group].shape.volumes.clone() {
            for path in volume.paths(name, node) {
                let file = self.nodes[node].machine.open(&path, OFlags::RDWR, Mode::empty());
                // A process that was killed may hold it, too: then it is not a complete copy.
                let shown = format!("operations on {} of {name}/", path.display());
                let names = |text: &&str| text.starts_with(&shown);
                let is_named = hung && warnings.iter().any(names);
                // A misfortune may keep it from being opened; that says nothing of the daemon.
                if file.is_ok_and(|file| file.body().lock() == Ok(false)) && !is_named {
                    let detail = format!("{name} is released, and {} is locked", path.display());
                    return Err(Violation::new(Promise::Closes, detail));
                }
            }
        }
        self.note_stale(node, group, message, &warnings);
        let served = self.groups[group].serves == Some(node);
        if served && whole {
            for (n, image) in self.single_images(node, group)? {
                self.groups[group].model.judge_heir(n, &image)?;
            }
        }
        let it = &mut self.groups[group];
        if served {
            it.serves = None;
            // Clients used this copy after the other one was released.
            let is_one = it.shape.volumes.iter().all(|volume| volume.members[node] == 1);
            it.adopts = it.adopts.and(Some(node)).filter(|_| is_one);
        } else {
            it.model.peer_changed();
            // The copy that clients use since is another one.
            it.adopts.take_if(|source| *source == node);
        }
        it.promised.lost(node);
        it.forgotten[node] = true;
        let stays = whole && !it.promised.knows_no_peer(1 - node);
        if !stays && it.shape.alone.is_none() && it.last_served == Some(node) {
            it.last_served = Some(1 - node);
            it.model.failed_over(it.promised.heir(1 - node));
        }
        match it.adopts {
            Some(source) if source == node => {
                self.in_order(Order::Adopt, |run| run.adopt(node, group));
            }
            Some(_) => {}
            None => {
                let at = self.world.now() + Duration::from_secs(5);
                self.ends.push((at, Ends::Return(node, group)));
            }
        }
        Ok(())
    }

    /// Notes the members that a release named as incomplete.
    fn note_stale(&mut self, node: usize, group: usize, message: &str, warnings: &[&str]) {
        let it = &mut self.groups[group];
        let is_named = |path: &PathBuf| {
            let head = format!("{} of {}/", path.display(), it.shape.name);
            warnings
                .iter()
                .any(|text| text.starts_with(&head) && text.contains("is not a complete copy"))
        };
        for volume in &it.shape.volumes {
            let paths = volume.paths(it.shape.name, node).into_iter();
            let (stale, full): (Vec<_>, Vec<_>) = paths.partition(is_named);
            let listed = |path: &&PathBuf| message.contains(&format!(" is {}", path.display()));
            let Some(full) = full.iter().find(listed) else { continue };
            let all = stale.into_iter().map(|path| Stale { node, path, full: full.clone() });
            it.stale.extend(all);
        }
    }

    /// The operator replaces what a release left incomplete. Returns whether nothing of it is left on that node.
    fn replace_stale(&mut self, node: usize, group: usize) -> bool {
        let (nodes, stale) = (&self.nodes, &mut self.groups[group].stale);
        stale.retain(|it| it.node != node || nodes[node].copy_file(&it.full, &it.path).is_err());
        !stale.iter().any(|it| it.node == node)
    }

    /// Releases a group on the node that serves it, then on the other one. A group is adopted with one member of each volume.
    pub(super) fn begin_adoption(&mut self, group: usize) {
        let it = &mut self.groups[group];
        let Some(node) = it.serves.filter(|_| it.shape.alone.is_none()) else { return };
        if it.shape.volumes.iter().all(|volume| volume.members[node] == 1) {
            it.adopts = Some(node);
            self.close(node, group, Task::Release { force: false });
        }
    }

    fn adopt_later(&mut self, node: usize, group: usize) {
        self.ends.push((self.world.now() + Duration::from_secs(2), Ends::Adopt { node, group }));
    }

    /// What was released on both nodes is adopted on one, and the other one follows it with blank metadata.
    pub(super) fn adopt(&mut self, node: usize, group: usize) {
        if self.groups[group].adopts != Some(node) {
            return self.take_back(node, group);
        }
        if !self.is_released(node, group) {
            self.groups[group].adopts = None;
            return self.take_back(1 - node, group);
        }
        if !self.is_released(1 - node, group) {
            let body = json!({ "force": true, "keep_metadata": false });
            self.post(1 - node, group, "release", &body, Wish::Release);
            return self.adopt_later(node, group);
        }
        let shape = self.groups[group].shape.clone();
        let (adopted, name) = (self.nodes[node].adopt(node, &shape), self.nodes[node].name);
        self.world.tell(format_args!("{name}: {} is adopted: {adopted:?}", shape.name));
        if let Err(why) = adopted {
            if why.contains(STAMP) {
                self.nodes[node].unstamp(&shape, node);
            }
            return self.adopt_later(node, group);
        }
        let it = &mut self.groups[group];
        it.adopts = None;
        it.forgotten = [false; 2];
        it.promised.begins_on(node);
        (it.serves, it.last_served) = (Some(node), Some(node));
        self.nodes[node].unapplied = true;
        self.apply(node);
        self.take_back(1 - node, group);
    }

    /// A released group is served again: a node that has a peer follows it with the same disks.
    pub(super) fn take_back(&mut self, node: usize, group: usize) {
        if !self.is_released(node, group) {
            return;
        }
        if !self.replace_stale(node, group) {
            let is_ours =
                |ends: &Ends| matches!(ends, Ends::Return(n, g) if (*n, *g) == (node, group));
            if !self.ends.iter().any(|(_, ends)| is_ours(ends)) {
                let at = self.world.now() + Duration::from_secs(5);
                self.ends.push((at, Ends::Return(node, group)));
            }
            return;
        }
        let mark = self.mark(group);
        if self.nodes[node].machine.remove(&mark).is_err() {
            return;
        }
        self.nodes[node].unapplied = true;
        let it = &mut self.groups[group];
        let name = it.shape.name;
        self.world.tell(format_args!("{}: {name} is taken back", self.nodes[node].name));
        it.promised.lost(node);
        it.promised.forgets(node);
        if it.shape.alone == Some(node) {
            it.serves = Some(node);
        }
        self.apply(node);
    }

    /// `helio metadata create`, as a hint recommends it: what a stopped node holds of a group counts for nothing. Returns whether there is a
    /// new file now.
    pub(super) fn create_metadata(&mut self, node: usize, group: usize) -> bool {
        if self.nodes[node].daemon.is_some() {
            self.stop(node, Duration::from_secs(4));
            let at = self.world.now() + Duration::from_secs(3);
            self.ends.push((at, Ends::Create { node, group }));
            return false;
        }
        if self.nodes[node].images.is_unjudged(group) {
            // What is there may be an earlier image.
            self.nodes[node].images.return_newest(group);
            return false;
        }
        let name = self.groups[group].shape.name;
        let created = self.nodes[node].create_metadata(name);
        self.world.tell(format_args!("{}: metadata of {name}: {created:?}", self.nodes[node].name));
        if created.is_err() {
            return false;
        }
        let it = &mut self.groups[group];
        it.promised.forgets(node);
        it.forgotten[node] = true;
        if it.last_served == Some(node) {
            it.model.failed_over(Heir::LostPower);
        } else {
            it.promised.lost(node);
        }
        true
    }

    /// The file that says on a node that a group was released there.
    fn mark(&self, group: usize) -> PathBuf {
        PathBuf::from(format!("/state/groups/{}.released", self.groups[group].shape.name))
    }

    pub(super) fn is_released(&self, node: usize, group: usize) -> bool {
        self.nodes[node].machine.facts(&self.mark(group), false).is_ok()
    }

    /// Everything that was released is taken back.
    pub(super) fn take_all_back(&mut self) {
        for group in 0..self.groups.len() {
            self.groups[group].closed = None;
            match self.groups[group].adopts {
                Some(node) if (0..2).all(|node| self.is_released(node, group)) => {
                    self.adopt(node, group);
                }
                _ => {
                    self.groups[group].adopts = None;
                    (0..2).for_each(|node| self.take_back(node, group));
                }
            }
        }
    }
}

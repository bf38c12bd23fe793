// SPDX-License-Identifier: Apache-2.0
//! A group is given up on this node: it stops as with the daemon, and then its stores are let go of. What is left of it
//! here is a name nobody finds any more, until the daemon ends.

use super::Shard;
use crate::shard::group::Group;
use crate::shard::isolate::Health;
use helio_driver::Driver;
use helio_engine::{Command, Duty, Fault, Refusal, until_complete};
use helio_plant::{Plant, planted};
use helio_units::{Generation, Moment, Role, Sequence, VolumeIndex};
use std::path::PathBuf;
use tokio::sync::oneshot;

/// What was let go of, and in what condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Released {
    pub(crate) role: Role,
    /// The members hold what clients read, and that keeps the order promise.
    pub(crate) consistent: bool,
    /// All of it is durable.
    pub(crate) flushed: bool,
    pub(crate) generation: Generation,
    /// The last position in the images.
    pub(crate) head: Sequence,
    /// Every full member with its volume.
    pub(crate) stores: Vec<(String, PathBuf)>,
    /// The other members.
    pub(crate) stale: Vec<(String, PathBuf)>,
    /// Those that were given up, with operations that may take effect later.
    pub(crate) late: Vec<(String, PathBuf)>,
}

/// Who is told when it is done.
pub(crate) type ReleaseReply = oneshot::Sender<Result<Released, Refusal>>;

/// How far a group's release is.
#[derive(Debug, Default)]
pub(crate) enum Releasing {
    /// There is none.
    #[default]
    No,
    /// It stops.
    Stopping { role: Role, reply: ReleaseReply },
    /// Its stores are let go of.
    Done,
}

impl Group {
    /// Whether it is served here no more, or about to be.
    pub(crate) fn is_released(&self) -> bool {
        !matches!(self.releasing, Releasing::No)
    }

    /// Whether its stores and its metadata are given back. Late operations on them may still end.
    pub(super) fn is_let_go(&self) -> bool {
        matches!(self.releasing, Releasing::Done)
    }

    /// The full members and the others, each with the name of its volume.
    fn members(&self) -> [Vec<(String, PathBuf)>; 2] {
        let [mut full, mut stale] = [const { Vec::new() }; 2];
        for (index, volume) in (0..).map(VolumeIndex).zip(&self.volumes) {
            let set = self.engine.view().set_status(index);
            for (n, member) in volume.members.iter().enumerate() {
                let Some(member) = member else { continue };
                // Without a set there is one member, which has everything.
                let is_full = set.as_ref().is_none_or(|set| {
                    let member = set.members.get(n).copied().flatten();
                    member.is_some_and(|member| member.duty == Duty::Full)
                });
                let place = if is_full { &mut full } else { &mut stale };
                place.push((volume.name.clone(), PathBuf::from(&member.path)));
            }
        }
        [full, stale]
    }
}

impl<D: Driver> Shard<D> {
    /// Stops a group to let go of its stores, where nobody uses it.
    pub(super) fn release(&mut self, group: &str, force: bool, reply: ReleaseReply, now: Moment) {
        let Some(index) = self.find(group) else {
            let _gone = reply.send(Err(super::unknown(group)));
            return;
        };
        if let Err(refusal) = self.may_release(index, force, now) {
            let _gone = reply.send(Err(refusal));
            return;
        }
        self.rota.stir(index);
        let group = &mut self.groups[index];
        let role = group.engine.view().words().role;
        group.releasing = Releasing::Stopping { role, reply };
        let (told, _nobody_waits) = oneshot::channel();
        group.guarded(|group| group.command(now, Command::Stop, told));
    }

    fn may_release(&self, index: usize, force: bool, now: Moment) -> Result<(), Refusal> {
        let group = &self.groups[index];
        let name = &group.name;
        let users = self.clients.users(index);
        if !users.is_empty() {
            let text = format!("NBD clients use {name} ({users})");
            let hint = format!("unmount and disconnect them, or `helio client close --all {name}`");
            return Err(Refusal::new("in-use", text, hint));
        }
        let devices = self.attached.devices(index);
        if !devices.is_empty() {
            return Err(self.attached.refusal(index, &self.groups, &devices));
        }
        let words = group.engine.view().words();
        if let (false, Err(refusal)) = (force, group.engine.view().refuse_any_unfit()) {
            let hint =
                format!("{}; or repeat with --force: the data is then unusable", refusal.hint);
            return Err(Refusal { hint, ..refusal });
        }
        if !force && !words.consistent {
            return Err(Refusal::new(
                "not-consistent",
                format!("the copy of {name} on this node is not complete and consistent"),
                format!(
                    "{}; or repeat with --force: the data is then unusable",
                    until_complete(name)
                ),
            ));
        }
        let status = group.engine.view().status(now);
        let follows = words.role == Role::Secondary && group.engine.view().peer_serves();
        let fault = status
            .peer_fault
            .filter(|fault| !force && follows && !Fault::needs_nothing(&fault.hint));
        if let Some(fault) = fault {
            return Err(Refusal::new(
                "last-copy",
                format!(
                    "the copy of {name} on this node may be the only complete one: {} reports: {}",
                    group.peer, fault.what
                ),
                format!(
                    "repair {} first: `helio status {name}` shows how; or repeat with --force: acknowledged writes may then be \
                     lost",
                    group.peer
                ),
            ));
        }
        Ok(())
    }

    /// Lets go of a released group's stores once it is at rest and nobody reads them.
    pub(super) fn go_on_releasing(&mut self, index: usize) {
        let free = !self.clients.is_used(index) && self.attached.devices(index).is_empty();
        let group = &mut self.groups[index];
        let sound = group.health == Health::Sound;
        if !free
            || !sound
            || !(group.at_rest() || planted(Plant::LetGoEarly))
            || !group.lets_go(self.clock.now())
            || !matches!(group.releasing, Releasing::Stopping { .. })
        {
            return;
        }
        let Releasing::Stopping { role, reply } =
            std::mem::replace(&mut group.releasing, Releasing::Done)
        else {
            return;
        };
        group.tap = None;
        group.refuse_merges();
        let view = group.engine.view();
        let words = view.words();
        let is_whole = group.config.indices().all(|volume| view.whole_member(volume).is_ok());
        let (head, flushed) = view.left_behind();
        let late = group.late_members().into_iter();
        let late = late.map(|(volume, path)| (volume.to_owned(), PathBuf::from(path))).collect();
        let [stores, stale] = group.members();
        group.volumes.clear();
        let released = Released {
            role,
            consistent: words.consistent && is_whole,
            flushed,
            generation: words.generation,
            head,
            stores,
            stale,
            late,
        };
        tracing::info!(group = %group.name, "released");
        // Who asked may have gone; it is done all the same.
        let _gone = reply.send(Ok(released));
    }
}

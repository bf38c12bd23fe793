// SPDX-License-Identifier: Apache-2.0
//! What an operator asks of the members of a volume. The layer that keeps them alike must see every change, so a command waits
//! until no change is under way beside the layers, and later changes pass them.

use crate::config::Config;
use crate::event::CommandId;
use crate::local::Local;
use crate::refusal::{HELD_BACK, Refusal};
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use helio_stack::{Leg, SetOp, SetRefusal, SetStatus, Unsettled};
use helio_units::{MemberIndex, VolumeIndex};

impl Local {
    /// Asks something of the members of a volume. The command is answered when that begins, or is refused.
    pub(crate) fn ask_set(&mut self, command: CommandId, op: SetOp, turn: &mut Turn) {
        self.layered.ask_later(command, op);
        self.begin_asked(turn);
    }

    /// This node's metadata is older than the state that its peer has on record, and so is what it says of members: one that was
    /// removed since may count as full, and a bitmap may lack what was written since. In every volume one full member is used from
    /// then on; a command returns the others. Once in a process: later records are this process's own.
    pub(crate) fn doubt_members(&mut self, turn: &mut Turn) {
        let Config { group, peer, .. } = turn.config();
        let several = turn.config().indices().filter(|volume| self.keeps_several(*volume));
        let text = |volume: VolumeIndex| {
            let volume = turn.config().name_of(volume);
            format!(
                "volume {volume}: the metadata of this node is older than {peer} has on record, so one full member is used, and all \
                 others are removed. Any of them may hold later data: make sure that a removed member does not hold the last writes \
                 before `helio member add {group}/{volume} PATH`, which overwrites it"
            )
        };
        let texts: Vec<String> = several.map(text).collect();
        if self.layered.doubt_members(turn.now()) {
            texts.into_iter().for_each(|text| turn.warn(text));
        }
        self.run_layers(turn);
    }

    /// That the record of the members is old is not durable yet, and may become so.
    pub(crate) fn records_doubt(&self) -> bool {
        self.layered.records_doubt()
    }

    /// That it was old is durable.
    pub(crate) fn doubted_members(&self) -> bool {
        self.layered.doubted_members()
    }

    /// Whether a layer keeps several members of that volume.
    pub(crate) fn keeps_several(&self, volume: VolumeIndex) -> bool {
        self.layered.keeps_several(volume)
    }

    /// Whether the configuration names several members of a volume, and fewer than two of them are full.
    pub(crate) fn lacks_members(&self, volume: VolumeIndex) -> bool {
        let several = |SetStatus { members, unnamed, .. }: SetStatus| {
            (0..).zip(&members).filter(|(n, it)| it.is_some() && unnamed & 1 << n == 0).count() > 1
        };
        self.layered.full_members(volume).count() < 2
            && self.layered.set_status(volume).is_some_and(several)
    }

    /// Whether it does of any volume.
    pub(crate) fn keeps_any_several(&self, config: &Config) -> bool {
        config.indices().any(|volume| self.keeps_several(volume))
    }

    /// How the members of a volume are, where a layer keeps its members alike, be it only one.
    pub(crate) fn set_status(&self, volume: VolumeIndex) -> Option<SetStatus> {
        self.layered.set_status(volume)
    }

    /// The first member that holds all of a volume as it is read.
    ///
    /// # Errors
    /// Why none does.
    pub(crate) fn settled_member(&self, volume: VolumeIndex) -> Result<MemberIndex, Unsettled> {
        self.layered.settled_member(volume)
    }

    /// Begins what is asked of members, if nothing is in its way.
    pub(super) fn begin_asked(&mut self, turn: &mut Turn) {
        if !self.layered.is_asked() || self.changes_beside_layers() {
            return;
        }
        while let Some((command, op, answer)) = self.layered.ask_next(turn.now()) {
            let config = turn.config();
            let result = answer.map(|()| begun(op, config));
            let result = result.map_err(|refusal| refused(op, refusal, config));
            turn.done(command, result);
            self.run_layers(turn);
        }
    }
}

fn begun(op: SetOp, config: &Config) -> String {
    match op {
        SetOp::Add { leg, .. } => format!("{}: the copy started", name(leg, config)),
        SetOp::Remove { leg, .. } => format!("{} was removed", name(leg, config)),
        SetOp::Merge(volume) => format!("volume {}: the merge started", config.name_of(volume)),
    }
}

/// The member that the operator named by its path.
fn name(leg: Leg, config: &Config) -> String {
    format!("this member of volume {}", config.name_of(leg.volume))
}

fn refused(op: SetOp, refusal: SetRefusal, config: &Config) -> Refusal {
    let Config { group, node, .. } = config;
    let (volume, member) = match op {
        SetOp::Add { leg, .. } | SetOp::Remove { leg, .. } => (leg.volume, name(leg, config)),
        SetOp::Merge(volume) => (volume, format!("volume {}", config.name_of(volume))),
    };
    let volume = config.name_of(volume);
    let shows = format!("`helio status {group}` shows the members");
    match refusal {
        SetRefusal::Unsupported => Refusal::new(
            "one-full-member",
            format!("only one member of volume {volume} on {node} is full"),
            format!(
                "wait until another member is full; `helio status {group}` shows the progress; if none is copying, `helio member add` \
                 returns or adds one"
            ),
        ),
        SetRefusal::NoMember => {
            Refusal::new("no-member", format!("{member} does not exist on {node}"), shows)
        }
        SetRefusal::Used => Refusal::new("member-used", format!("{member} is in use"), shows),
        SetRefusal::Unused => {
            Refusal::new("member-unused", format!("{member} is not in use"), shows)
        }
        SetRefusal::Last => Refusal::later(
            "last-member",
            format!("{member} is the only one that holds all of the volume"),
            format!(
                "wait until `helio status {group}` shows another member as full, then repeat; {HELD_BACK}; if none is copying, \
                 `helio member add` returns or adds one"
            ),
        ),
        SetRefusal::Late => Refusal::later(
            "member-late",
            format!("{member} has not completed all operations from before its removal"),
            "wait until its disk responds, then repeat the command",
        ),
        SetRefusal::NoBitmap => Refusal::new(
            "no-bitmap",
            format!("{member} has no bitmap of what it lacks"),
            "repeat the command without requiring the bitmap: all of the member is compared",
        ),
        SetRefusal::NoRecord => Refusal::new(
            "metadata-failed",
            format!(
                "the command for {member} was refused: the metadata file of {group} cannot be written"
            ),
            format!("repair its file system, then restart the daemon of {node}"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_names_what_it_is_about() {
        let config = Config {
            names: [String::from("data")].into(),
            ..Config::new("db", "paris", "lyon", [helio_units::Bytes::mib(1)].into())
        };
        let leg = Leg { volume: VolumeIndex(0), member: MemberIndex(1) };
        let ops = [
            SetOp::Add { leg, by_bitmap: true },
            SetOp::Remove { leg, force: false },
            SetOp::Merge(leg.volume),
        ];
        for refusal in [
            SetRefusal::Unsupported,
            SetRefusal::NoMember,
            SetRefusal::Used,
            SetRefusal::Unused,
            SetRefusal::Last,
            SetRefusal::Late,
            SetRefusal::NoBitmap,
            SetRefusal::NoRecord,
        ] {
            for op in ops {
                let refusal = refused(op, refusal, &config);
                assert_eq!(refusal.flaw(), None);
                assert!(refusal.text.contains("data"), "{}", refusal.text);
            }
        }
    }
}

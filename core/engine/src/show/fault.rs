// SPDX-License-Identifier: Apache-2.0
//! What failed on a node and was not repaired, and what an operator does about it, for the status of both nodes.

use crate::config::OnError;
use crate::lead::Primary;
use crate::local::silence::given_up_hint;
use crate::refusal::Refusal;
use crate::role::{Following, Stage};
use crate::show::view::View;
use alloc::format;
use alloc::string::String;
use helio_format::lineage::Lineage;
use helio_recovery::Completeness;
use helio_stack::StoreFault;
use helio_units::{Generation, MemberState, Role, VolumeIndex};

/// Something that failed. Both texts name nodes, since both nodes show them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    /// What failed.
    pub what: String,
    /// What an operator does about it.
    pub hint: String,
}

impl Fault {
    /// What the hint of a fault begins with that is repaired without an operator.
    const BY_ITSELF: &str = "nothing; ";

    /// Whether an advice asks an operator to do nothing: the hint of a fault, or a text in the same words.
    #[must_use]
    pub fn needs_nothing(advice: &str) -> bool {
        advice == "nothing" || advice.starts_with(Self::BY_ITSELF)
    }

    /// Beside another one.
    fn and(self, other: &Self) -> Self {
        let hint = match self.hint.contains(&other.hint) {
            true => self.hint,
            false => format!("{}; {}", self.hint, other.hint),
        };
        Self { what: format!("{}; {}", self.what, other.what), hint }
    }
}

impl<'a> View<'a> {
    /// The fault that limits this node most, and what failed of the metadata files.
    #[must_use]
    pub fn fault(&self) -> Option<Fault> {
        match (self.worst_fault(), self.show.files()) {
            (Some(fault), Some(files)) => Some(fault.and(files)),
            (fault, files) => fault.or_else(|| files.cloned()),
        }
    }

    fn worst_fault(&self) -> Option<Fault> {
        let metadata = self.local.metadata_failed();
        if let Some(lost) = self.lost().filter(|_| !metadata) {
            return Some(lost);
        }
        if metadata && self.is_lacking() {
            return self.metadata_fault();
        }
        if let Some(silent) = self.silent_fault() {
            return Some(silent);
        }
        if let Some(what) = self.accepting_text() {
            return Some(Fault {
                what,
                hint: format!("{}wait until all is written", Fault::BY_ITSELF),
            });
        }
        let suspect = self.suspect_fault();
        if let Some(suspect) = suspect.clone().filter(|_| self.standing.leads()) {
            return Some(match self.metadata_fault() {
                Some(also) => suspect.and(&also),
                None => suspect,
            });
        }
        match self.failed_disk() {
            Some((volume, fault)) => Some(self.store_fault(volume, fault)),
            None if metadata => self.metadata_fault(),
            None if self.local.pool_failed() => {
                let (what, hint) = self.local.pool_fault(self.turn.config());
                Some(Fault { what, hint })
            }
            None => self.another_disk().or(suspect),
        }
    }

    /// Whether there is a fault: asked after every batch, so without its texts.
    pub(crate) fn has_failed(&self) -> bool {
        let accepts =
            matches!(self.standing.stage(), Stage::Following(Following::Accepting { .. }));
        let lost = self.given_up().is_some();
        // A suspect copy that is rebuilt is no fault any more.
        let suspect = self.local.suspect().any() && !self.is_lacking();
        let silent = self.local.first_silent().is_some();
        let metadata = self.local.metadata_failed() || self.show.files().is_some();
        let store = metadata || self.local.pool_failed() || suspect || silent;
        store || accepts || lost || self.failed().is_some() || self.local.members().are_foreign()
    }

    /// The volume on which an operation of this node failed, and how.
    pub(crate) fn failed(&self) -> Option<(VolumeIndex, StoreFault)> {
        self.standing.primary().and_then(Primary::fault).or(self.standing.failed())
    }

    /// The same, unless no disk failed: then the fault that is reported is that of the metadata, or of a restore that cannot go on.
    #[must_use]
    pub fn failed_disk(&self) -> Option<(VolumeIndex, StoreFault)> {
        let elsewhere = self.local.metadata_failed() || self.local.pool_failed();
        self.failed().filter(|(_, fault)| !elsewhere || fault.is_of_store())
    }

    fn node(&self) -> &'a str {
        &self.turn.config().node
    }

    /// The first volume of a primary whose disk was given up: the peer's copy is served in its place.
    #[must_use]
    pub fn given_up(&self) -> Option<VolumeIndex> {
        self.standing.primary()?.lost()
    }

    /// A member that is not used any more: the peer's copy is served in its place.
    fn lost(&self) -> Option<Fault> {
        let lost = self.given_up()?;
        let (config, volume) = (self.turn.config(), self.turn.config().name_of(lost));
        let (group, peer, node) = (&config.group, &config.peer, self.node());
        let state = self.local.member_state(lost);
        let exchange = if self.local.keeps_several(lost) {
            String::new()
        } else {
            format!("; or exchange it, then `helio member replace {group}/{volume}` on {node}")
        };
        let rewrite =
            format!("`helio resync {group}` on {node}, which rewrites the disk from {peer}");
        let leave = format!("; or `helio switch {group}`, which makes {peer} primary");
        // A disk that only failed a flush is written again as it is.
        let hint = if state == MemberState::GivenUp {
            given_up_hint(config)
        } else if self.local.suspect().is(lost) {
            format!("{rewrite}{exchange}{leave}")
        } else {
            format!("repair the disk on {node}, then {rewrite}{exchange}{leave}")
        };
        let failed = if state == MemberState::GivenUp { "is silent" } else { "failed" };
        let what = format!("the disk of volume {volume} {failed}; served from {peer}");
        Some(Fault { what, hint })
    }

    /// A member that is in use and does not complete its operations.
    fn silent_fault(&self) -> Option<Fault> {
        let silent = self.local.first_silent()?;
        let (config, node) = (self.turn.config(), self.node());
        let (volume, peer) = (config.name_of(silent), &config.peer);
        let what = format!(
            "the disk of volume {volume} is silent: an operation has not completed within {:?}",
            config.member_timeout
        );
        let check = format!("check the disk and the path to it on {node}");
        let hint = if config.peer_name().is_none() {
            format!("{check}; requests wait until the disk completes its operations")
        } else if !self.standing.leads() {
            format!("{check}; applying continues when the disk completes its operations")
        } else if config.on_error == OnError::ServeFromPeer {
            format!(
                "{check}; requests wait until the disk completes its operations, or {peer} is in sync and serves the volume"
            )
        } else {
            format!(
                "{check}; requests wait until the disk completes its operations; with `on-error = \"serve-from-peer\"` a peer \
                 that is in sync serves the volume instead"
            )
        };
        Some(Fault { what, hint })
    }

    /// Refuses what needs that volume.
    pub(crate) fn volume_refusal(&self, volume: VolumeIndex, fault: StoreFault) -> Refusal {
        self.standing.volume_refusal(volume, fault, self.turn.config())
    }

    fn store_fault(&self, volume: VolumeIndex, fault: StoreFault) -> Fault {
        let config = self.turn.config();
        let hint = self.standing.store_hint(volume, fault, config);
        Fault { what: format!("volume {}: {fault}", config.name_of(volume)), hint }
    }

    /// The host says which file failed, and what to do about it.
    fn metadata_fault(&self) -> Option<Fault> {
        let what = self.metadata_text()?;
        let hint = match self.show.files() {
            Some(files) => files.hint.clone(),
            None => format!(
                "repair the file system of the state directory on {node}; or stop its daemon and `helio metadata move {group} \
                 --to DIR` on {node}. Then restart the daemon",
                node = self.node(),
                group = self.turn.config().group
            ),
        };
        Some(Fault { what, hint })
    }

    fn suspect_fault(&self) -> Option<Fault> {
        let config = self.turn.config();
        let (group, peer, node) = (&config.group, &config.peer, self.node());
        let (volume, what) = self.suspect_text()?;
        let volume = config.name_of(volume);
        let hint = if config.peer_name().is_none() {
            let demote = if self.standing.leads() {
                format!("`helio demote {group}` on {node}, then ")
            } else {
                String::new()
            };
            format!(
                "{demote}`helio member accept {group}/{volume}` on {node}, then `helio promote {group}` on {node}; the \
                 acknowledged writes that are missing are lost"
            )
        } else if self.standing.leads() {
            format!(
                "connect {peer}, from which the volume is rebuilt; if {peer} is lost: `helio demote {group}` on \
                 {node}, then `helio member accept {group}/{volume}` on {node}"
            )
        } else if self.has_no_history() {
            format!(
                "neither node knows which copy has the data: `helio promote {group}` on the node that has it; if that is {node}, \
                 `helio member accept {group}/{volume}` on {node} first"
            )
        } else if self.peer_role() == Some(Role::Secondary) && !self.record.superblock().consistent
        {
            self.neither_has_everything().unwrap_or_else(|| match self.peer_copy() {
                Completeness::Complete => format!(
                    "`helio promote {group}` on {peer}, from which the volume is then rebuilt"
                ),
                _ => self.no_complete_copy(),
            })
        } else if self.peer_role() == Some(Role::Secondary) {
            format!(
                "`helio promote {group}` on {peer}, from which the volume is then rebuilt; if {peer} refuses, since it may lack \
                 writes: `helio member accept {group}/{volume}` on {node}, then `helio promote {group}` on {node}; acknowledged \
                 writes that the failed flush lost are then lost for good"
            )
        } else if self.peer_role() == Some(Role::Primary) && !config.autosync {
            format!("`helio resync {group}` on {peer}, which rebuilds the volume")
        } else {
            format!("{}the volume is rebuilt when {peer} is connected as primary", Fault::BY_ITSELF)
        };
        Some(Fault { what, hint })
    }

    /// No copy of the group was ever written here, nor at the peer that is connected, as far as their metadata knows.
    fn has_no_history(&self) -> bool {
        let new = |lineage: &Lineage| lineage.generation == Generation::NONE;
        let peer = self.peer.session().peer();
        new(&self.record.superblock().lineage) && peer.is_some_and(|peer| new(&peer.lineage))
    }

    fn another_disk(&self) -> Option<Fault> {
        let (config, node) = (self.turn.config(), self.node());
        let right = format!("put the right disk back on {node} and restart its daemon");
        self.local.members().fault().map(|what| Fault {
            what,
            hint: match self.peer_that_may_fill() {
                Some(peer) => format!("{right}; or `helio promote {}` on {peer}", config.group),
                None => right,
            },
        })
    }
}

// SPDX-License-Identifier: Apache-2.0
//! How the two nodes stand to each other: explaining it, and giving up one side of two that diverged.

use super::{Daemon, of_refusal};
use crate::control::Reply;
use crate::hooks::{Call, Ended, Occasion};
use crate::shard::{Ask, LookAsk, Losing, LossAsk};
use helio_api::{
    Accepted, ApiError, Connection, Explanation, ResolveRequest, ResyncRequest, ReverseRequest,
    code,
};
use helio_engine::{Done, Reversal};

/// Why regions are saved, as a list of saved data shows it.
const DISCARDED: &str = "discarded by helio resolve";
const OVERWRITTEN: &str = "overwritten by a reverse resync";

impl Daemon {
    pub(super) async fn explanation(&self, group: String) -> Result<Explanation, ApiError> {
        self.known(&group)?;
        let mut row = self.shard.look(&group, |reply| LookAsk::Explain { reply }).await?;
        row.node.clone_from(&self.node);
        Ok(row)
    }

    /// Warns where the peer lacks writes that this node holds. One that refuses this node's history will never take them:
    /// then they are what is to be given up.
    pub(super) async fn demote(&self, group: String) -> Result<Reply, ApiError> {
        let before = self.status(Some(group.clone())).await?;
        let command = helio_engine::Command::Demote;
        let Done { text, peer_behind } = self.command_unless_used(group.clone(), command).await?;
        let mut done = Accepted { message: text, warnings: Vec::new() };
        let peer = before.groups.first().and_then(|shown| shown.peer.as_ref());
        if let Some(peer) = peer
            && peer_behind
            && peer.connection != Connection::Refused
        {
            let (node, peer) = (&self.node, &peer.name);
            done.warnings.push(format!(
                "do not promote {peer}: writes of {group} that exist only on {node} would be lost\n  \
                 hint: promote {node} again with `helio promote {group}`, wait until it is in sync with {peer}, then demote it again"
            ));
        }
        Ok(Reply::Accepted(done))
    }

    pub(super) async fn resync(
        &self,
        group: String,
        wish: ResyncRequest,
    ) -> Result<Reply, ApiError> {
        let command = match (wish.full, wish.give_up_safe_copy) {
            (true, _) => helio_engine::Command::FullResync,
            (false, true) => helio_engine::Command::GiveUpSafeCopy,
            (false, false) => helio_engine::Command::Resync,
        };
        self.carry_out(group, command).await
    }

    /// Shows what would be lost, saves it, and only then gives it up.
    pub(super) async fn resolve(
        &self,
        group: String,
        wish: ResolveRequest,
    ) -> Result<Reply, ApiError> {
        self.with_peer(&group)?;
        self.is_here(&group, &wish.discard)?;
        let last_copy = self.names_last_copy(&group, wish.last_copy.as_deref())?;
        let name = group.clone();
        let ask = |reply| Ask::Loss { group: name, ask: LossAsk::Losing { last_copy, reply } };
        let losing = self.shard.answer(ask).await?;
        let losing = losing.map_err(of_refusal)?;
        let stake =
            format!("writes of {group} that exist only on {} would be discarded", self.node);
        let kept = self
            .save_once_confirmed(&group, &losing, (wish.confirmed, stake), wish.save, DISCARDED)
            .await?;
        let generation = losing.generation;
        let command = helio_engine::Command::Yield { generation, last_copy };
        let mut reply = self.carry_out(group, command).await?;
        if let Reply::Accepted(Accepted { message, .. }) = &mut reply {
            *message = format!("{kept}; {message}");
        }
        Ok(reply)
    }

    /// Refuses with the stake where nobody confirmed it; otherwise saves what would be lost, and says where.
    async fn save_once_confirmed(
        &self,
        group: &str,
        losing: &Losing,
        (confirmed, stake): (bool, String),
        save: Option<String>,
        why: &'static str,
    ) -> Result<String, ApiError> {
        if !confirmed {
            let hint = "repeat with --yes to discard them; they are saved first";
            let mut error = ApiError::new(code::NEEDS_CONFIRMATION, stake, hint);
            error.at_stake = Some(losing.stake.clone());
            return Err(error);
        }
        let saved = self.save(group, save, losing.clone(), why).await?;
        let kept = format!("{} were saved in {}", saved.bytes, saved.folder.display());
        tracing::info!(group, "{kept}");
        Ok(kept)
    }

    /// Shows what would be thrown away, saves it, and only then takes the other node's copy.
    pub(super) async fn reverse(
        &self,
        group: String,
        wish: ReverseRequest,
    ) -> Result<Reply, ApiError> {
        self.with_peer(&group)?;
        let full = wish.full;
        let last_copy = self.names_last_copy(&group, wish.last_copy.as_deref())?;
        let reversal = Reversal { full, last_copy };
        let ask = |reply| Ask::Loss {
            group: group.clone(),
            ask: LossAsk::ThrowingAway { wish: reversal, reply },
        };
        let mut losing = self.unless_used(&group, self.shard.answer(ask).await?).await?;
        if wish.confirmed {
            self.ask_before_resync(&group, full).await?;
            // Nothing was kept still while the hook thought about it.
            losing = self.unless_used(&group, self.shard.answer(ask).await?).await?;
        }
        let stake = format!("the differing data of {group} on {} would be overwritten", self.node);
        let kept = self
            .save_once_confirmed(&group, &losing, (wish.confirmed, stake), wish.save, OVERWRITTEN)
            .await?;
        let saved = Box::new(losing);
        let ask = |reply| Ask::Loss {
            group: group.clone(),
            ask: LossAsk::Reverse { wish: reversal, saved, reply },
        };
        let done = self.unless_used(&group, self.shard.answer(ask).await?).await?;
        let message = format!("{kept}; {}", done.text);
        Ok(Reply::Accepted(Accepted { message, warnings: Vec::new() }))
    }

    /// The operator's hook has a word in what is copied, whichever way.
    async fn ask_before_resync(&self, group: &str, full: bool) -> Result<(), ApiError> {
        let Some(call) = Call::new(self, group, Occasion::BeforeResync, "logging") else {
            return Ok(());
        };
        match call.run().await {
            Ended::Code(0) => Ok(()),
            ended => {
                let verb = if full { "resync --full" } else { "resync" };
                let text = format!(
                    "the hook before-resync of {group} refused the reverse resync: {ended}"
                );
                let hint = format!(
                    "read the output of the hook in the daemon's log, then `helio {verb} {group} --reverse`"
                );
                Err(ApiError::new("hook-refused", text, hint))
            }
        }
    }

    /// Whether the operator named this node's copy as the last complete one, which is given up all the same.
    fn names_last_copy(&self, group: &str, named: Option<&str>) -> Result<bool, ApiError> {
        match named {
            None => Ok(false),
            Some(named) if named == self.node => Ok(true),
            Some(named) => Err(ApiError::new(
                "wrong-node",
                format!(
                    "the copy of {group} that is given up is the one of {}, not of {named}",
                    self.node
                ),
                format!("repeat without `--last-copy {named}`"),
            )),
        }
    }

    /// A side can be saved and given up only where it is.
    fn is_here(&self, group: &str, discard: &str) -> Result<(), ApiError> {
        if discard == self.node {
            return Ok(());
        }
        let nodes = self.config().groups.get(group).map(|g| g.nodes.clone()).unwrap_or_default();
        let (text, hint) = if nodes.iter().any(|node| node == discard) {
            (
                format!(
                    "this is {}, and the writes of {discard} are saved and discarded on {discard}",
                    self.node
                ),
                format!(
                    "run `helio resolve {group} --discard {discard}` on {discard}, or use --host"
                ),
            )
        } else {
            (
                format!("{discard} is not a node of {group}"),
                format!("name the node whose writes are discarded: {}", nodes.join(" or ")),
            )
        };
        Err(ApiError::new("wrong-node", text, hint))
    }
}

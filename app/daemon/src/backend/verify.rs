// SPDX-License-Identifier: Apache-2.0
//! Verifying, in the control server's words; and promotion behind a fence.

use super::Daemon;
use crate::control::Reply;
use crate::hooks::{Call, Occasion, judge_fence};
use crate::shard::LookAsk;
use helio_api::{ApiError, VerifyRequest, code};
use helio_engine::{Command, VerifyWish};
use helio_units::VolumeIndex;

impl Daemon {
    pub(super) async fn verify(
        &self,
        group: String,
        wish: VerifyRequest,
    ) -> Result<Reply, ApiError> {
        self.known(&group)?;
        let volume = wish.volume.map(|name| self.volume_index(&group, &name)).transpose()?;
        let VerifyRequest { repair, rate_bytes_per_second: rate, restart, .. } = wish;
        if rate.is_some_and(|rate| rate.0 == 0) {
            let text = "a verify of zero bytes a second never ends";
            return Err(ApiError::new(
                code::BAD_REQUEST,
                text,
                "give a higher rate, or none for no limit",
            ));
        }
        self.carry_out(group, Command::Verify(VerifyWish { volume, repair, rate, restart })).await
    }

    /// Volumes stand in the order of their names, here and in the engine.
    fn volume_index(&self, group: &str, name: &str) -> Result<VolumeIndex, ApiError> {
        let config = self.config();
        let names: Vec<String> = match config.groups.get(group) {
            Some(group) => group.volumes.keys().cloned().collect(),
            None => Vec::new(),
        };
        let at = names.iter().position(|known| known == name);
        at.map(|at| VolumeIndex(at as u16)).ok_or_else(|| {
            let text = format!("group {group} has no volume {name}");
            ApiError::name_one_of("unknown-volume", text, &names)
        })
    }

    /// Promotes; where the peer cannot agree, only behind the operator's proof that it is out.
    pub(super) async fn promote_fenced(&self, group: String) -> Result<Reply, ApiError> {
        self.known(&group)?;
        let promote = |force| self.carry_out(group.clone(), Command::Promote { force });
        match promote(false).await {
            Err(error) if error.code == code::NEEDS_FORCE => {}
            other => return other,
        }
        let Some(call) = Call::new(self, &group, Occasion::Fence, "logging") else {
            let text = format!("group {group} has no fence hook");
            let hint =
                "add hooks = { fence = \"/path/of/program\" } to the group and restart the daemon";
            return Err(ApiError::new("no-fence", text, hint));
        };
        let peer = call.peer().to_owned();
        let proof = judge_fence(&call.run().await).map_err(|why| {
            let text = format!("it is not certain that {peer} is fenced: {why}");
            let hint = format!(
                "fence {peer} by hand, read the output of the hook in the daemon's log, then repeat; or `helio \
                 promote {group} --force`"
            );
            ApiError::new("not-fenced", text, hint)
        })?;
        let stake = self.shard.look(&group, |reply| LookAsk::AtStake { reply }).await?;
        match promote(true).await {
            Ok(Reply::Accepted(mut accepted)) => {
                accepted.message = format!("{peer} is {proof}; {}", accepted.message);
                accepted.warnings.push(stake.text);
                Ok(Reply::Accepted(accepted))
            }
            other => other,
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
//! How a drill of `helio drill` ended: recorded and shown.

use super::{Daemon, accepted, stopping, to_the_end};
use crate::control::Reply;
use crate::drills;
use crate::shard::Ask;
use helio_api::{ApiError, DrillRequest, code};
use helio_driver::Host;

impl Daemon {
    /// Makes the result of a drill durable, then shows it, whether or not who reported it still listens.
    pub(super) async fn drilled(
        &self,
        group: String,
        report: DrillRequest,
    ) -> Result<Reply, ApiError> {
        self.known(&group)?;
        let me = self.myself()?;
        to_the_end(async move { me.record_drill(group, report).await }).await
    }

    async fn record_drill(&self, group: String, report: DrillRequest) -> Result<Reply, ApiError> {
        let _one_at_a_time = self.drilling.lock().await;
        let (host, now) = (Host::clone(&self.host), self.clock.wall_now());
        let path = drills::path(&self.state, &group);
        let recorded = self.blocking(move || drills::record(&host, &path, (now, report))).await?;
        let drills = recorded.map_err(|error| {
            let text = format!("the result of the drill of {group} cannot be stored: {error}");
            ApiError::new(code::INTERNAL, text, "check the file system of the state directory")
        })?;
        let text = format!("the result of the drill of {group} is recorded");
        let shown = self.shard.ask_patiently(Ask::Drilled { group, drills: Box::new(drills) });
        shown.await.map_err(|_| stopping())?;
        Ok(accepted(text))
    }
}

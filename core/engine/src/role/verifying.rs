// SPDX-License-Identifier: Apache-2.0
//! An operator starts a verify.

use crate::event::VerifyWish;
use crate::local::Local;
use crate::refusal::Refusal;
use crate::resync::verify::Verify;
use crate::role::Standing;
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;

impl Standing {
    /// Begins to compare volumes with the peer's. Returns whether it runs now, or what it waits for.
    pub(crate) fn verify(
        &mut self,
        wish: VerifyWish,
        verify: &mut Verify,
        local: &mut Local,
        turn: &Turn,
    ) -> Result<Option<String>, Refusal> {
        let primary = self.commanded("verify start", turn.config())?;
        let group = &turn.config().group;
        if verify.is_under_way() {
            return Err(Refusal::later(
                "verifying",
                format!("a verify of {group} runs already"),
                format!("wait for its end, or `helio verify stop {group}`"),
            ));
        }
        if primary.is_periodic(turn.config()) {
            return Err(Refusal::new(
                "periodic",
                format!(
                    "a verify of {group} compares copies that get every write in order, and its mode is periodic"
                ),
                format!("`helio mode {group} async`, then `helio verify start {group}`"),
            ));
        }
        if wish.repair {
            primary.mark_differing(verify, local);
        }
        let resumed = verify.begin(wish, &turn.config().volumes, turn.now());
        let what = if resumed { "continues at its position" } else { "begins" };
        Ok(Some(match primary.verify_waits(local) {
            Some(waits) => format!("the verify of {group} {what} later: {waits}"),
            None => format!("the verify of {group} {what}"),
        }))
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Both nodes are to be promoted at once, and ask each other.
//!
//! One must answer first, and neither may be promoted beside the other. The node whose name is first does not answer while it asks: the
//! request of its peer waits until its own is answered. The other one judges the request by the copies. If it agrees, it takes its own
//! request back, and only then says so. If it does not, it goes on asking, and the first one answers as soon as it has heard that.
//!
//! ```text
//!   the first one asks ──agreed──> it is promoted, and hangs up: the request that waited ends with the connection
//!                      └─refused─> it asks no more, and answers the request that waited
//! ```
//! No clock decides. A peer that does not know this order refuses while it asks: then the other one answers.

use crate::config::Config;
use crate::peer::Peer;
use crate::peer::permit::Permit;
use crate::record::Record;
use crate::refusal::Refusal;
use crate::role::{Following, Stage, Standing};
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;
use helio_plant::{Plant, planted};
use helio_units::{Generation, Sequence};

/// What a node asks with that is to be promoted: the copy that it would lead from, and how far that is durable.
pub(crate) type Request = (Generation, Sequence);

impl Standing {
    /// The peer asks whether it may become primary, and why this node would not agree, if it would not.
    pub(crate) fn peer_requests(
        &mut self,
        (request, why): (Request, Option<String>),
        peer: &mut Peer,
        record: &Record,
        permit: &mut Permit,
        turn: &mut Turn,
    ) {
        if let Stage::Following(Following::Asking { command, .. }) = self.stage()
            && !planted(Plant::CrossedBothAgree)
        {
            if turn.config().node < turn.config().peer {
                return self.stand(Following::Asking { command, crossing: Some(request) });
            }
            if why.is_none() {
                // First of all: nothing of its own may come of it any more.
                self.stand(Following::resting(record.superblock().role));
                turn.done(command, Err(peer_promotes(turn.config())));
            }
        }
        peer.answer_request(why, permit, turn);
    }
}

/// This node agreed that the peer becomes primary, which it does now.
pub(crate) fn peer_promotes(config: &Config) -> Refusal {
    let Config { peer, group, .. } = config;
    Refusal::later(
        "peer-promotes",
        format!("{peer} is being promoted now"),
        format!(
            "`helio status {group}` shows when {peer} is primary; then `helio switch {group}` exchanges the roles"
        ),
    )
}

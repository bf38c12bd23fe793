// SPDX-License-Identifier: Apache-2.0
//! What is shown and checked: status, verdict, faults, the last decision, counters, the recorder.

pub(crate) mod decided;
pub(crate) mod fault;
pub(crate) mod invariants;
pub(crate) mod recorder;
pub(crate) mod status;
pub(crate) mod verdict;

use helio_recovery::LastDecision;
use helio_units::{Moment, State, Verdict};
use recorder::Recorder;

/// What was last seen, decided and recorded, to be shown.
#[derive(Clone, Debug)]
pub(crate) struct Show {
    pub(crate) seen: Seen,
    pub(crate) recorder: Recorder,
    /// What the last meeting came to.
    pub(crate) last_decision: Option<LastDecision>,
}

impl Show {
    pub(crate) fn new(now: Moment) -> Self {
        let (state, verdict) = (State::Logging, Verdict::Unknown);
        let seen = Seen { state, since: now, verdict, verdict_since: now };
        Self { seen, recorder: Recorder::default(), last_decision: None }
    }
}

/// The state as last looked at, and since when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) state: State,
    pub(crate) since: Moment,
    pub(crate) verdict: Verdict,
    /// Since when the verdict is what it is: a state that changes under it does not begin it again.
    pub(crate) verdict_since: Moment,
}

// SPDX-License-Identifier: Apache-2.0
//! What is shown and checked: status, verdict, faults, the last decision, counters, the recorder.

pub(crate) mod decided;
pub(crate) mod fault;
pub(crate) mod invariants;
pub(crate) mod recorder;
pub(crate) mod status;
pub(crate) mod verdict;

use crate::follow::before::Keeper;
use crate::local::Local;
use crate::peer::Peer;
use crate::peer::permit::Permit;
use crate::record::Record;
use crate::resync::Resync;
use crate::role::Standing;
use crate::role::asked::Asked;
use crate::turn::Turn;
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

/// What may be read of the engine: its rooms, borrowed. It decides nothing and changes nothing.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    pub(crate) turn: &'a Turn,
    pub(crate) local: &'a Local,
    pub(crate) permit: &'a Permit,
    pub(crate) standing: &'a Standing,
    pub(crate) peer: &'a Peer,
    pub(crate) record: &'a Record,
    pub(crate) resync: &'a Resync,
    pub(crate) keeper: &'a Keeper,
    pub(crate) asked: &'a Asked,
    pub(crate) show: &'a Show,
}

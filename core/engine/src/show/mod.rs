// SPDX-License-Identifier: Apache-2.0
//! What is shown and checked: status, verdict, faults, the last decision, counters, the recorder.

mod blocks;
pub(crate) mod copies;
pub(crate) mod decided;
pub(crate) mod fault;
pub(crate) mod invariants;
mod metadata;
pub(crate) mod recorder;
mod report;
pub(crate) mod status;
pub(crate) mod verdict;
pub(crate) mod view;
pub(crate) mod whole;

use crate::event::Event;
use alloc::string::String;
use alloc::vec::Vec;
use fault::Fault;
use helio_recovery::LastDecision;
use helio_units::{Moment, State, Verdict};
use recorder::{Record, Recorder};

/// What was last seen, decided and recorded, to be shown.
#[derive(Clone, Debug)]
pub(crate) struct Show {
    /// The state as last looked at, and since when.
    state: (State, Moment),
    /// The same of the verdict: a state that changes under it does not begin it again.
    verdict: (Verdict, Moment),
    recorder: Recorder,
    last_decision: Option<LastDecision>,
    /// What failed of the metadata files, by their host.
    files: Option<Fault>,
}

impl Show {
    pub(crate) fn new(now: Moment) -> Self {
        let (state, verdict) = ((State::Logging, now), (Verdict::Unknown, now));
        Self { state, verdict, recorder: Recorder::default(), last_decision: None, files: None }
    }

    /// This is the state now. Returns the one before, if that was another.
    pub(crate) fn saw_state(&mut self, state: State, now: Moment) -> Option<State> {
        let before = self.state.0;
        (state != before).then(|| {
            self.state = (state, now);
            before
        })
    }

    /// This is the verdict now.
    pub(crate) fn saw_verdict(&mut self, verdict: Verdict, now: Moment) {
        if verdict != self.verdict.0 {
            self.verdict = (verdict, now);
        }
    }

    pub(crate) const fn state_since(&self) -> Moment {
        self.state.1
    }

    pub(crate) const fn verdict_since(&self) -> Moment {
        self.verdict.1
    }

    #[inline]
    pub(crate) fn record(&mut self, now: Moment, event: &Event) {
        self.recorder.record(now, event);
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        self.recorder.dump()
    }

    /// What the last meeting came to.
    pub(crate) const fn last_decision(&self) -> Option<&LastDecision> {
        self.last_decision.as_ref()
    }

    pub(crate) fn metadata_fault(&mut self, what: String, hint: String) {
        self.files = Some(Fault { what, hint });
    }

    pub(crate) const fn files(&self) -> Option<&Fault> {
        self.files.as_ref()
    }

    pub(crate) fn decided(&mut self, decision: LastDecision) {
        self.last_decision = Some(decision);
    }
}

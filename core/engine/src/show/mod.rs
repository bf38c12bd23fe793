// SPDX-License-Identifier: Apache-2.0
//! What is shown and checked: status, verdict, faults, the last decision, counters, the recorder.

pub(crate) mod decided;
pub(crate) mod fault;
pub(crate) mod invariants;
pub(crate) mod recorder;
pub(crate) mod status;
pub(crate) mod times;
pub(crate) mod verdict;

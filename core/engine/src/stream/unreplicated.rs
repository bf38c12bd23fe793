// SPDX-License-Identifier: Apache-2.0
//! Acknowledgements that the peer knows nothing of (rule 4).
//!
//! In sync the peer has everything that is acknowledged. So if the primary crashes, its peer may continue, and the primary
//! resyncs from it without asking anybody. The first acknowledgement without the peer ends that. What it ends must be
//! durable before: a new generation, whose fork point is the accepted head then.
//! ```text
//!                 in sync                      an acknowledgement without the peer waits
//!   Recorded ──────────────────> Together ─────────────────────────────────────────────────> Wanted
//!      ^    memory, then record      ^                                                     │  │
//!      │                             └── the peer's copy is the only one: this one gave up ┤  │ cannot be recorded
//!      └───────────────────────────────── the record is durable ───────────────────────────┘  v
//!                                                                                       Unrecordable
//! ```
//! In async the peer may not have an acknowledged write at all, and in nearsync only its memory may have it. So the state is
//! always Recorded there. Nearsync with a hold lease becomes Together as sync does: it must record the first acknowledgement
//! of a write that the peer did not receive.

/// Whether writes may be acknowledged without the peer. Drawn above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreplicated {
    /// They may: the durable record of the generation says that there are such.
    Recorded,
    /// They may not, and none waits.
    Together,
    /// One waits for that record.
    Wanted,
    /// That record could not be made: they fail.
    Unrecordable,
}

impl Unreplicated {
    /// A write waits for the record.
    pub(crate) fn want(&mut self) {
        if *self == Self::Together {
            *self = Self::Wanted;
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
//! What one copy of a volume is worth after flushes that failed (rule 14), whatever the role of its node.
//!
//! ```text
//!   trusted ──a flush fails──> failed ──a record is made──> recording ──it is durable──> suspect
//!      ^                         ^                              │                         │  ^
//!      │                         └────────a flush fails─────────┘           a flush fails │  │ a record is made
//!      │                                                                                  v  │
//!      │                                                                              failed again
//!      └── from recording and suspect: a record is durable that says that the copy is not suspect
//! ```
//! A record ends only what failed before it was made: where a flush fails while a record is on its way that ends the suspicion, the
//! copy is *failed* behind it.

/// See the drawing above. All but the first are suspect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    Trusted,
    /// A flush or FUA failed, and no record says so, nor one that is being made.
    Failed,
    /// No flush failed since the last record was made, and no durable record says suspect.
    Recording,
    /// A durable record says so.
    Suspect,
    /// A durable record says so, and a flush failed after the last record was made.
    FailedAgain,
}

/// What happens to a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happens {
    /// A flush, or an operation with FUA, failed.
    FlushFails,
    /// A record is made of what is known now; its goal may end the suspicion.
    RecordMade,
    /// It is durable, and says that.
    RecordDurable { suspect: bool },
    /// The node starts, or begins another role, with a record that says that.
    RecordTaken { suspect: bool },
}

impl Health {
    /// Every transition; the drawing shows the usual ones.
    pub(crate) const fn then(self, happens: Happens) -> Self {
        match happens {
            Happens::FlushFails => match self {
                Self::Trusted | Self::Failed | Self::Recording => Self::Failed,
                Self::Suspect | Self::FailedAgain => Self::FailedAgain,
            },
            Happens::RecordMade => match self {
                Self::Failed => Self::Recording,
                Self::FailedAgain => Self::Suspect,
                as_before => as_before,
            },
            Happens::RecordDurable { suspect: true } | Happens::RecordTaken { suspect: true } => {
                match self {
                    Self::Trusted | Self::Recording | Self::Suspect => Self::Suspect,
                    Self::Failed | Self::FailedAgain => Self::FailedAgain,
                }
            }
            Happens::RecordDurable { suspect: false } => match self {
                Self::Trusted | Self::Recording | Self::Suspect => Self::Trusted,
                Self::Failed | Self::FailedAgain => Self::Failed,
            },
            Happens::RecordTaken { suspect: false } => match self {
                Self::Suspect => Self::Recording,
                Self::FailedAgain => Self::Failed,
                as_before => as_before,
            },
        }
    }

    pub(crate) const fn is_suspect(self) -> bool {
        !matches!(self, Self::Trusted)
    }

    /// Suspect, and a durable record says so.
    pub(crate) const fn is_recorded(self) -> bool {
        matches!(self, Self::Suspect | Self::FailedAgain)
    }

    /// Suspect, and no durable record says so.
    pub(crate) const fn is_unrecorded(self) -> bool {
        self.is_suspect() && !self.is_recorded()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: [Health; 5] =
        [Health::Trusted, Health::Failed, Health::Recording, Health::Suspect, Health::FailedAgain];
    const RECORDS: [Happens; 5] = [
        Happens::RecordMade,
        Happens::RecordDurable { suspect: false },
        Happens::RecordDurable { suspect: true },
        Happens::RecordTaken { suspect: false },
        Happens::RecordTaken { suspect: true },
    ];

    /// The same facts as three bits: suspect, a durable record says so, a flush failed after the last record was made.
    fn bits(health: Health) -> [bool; 3] {
        let behind = matches!(health, Health::Failed | Health::FailedAgain);
        [health.is_suspect(), health.is_recorded(), behind]
    }

    #[test]
    fn every_transition_keeps_what_the_three_facts_say() {
        for before in EVERY {
            let [suspect, recorded, behind] = bits(before);
            let after = |happens| bits(before.then(happens));
            assert_eq!(after(Happens::FlushFails), [true, recorded, true], "{before:?}");
            assert_eq!(after(Happens::RecordMade), [suspect, recorded, false], "{before:?}");
            for says in [false, true] {
                let durable = after(Happens::RecordDurable { suspect: says });
                assert_eq!(durable, [says || behind, says, behind], "{before:?}, {says}");
                let taken = after(Happens::RecordTaken { suspect: says });
                assert_eq!(taken, [says || suspect, says, behind], "{before:?}, {says}");
            }
        }
    }

    #[test]
    fn a_failed_flush_is_ended_by_a_record_that_was_made_behind_it() {
        for before in EVERY {
            let failed = before.then(Happens::FlushFails);
            for record in RECORDS {
                assert!(failed.then(record).is_suspect(), "{before:?}, then {record:?}");
            }
            let durable = Happens::RecordDurable { suspect: false };
            assert_eq!(failed.then(Happens::RecordMade).then(durable), Health::Trusted);
        }
    }

    #[test]
    fn what_a_record_says_is_unrecorded_only_where_the_flush_failed_behind_it() {
        for before in EVERY {
            let failed = before.then(Happens::FlushFails).then(Happens::RecordMade);
            let recorded = failed.then(Happens::RecordDurable { suspect: true });
            assert_eq!(recorded, Health::Suspect, "{before:?}");
            assert!(!recorded.then(Happens::FlushFails).is_unrecorded(), "a record says suspect");
            let ended = recorded.then(Happens::FlushFails);
            let ended = ended.then(Happens::RecordDurable { suspect: false });
            assert!(ended.is_unrecorded(), "that record tells of the failure before");
        }
    }

    #[test]
    fn a_record_makes_no_copy_suspect_and_none_trusted_before_it_is_durable() {
        for before in EVERY {
            let made = before.then(Happens::RecordMade);
            assert_eq!(made.is_suspect(), before.is_suspect());
            assert_eq!(made.is_unrecorded(), before.is_unrecorded());
        }
    }
}

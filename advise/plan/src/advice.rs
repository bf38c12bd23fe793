// SPDX-License-Identifier: Apache-2.0
//! Sun's TABLE 2, "Suggested Replication Modes Depending on Database Use or Workload", as a recommendation.
//!
//! The table asks for words where there are numbers: latency is high from ten milliseconds on, as the note above it
//! has it, and a workload is heavy where it fills a queue faster than the link drains it. Where no row fits, the
//! summary of the same document decides, by the latency alone.

use crate::queue::{Flow, PerSecond};
use std::time::Duration;

/// "A user might consider low latency as less than 10 milliseconds and anything higher as a highly latent link."
pub const HIGH_LATENCY: Duration = Duration::from_millis(10);

/// What writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Transactions, all files.
    Oltp,
    /// The redo logs of a database that has a standby database at the secondary.
    RedoLogs,
    /// A warehouse that is being loaded.
    Loading,
    /// A loaded warehouse that is only read.
    ReadOnly,
    /// A loaded warehouse with few writes.
    FewWrites,
    /// An import, or a restore from tape.
    Restore,
}

impl Work {
    /// All of it.
    pub const ALL: [Self; 6] =
        [Self::Oltp, Self::RedoLogs, Self::Loading, Self::ReadOnly, Self::FewWrites, Self::Restore];

    /// The word on the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Oltp => "oltp",
            Self::RedoLogs => "redo-logs",
            Self::Loading => "loading",
            Self::ReadOnly => "read-only",
            Self::FewWrites => "few-writes",
            Self::Restore => "restore",
        }
    }
}

/// What the table chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// Synchronous.
    Sync,
    /// Asynchronous.
    Async,
    /// Either.
    SyncOrAsync,
    /// Asynchronous, or point-in-time copies that are replicated.
    AsyncOrCopies,
    /// Point-in-time copies that are replicated.
    Copies,
    /// Logging, and an update afterwards.
    Logging,
}

impl Choice {
    /// The table's words, in short.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Sync => "synchronous",
            Self::Async => "asynchronous",
            Self::SyncOrAsync => "synchronous or asynchronous",
            Self::AsyncOrCopies => "asynchronous or point-in-time copies",
            Self::Copies => "point-in-time copies",
            Self::Logging => "logging",
        }
    }

    /// What that is with Heliograph.
    #[must_use]
    pub fn here(self) -> &'static str {
        match self {
            Self::Sync => "mode sync",
            Self::Async => "mode async",
            Self::SyncOrAsync => "mode sync, or async if a commit must not wait for the link",
            Self::AsyncOrCopies => {
                "mode async; or `helio pause`, and `helio resync` as often as the loss of data allows"
            }
            Self::Copies => "`helio pause`, and `helio resync` as often as the loss of data allows",
            Self::Logging => "`helio pause` before the load, and `helio resume` after it",
        }
    }
}

/// What is to be mirrored over what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Situation {
    /// What writes.
    pub work: Work,
    /// The round trip.
    pub rtt: Duration,
    /// What it writes, and what the link takes.
    pub flow: Flow,
}

impl Situation {
    /// More is written than drains.
    #[must_use]
    pub fn heavy(self) -> bool {
        self.flow.fill > self.flow.drain
    }

    /// From ten milliseconds on.
    #[must_use]
    pub fn high_latency(self) -> bool {
        self.rtt >= HIGH_LATENCY
    }
}

/// A recommendation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// What to choose.
    pub choice: Choice,
    /// Where the document says so.
    pub place: &'static str,
    /// Why, with the figures; a sentence each.
    pub reasons: Vec<String>,
}

/// What TABLE 2 says of a situation.
#[must_use]
pub fn advise(situation: Situation) -> Advice {
    let (choice, place) = look_up(situation);
    let mut reasons = match situation.work {
        Work::Loading | Work::Restore => {
            vec![
                "the data can be loaded again, and one resync afterwards sends each region once"
                    .into(),
            ]
        }
        Work::Oltp | Work::RedoLogs | Work::ReadOnly | Work::FewWrites => {
            vec![latency(situation), load(situation)]
        }
    };
    if matches!(choice, Choice::Copies | Choice::AsyncOrCopies) {
        reasons.push(
            "a copy taken in intervals sends a block once however often it was written".into(),
        );
    }
    Advice { choice, place, reasons }
}

fn look_up(situation: Situation) -> (Choice, &'static str) {
    match (situation.work, situation.high_latency(), situation.heavy()) {
        (Work::Loading, ..) => (Choice::Logging, "TABLE 2: DSS/DWH, data is being loaded"),
        (Work::Restore, ..) => (Choice::Logging, "TABLE 2: import or tape restore"),
        (Work::Oltp | Work::RedoLogs, false, _) => {
            (Choice::Sync, "TABLE 2: OLTP, light or heavy, low latency")
        }
        (Work::Oltp | Work::RedoLogs, true, false) => {
            (Choice::AsyncOrCopies, "TABLE 2: OLTP, light, high latency")
        }
        (Work::Oltp, true, true) => {
            (Choice::Copies, "TABLE 2: OLTP, heavy, high latency, all files")
        }
        (Work::RedoLogs, true, true) => {
            (Choice::SyncOrAsync, "TABLE 2: OLTP, heavy, high latency, redo logs")
        }
        (Work::ReadOnly, true, _) => {
            (Choice::Async, "TABLE 2: DSS/DWH, completed and read only, high latency")
        }
        (Work::FewWrites, false, _) => {
            (Choice::Sync, "TABLE 2: DSS/DWH, completed and fewer writes, low latency")
        }
        (Work::ReadOnly, false, _) => {
            (Choice::Sync, "summary: a low latency link; no row of TABLE 2")
        }
        (Work::FewWrites, true, _) => {
            (Choice::Async, "summary: a high latency link; no row of TABLE 2")
        }
    }
}

fn latency(situation: Situation) -> String {
    let (ms, most) = (situation.rtt.as_secs_f64() * 1e3, HIGH_LATENCY.as_millis());
    if situation.high_latency() {
        let writes = PerSecond::one_at_a_time(situation.rtt).0;
        format!(
            "latency is high: {ms} ms (high is {most} ms or more); an application that waits for each write makes at \
             most {writes:.1} writes a second"
        )
    } else {
        format!(
            "latency is low: {ms} ms, below {most} ms; waiting for the peer costs little, and nothing is lost"
        )
    }
}

fn load(situation: Situation) -> String {
    let Flow { fill, drain } = situation.flow;
    if situation.heavy() {
        format!("the load is heavy: {fill} are written and {drain} drain, so any queue fills")
    } else {
        format!("the load is light: {fill} are written and {drain} can drain")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_units::Rate;

    fn of(work: Work, ms: u64, heavy: bool) -> Advice {
        let flow = Flow { fill: Rate(if heavy { 400 } else { 100 }), drain: Rate(160) };
        advise(Situation { work, rtt: Duration::from_millis(ms), flow })
    }

    #[test]
    fn ten_milliseconds_are_high_and_what_just_drains_is_light() {
        assert_eq!(of(Work::Oltp, 9, true).choice, Choice::Sync);
        assert_eq!(of(Work::Oltp, 10, false).choice, Choice::AsyncOrCopies);
        let level = Flow { fill: Rate(160), drain: Rate(160) };
        let rtt = Duration::from_millis(50);
        assert!(!Situation { work: Work::Oltp, rtt, flow: level }.heavy());
    }

    #[test]
    fn where_no_row_fits_the_summary_decides_and_says_so() {
        for (work, ms, choice) in
            [(Work::ReadOnly, 1, Choice::Sync), (Work::FewWrites, 50, Choice::Async)]
        {
            let advice = of(work, ms, false);
            assert_eq!((advice.choice, advice.place.starts_with("summary")), (choice, true));
        }
    }

    #[test]
    fn reasons_carry_their_figures() {
        let advice = of(Work::Oltp, 50, true);
        assert_eq!(advice.reasons.len(), 3);
        assert!(advice.reasons[0].contains("50 ms") && advice.reasons[0].contains("20.0 writes"));
        assert!(advice.reasons[1].contains("heavy"), "{:?}", advice.reasons);
    }
}

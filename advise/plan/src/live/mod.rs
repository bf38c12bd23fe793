// SPDX-License-Identifier: Apache-2.0
//! Live advice: what a running group shows, held against the rules of the sources and against a forecast.
//!
//! [`judge`] gives one [`Judgement`] for every [`Label`], the good ones and those that could not be made among them, so
//! that nothing is passed over in silence.
//!
//! Absent on purpose: daemons, files, rendering. Whoever asks looks at a group for a while and hands in what it
//! [`Seen`].

mod label;
mod link;
mod mode;
mod promise;
mod queue;
mod seen;
#[cfg(test)]
mod tests;

pub use label::{Label, Verdict};
pub use promise::{Promise, TOLERANCE_PERCENT};
pub use seen::{AnswersSeen, BufferSeen, Buffers, Counted, LinkSeen, QueueSeen, Seen, Times};

use helio_units::Bytes;

/// What a label comes to for one group.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// Which rule.
    pub label: Label,
    /// What it says.
    pub verdict: Verdict,
    /// What was observed, with its number; or why nothing could be said.
    pub told: String,
    /// The number by itself.
    pub figure: Option<Figure>,
    /// What to do: commands, and lines of the configuration.
    pub hints: Vec<String>,
}

/// A number, and the one it is held against.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// What was observed.
    pub value: f64,
    /// What the rule says.
    pub threshold: f64,
    /// What both count.
    pub unit: &'static str,
}

impl Figure {
    fn of(value: f64, threshold: f64, unit: &'static str) -> Option<Self> {
        Some(Self { value, threshold, unit })
    }
}

impl Judgement {
    fn new(label: Label, verdict: Verdict, told: impl Into<String>) -> Self {
        Self { label, verdict, told: told.into(), figure: None, hints: Vec::new() }
    }

    fn well(label: Label, told: impl Into<String>) -> Self {
        Self::new(label, Verdict::Well, told)
    }

    fn watch(label: Label, told: impl Into<String>) -> Self {
        Self::new(label, Verdict::Watch, told)
    }

    fn change(label: Label, told: impl Into<String>) -> Self {
        Self::new(label, Verdict::Change, told)
    }

    fn unknown(label: Label, why: impl Into<String>) -> Self {
        Self::new(label, Verdict::Unknown, why)
    }

    fn figure(mut self, figure: Option<Figure>) -> Self {
        self.figure = figure;
        self
    }

    fn hints<const N: usize>(mut self, hints: [String; N]) -> Self {
        self.hints.extend(hints);
        self
    }
}

/// Holds what was seen against every rule, in the order of [`Label::ALL`].
#[must_use]
pub fn judge(seen: &Seen, promise: Option<&Promise>) -> Vec<Judgement> {
    let one = |label| match label {
        Label::QueueBytes => queue::bytes(seen),
        Label::QueueItems => queue::items(seen),
        Label::QueueFills => queue::fills(seen),
        Label::WritesWait => queue::waits(seen),
        Label::WritesRefused => queue::refused(seen),
        Label::QueueDropped => queue::dropped(seen),
        Label::BuffersCapped => link::capped(seen),
        Label::BuffersUnequal => link::unequal(seen),
        Label::BuffersLimit => link::limit(seen, promise),
        Label::ModeUnsuited => mode::unsuited(seen, promise),
        Label::LinkRate
        | Label::LinkRoundTrip
        | Label::PlanMode
        | Label::PlanQueue
        | Label::PlanHighWater
        | Label::PlanLag
        | Label::PlanLatency
        | Label::PlanMedian
        | Label::PlanFlushLatency
        | Label::PlanLoad => match promise {
            Some(promise) => promise::held(label, seen, promise),
            None => Judgement::unknown(
                label,
                "no forecast to compare with: give the output of `helio plan forecast --json` with --forecast FILE",
            ),
        },
    };
    Label::ALL.map(one).into()
}

/// A size as the configuration and the command line read it, nothing rounded.
fn exact(bytes: Bytes) -> String {
    match bytes.0 {
        n if n > 0 && n.is_multiple_of(1 << 20) => format!("{}MiB", n >> 20),
        n if n > 0 && n.is_multiple_of(1 << 10) => format!("{}KiB", n >> 10),
        n => format!("{n}B"),
    }
}

/// A time in milliseconds, as round trips are told.
fn millis(time: core::time::Duration) -> String {
    let text = format!("{:.2}", time.as_secs_f64() * 1e3);
    format!("{} ms", text.trim_end_matches('0').trim_end_matches('.'))
}

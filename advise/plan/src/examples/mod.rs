// SPDX-License-Identifier: Apache-2.0
//! The numbers of the sources: what each states, the formula, and what the formula comes to.
//!
//! A computed value is always what one of this crate's functions returns; what a source states is never used to
//! compute. Where the two disagree, the note says why.

mod elsewhere;
mod openvms;
mod simulator;
mod srdf;
mod sun;
#[cfg(test)]
mod tests;
mod tuning;
mod verdict;

pub use verdict::{Claim, Value, Verdict};

/// Where a number is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Sun StorEdge Availability Suite 3.1, "Remote Mirror Software Asynchronous Mode" (2003).
    Sun,
    /// IBM DB2 HADR wiki, "HADR Socket Buffer Size Tuning".
    Tuning,
    /// IBM DB2 HADR wiki, "Interpreting HADR simulator output".
    Simulator,
    /// "Spotlight on Oracle replication options within a SAN (2/2)": SRDF against a host mirror.
    Srdf,
    /// HP, "Volume Shadowing Hints / Kinks Performance" (2003): OpenVMS.
    OpenVms,
    /// Figures published elsewhere, of these systems and of DRBD and Crucible.
    Elsewhere,
}

impl Source {
    /// All of them, in the order they are shown in.
    pub const ALL: [Self; 6] =
        [Self::Sun, Self::Tuning, Self::Simulator, Self::Srdf, Self::OpenVms, Self::Elsewhere];

    /// What people call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sun => "Sun StorEdge Availability Suite 3.1: remote mirror, asynchronous mode",
            Self::Tuning => "IBM DB2 HADR: socket buffer size tuning",
            Self::Simulator => "IBM DB2 HADR: simulator output",
            Self::Srdf => "SRDF against a host mirror",
            Self::OpenVms => "OpenVMS host-based volume shadowing",
            Self::Elsewhere => "Published elsewhere",
        }
    }

    /// One word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Sun => "sun",
            Self::Tuning => "hadr",
            Self::Simulator => "simulator",
            Self::Srdf => "srdf",
            Self::OpenVms => "openvms",
            Self::Elsewhere => "elsewhere",
        }
    }
}

/// One number of a source.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// Whose it is.
    pub source: Source,
    /// What it is the number of, and where it stands.
    pub what: &'static str,
    /// How it comes about.
    pub formula: &'static str,
    /// What is stated.
    pub stated: Claim,
    /// What the formula comes to.
    pub computed: Value,
    /// The unit of both; nothing where they are words.
    pub unit: &'static str,
    /// What is to be known about it; nothing where it speaks for itself.
    pub note: &'static str,
}

impl Example {
    /// A number and its formula.
    fn number(
        source: Source,
        (what, formula): (&'static str, &'static str),
        (stated, computed, unit): (Claim, f64, &'static str),
    ) -> Self {
        Self { source, what, formula, stated, computed: Value::Number(computed), unit, note: "" }
    }

    /// Words, and what makes them.
    fn words(
        source: Source,
        (what, formula): (&'static str, &'static str),
        stated: &'static str,
        computed: String,
    ) -> Self {
        let (stated, computed) = (Claim::Words(stated), Value::Words(computed));
        Self { source, what, formula, stated, computed, unit: "", note: "" }
    }

    fn note(self, note: &'static str) -> Self {
        Self { note, ..self }
    }

    /// How the two compare.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.stated.verdict(&self.computed)
    }
}

/// Every one of them.
#[must_use]
pub fn examples() -> Vec<Example> {
    let mut all = sun::examples();
    all.extend(tuning::examples());
    all.extend(simulator::examples());
    all.extend(srdf::examples());
    all.extend(openvms::examples());
    all.extend(elsewhere::examples());
    all
}

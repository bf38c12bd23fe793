// SPDX-License-Identifier: Apache-2.0
//! What a source claims, and whether a computed value bears it out.

use std::fmt;

/// How far a figure may lie from one that the source itself calls approximate.
const ABOUT: f64 = 0.05;
/// What binary fractions may be off by.
const DUST: f64 = 1e-9;

/// What a source states.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Claim {
    /// A figure as written, and the place it is written to: 9.38 has 0.01, 14,000 for anything near has 1000.
    Figure(f64, f64),
    /// A figure that the source calls approximate: within five percent.
    About(f64),
    /// The source says that it is less.
    Below(f64),
    /// It was measured, and the formula says what it cannot exceed.
    UpTo(f64),
    /// It was measured, and the formula says what it cannot fall below.
    AtLeast(f64),
    /// Words, to the letter.
    Words(&'static str),
}

/// What a formula comes to.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A number.
    Number(f64),
    /// Words.
    Words(String),
}

/// How a claim and a computed value compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// To the last place that is stated, rounded or cut off.
    Agrees,
    /// To within five percent, where the source says "about".
    About,
    /// A measured figure on the side of the formula where it has to be.
    Within,
    /// Not so.
    Differs,
}

impl Verdict {
    /// One word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Agrees => "agrees",
            Self::About => "about",
            Self::Within => "within",
            Self::Differs => "differs",
        }
    }
}

impl Claim {
    pub(super) fn verdict(self, computed: &Value) -> Verdict {
        let when = |holds: bool, verdict| if holds { verdict } else { Verdict::Differs };
        match (self, computed) {
            (Self::Words(words), Value::Words(made)) => when(words == made, Verdict::Agrees),
            (Self::Words(_), Value::Number(_)) | (_, Value::Words(_)) => Verdict::Differs,
            (Self::Figure(figure, place), Value::Number(value)) => {
                let over = (value - figure) / place;
                when((-0.5 - DUST..1.0 - DUST).contains(&over), Verdict::Agrees)
            }
            (Self::About(figure), Value::Number(value)) => {
                when((value / figure - 1.0).abs() <= ABOUT, Verdict::About)
            }
            (Self::Below(figure), Value::Number(value)) => when(*value < figure, Verdict::Agrees),
            (Self::UpTo(figure), Value::Number(value)) => {
                when(figure <= value * (1.0 + DUST), Verdict::Within)
            }
            (Self::AtLeast(figure), Value::Number(value)) => {
                when(figure >= value * (1.0 - DUST), Verdict::Within)
            }
        }
    }

    /// The figure, where it is one.
    #[must_use]
    pub fn figure(self) -> Option<f64> {
        match self {
            Self::Figure(figure, _)
            | Self::About(figure)
            | Self::Below(figure)
            | Self::UpTo(figure)
            | Self::AtLeast(figure) => Some(figure),
            Self::Words(_) => None,
        }
    }

    /// Decimals worth showing of what is computed: one more than stated.
    #[must_use]
    pub fn decimals(self) -> usize {
        match self {
            Self::Figure(_, place) => 1 + (-place.log10()).round().max(0.0) as usize,
            _ => 3,
        }
    }
}

/// As the source has it: `about 33`, `below 10`, `measured 1.554048`.
impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Figure(figure, place) => {
                let decimals = (-place.log10()).round().max(0.0) as usize;
                write!(f, "{figure:.decimals$}")
            }
            Self::About(figure) => write!(f, "about {figure}"),
            Self::Below(figure) => write!(f, "below {figure}"),
            Self::UpTo(figure) | Self::AtLeast(figure) => write!(f, "measured {figure}"),
            Self::Words(words) => f.write_str(words),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(claim: Claim, value: f64) -> Verdict {
        claim.verdict(&Value::Number(value))
    }

    #[test]
    fn a_figure_may_be_rounded_or_cut_off_at_its_last_place() {
        for (figure, place, value, agrees) in [
            (9.38, 0.01, 9.375, true),
            (153.0, 1.0, 153.6, true),
            (395.0, 1.0, 396.0, false),
            (270.0, 1.0, 266.67, false),
            (14_000.0, 1000.0, 13_927.0, true),
            (14_000.0, 1000.0, 13_400.0, false),
        ] {
            let says = judged(Claim::Figure(figure, place), value) == Verdict::Agrees;
            assert_eq!(says, agrees, "{figure} for {value}");
        }
    }

    #[test]
    fn bounds_are_judged_on_their_side() {
        assert_eq!(judged(Claim::About(33.0), 34.13), Verdict::About);
        assert_eq!(judged(Claim::About(33.0), 35.0), Verdict::Differs);
        assert_eq!(judged(Claim::Below(10.0), 10.0), Verdict::Differs);
        assert_eq!(judged(Claim::UpTo(4.8), 4.8), Verdict::Within);
        assert_eq!(judged(Claim::UpTo(4.9), 4.8), Verdict::Differs);
        assert_eq!(judged(Claim::AtLeast(4.7), 4.8), Verdict::Differs);
        assert_eq!(judged(Claim::Words("4.8"), 4.8), Verdict::Differs);
    }

    #[test]
    fn a_claim_is_shown_to_its_last_place() {
        assert_eq!(Claim::Figure(0.94, 0.01).to_string(), "0.94");
        assert_eq!(Claim::Figure(100.0, 1.0).to_string(), "100");
        assert_eq!(Claim::About(33.0).to_string(), "about 33");
    }
}

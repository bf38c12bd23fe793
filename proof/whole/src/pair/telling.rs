// SPDX-License-Identifier: Apache-2.0
//! Which story is told: a seed's, whole or abridged.

use std::collections::BTreeSet;
use std::fmt;

/// A story: what its seed decides, less what is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Telling {
    /// The seed.
    pub seed: u64,
    /// There are no more than so many clients.
    pub clients: Option<usize>,
    /// Nothing happens behind so many acts.
    pub acts: Option<u64>,
    /// Acts that are left out, by their number in the story, from one on.
    pub skipped: BTreeSet<u64>,
}

impl Telling {
    /// The whole story of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// Whether the act of that number is left out.
    pub(super) fn skips(&self, number: u64) -> bool {
        self.acts.is_some_and(|most| number > most) || self.skipped.contains(&number)
    }
}

/// The arguments that ask for exactly this story.
impl fmt::Display for Telling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--seed {}", self.seed)?;
        if let Some(clients) = self.clients {
            write!(f, " --clients {clients}")?;
        }
        if let Some(acts) = self.acts {
            write!(f, " --acts {acts}")?;
        }
        if !self.skipped.is_empty() {
            let numbers: Vec<String> = self.skipped.iter().map(u64::to_string).collect();
            write!(f, " --skip {}", numbers.join(","))?;
        }
        Ok(())
    }
}

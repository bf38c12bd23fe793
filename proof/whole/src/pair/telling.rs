// SPDX-License-Identifier: Apache-2.0
//! Which story is told: a seed's, whole or abridged.

use super::act::ACTS_MAX;
use helio_replay::Script;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

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
    /// What happens instead of acts that are drawn. Its steps are the acts.
    pub script: Option<Arc<Script>>,
}

impl Telling {
    /// The whole story of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// The same with another seed.
    #[must_use]
    pub fn with_seed(&self, seed: u64) -> Self {
        Self { seed, ..self.clone() }
    }

    /// How many acts it has at most.
    pub(super) fn most_acts(&self) -> u64 {
        let whole = self.script.as_ref().map_or(ACTS_MAX, |script| script.steps().len() as u64);
        self.acts.unwrap_or(whole)
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
        self.script.iter().try_for_each(|script| write!(f, "{script}"))
    }
}

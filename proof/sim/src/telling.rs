// SPDX-License-Identifier: Apache-2.0
//! Which story is told: a seed's, whole or abridged.

use crate::kinds::Kind;
use core::fmt;
use helio_replay::Script;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A story: what its seed decides, less what is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Telling {
    /// The seed.
    pub seed: u64,
    /// The client makes no more than so many requests.
    pub requests: Option<u64>,
    /// Nothing more breaks behind so many misfortunes.
    pub misfortunes: Option<u64>,
    /// What is drawn and does not strike, by kind.
    pub without: BTreeSet<Kind>,
    /// What strikes though it has no odds of its own yet.
    pub with: BTreeSet<Kind>,
    /// What happens is written, and nothing else breaks.
    pub script: Option<Arc<Script>>,
    /// Misfortunes that do not strike, by their number in the story.
    pub skipped: BTreeSet<u64>,
}

impl Telling {
    /// The whole story of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    /// Whether the misfortune of that number is left out.
    pub(crate) fn skips(&self, number: u64) -> bool {
        self.script.is_some()
            || self.misfortunes.is_some_and(|most| number > most)
            || self.skipped.contains(&number)
    }
}

/// The arguments that ask for exactly this story.
impl fmt::Display for Telling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--seed {}", self.seed)?;
        if let Some(requests) = self.requests {
            write!(f, " --requests {requests}")?;
        }
        if let Some(misfortunes) = self.misfortunes {
            write!(f, " --misfortunes {misfortunes}")?;
        }
        let names = |kinds: &BTreeSet<Kind>| {
            kinds.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(",")
        };
        if !self.with.is_empty() {
            write!(f, " --with {}", names(&self.with))?;
        }
        if !self.without.is_empty() {
            write!(f, " --without {}", names(&self.without))?;
        }
        if !self.skipped.is_empty() {
            let numbers: Vec<String> = self.skipped.iter().map(u64::to_string).collect();
            write!(f, " --skip {}", numbers.join(","))?;
        }
        self.script.iter().try_for_each(|script| write!(f, "{script}"))
    }
}

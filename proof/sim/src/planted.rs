// SPDX-License-Identifier: Apache-2.0
//! Planted faults: a proof that the oracle can say no.

use helio_engine::{Plant, plant};
use helio_sim::{Violation, judge};

const FAULTS: [(&str, Plant); 6] = [
    ("drop-after", Plant::DropAfter),
    ("skip-gate", Plant::SkipGate),
    ("answer-early", Plant::AnswerEarly),
    ("clear-mark-early", Plant::ClearMarkEarly),
    ("resume-past-gap", Plant::ResumePastGap),
    ("compare-again", Plant::CompareAgain),
];

/// Plants the fault of that name.
pub(crate) fn plant_named(name: &str) -> Result<(), String> {
    let known = FAULTS.iter().find(|(known, _)| *known == name);
    let (_, fault) = known.ok_or(format!("--plant {name}: there is no such fault"))?;
    plant(Some(*fault));
    Ok(())
}

/// Plants each fault in turn. Returns whether each was found within that many seeds.
pub(crate) fn check(from: u64, seeds: u64) -> bool {
    let mut all = true;
    for (name, fault) in FAULTS {
        plant(Some(fault));
        let first = (from..from + seeds).find_map(|seed| Some((seed, judge(seed).1?)));
        plant(None);
        match first {
            Some((seed, Violation { promise, .. })) => {
                println!("{name}: found by seed {seed}, {} seeds: {promise}", seed - from + 1);
            }
            None => {
                println!("{name}: NOT FOUND in {seeds} seeds");
                all = false;
            }
        }
    }
    all
}

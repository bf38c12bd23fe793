// SPDX-License-Identifier: Apache-2.0
//! A peer that took over holds one cut of the order of writes.

use super::sector::Upheaval;
use super::stamp::Place;
use super::story::{Promise, Violation};
use super::{Fate, Model, Serial};

/// What reads showed of a cut so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Cut {
    /// When the peer took over.
    at: Serial,
    /// The write in it that began last; 0 if only the first zeros were seen.
    newest: u64,
    /// Sectors that were seen, each with the latest write that may be in it.
    seen: Vec<(Place, u64)>,
}

impl Cut {
    pub(super) fn new(at: Serial) -> Self {
        Self { at, ..Self::default() }
    }
}

impl Model {
    /// Rule 8: `possible` are the versions that a read found at that place.
    pub(super) fn judge_cut(
        &mut self,
        ticket: Option<u64>,
        place: Place,
        possible: &[usize],
    ) -> Result<(), Violation> {
        let Some(cut) = &self.cut else { return Ok(()) };
        if ticket.is_some_and(|ticket| self.begun(ticket) <= cut.at) {
            return Ok(());
        }
        let writes = possible.iter().map(|at| self.versions(place)[*at].write);
        let (mut earliest, mut latest) = (u64::MAX, 0);
        for write in writes {
            // Tickets count up with the moments at which requests begin.
            (earliest, latest) = (earliest.min(write), latest.max(write));
        }
        if self.begun(latest) > cut.at {
            return Ok(());
        }
        let newest = cut.newest.max(earliest);
        let rises = newest > cut.newest;
        let mut cut = self.cut.take().unwrap_or_default();
        cut.newest = newest;
        cut.seen.push((place, latest));
        let judged = if rises { &cut.seen[..] } else { &cut.seen[cut.seen.len() - 1..] };
        let broken = judged.iter().find_map(|(place, shown)| {
            self.missing(&cut, *place, *shown).map(|lost| (*place, *shown, lost))
        });
        self.cut = Some(cut);
        let Some((place, shown, lost)) = broken else { return Ok(()) };
        let detail = format!(
            "the peer that took over shows in {place} {}, and lacks {}, although it holds what began later: {}",
            self.tell(shown),
            self.tell(lost),
            self.tell(newest),
        );
        Err(Violation::new(Promise::Closed, detail))
    }

    /// A write behind the one shown that was acknowledged before the newest write of the cut began.
    fn missing(&self, cut: &Cut, place: Place, shown: u64) -> Option<u64> {
        let newest = self.begun(cut.newest);
        let lacks = |write: &u64| {
            *write > 0 && self.is_behind(*write, shown) && {
                let record = self.record(*write);
                let counts = record.void.is_none_or(|at| at == cut.at);
                counts && record.acknowledged().is_some_and(|at| at < newest)
            }
        };
        self.versions(place).iter().map(|version| version.write).find(lacks)
    }

    /// Rules 6 and 8: what happens to the copy that serves ends what was under way, takes acknowledgements, and what
    /// reads showed before counts no more.
    pub(super) fn upheaval(&mut self, what: Upheaval, survives: impl Fn(&super::Record) -> bool) {
        let (Upheaval::PowerCut(at) | Upheaval::FailedOver(at)) = what;
        for record in &mut self.records {
            match record.fate {
                Fate::Open | Fate::Unanswered => record.fate = Fate::Settled { at },
                Fate::Acknowledged { .. } if record.void.is_none() && !survives(record) => {
                    record.void = Some(at);
                }
                _ => {}
            }
        }
        let failed_over = matches!(what, Upheaval::FailedOver(_));
        for volume in &mut self.volumes {
            volume.suspect = false;
            volume.upheaval = Some(what);
            volume.volatile.clear();
            volume.unkept.clear();
            for version in volume.sectors.iter_mut().flatten() {
                version.gone = None;
                if failed_over || !version.kept {
                    (version.shown, version.kept) = (None, false);
                }
            }
        }
        self.cut = None;
    }
}

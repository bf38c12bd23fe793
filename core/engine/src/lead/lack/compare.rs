// SPDX-License-Identifier: Apache-2.0
//! Compare, then pull: of a region that a primary lacks, only the blocks travel that differ from its own.
//!
//! ```text
//!   claimed ──digests asked──> told ──own bytes read, compared──┬─ nothing differs ─────────────────────> good
//!      │                                                        └─ what differs: asked for, as in pull.rs ─┘
//!      └── most differed lately: the whole region is asked for at once
//! ```
//! Neither read holds the gate, and neither waits for items under way. Where both read the same, the region is equal
//! once every item on the line is applied on both: items change a block in one order everywhere, so the node that
//! was read later has applied what the other one will, and to apply it again changes nothing. That needs every item
//! applied on both: behind one that failed here nothing is compared before the peer has it. What this node's store
//! holds there is durable, or its extent is hot (rule 1). That needs a store whose flushes went well, and that this node
//! wrote: of any other the bytes prove nothing (`distrusted`), and its regions are asked for whole.

use crate::effect::ReadAs;
use crate::event::{Run, StoreOutcome};
use crate::lead::Primary;
use crate::lead::lack::questions::{Ask, For};
use crate::local::Local;
use crate::purpose::PrimaryIo;
use crate::resync::digest::{ASKED_MAX, digests_of};
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use helio_copy::Claim;
use helio_format::copying::{Copying, Digest};
use helio_format::message::Message;
use helio_units::{Extent, VolumeIndex};

/// Questions about digests that may be open.
const OPEN_MAX: usize = ASKED_MAX / 2;

impl Primary {
    /// Whether a question about a region's digests may be asked now.
    pub(crate) fn may_compare(&self) -> bool {
        let open = self.lack.as_ref().map_or(0, |lack| lack.pulling.comparing());
        // What the copier asked before is answered before. What failed here is not applied here: until it is applied at the
        // peer, the two may read the same and differ.
        open < OPEN_MAX
            && !self.copier.awaits_digests()
            && self.copier.is_sure(self.target.cursors().completed())
    }

    /// Asks what the peer holds there.
    pub(crate) fn compare(&mut self, claim: Claim, turn: &mut Turn) {
        let (volume, extent) = self.marks.place(claim.region);
        let Some(lack) = &mut self.lack else { return };
        lack.pulling.compare(claim);
        turn.send(Message::Copying(Copying::DigestsWanted { volume, extent, coarse: false }));
    }

    /// Whether the next digests are about what is lacking.
    pub(crate) fn is_comparing(&self) -> bool {
        self.lack.as_ref().is_some_and(|lack| lack.pulling.comparing() > 0)
            && !self.copier.awaits_digests()
    }

    /// The peer tells what it holds. `pulls`: this node stays primary, and writes what it lacks.
    ///
    /// # Errors
    /// Nobody asked that; the connection must end.
    pub(crate) fn compare_told(
        &mut self,
        place: (VolumeIndex, Extent),
        digests: Vec<Digest>,
        pulls: bool,
        local: &mut Local,
        turn: &mut Turn,
    ) -> Result<(), String> {
        let claim = self.lack.as_mut().and_then(|lack| lack.pulling.digests_told());
        let fits = |claim: &Claim| {
            self.marks.place(claim.region) == place
                && digests_of(place.1, false) == digests.len() as u64
        };
        let Some(claim) = claim.filter(fits) else {
            return Err(format!("it sent digests of {} without a request", place.1));
        };
        if !pulls || self.is_touched(claim) {
            self.unclaim(claim);
            return Ok(());
        }
        if let Some(lack) = &mut self.lack {
            lack.pulling.begin_read();
        }
        let read_as = ReadAs::Differing { digests, coarse: false };
        local.read(place, read_as, PrimaryIo::Compare(claim), turn);
        Ok(())
    }

    /// This node's own bytes were read and compared.
    pub(crate) fn compared(&mut self, claim: Claim, outcome: StoreOutcome, turn: &mut Turn) {
        let (volume, extent) = self.marks.place(claim.region);
        let differing: Vec<Extent> = match outcome {
            StoreOutcome::Differing(runs) => {
                runs.into_iter().map(|run| let_go(run, turn)).collect()
            }
            // What cannot be read here may still be written: all of it is asked for.
            StoreOutcome::Failed(_) => [extent].into(),
            other => panic!("a read to compare ended as {other:?}"),
        };
        let after = self.line.head();
        let touched = self.is_touched(claim);
        let Some(lack) = &mut self.lack else { return };
        lack.pulling.end_read();
        if touched {
            return self.unclaim(claim);
        }
        let goal = For::Pull(claim);
        let asks = differing.into_iter().map(|extent| Ask { goal, volume, extent, after });
        let asks: Vec<Ask> = asks.collect();
        let equal = asks.is_empty();
        lack.pulling.compared(claim, extent.length, asks);
        if equal {
            self.is_good(claim);
            self.unclaim(claim);
        }
    }
}

fn let_go(run: Run, turn: &mut Turn) -> Extent {
    crate::lead::lack::let_go(run.payload, turn);
    run.extent
}

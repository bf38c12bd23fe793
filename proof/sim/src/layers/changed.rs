// SPDX-License-Identifier: Apache-2.0
//! Where the volumes differ from a copy, and where a younger copy does: all of that counts as changed since the copy.

use super::story::{Desk, ensure};
use super::{BLOCK, Stamp};
use helio_stack::{CopyNumber, CopyView};
use helio_units::{Bytes, Extent, VolumeIndex};

impl Desk {
    pub(super) fn judge_changed(&self) -> Result<(), String> {
        let given = self.held().map(|copy| (copy.number, self.given(copy.number)));
        let given: Vec<(CopyNumber, Vec<Vec<Stamp>>)> = given.collect();
        let volumes = self.volumes();
        for (at, (copy, held)) in given.iter().enumerate() {
            let changed = |(volume, size): (VolumeIndex, &Bytes)| {
                self.stack.changed(CopyView::Cut(*copy), (volume, Extent::new(0, size.0)))
            };
            let all = (0..).map(VolumeIndex).zip(&self.sizes);
            // The layer may know that the copy is over before that is durable.
            let Some(changed) = all.map(changed).collect::<Option<Vec<_>>>() else { continue };
            // The layer does not know yet of a rollback whose beginning was not told.
            let live = self.turn.is_none().then_some(&volumes);
            for later in given[at + 1..].iter().map(|(_, later)| later).chain(live) {
                for (volume, blocks) in held.iter().enumerate() {
                    for (block, stamp) in blocks.iter().enumerate() {
                        let offset = block as u64 * BLOCK;
                        let is_in = |part: &Extent| (part.offset..part.end()).contains(&offset);
                        let told = || changed[volume].iter().any(is_in);
                        ensure(later[volume][block] == *stamp || told(), || {
                            format!(
                                "block {block} of volume {volume} counts as unchanged since copy {copy}"
                            )
                        })?;
                    }
                }
            }
        }
        Ok(())
    }
}

// SPDX-License-Identifier: Apache-2.0
//! The parts of a hot extent that something touched: a bit for each 64th of it.

use crate::hot::EXTENT;
use helio_units::Extent;

/// Bytes of a part.
const PART: u64 = EXTENT.0 / 64;

/// See the module. None by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts(u64);

impl Parts {
    /// None of them.
    pub const NONE: Self = Self(0);
    /// All of them.
    pub const ALL: Self = Self(u64::MAX);

    /// An extent touches the hot extent that begins at `base`.
    #[inline]
    pub fn touch(&mut self, base: u64, extent: Extent) {
        let from = extent.offset.saturating_sub(base) / PART;
        let to = (extent.end() - base).min(EXTENT.0).div_ceil(PART);
        let upto = if to >= 64 { u64::MAX } else { (1 << to) - 1 };
        self.0 |= upto & (u64::MAX << from);
    }

    /// What was touched, `extent` being where the hot extent is, as runs.
    pub fn runs(self, extent: Extent) -> impl Iterator<Item = Extent> + use<> {
        let Self(touched) = self;
        let mut part = 0;
        core::iter::from_fn(move || {
            while part < 64 && touched & (1 << part) == 0 {
                part += 1;
            }
            let from = part;
            while part < 64 && touched & (1 << part) != 0 {
                part += 1;
            }
            let offset = extent.offset + from * PART;
            let end = (extent.offset + part * PART).min(extent.end());
            (offset < end).then(|| Extent::new(offset, end - offset))
        })
    }
}

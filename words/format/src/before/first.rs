// SPDX-License-Identifier: Apache-2.0
//! Version 1 of the before-image file: one copy, the *keeping*. Only its header is read, to tell whether there is a copy.
//!
//! Header, magic `HLBI`, in two slots of 4096 bytes:
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | magic |
//! | 4..6 | format version (1) |
//! | 6 | state: 1 empty, 2 keeping |
//! | 7 | zero |
//! | 8..12 | owner |
//! | 12..16 | zero |
//! | 16..24 | sequence of this header: 1 for the first, then counting up |
//! | 24..32 | the keeping: the sequence of the header that began it; zero where empty |
//! | 32..40 | head: the last position in the kept image |
//! | 40, 41, 42 | exact, wrote, alone |
//! | 43..48 | zero |
//! | 48..56 | when the keeping began, milliseconds since 1970 |
//! | 56..457 | lineage of the kept image |
//! | 457..464 | zero |
//! | 464..472 | durable: records of this keeping below this number were stable before this header was written |
//! | 472..4092 | zero |
//! | 4092..4096 | CRC-32C of bytes 0..4092 |

use super::{
    CopyClass, CopyNumber, CopyOwner, CopyStage, HEADER_MAGIC, KeptCopy, KeptImage, Page,
    PageError, RECORD_CRC_AT, sealed, zeros,
};
use crate::Checksum;
use crate::cursor::{Reader, Short};
use crate::lineage::Lineage;
use helio_units::WallTime;

const LINEAGE_AT: usize = 56;
const DURABLE_AT: usize = 464;

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Counts headers.
    pub sequence: u64,
    /// The one copy, if there is one.
    pub copy: Option<KeptCopy>,
    /// Its records below this number were stable before.
    pub durable: u64,
}

impl Header {
    /// Reads a header.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn decode(page: &Page, owner: u32, checksum: Checksum) -> Result<Self, PageError> {
        let found = sealed(page, HEADER_MAGIC, checksum)?;
        if found != 1 {
            return Err(PageError::Version { found });
        }
        let (header, found) = Self::fields(page).map_err(|_: Short| PageError::Damaged)?;
        if found == owner { Ok(header) } else { Err(PageError::Owner) }
    }

    fn fields(page: &Page) -> Result<(Self, u32), Short> {
        let mut r = Reader(&page[6..RECORD_CRC_AT]);
        let kept = match (r.u8()?, r.u8()?) {
            (1, 0) => false,
            (2, 0) => true,
            _ => return Err(Short),
        };
        let owner = r.u32()?;
        zeros(&mut r, 4)?;
        let (sequence, keeping, head) = (r.u64()?, r.u64()?, r.sequence()?);
        let (exact, wrote, alone) = (r.flag()?, r.flag()?, r.flag()?);
        zeros(&mut r, 5)?;
        let at = WallTime(r.u64()?);
        let behind = r.0.len().checked_sub(DURABLE_AT - LINEAGE_AT).ok_or(Short)?;
        let lineage = Lineage::decode(&mut r)?;
        r.zeros_until(behind)?;
        let durable = r.u64()?;
        r.zeros_until(0)?;
        let image = KeptImage { lineage, head, exact, wrote, alone, consistent: true, at };
        let none = KeptImage { consistent: true, ..KeptImage::default() };
        let blank = keeping == 0 && durable == 0 && image == none;
        if kept == (keeping == 0) || !(kept || blank) || keeping > sequence {
            return Err(Short);
        }
        let (class, stage) = (CopyClass::Required, CopyStage::Held);
        let number = CopyNumber(keeping);
        let copy = KeptCopy { number, class, stage, owner: CopyOwner::Resync, image };
        Ok((Self { sequence, copy: kept.then_some(copy), durable }, owner))
    }
}

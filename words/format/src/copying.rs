// SPDX-License-Identifier: Apache-2.0
//! What two nodes say about what may differ: marks at a meeting, digests while a copy runs.
//!
//! | kind | body, in order |
//! |---|---|
//! | 10 marks wanted | nothing |
//! | 11 marks | page u32, all flag; where all is 0: 508 words u64, a bit per region |
//! | 12 marks end | trusted flag |
//! | 13 digests wanted | volume u16, offset u64, length u64, coarse flag |
//! | 14 digests | volume u16, offset u64, length u64, coarse flag, count u16, 16 bytes each |
//! | 15 no room | wanted u64, free u64 |
//! | 16 differs | volume u16, offset u64, length u64, sequence u64 |
//! | 32 empty wanted | volume u16, offset u64, length u64 |
//! | 33 empty | volume u16, offset u64, length u64, empty flag |
//!
//! Integers and names are as in [`crate::message`]. A body is valid if and only if every field decodes, the extent
//! is not empty, there are 1 to [`DIGESTS_MAX`] digests, and no byte is left over.

use crate::cursor::{Reader, Short, Writer};
use alloc::boxed::Box;
use alloc::vec::Vec;
use helio_units::{Extent, Sequence, VolumeIndex};

/// Words in a page of marks: 32 512 regions.
pub const PAGE_WORDS: usize = 508;
/// Most digests one message carries.
pub const DIGESTS_MAX: usize = 256;

/// The marks of one page, a bit per region.
pub type PageBits = Box<[u64; PAGE_WORDS]>;

/// The digest of a block of bytes: XXH3, 128 bits, seed zero.
pub type Digest = [u8; 16];

/// Everything that is said about what may differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Copying {
    /// The source asks the target for its marks.
    MarksWanted,
    /// One page of the target's marks that has any.
    Marks {
        /// Which page.
        page: u32,
        /// The bits, or none where all of them are set.
        bits: Option<PageBits>,
    },
    /// There are no more pages.
    MarksEnd {
        /// The marks cover everything in which the target may differ; otherwise they prove nothing.
        trusted: bool,
    },
    /// The source asks what the target holds.
    DigestsWanted {
        /// On which volume.
        volume: VolumeIndex,
        /// Where.
        extent: Extent,
        /// One digest per region, not per block.
        coarse: bool,
    },
    /// What the target holds there; it may be stale already, which only ships too much.
    Digests {
        /// On which volume.
        volume: VolumeIndex,
        /// Where.
        extent: Extent,
        /// One digest per region, not per block.
        coarse: bool,
        /// In order.
        list: Vec<Digest>,
    },
    /// The target has no room to keep its last consistent image while it is copied to.
    NoRoom {
        /// Bytes it would take.
        wanted: u64,
        /// Bytes there are.
        free: u64,
    },
    /// A verify found a difference.
    Differs {
        /// On which volume.
        volume: VolumeIndex,
        /// Where.
        extent: Extent,
        /// The item that compared.
        sequence: Sequence,
    },
    /// The source, which holds nothing there, asks whether the target holds nothing either.
    EmptyWanted {
        /// On which volume.
        volume: VolumeIndex,
        /// Where.
        extent: Extent,
    },
    /// What the target found.
    Empty {
        /// On which volume.
        volume: VolumeIndex,
        /// Where.
        extent: Extent,
        /// No byte is stored there: it reads as zero. Otherwise nothing is known.
        empty: bool,
    },
}

impl Copying {
    /// The kind byte of its frame.
    #[must_use]
    pub const fn code(&self) -> u8 {
        match self {
            Self::MarksWanted => 10,
            Self::Marks { .. } => 11,
            Self::MarksEnd { .. } => 12,
            Self::DigestsWanted { .. } => 13,
            Self::Digests { .. } => 14,
            Self::NoRoom { .. } => 15,
            Self::Differs { .. } => 16,
            Self::EmptyWanted { .. } => 32,
            Self::Empty { .. } => 33,
        }
    }

    pub(crate) fn encode(&self, w: &mut Writer<'_>) {
        match self {
            Self::MarksWanted => {}
            Self::Marks { page, bits } => {
                w.u32(*page);
                w.flag(bits.is_none());
                bits.iter().flat_map(|bits| bits.iter()).for_each(|word| w.u64(*word));
            }
            Self::MarksEnd { trusted } => w.flag(*trusted),
            Self::DigestsWanted { volume, extent, coarse } => {
                place(*volume, *extent, w);
                w.flag(*coarse);
            }
            Self::Digests { volume, extent, coarse, list } => {
                assert!(list.len() <= DIGESTS_MAX, "{} digests in one message", list.len());
                place(*volume, *extent, w);
                w.flag(*coarse);
                w.u16(list.len() as u16);
                list.iter().for_each(|digest| w.0.extend_from_slice(digest));
            }
            Self::NoRoom { wanted, free } => {
                w.u64(*wanted);
                w.u64(*free);
            }
            Self::Differs { volume, extent, sequence } => {
                place(*volume, *extent, w);
                w.sequence(*sequence);
            }
            Self::EmptyWanted { volume, extent } => place(*volume, *extent, w),
            Self::Empty { volume, extent, empty } => {
                place(*volume, *extent, w);
                w.flag(*empty);
            }
        }
    }

    pub(crate) fn decode(code: u8, r: &mut Reader<'_>) -> Result<Self, Short> {
        Ok(match code {
            10 => Self::MarksWanted,
            11 => Self::Marks { page: r.u32()?, bits: decode_bits(r)? },
            12 => Self::MarksEnd { trusted: r.flag()? },
            13 => {
                let (volume, extent) = decode_place(r)?;
                Self::DigestsWanted { volume, extent, coarse: r.flag()? }
            }
            14 => {
                let (volume, extent) = decode_place(r)?;
                Self::Digests { volume, extent, coarse: r.flag()?, list: decode_digests(r)? }
            }
            15 => Self::NoRoom { wanted: r.u64()?, free: r.u64()? },
            16 => {
                let (volume, extent) = decode_place(r)?;
                Self::Differs { volume, extent, sequence: r.sequence()? }
            }
            32 => {
                let (volume, extent) = decode_place(r)?;
                Self::EmptyWanted { volume, extent }
            }
            33 => {
                let (volume, extent) = decode_place(r)?;
                Self::Empty { volume, extent, empty: r.flag()? }
            }
            _ => return Err(Short),
        })
    }
}

fn place(volume: VolumeIndex, extent: Extent, w: &mut Writer<'_>) {
    w.u16(volume.0);
    w.u64(extent.offset);
    w.u64(extent.length);
}

fn decode_place(r: &mut Reader<'_>) -> Result<(VolumeIndex, Extent), Short> {
    let (volume, offset, length) = (VolumeIndex(r.u16()?), r.u64()?, r.u64()?);
    if length == 0 || offset.checked_add(length).is_none() {
        return Err(Short);
    }
    Ok((volume, Extent::new(offset, length)))
}

fn decode_bits(r: &mut Reader<'_>) -> Result<Option<PageBits>, Short> {
    if r.flag()? {
        return Ok(None);
    }
    let mut bits = Box::new([0; PAGE_WORDS]);
    for word in bits.iter_mut() {
        *word = r.u64()?;
    }
    Ok(Some(bits))
}

fn decode_digests(r: &mut Reader<'_>) -> Result<Vec<Digest>, Short> {
    let count = usize::from(r.u16()?);
    if count == 0 || count > DIGESTS_MAX {
        return Err(Short);
    }
    (0..count).map(|_| r.take(16)?.try_into().map_err(|_| Short)).collect()
}

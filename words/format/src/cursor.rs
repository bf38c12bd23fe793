// SPDX-License-Identifier: Apache-2.0
//! Little-endian reading and writing over byte slices, with running out of bytes as a value.

use alloc::string::String;
use alloc::vec::Vec;
use helio_units::{Generation, Sequence};

/// Longest name of a node or a group, in bytes.
pub const NAME_BYTES_MAX: usize = 64;
/// Longest text, in bytes.
pub const TEXT_BYTES_MAX: usize = 512;

/// Every position and every number of a generation on disk is below this: adding to one never overflows.
const RECORDED_BELOW: u64 = 1 << 63;
/// What a peer counts is below this: a record that goes on from there stays below its own bound. No count comes near.
pub const COUNTED_BELOW: u64 = 1 << 62;

/// The bytes ended, or a field's value cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Short;

/// Reads fields from the front of a slice.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, n: usize) -> Result<&'a [u8], Short> {
        let (head, rest) = self.0.split_at_checked(n).ok_or(Short)?;
        self.0 = rest;
        Ok(head)
    }

    /// Zeros, until so many bytes are left.
    pub(crate) fn zeros_until(&mut self, left: usize) -> Result<(), Short> {
        let zeros = self.0.len().checked_sub(left).ok_or(Short)?;
        if self.take(zeros)?.iter().all(|b| *b == 0) { Ok(()) } else { Err(Short) }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Short> {
        self.take(N)?.try_into().map_err(|_| Short)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Short> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Short> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Short> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Short> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A byte that may only be 0 or 1.
    pub(crate) fn flag(&mut self) -> Result<bool, Short> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Short),
        }
    }

    fn below(&mut self, bound: u64) -> Result<u64, Short> {
        self.u64().and_then(|value| if value < bound { Ok(value) } else { Err(Short) })
    }

    /// What a peer counted.
    pub(crate) fn count(&mut self) -> Result<u64, Short> {
        self.below(COUNTED_BELOW)
    }

    pub(crate) fn sequence(&mut self) -> Result<Sequence, Short> {
        self.below(RECORDED_BELOW).map(Sequence)
    }

    pub(crate) fn generation(&mut self) -> Result<Generation, Short> {
        Ok(Generation { number: self.below(RECORDED_BELOW)?, tag: self.u64()? })
    }

    /// A length byte and that many bytes of UTF-8, at most [`NAME_BYTES_MAX`].
    pub(crate) fn name(&mut self) -> Result<String, Short> {
        let length = usize::from(self.u8()?);
        if length > NAME_BYTES_MAX {
            return Err(Short);
        }
        core::str::from_utf8(self.take(length)?).map(String::from).map_err(|_| Short)
    }

    /// A u16 length and that many bytes of UTF-8, at most [`TEXT_BYTES_MAX`].
    pub(crate) fn text(&mut self) -> Result<String, Short> {
        let length = usize::from(self.u16()?);
        if length > TEXT_BYTES_MAX {
            return Err(Short);
        }
        core::str::from_utf8(self.take(length)?).map(String::from).map_err(|_| Short)
    }

    pub(crate) fn finished(&self) -> Result<(), Short> {
        if self.0.is_empty() { Ok(()) } else { Err(Short) }
    }
}

/// Appends fields to a vector.
pub(crate) struct Writer<'a>(pub(crate) &'a mut Vec<u8>);

impl Writer<'_> {
    pub(crate) fn u8(&mut self, v: u8) {
        self.0.push(v);
    }

    pub(crate) fn u16(&mut self, v: u16) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, v: u32) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, v: u64) {
        self.0.extend_from_slice(&v.to_le_bytes());
    }

    pub(crate) fn flag(&mut self, v: bool) {
        self.u8(u8::from(v));
    }

    pub(crate) fn sequence(&mut self, v: Sequence) {
        self.u64(v.0);
    }

    pub(crate) fn generation(&mut self, v: Generation) {
        self.u64(v.number);
        self.u64(v.tag);
    }

    /// Names longer than [`NAME_BYTES_MAX`] are refused by the configuration; here they are our own mistake.
    pub(crate) fn name(&mut self, v: &str) {
        assert!(v.len() <= NAME_BYTES_MAX, "a name of {} bytes reached the wire", v.len());
        self.u8(v.len() as u8);
        self.0.extend_from_slice(v.as_bytes());
    }

    /// A text that is too long is cut at a character.
    pub(crate) fn text(&mut self, text: &str) {
        let text = &text[..text.floor_char_boundary(TEXT_BYTES_MAX)];
        self.u16(text.len() as u16);
        self.0.extend_from_slice(text.as_bytes());
    }
}

/// A word of the vocabulary as its place in its list, counted from one; zero for none.
pub(crate) fn code_of<T: PartialEq>(list: &[T], word: Option<T>) -> u8 {
    word.and_then(|word| list.iter().position(|w| *w == word)).map_or(0, |at| at as u8 + 1)
}

pub(crate) fn from_code<T: Copy>(list: &[T], code: u8) -> Result<Option<T>, Short> {
    match code {
        0 => Ok(None),
        _ => list.get(usize::from(code) - 1).copied().map(Some).ok_or(Short),
    }
}

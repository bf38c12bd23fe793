// SPDX-License-Identifier: Apache-2.0
//! Epochs: what the page of member states and the members themselves have of when a member was one of its volume.
//!
//! The epoch of a volume is raised at every start and at every change of its members: first in the
//! page, then in the stamp of every member that is used. So a member that is older than the page says was restored or replaced,
//! and a page that is older than the stamp of a member was.
//!
//! | bytes of the body of the page | field |
//! |---|---|
//! | 3072..3080 | set id, random; 0: no volume of the group ever had an epoch |
//! | 3080..3272 | 64 volumes of 3 bytes: the epoch; 0 before the first |
//! | 3272..4040 | 64 volumes of 6 members of 2 bytes: the lower 12 bits of the first epoch that the member's stamp may have; above them how many later ones, at most 15. 0: not known |
//! | 4040..4064 | zero |
//!
//! | bytes of a stamp | field |
//! |---|---|
//! | 0..4 | magic `HLMS` |
//! | 4..6 | format version (1) |
//! | 6 | 1: the member held all of the volume, 0: it did not |
//! | 7 | zero |
//! | 8..16 | set id |
//! | 16..18 | index of the volume in its group |
//! | 18..20 | zero |
//! | 20..24 | epoch |
//! | 24..28 | CRC-32C of the bytes before |
//!
//! The lower 12 bits of an epoch are never all zero, and an epoch has 24 bits at most: the last one is not raised any more. The
//! first epoch that a stamp may have is the highest one up to that of the volume that has its lower bits; one that is more than
//! 4095 behind is recorded as if it were less, so that the member proves nothing. The stamp of a member that is used may also have
//! any later one up to that of the volume; of one that is not used, only as many as the page says. A page is valid if and only if volumes that the group does not
//! have have no epochs, no stamp is later than its volume, nothing has an epoch without a set id, and the rest is zero. A stamp is
//! valid if and only if every byte is as the table says.

use crate::Checksum;
use crate::cursor::{Reader, Short, Writer};
use crate::members::MEMBERS_MAX;
use crate::message::VOLUMES_MAX;
use crate::page::{BODY_BYTES, PageError};
use alloc::vec::Vec;
use core::fmt;
use helio_units::VolumeIndex;

/// Where the set id begins in the body of the page, ...
const SET_AT: usize = 3072;
/// ... the epochs of volumes, ...
const EPOCHS_AT: usize = SET_AT + 8;
/// ... those of stamps, ...
const CARRIED_AT: usize = EPOCHS_AT + VOLUMES_MAX * EPOCH_BYTES;
/// ... and what is zero.
const END: usize = CARRIED_AT + VOLUMES_MAX * MEMBERS_MAX * LOWER_BYTES;
const EPOCH_BYTES: usize = 3;
const LOWER_BYTES: usize = 2;
const LOWER: u32 = 0xFFF;

/// Bytes of a stamp.
pub const STAMP_BYTES: usize = 28;
const MAGIC: [u8; 4] = *b"HLMS";
const STAMP_VERSION: u16 = 1;

/// Most later epochs that are recorded of a stamp.
const LATER_MOST: u32 = 15;

/// How often the members of a volume have changed, or were used anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Epoch(u32);

impl Epoch {
    /// The first one.
    pub const FIRST: Self = Self(1);
    /// The last one.
    pub const LAST: Self = Self(0xFF_FFFF);

    const fn of(number: u32) -> Option<Self> {
        if number & LOWER == 0 || number > Self::LAST.0 { None } else { Some(Self(number)) }
    }

    /// The next one; behind the last one there is none, and it stays.
    #[must_use]
    pub const fn next(self) -> Self {
        match (Self::of(self.0 + 1), Self::of(self.0 + 2)) {
            (Some(next), _) | (None, Some(next)) => next,
            (None, None) => self,
        }
    }

    /// One that is so much later that no member has it of which nothing is known.
    #[must_use]
    pub const fn far_later(self) -> Self {
        match Self::of(self.0 + LOWER + 1) {
            Some(later) => later,
            None => Self::LAST,
        }
    }

    /// The highest one up to `self` with these lower bits.
    const fn up_to(self, lower: u16) -> Option<Self> {
        let number = self.0 & !LOWER | lower as u32;
        if number <= self.0 { Self::of(number) } else { Self::of(number.wrapping_sub(LOWER + 1)) }
    }

    /// The lower bits by which [`Self::up_to`] finds it again, or a later one, if it is too far behind.
    const fn lower(self, volume: Self) -> u16 {
        let found = volume.0.saturating_sub(self.0) <= LOWER;
        let number = if found { self.0 } else { volume.0 - LOWER + 1 };
        if number & LOWER == 0 { 1 } else { (number & LOWER) as u16 }
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which sets these are: of a group on a node, as long as its metadata lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetId(u64);

impl SetId {
    /// The set id of that number; none for zero.
    #[must_use]
    pub const fn of(number: u64) -> Option<Self> {
        if number == 0 { None } else { Some(Self(number)) }
    }
}

impl fmt::Display for SetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The epochs of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeEpochs {
    /// The one that its members have, or get. None before the first.
    pub epoch: Option<Epoch>,
    /// Which ones the stamps of members have, by their numbers; none where that is not known: any stamp is right then, or none.
    pub carried: [Option<Carried>; MEMBERS_MAX],
}

/// Which epochs the stamp of a member may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    first: Epoch,
    later: u8,
}

impl Carried {
    /// From the one that is durable to the one that it may have got since. Those that are too much later are left out.
    #[must_use]
    pub const fn between(first: Epoch, last: Epoch) -> Self {
        let later = last.0.saturating_sub(first.0);
        Self { first, later: if later < LATER_MOST { later } else { LATER_MOST } as u8 }
    }

    /// The first one.
    #[must_use]
    pub const fn first(self) -> Epoch {
        self.first
    }

    /// The last one, of a member that is not used.
    #[must_use]
    pub const fn last(self) -> Epoch {
        Epoch(self.first.0 + self.later as u32)
    }
}

/// What the page of member states has of the epochs of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Epochs {
    /// Of the group. None before a volume has an epoch.
    pub set: Option<SetId>,
    /// Of every volume.
    pub volumes: Vec<VolumeEpochs>,
}

impl Epochs {
    /// Of a group with that many volumes, none of which has an epoch.
    #[must_use]
    pub fn none(volumes: usize) -> Self {
        Self { set: None, volumes: alloc::vec![VolumeEpochs::default(); volumes] }
    }

    /// Writes them into the body of the page.
    ///
    /// # Panics
    /// On more volumes than a group has, or an epoch without a set id.
    pub(crate) fn encode(&self, body: &mut [u8; BODY_BYTES]) {
        assert!(self.volumes.len() <= VOLUMES_MAX, "a group of {} volumes", self.volumes.len());
        let has_epoch = self.volumes.iter().any(|volume| volume.epoch.is_some());
        assert!(self.set.is_some() || !has_epoch, "an epoch of no set");
        let set = self.set.map_or(0, |SetId(set)| set);
        body[SET_AT..EPOCHS_AT].copy_from_slice(&set.to_le_bytes());
        let epochs = body[EPOCHS_AT..CARRIED_AT].chunks_exact_mut(EPOCH_BYTES);
        for (bytes, volume) in epochs.zip(&self.volumes) {
            let Epoch(epoch) = volume.epoch.unwrap_or(Epoch(0));
            bytes.copy_from_slice(&epoch.to_le_bytes()[..EPOCH_BYTES]);
        }
        let carried = body[CARRIED_AT..END].chunks_exact_mut(MEMBERS_MAX * LOWER_BYTES);
        for (bytes, volume) in carried.zip(&self.volumes) {
            for (bytes, carried) in bytes.chunks_exact_mut(LOWER_BYTES).zip(volume.carried) {
                let lower = |(it, of): (Carried, Epoch)| {
                    it.first.lower(of) | u16::from(it.later) << LOWER.count_ones()
                };
                let lower = carried.zip(volume.epoch).map_or(0, lower);
                bytes.copy_from_slice(&lower.to_le_bytes());
            }
        }
    }

    /// Reads them from the body of the page of a group that has that many volumes.
    ///
    /// # Errors
    /// A byte of them is not as the table says.
    pub(crate) fn decode(body: &[u8; BODY_BYTES], volumes: usize) -> Result<Self, PageError> {
        let mut r = Reader(&body[SET_AT..]);
        let set = SetId::of(r.u64()?);
        let mut all = [VolumeEpochs::default(); VOLUMES_MAX];
        for volume in &mut all {
            let bytes = r.take(EPOCH_BYTES)?;
            let number = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], 0]);
            volume.epoch = if number == 0 { None } else { Some(Epoch::of(number).ok_or(Short)?) };
        }
        for volume in &mut all {
            for carried in &mut volume.carried {
                let bits = r.u16()?;
                if bits != 0 {
                    let lower = bits & LOWER as u16;
                    let first = volume.epoch.and_then(|epoch| epoch.up_to(lower)).ok_or(Short)?;
                    let later = (bits >> LOWER.count_ones()) as u8;
                    *carried = Some(Carried { first, later });
                }
            }
        }
        let is_used = |volume: &VolumeEpochs| *volume != VolumeEpochs::default();
        let is_odd = set.is_none() && all.iter().any(is_used) || all[volumes..].iter().any(is_used);
        if is_odd || r.0.iter().any(|byte| *byte != 0) {
            return Err(PageError::Damaged);
        }
        Ok(Self { set, volumes: all[..volumes].to_vec() })
    }
}

/// What a member carries beside its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Which sets.
    pub set: SetId,
    /// Which volume of its group.
    pub volume: VolumeIndex,
    /// Since when nothing changed.
    pub epoch: Epoch,
    /// The member held all of the volume.
    pub is_full: bool,
}

impl Stamp {
    /// Its bytes.
    #[must_use]
    pub fn encode(&self, checksum: Checksum) -> [u8; STAMP_BYTES] {
        let mut out = Vec::with_capacity(STAMP_BYTES);
        out.extend_from_slice(&MAGIC);
        let mut w = Writer(&mut out);
        w.u16(STAMP_VERSION);
        w.u8(u8::from(self.is_full));
        w.u8(0);
        w.u64(self.set.0);
        w.u16(self.volume.0);
        w.u16(0);
        w.u32(self.epoch.0);
        let sum = checksum(&out);
        Writer(&mut out).u32(sum);
        let mut bytes = [0; STAMP_BYTES];
        bytes.copy_from_slice(&out);
        bytes
    }

    /// Reads it. None if a byte of it is not as the table says.
    #[must_use]
    pub fn decode(bytes: &[u8], checksum: Checksum) -> Option<Self> {
        let fields = bytes.get(..STAMP_BYTES - 4)?;
        let mut r = Reader(bytes);
        let read = (|| {
            let known = r.take(4)? == MAGIC && r.u16()? == STAMP_VERSION;
            let is_full = r.flag()?;
            let zero = r.u8()?;
            let (set, volume) = (SetId::of(r.u64()?).ok_or(Short)?, VolumeIndex(r.u16()?));
            let zero = r.u16()? | u16::from(zero);
            let epoch = Epoch::of(r.u32()?).ok_or(Short)?;
            let is_sound = known && zero == 0 && usize::from(volume.0) < VOLUMES_MAX;
            let is_sound = is_sound && r.u32()? == checksum(fields) && r.0.is_empty();
            is_sound.then_some(Self { set, volume, epoch, is_full }).ok_or(Short)
        })();
        read.ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slow_crc32c;

    const SET: SetId = SetId(0x0102_0304_0506_0708);

    fn stamp() -> Stamp {
        Stamp { set: SET, volume: VolumeIndex(3), epoch: Epoch(0x01_0203), is_full: true }
    }

    fn epochs() -> Epochs {
        let mut all = Epochs { set: Some(SET), ..Epochs::none(VOLUMES_MAX) };
        let of = |epoch| {
            let carried = [Some(Carried::between(epoch, epoch)); MEMBERS_MAX];
            VolumeEpochs { epoch: Some(epoch), carried }
        };
        (all.volumes[0], all.volumes[63]) = (of(Epoch::FIRST), of(Epoch::LAST));
        all.volumes[1].epoch = Some(Epoch(0x02_0001));
        all.volumes[1].carried[1] = Some(Carried { first: Epoch(0x01_F203), later: 5 });
        all
    }

    fn body(epochs: &Epochs) -> [u8; BODY_BYTES] {
        let mut body = [0; BODY_BYTES];
        epochs.encode(&mut body);
        body
    }

    #[test]
    fn epochs_come_back_and_stand_where_the_table_says() {
        let body = body(&epochs());
        assert_eq!(body[..SET_AT], [0; SET_AT]);
        assert_eq!(body[3072..3080], [8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(body[3080..3086], [1, 0, 0, 1, 0, 2]);
        assert_eq!(body[3269..3274], [0xFF, 0xFF, 0xFF, 1, 0]);
        assert_eq!(body[3272 + 14..3272 + 16], [3, 0x52]);
        assert_eq!(body[4038..4041], [0xFF, 0x0F, 0]);
        assert_eq!(Epochs::decode(&body, VOLUMES_MAX), Ok(epochs()));
        let nothing = [0; BODY_BYTES];
        assert_eq!(Epochs::decode(&nothing, 2), Ok(Epochs::none(2)), "as pages had it before");
    }

    #[test]
    fn what_the_table_does_not_have_is_damage() {
        let sound = body(&epochs());
        let damaged = Err(PageError::Damaged);
        assert_eq!(Epochs::decode(&sound, 63), damaged, "a volume that the group does not have");
        for (at, value) in [(4040, 1), (BODY_BYTES - 1, 1), (3080, 0), (3083, 0), (3274, 2)] {
            let mut odd = sound;
            odd[at] = value;
            assert_eq!(Epochs::decode(&odd, VOLUMES_MAX), damaged, "byte {at}");
        }
        let mut unknown = sound;
        unknown[3072..3080].fill(0);
        assert_eq!(Epochs::decode(&unknown, VOLUMES_MAX), damaged, "epochs of no set");
    }

    #[test]
    fn a_flipped_byte_is_damage_or_something_else() {
        let sound = body(&epochs());
        for at in SET_AT..BODY_BYTES {
            for flip in [1, 2, 0x80, 0xFF] {
                let mut odd = sound;
                odd[at] ^= flip;
                let found = Epochs::decode(&odd, VOLUMES_MAX);
                assert_ne!(found, Ok(epochs()), "byte {at}");
                assert_eq!(found.map_or(odd, |found| body(&found)), odd, "byte {at}");
            }
        }
    }

    #[test]
    fn an_epoch_never_has_lower_bits_that_are_zero_and_the_last_one_stays() {
        let mut epoch = Epoch::FIRST;
        for _ in 0..3 * LOWER {
            let next = epoch.next();
            assert!(next > epoch && next.0 & LOWER != 0 && next.0 - epoch.0 < 3);
            epoch = next;
        }
        assert_eq!(Epoch::LAST.next(), Epoch::LAST);
        assert_eq!(Epoch(3).far_later(), Epoch(0x1003));
        assert_eq!(Epoch(0xFF_F003).far_later(), Epoch::LAST);
    }

    #[test]
    fn a_stamp_that_is_far_behind_is_recorded_as_a_later_one_and_never_as_none() {
        let found = |carried: u32, volume: u32| {
            let (carried, volume) = (Epoch(carried), Epoch(volume));
            volume.up_to(carried.lower(volume)).expect("a later one")
        };
        for volume in [1, 2, 0xFFFF, 0x1_0001, 0x1_0002, 0x2_0001, 0x2_FFFF, 0xFF_FFFF] {
            for behind in [0, 1, 2, 0xFFE, 0xFFF, 0x1000, 0x1001, 0x2000, 0x1_0000] {
                let Some(carried) = u32::checked_sub(volume, behind).and_then(Epoch::of) else {
                    continue;
                };
                let again = found(carried.0, volume);
                assert!(again <= Epoch(volume));
                assert_eq!(again == carried, behind <= LOWER, "{volume} - {behind}: {again}");
                assert!(again >= carried);
            }
        }
    }

    #[test]
    fn a_stamp_may_have_few_later_epochs() {
        let last = |first, last| Carried::between(Epoch(first), Epoch(last)).last();
        assert_eq!(last(7, 7), Epoch(7));
        assert_eq!(last(7, 9), Epoch(9));
        assert_eq!(last(7, 100), Epoch(22), "others prove nothing");
        assert_eq!(last(9, 7), Epoch(9));
    }

    #[test]
    fn a_stamp_comes_back_and_stands_where_the_table_says() {
        let bytes = stamp().encode(slow_crc32c);
        assert_eq!(bytes[..8], [b'H', b'L', b'M', b'S', 1, 0, 1, 0]);
        assert_eq!(bytes[8..24], [8, 7, 6, 5, 4, 3, 2, 1, 3, 0, 0, 0, 3, 2, 1, 0]);
        assert_eq!(bytes[24..], slow_crc32c(&bytes[..24]).to_le_bytes());
        let other = Stamp { is_full: false, epoch: Epoch::LAST, ..stamp() };
        for stamp in [stamp(), other] {
            assert_eq!(Stamp::decode(&stamp.encode(slow_crc32c), slow_crc32c), Some(stamp));
        }
    }

    #[test]
    fn a_stamp_with_a_flipped_byte_or_of_another_length_proves_nothing() {
        let bytes = stamp().encode(slow_crc32c);
        for (at, flip) in (0..STAMP_BYTES).flat_map(|at| [1, 2, 0x80, 0xFF].map(|flip| (at, flip)))
        {
            let mut odd = bytes;
            odd[at] ^= flip;
            assert_eq!(Stamp::decode(&odd, slow_crc32c), None, "byte {at}");
            // Nor if the checksum is right.
            let sum = slow_crc32c(&odd[..24]);
            odd[24..].copy_from_slice(&sum.to_le_bytes());
            if let Some(found) = Stamp::decode(&odd, slow_crc32c) {
                assert_eq!(found.encode(slow_crc32c), odd, "there are two ways to write it");
            }
        }
        for length in 0..STAMP_BYTES {
            assert_eq!(Stamp::decode(&bytes[..length], slow_crc32c), None);
        }
        assert_eq!(Stamp::decode(&[&bytes[..], &[0]].concat(), slow_crc32c), None);
    }
}

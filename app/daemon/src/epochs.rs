// SPDX-License-Identifier: Apache-2.0
//! The epochs of volumes: when one is raised, and the stamp that tells it.
//!
//! An epoch is durable in the metadata before any member gets it, so no member is ever newer than the metadata. A member that
//! cannot be stamped keeps the epoch that it has, and the metadata keeps on record that it may have that one or a later one.

use helio_driver::Host;
use helio_format::epochs::{Carried, Epoch, SetId, Stamp, VolumeEpochs};
use helio_format::members::{CopyHealth, MEMBERS_MAX, VolumeEntries};
use helio_units::VolumeIndex;

/// A random set id.
///
/// # Errors
/// The machine has no random numbers.
pub(crate) fn set_id(host: &Host) -> std::io::Result<SetId> {
    loop {
        if let Some(set) = SetId::of(u64::from_ne_bytes(host.random_bytes()?)) {
            return Ok(set);
        }
    }
}

/// Whether the volume has several members.
pub(crate) fn are_several(entries: &VolumeEntries) -> bool {
    entries.iter().flatten().count() > 1
}

/// Whether a member in that state is written.
pub(crate) const fn is_used(health: CopyHealth) -> bool {
    use CopyHealth::{Blank, Copying, Failed, Good, Removed, Suspect, Unproven, Withdrawn};
    match health {
        Good | Suspect | Blank | Copying => true,
        Removed | Unproven | Failed | Withdrawn => false,
    }
}

/// The epoch of a volume with these members is raised: those that are open and used get the next one. What the stamp of a member
/// tells of its content stays on record only for as long as its bitmap counts.
///
/// A member that leaves gets the next one, too, and the one before counts no more: a copy of it from before has another stamp than the
/// member, although its bitmap counts. Where the stamp does not get there, all of it is copied.
pub(crate) fn raise(
    volume: &mut VolumeEpochs,
    entries: &VolumeEntries,
    is_open: impl Fn(usize) -> bool,
    leaves: impl Fn(usize) -> bool,
) {
    let next = volume.epoch.map_or(Epoch::FIRST, Epoch::next);
    for (n, (carried, entry)) in volume.carried.iter_mut().zip(entries).enumerate() {
        let health = entry.map(|entry| entry.health);
        match health {
            Some(CopyHealth::Unproven | CopyHealth::Failed) | None => *carried = None,
            Some(health) if is_used(health) && is_open(n) => {
                *carried = carried.map(|it| Carried::between(it.first(), next));
            }
            Some(health) if !is_used(health) && leaves(n) => {
                *carried = Some(Carried::between(next, next));
            }
            // It keeps the stamp with which it left.
            Some(_) => {}
        }
    }
    volume.epoch = Some(next);
}

/// Another disk is in the place of all members: what is on record of their stamps is of none of them.
pub(crate) const fn forget_members(volume: &mut VolumeEpochs) {
    volume.carried = [None; MEMBERS_MAX];
}

/// The stamp of a member has this epoch durably.
pub(crate) fn stamped(volume: &mut VolumeEpochs, member: usize, epoch: Epoch) {
    let last = volume.epoch.map_or(epoch, |last| last.max(epoch));
    let carried = &mut volume.carried[member];
    if carried.is_none_or(|it| it.first() < epoch) {
        *carried = Some(Carried::between(epoch, last));
    }
}

/// The bytes of a stamp.
pub(crate) fn stamp(
    (set, volume): (SetId, VolumeIndex),
    epoch: Epoch,
    health: CopyHealth,
) -> impl AsRef<[u8]> {
    Stamp { set, volume, epoch, is_full: health.is_full() }.encode(helio_link::checksum)
}

/// Whether a removed member still has the stamp that it had at its removal. If not, its bitmap is invalid.
pub(crate) fn is_as_it_left(
    (set, at): (Option<SetId>, VolumeIndex),
    carried: Option<Carried>,
    stamp: Option<&[u8]>,
) -> bool {
    let Some(carried) = carried else { return true };
    let stamp = stamp.and_then(|bytes| Stamp::decode(bytes, helio_link::checksum));
    stamp.is_some_and(|it| {
        let is_ours = Some(it.set) == set && it.volume == at;
        is_ours && (carried.first()..=carried.last()).contains(&it.epoch)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use CopyHealth::{Copying, Failed, Good, Removed, Unproven};
    use helio_format::members::{DiskMark, MemberEntry};

    const V: VolumeIndex = VolumeIndex(2);

    fn entries(states: &[CopyHealth]) -> VolumeEntries {
        let mut entries = [None; MEMBERS_MAX];
        for (entry, health) in entries.iter_mut().zip(states) {
            *entry = Some(MemberEntry { health: *health, disk: DiskMark::UNKNOWN });
        }
        entries
    }

    /// What the first three members may have, as numbers from the first epoch on.
    fn shown(volume: &VolumeEpochs) -> [Option<(String, String)>; 3] {
        let text = |it: Carried| (it.first().to_string(), it.last().to_string());
        [0, 1, 2].map(|n| volume.carried[n].map(text))
    }

    fn between(first: u32, last: u32) -> Option<(String, String)> {
        Some((first.to_string(), last.to_string()))
    }

    #[test]
    fn a_member_that_leaves_has_a_stamp_that_no_copy_from_before_has() {
        let (mut volume, all) = (VolumeEpochs::default(), |_: usize| true);
        raise(&mut volume, &entries(&[Good, Good]), all, |_| false);
        (0..2).for_each(|n| stamped(&mut volume, n, Epoch::FIRST));
        raise(&mut volume, &entries(&[Good, Removed]), all, |n| n == 1);
        assert_eq!(shown(&volume), [between(1, 2), between(2, 2), None], "it leaves");
        raise(&mut volume, &entries(&[Good, Removed]), all, |_| false);
        assert_eq!(shown(&volume)[1], between(2, 2), "it stays away");
        raise(&mut volume, &entries(&[Good, Copying]), all, |_| false);
        assert_eq!(shown(&volume), [between(1, 4), between(2, 4), None], "it returns");
        stamped(&mut volume, 1, Epoch::FIRST.next().next().next());
        assert_eq!(shown(&volume)[1], between(4, 4), "its last stamp counts no more");
        raise(&mut volume, &entries(&[Good, Failed]), all, |n| n == 1);
        assert_eq!(shown(&volume)[1], None, "its bitmap does not count");
    }

    #[test]
    fn a_member_may_have_any_epoch_from_the_durable_one_to_the_last_that_it_was_to_get() {
        let (mut volume, all, none) = (VolumeEpochs::default(), |_: usize| true, |_: usize| false);
        let used = entries(&[Good, Good, Copying]);
        raise(&mut volume, &used, all, none);
        assert_eq!(shown(&volume), [None, None, None], "nothing is known yet");
        (0..3).for_each(|n| stamped(&mut volume, n, Epoch::FIRST));
        assert_eq!(shown(&volume), [between(1, 1), between(1, 1), between(1, 1)]);
        raise(&mut volume, &used, all, none);
        assert_eq!(shown(&volume), [between(1, 2), between(1, 2), between(1, 2)]);
        stamped(&mut volume, 0, Epoch::FIRST.next());
        assert_eq!(shown(&volume)[0], between(2, 2));
        // The second one leaves, and the third one is not there.
        raise(&mut volume, &entries(&[Good, Removed, Good]), |n| n != 2, none);
        assert_eq!(shown(&volume), [between(2, 3), between(1, 2), between(1, 2)]);
        stamped(&mut volume, 0, Epoch::FIRST.next());
        assert_eq!(shown(&volume)[0], between(2, 3), "that is no news");
        raise(&mut volume, &entries(&[Good, Unproven, Failed]), all, none);
        assert_eq!(shown(&volume), [between(2, 4), None, None]);
        forget_members(&mut volume);
        assert_eq!(shown(&volume), [None, None, None]);
        assert_eq!(
            volume.epoch.map(|it| it.to_string()),
            Some(String::from("4")),
            "none is used twice"
        );
    }

    #[test]
    fn a_bitmap_counts_only_for_the_disk_as_it_was_when_its_member_left() {
        let (set, other) = (SetId::of(7).expect("a set"), SetId::of(8).expect("a set"));
        let epochs: Vec<Epoch> =
            std::iter::successors(Some(Epoch::FIRST), |it| Some(it.next())).take(5).collect();
        let carried = Some(Carried::between(epochs[1], epochs[2]));
        let judge = |stamp: Option<&[u8]>| is_as_it_left((Some(set), V), carried, stamp);
        for (n, epoch) in epochs.iter().enumerate() {
            let of = |set, volume| stamp((set, volume), *epoch, Good);
            assert_eq!(judge(Some(of(set, V).as_ref())), n == 1 || n == 2);
            assert!(!judge(Some(of(other, V).as_ref())), "of another set");
            assert!(!judge(Some(of(set, VolumeIndex(3)).as_ref())), "of another volume");
        }
        assert!(!judge(None) && !judge(Some(&[7; 28])));
        assert!(is_as_it_left((Some(set), V), None, None), "nothing was told by a stamp");
    }
}

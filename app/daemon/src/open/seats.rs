// SPDX-License-Identifier: Apache-2.0
//! Which of the disks that the file names is which member of the metadata.
//!
//! | a disk that the file names | is |
//! |---|---|
//! | the one that a member was recorded on | that member |
//! | the first one, where nothing tells the disk of the only recorded member | that member |
//! | the only one, and no recorded member lies on it | the first full member, on another disk: the engine judges it |
//! | one that cannot be opened, or any other, while the disk of a recorded member is not among them | that member, which is absent; nothing is written to the disk |
//! | any other | a new member, which gets the data |

use anyhow::{Error, Result, anyhow};
use helio_disk::Member;
use helio_format::members::{DiskMark, MEMBERS_MAX, MemberEntry, VolumeEntries};
use std::path::PathBuf;

/// A disk that the file names.
pub(super) struct Named {
    pub(super) path: PathBuf,
    pub(super) store: Result<Member>,
}

/// Which member a disk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seat {
    /// The member that was recorded on it.
    Recorded(usize),
    /// A full member, on another disk than it was recorded on.
    Another(usize),
    /// A new member.
    New(usize),
    /// A recorded member whose disk cannot be opened, or is another one.
    Absent(usize),
    /// It cannot be opened, and no recorded member is missing.
    Unknown,
}

/// Why no disk can be told to be a full member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unseated {
    /// The disk of that place cannot be opened.
    Closed(usize),
    /// Nothing tells the disk of that place from others.
    Untold(usize),
    /// The disks of these places cannot be told apart.
    Same(usize, usize),
    /// None of the disks is a full member.
    NoFull,
}

pub(super) const fn is_full(entry: &MemberEntry) -> bool {
    entry.health.is_full()
}

/// The table above: which member each disk is. Of a disk that cannot be opened there is no mark.
pub(super) fn seat(
    entries: &VolumeEntries,
    disks: &[Option<DiskMark>],
) -> std::result::Result<Vec<Seat>, Unseated> {
    let told = |mark: DiskMark| mark != DiskMark::UNKNOWN;
    let mut seats: Vec<Option<Seat>> = vec![None; disks.len()];
    let mut left: Vec<usize> = (0..MEMBERS_MAX).filter(|n| entries[*n].is_some()).collect();
    if disks.len() > 1
        && let Some(untold) = disks.iter().position(|disk| disk.is_some_and(|mark| !told(mark)))
    {
        return Err(Unseated::Untold(untold));
    }
    for (at, mark) in disks.iter().enumerate().filter(|(_, mark)| mark.is_some()) {
        if let Some(same) = disks[..at].iter().position(|earlier| earlier == mark) {
            return Err(Unseated::Same(same, at));
        }
    }
    for (seat, mark) in seats.iter_mut().zip(disks) {
        let on = |n: &usize| {
            mark.is_some_and(told) && entries[*n].is_some_and(|entry| Some(entry.disk) == *mark)
        };
        if let Some(at) = left.iter().position(on) {
            *seat = Some(Seat::Recorded(left.remove(at)));
        }
    }
    let full = |n: &usize| entries[*n].as_ref().is_some_and(is_full);
    let is_there = |seat: &Option<Seat>| matches!(seat, Some(Seat::Recorded(n)) if full(n));
    if !seats.iter().any(is_there) {
        let first = left.iter().position(full).ok_or(Unseated::NoFull)?;
        let untold = entries[left[first]].is_some_and(|entry| !told(entry.disk));
        seats[0] = match (disks, seats[0]) {
            ([None, ..], _) => return Err(Unseated::Closed(0)),
            (_, None) if untold => Some(Seat::Recorded(left.remove(first))),
            // A disk that nothing tells could be any of several.
            ([Some(mark)], None) if !told(*mark) && entries.iter().flatten().count() > 1 => {
                return Err(Unseated::Untold(0));
            }
            ([Some(_)], None) => Some(Seat::Another(left.remove(first))),
            _ => {
                let closed = disks.iter().position(Option::is_none);
                return Err(closed.map_or(Unseated::NoFull, Unseated::Closed));
            }
        };
    }
    let mut free: Vec<usize> = (0..MEMBERS_MAX).filter(|n| entries[*n].is_none()).collect();
    for (seat, mark) in seats.iter_mut().zip(disks).filter(|(seat, _)| seat.is_none()) {
        *seat = Some(match mark {
            _ if !left.is_empty() => Seat::Absent(left.remove(0)),
            None => Seat::Unknown,
            // The file names no more disks than there are numbers.
            Some(_) => Seat::New(free.remove(0)),
        });
    }
    Ok(seats.into_iter().flatten().collect())
}

/// A member has no identity: the text and hint of the refusal.
pub(crate) fn untold(path: &str, name: &str) -> (String, &'static str) {
    let text = format!(
        "{path}, a member of {name}, has no identity that distinguishes it from other disks"
    );
    (text, "use files, logical volumes, md arrays, or disks with a WWID or serial number")
}

/// A disk has the identity of another member: likewise.
pub(crate) fn same(path: &str, other: &str, name: &str) -> (String, &'static str) {
    let text = format!("{path} has the identity of {other}, a member of {name}");
    let hint = "if the file is a copy made with its attributes, run `setfattr -x user.heliograph` on the copy; disks need \
                different serial numbers";
    (text, hint)
}

fn hinted((text, hint): (String, &str)) -> Error {
    anyhow!("{text}\n  hint: {hint}")
}

pub(super) fn unseated(
    (group, volume): (&str, &str),
    why: Unseated,
    mut named: Vec<Named>,
) -> Error {
    let shown = |at: usize, named: &[Named]| named[at].path.display().to_string();
    let name = format!("{group}/{volume}");
    match why {
        Unseated::Closed(at) => {
            let closed = named.swap_remove(at);
            closed.store.err().unwrap_or_else(|| anyhow!("{name}: no full member is open"))
        }
        Unseated::Untold(at) => hinted(untold(&shown(at, &named), &name)),
        Unseated::Same(one, other) => {
            hinted(same(&shown(other, &named), &shown(one, &named), &name))
        }
        Unseated::NoFull => anyhow!(
            "no disk that the file names for {name} on this node is a full member of it\n  hint: name the disk of a full member. To \
             begin with other disks, name one of them alone"
        ),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use helio_format::members::CopyHealth::{self, Copying, Good, Removed};

    const A: DiskMark = DiskMark::of(1);
    const B: DiskMark = DiskMark::of(2);
    const C: DiskMark = DiskMark::of(3);
    const NOTHING: DiskMark = DiskMark::UNKNOWN;

    pub(in crate::open) fn entries(members: &[(CopyHealth, DiskMark)]) -> VolumeEntries {
        let mut all = [None; MEMBERS_MAX];
        for (entry, (health, disk)) in all.iter_mut().zip(members) {
            *entry = Some(MemberEntry { health: *health, disk: *disk });
        }
        all
    }

    #[test]
    fn a_disk_is_the_member_that_was_recorded_on_it_whatever_its_place_in_the_file() {
        let recorded = entries(&[(Removed, A), (Good, B), (Copying, C)]);
        let seats = seat(&recorded, &[Some(C), Some(A), Some(B)]);
        assert_eq!(seats, Ok([2, 0, 1].map(Seat::Recorded).into()));
        assert_eq!(
            seat(&recorded, &[Some(B)]),
            Ok(vec![Seat::Recorded(1)]),
            "others are forgotten"
        );
    }

    #[test]
    fn a_disk_that_was_not_recorded_is_a_new_member_if_no_recorded_one_is_missing() {
        let recorded = entries(&[(Good, A), (Removed, B)]);
        let seats = seat(&recorded, &[Some(C), Some(A), Some(B)]);
        assert_eq!(seats, Ok(vec![Seat::New(2), Seat::Recorded(0), Seat::Recorded(1)]));
        let seats = seat(&recorded, &[Some(C), Some(A)]);
        assert_eq!(seats, Ok(vec![Seat::Absent(1), Seat::Recorded(0)]), "C may be anything");
        let all = entries(&[
            (Good, A),
            (Removed, B),
            (Removed, B),
            (Removed, B),
            (Removed, B),
            (Removed, B),
        ]);
        assert_eq!(seat(&all, &[Some(A), Some(C)]), Ok(vec![Seat::Recorded(0), Seat::Absent(1)]));
    }

    #[test]
    fn the_first_disk_of_a_new_volume_is_its_full_member() {
        let new = entries(&[(Good, NOTHING)]);
        assert_eq!(seat(&new, &[Some(A), Some(B)]), Ok(vec![Seat::Recorded(0), Seat::New(1)]));
        assert_eq!(seat(&new, &[Some(NOTHING)]), Ok(vec![Seat::Recorded(0)]));
        assert_eq!(seat(&new, &[None, Some(B)]), Err(Unseated::Closed(0)), "B may hold anything");
    }

    #[test]
    fn another_disk_takes_the_place_of_a_full_member_only_if_it_is_named_alone() {
        let one = entries(&[(Good, A)]);
        assert_eq!(seat(&one, &[Some(B)]), Ok(vec![Seat::Another(0)]));
        assert_eq!(seat(&one, &[Some(B), Some(C)]), Err(Unseated::NoFull));
        let two = entries(&[(Removed, A), (Good, B)]);
        assert_eq!(seat(&two, &[Some(A), Some(C)]), Err(Unseated::NoFull), "A is not full");
        assert_eq!(seat(&two, &[Some(A)]), Err(Unseated::NoFull));
        assert_eq!(seat(&two, &[Some(A), None]), Err(Unseated::Closed(1)));
    }

    #[test]
    fn a_disk_that_cannot_be_opened_is_absent_while_another_full_member_is_there() {
        let two = entries(&[(Good, A), (Good, B)]);
        assert_eq!(seat(&two, &[None, Some(B)]), Ok(vec![Seat::Absent(0), Seat::Recorded(1)]));
        assert_eq!(seat(&two, &[None, None]), Err(Unseated::Closed(0)));
        let one = entries(&[(Good, A)]);
        assert_eq!(seat(&one, &[Some(A), None]), Ok(vec![Seat::Recorded(0), Seat::Unknown]));
    }

    #[test]
    fn several_members_need_disks_that_can_be_told_apart() {
        let one = entries(&[(Good, A)]);
        assert_eq!(seat(&one, &[Some(A), Some(NOTHING)]), Err(Unseated::Untold(1)));
        assert_eq!(seat(&one, &[Some(B), None, Some(B)]), Err(Unseated::Same(0, 2)));
    }
}

// SPDX-License-Identifier: Apache-2.0
//! What the stamps of a volume's members prove at a start, and the stamps that they get then.
//!
//! | the stamp of a member that is open | it is |
//! |---|---|
//! | is of this volume, and later than the epoch of the metadata | newer |
//! | is of this volume and of any set, and the metadata is new | of a set |
//! | is of another volume of any set, and the metadata is new | misplaced |
//! | may be any, or is missing: the metadata has no epoch of the member | unknown |
//! | is of this volume, with an epoch that the member may have | right |
//! | is of this volume, with an earlier one | older |
//! | is of another set or volume | foreign |
//! | is missing, or damaged | missing |
//!
//! | label | the members that are open | then |
//! |---|---|---|
//! | sound | none is newer; each one that is full or copying is right or unknown | each is as recorded |
//! | copied | none is newer; a full one is right or unknown, and another one that is full or copying is neither | that one is unproven: all of it is compared with the full ones |
//! | old-metadata | one is newer; of the newest ones one held all of the volume; no full one is unknown | that one is the only full one; all others have failed |
//! | new-metadata | all that have a stamp are of one set; each other one could have a stamp; of the newest ones one held all of the volume | that one is full; all others that the file names are unproven |
//! | old-metadata-unclear | one is newer, or of a set, and the rest is otherwise: none of the newest ones held all of the volume, or one that is unknown may be the newest (a full one; with new metadata, one on a disk that can have no stamp), or there are several sets. Or one is misplaced | the group is not served |
//! | none-proven | none is newer; no full one is right or unknown | the group is not served |
//!
//! Members that are not used are judged when they return: nothing reaches them before. With old metadata the epoch goes on far
//! behind the latest stamp, since that of a member that is not open may be later still.

use crate::epochs;
use crate::shard::{MemberPlan, VolumePlan};
use anyhow::{Error, anyhow};
use helio_disk::StoreKind;
use helio_format::epochs::{Epoch, SetId, Stamp, VolumeEpochs};
use helio_format::members::{CopyHealth, MEMBERS_MAX, MemberEntry, VolumeEntries};
use helio_plant::{Plant, planted};
use helio_units::VolumeIndex;
use std::fmt;
use std::path::Path;

/// What the metadata has of the epochs of a volume.
#[derive(Clone, Copy, Debug)]
pub(super) struct OfVolume {
    /// `helio metadata create` made the metadata, which knows no disk of it.
    pub(super) is_new: bool,
    pub(super) set: Option<SetId>,
    pub(super) at: VolumeIndex,
    pub(super) epochs: VolumeEpochs,
}

/// What a stamp proves; see the first table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Proof {
    Newer(Epoch),
    OfSet(SetId, Epoch),
    Misplaced(SetId),
    Unknown,
    Right,
    Older(Epoch),
    Foreign(SetId),
    Missing,
}

impl Proof {
    const fn is_good(self) -> bool {
        matches!(self, Self::Unknown | Self::Right)
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Newer(epoch) => write!(f, "is newer than the metadata (epoch {epoch})"),
            Self::OfSet(set, epoch) => write!(f, "is of set {set} (epoch {epoch})"),
            Self::Misplaced(set) => write!(f, "is of another volume of set {set}"),
            Self::Unknown => f.write_str("has no epoch on record"),
            Self::Right => f.write_str("is as the metadata has it"),
            Self::Older(epoch) => write!(f, "is older than the metadata (epoch {epoch})"),
            Self::Foreign(set) => write!(f, "belongs to another set of members ({set})"),
            Self::Missing => f.write_str("has no valid stamp"),
        }
    }
}

/// A member that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    health: CopyHealth,
    proof: Proof,
    /// By its stamp, it held all of the volume.
    was_full: bool,
    /// Its disk can have a stamp, and has none that is damaged.
    keeps_stamp: bool,
}

impl Seen {
    /// The member of that number, recorded in that state, with that stamp.
    pub(super) fn of(
        OfVolume { is_new, set, at, epochs }: &OfVolume,
        (number, health): (usize, CopyHealth),
        (keeps_stamp, stamp): (bool, Option<&[u8]>),
    ) -> Self {
        let decoded = stamp.and_then(|bytes| Stamp::decode(bytes, helio_link::checksum));
        // What a damaged stamp told is unknown, as on a disk that can have none.
        let keeps_stamp = keeps_stamp && (stamp.is_none() || decoded.is_some());
        let stamp = decoded;
        let is_new = *is_new && set.is_none() && epochs.epoch.is_none();
        let is_of = |it: &Stamp| is_new || Some(it.set) == *set;
        let ours = stamp.filter(|it| is_of(it) && it.volume == *at);
        let proof = match (ours, epochs.carried[number], stamp) {
            (Some(it), ..) if is_new => Proof::OfSet(it.set, it.epoch),
            (None, _, Some(other)) if is_new => Proof::Misplaced(other.set),
            (Some(it), ..) if epochs.epoch.is_none_or(|epoch| it.epoch > epoch) => {
                Proof::Newer(it.epoch)
            }
            (_, None, _) => Proof::Unknown,
            (Some(_), ..) if planted(Plant::OlderIsRight) => Proof::Right,
            (Some(it), Some(carried), _) if it.epoch >= carried.first() => Proof::Right,
            (Some(it), ..) => Proof::Older(it.epoch),
            (None, _, Some(other)) => Proof::Foreign(other.set),
            (None, _, None) => Proof::Missing,
        };
        Self { health, proof, was_full: ours.is_some_and(|it| it.is_full), keeps_stamp }
    }

    /// Its epoch, if that is later than the metadata's, or the metadata has none.
    const fn newer(&self) -> Option<Epoch> {
        match self.proof {
            Proof::Newer(epoch) | Proof::OfSet(_, epoch) => Some(epoch),
            _ => None,
        }
    }

    const fn is_full(&self) -> bool {
        self.health.is_full()
    }

    /// The metadata is new, and this member was one of a set.
    pub(super) const fn was_of_a_set(&self) -> bool {
        matches!(self.proof, Proof::OfSet(..) | Proof::Misplaced(_))
    }
}

/// The members of a volume that are open, by their numbers.
pub(super) type Open = [Option<Seen>; MEMBERS_MAX];

/// See the second table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Sound,
    /// A bit for each that is unproven.
    Copied(u8),
    /// The only full member.
    OldMetadata(usize),
    /// The full member with which all others are compared.
    NewMetadata(usize),
    OldMetadataUnclear,
    NoneProven,
}

/// The second table.
fn verdict(open: &Open) -> Verdict {
    let members = || open.iter().enumerate().filter_map(|(n, seen)| Some((n, seen.as_ref()?)));
    let newer = || members().filter_map(|(n, seen)| Some((seen.newer()?, seen.was_full, n)));
    if members().any(|(_, seen)| matches!(seen.proof, Proof::Misplaced(_))) {
        return Verdict::OldMetadataUnclear;
    }
    if newer().next().is_some() {
        let full = newer().filter(|(_, was_full, _)| *was_full);
        let newest = full.max_by_key(|(epoch, _, n)| (*epoch, std::cmp::Reverse(*n)));
        // New metadata does not tell which members were full. A file without a stamp was not used since members have stamps; a disk that can
        // have none may have been.
        let is_new = members().any(|(_, seen)| seen.was_of_a_set());
        let competes = |(_, seen): (_, &Seen)| {
            let may_be_full = if is_new { !seen.keeps_stamp } else { seen.is_full() };
            may_be_full && seen.proof == Proof::Unknown
        };
        let is_latest = |epoch: Epoch| newer().all(|(other, ..)| other <= epoch);
        let set = |(_, seen): (_, &Seen)| match seen.proof {
            Proof::OfSet(set, _) => Some(set),
            _ => None,
        };
        let first = members().find_map(set);
        let is_of_one_set = members().filter_map(set).all(|set| Some(set) == first);
        return match newest {
            Some((epoch, _, n))
                if is_latest(epoch) && is_of_one_set && !members().any(competes) =>
            {
                match open[n].map(|seen| seen.proof) {
                    Some(Proof::OfSet(..)) => Verdict::NewMetadata(n),
                    _ => Verdict::OldMetadata(n),
                }
            }
            _ => Verdict::OldMetadataUnclear,
        };
    }
    if !members().any(|(_, seen)| seen.is_full() && seen.proof.is_good()) {
        return Verdict::NoneProven;
    }
    let unproven = members().filter(|(_, s)| epochs::is_used(s.health) && !s.proof.is_good());
    match unproven.fold(0, |bits, (n, _)| bits | 1 << n) {
        0 => Verdict::Sound,
        bits => Verdict::Copied(bits),
    }
}

/// Judges the members of a volume by their stamps, changes what is recorded of them by that, and logs it. Returns whether the metadata
/// is old: then what it has of marks and positions proves nothing.
///
/// # Errors
/// No member can be proven to hold all of the volume.
pub(super) fn judge(
    (group, volume): (&str, &str),
    (entries, epochs): (&mut VolumeEntries, &mut VolumeEpochs),
    (open, path): (&Open, impl Fn(usize) -> String),
) -> Result<bool, Error> {
    let name = format!("{group}/{volume}");
    let verdict = verdict(open);
    match verdict {
        Verdict::Sound => {}
        Verdict::Copied(unproven) => {
            let hint = "to keep what this disk holds, stop the daemon and copy the disk elsewhere. `helio status` shows the \
                        progress of the copy to it";
            for (n, entry) in entries.iter_mut().enumerate() {
                let (Some(entry), Some(seen)) = (entry, &open[n]) else { continue };
                if unproven & 1 << n != 0 {
                    entry.health = CopyHealth::Unproven;
                    let proof = seen.proof;
                    tracing::error!(
                        group,
                        volume,
                        member = path(n),
                        hint,
                        "the member {proof}: it was restored from a backup, or written elsewhere. helio compares all of it \
                         with a full member, and overwrites what differs"
                    );
                }
            }
        }
        Verdict::OldMetadata(newest) => {
            let latest = open.iter().flatten().filter_map(Seen::newer).max();
            *epochs =
                VolumeEpochs { epoch: latest.map(Epoch::far_later), ..VolumeEpochs::default() };
            old_metadata((group, volume), entries, (newest, &path(newest)));
        }
        Verdict::NewMetadata(_) if !epochs::are_several(entries) => {}
        Verdict::NewMetadata(newest) => {
            only_full(entries, newest);
            let member = path(newest);
            let hint = "to keep what another disk holds, stop the daemon and copy the disk elsewhere. `helio status` shows the progress";
            tracing::warn!(
                group,
                volume,
                member,
                hint,
                "the metadata of this node is new. This member is the newest one that held all of the volume; all others are compared \
                 with it and overwritten where they differ"
            );
        }
        Verdict::OldMetadataUnclear => return Err(newest_unclear(&name, open, path)),
        Verdict::NoneProven => {
            let is_only = !epochs::are_several(entries);
            return Err(none_proven((group, &name, is_only), open, path));
        }
    }
    Ok(matches!(verdict, Verdict::OldMetadata(_)))
}

/// The metadata is older than the members; of several, only the newest stays.
fn old_metadata(
    (group, volume): (&str, &str),
    entries: &mut VolumeEntries,
    (newest, member): (usize, &str),
) {
    for (n, entry) in entries.iter_mut().enumerate() {
        let Some(entry) = entry else { continue };
        let stays = n == newest && entry.health == CopyHealth::Suspect;
        entry.health = match n == newest {
            _ if stays => CopyHealth::Suspect,
            true => CopyHealth::Good,
            false => CopyHealth::Failed,
        };
    }
    let mixture = "if a resync of this node was under way since then, its copy is a mixture until it was compared with the peer: do not \
                   promote this node before that";
    let (others, hint) = if epochs::are_several(entries) {
        let others = "This member is the newest full one and is used; all others are removed, and their bitmaps do not count. Any of \
                      them may hold later data";
        let hint = format!(
            "make sure that a removed member does not hold the last writes, then run `helio member add {group}/{volume} PATH`, which \
             overwrites it; {mixture}"
        );
        (others, hint)
    } else {
        ("The member is used as it is.", String::from(mixture))
    };
    tracing::error!(
        group,
        volume,
        member,
        hint,
        "the metadata of this node is older than the members: it was restored from a backup. What was written since then is not on \
         record: if there is a peer, all data is compared with it. {others}"
    );
}

/// All others are to be compared with that one.
fn only_full(entries: &mut VolumeEntries, newest: usize) {
    for (n, entry) in entries.iter_mut().enumerate() {
        let health = if n == newest { CopyHealth::Good } else { CopyHealth::Unproven };
        *entry = entry.map(|entry| MemberEntry { health, ..entry });
    }
}

/// Gives the members of a volume that are open and used their stamps, durably. One that cannot be stamped may have an older one.
pub(super) fn stamp(
    (group, volume): (&str, &VolumePlan),
    entries: &VolumeEntries,
    OfVolume { set, at, epochs, .. }: &mut OfVolume,
) {
    let Some((set, epoch)) = set.zip(epochs.epoch) else { return };
    for (n, (member, entry)) in volume.members.iter().zip(entries).enumerate() {
        let store = member.as_ref().and_then(MemberPlan::store);
        let health = entry.map(|entry| entry.health).filter(|health| epochs::is_used(*health));
        let Some((store, health)) = store.zip(health) else { continue };
        if store.kind() != StoreKind::File {
            continue;
        }
        match store.set_stamp(epochs::stamp((set, *at), epoch, health).as_ref()) {
            Ok(()) => epochs::stamped(epochs, n, epoch),
            Err(error) => unstamped((group, &volume.name), store.path(), &error),
        }
    }
}

/// A member got no stamp.
pub(crate) fn unstamped((group, volume): (&str, &str), member: &Path, error: &std::io::Error) {
    let member = member.display();
    if error.kind() == std::io::ErrorKind::Unsupported {
        tracing::debug!(group, volume, %member, "the file system keeps no extended attributes");
        return;
    }
    tracing::warn!(
        group,
        volume,
        %member,
        hint = "check the free space and the mount options of its file system, then restart the daemon",
        "the extended attribute of a member cannot be written: {error}; an older copy of the member in its place may not be \
         noticed"
    );
}

/// Each member that is open, and what its stamp proves.
fn listed(open: &Open, path: impl Fn(usize) -> String) -> String {
    let members = open.iter().enumerate().filter_map(|(n, seen)| Some((n, seen.as_ref()?)));
    let text = members.map(|(n, seen)| {
        let partial =
            if seen.newer().is_some() && !seen.was_full { ", but was not full" } else { "" };
        format!("{} {}{partial}", path(n), seen.proof)
    });
    text.collect::<Vec<_>>().join("; ")
}

/// The metadata is new, and a member that cannot be opened may be the newest one.
pub(super) fn not_compared(name: &str, member: &Path) -> Error {
    let member = member.display();
    anyhow!(
        "the metadata of {name} is new, and {member} cannot be opened: it may be the newest member that held all of the volume. Nothing was \
         changed\n  hint: make {member} available again; or name only the disk to continue with in the configuration file, one that held \
         all of the volume. helio overwrites the others if you add them again"
    )
}

fn newest_unclear(name: &str, open: &Open, path: impl Fn(usize) -> String) -> Error {
    let listed = listed(open, path);
    anyhow!(
        "the metadata of {name} is new, or older than its members because it was restored from a backup. Their stamps do not show which of them \
         is the newest full one: {listed}. Nothing was changed\n  hint: restore the newest metadata file; or name only the disk \
         to continue with in the configuration file, one that held all of the volume. helio overwrites the others if \
         you add them again. If the metadata is new and that disk alone is refused, too: `setfattr -x user.heliograph.set PATH` on it. Never \
         while the configuration names another member: helio then overwrites the disk without a stamp"
    )
}

fn none_proven(
    (group, name, is_only): (&str, &str, bool),
    open: &Open,
    path: impl Fn(usize) -> String,
) -> Error {
    let listed = listed(open, path);
    if is_only {
        return anyhow!(
            "the member of {name} is not as the metadata has it: {listed}. It, or the metadata, was restored from a backup, or it was written \
             elsewhere. Nothing was changed\n  hint: put the newest disk of the member, or the newest metadata file, back. If there is no newer \
             one, and a peer has all data: move each metadata file of the group elsewhere, then `helio metadata create {group} --node NODE` \
             discards this copy. To use the disks of all volumes of {group} as they are, and to lose what they lack: \
             `helio metadata accept {group}`"
        );
    }
    anyhow!(
        "no full member of {name} is as the metadata has it: {listed}. The members were restored from a backup, or written \
         elsewhere. Nothing was changed\n  hint: put the newest disk of a member back. If there is no newer one, move each \
         metadata file of the group elsewhere, then `helio metadata create {group} --node NODE`: see \"When metadata is lost\" \
         in docs/operate.md"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_format::epochs::Carried;

    fn epoch(number: usize) -> Epoch {
        let mut all = std::iter::successors(Some(Epoch::FIRST), |it| Some(it.next()));
        all.nth(number - 1).expect("there are more")
    }

    fn seen(health: CopyHealth, proof: Proof, was_full: bool) -> Seen {
        Seen { health, proof, was_full, keeps_stamp: true }
    }

    #[test]
    fn a_stamp_proves_what_the_first_table_says() {
        let [set, other] = [7, 8].map(|set| SetId::of(set).expect("a set"));
        let at = VolumeIndex(1);
        let mut epochs = VolumeEpochs { epoch: Some(epoch(5)), ..VolumeEpochs::default() };
        epochs.carried[0] = Some(Carried::between(epoch(3), epoch(5)));
        let of = |carried: usize, stamp: Option<(SetId, u16, usize)>| {
            let bytes = stamp.map(|(set, volume, number)| {
                let stamp =
                    epochs::stamp((set, VolumeIndex(volume)), epoch(number), CopyHealth::Good);
                stamp.as_ref().to_vec()
            });
            let of = OfVolume { is_new: false, set: Some(set), at, epochs };
            Seen::of(&of, (carried, CopyHealth::Good), (true, bytes.as_deref())).proof
        };
        // Member 0 has an epoch on record, member 1 has none.
        for (stamp, known, unknown) in [
            (Some((set, 1, 2)), Proof::Older(epoch(2)), Proof::Unknown),
            (Some((set, 1, 3)), Proof::Right, Proof::Unknown),
            (Some((set, 1, 5)), Proof::Right, Proof::Unknown),
            (Some((set, 1, 6)), Proof::Newer(epoch(6)), Proof::Newer(epoch(6))),
            (Some((set, 2, 6)), Proof::Foreign(set), Proof::Unknown),
            (Some((other, 1, 6)), Proof::Foreign(other), Proof::Unknown),
            (None, Proof::Missing, Proof::Unknown),
        ] {
            assert_eq!((of(0, stamp), of(1, stamp)), (known, unknown), "{stamp:?}");
        }
        let damaged = OfVolume { is_new: false, set: Some(set), at, epochs };
        let damaged = Seen::of(&damaged, (0, CopyHealth::Good), (true, Some(&[7; 28])));
        assert_eq!(damaged.proof, Proof::Missing);
        // Metadata of before there were stamps.
        let epochs = VolumeEpochs::default();
        let before = OfVolume { is_new: false, set: None, at, epochs };
        let stamp = epochs::stamp((set, at), epoch(6), CopyHealth::Good);
        let found = Seen::of(&before, (0, CopyHealth::Good), (true, Some(stamp.as_ref())));
        assert_eq!((found.proof, found.was_full), (Proof::Unknown, false));
        let before = OfVolume { is_new: true, ..before };
        let found = Seen::of(&before, (0, CopyHealth::Good), (true, Some(stamp.as_ref())));
        assert_eq!((found.proof, found.was_full), (Proof::OfSet(set, epoch(6)), true));
        let damaged = Seen::of(&before, (0, CopyHealth::Good), (true, Some(&[7; 28])));
        assert_eq!((damaged.proof, damaged.keeps_stamp), (Proof::Unknown, false));
        let stamp = epochs::stamp((set, VolumeIndex(7)), epoch(6), CopyHealth::Good);
        let found = Seen::of(&before, (0, CopyHealth::Good), (true, Some(stamp.as_ref())));
        assert_eq!(found.proof, Proof::Misplaced(set));
    }

    /// Every state of one member that the tables tell apart.
    fn states() -> Vec<Option<Seen>> {
        use CopyHealth::{Copying, Good, Removed};
        let proofs = [
            (Proof::Newer(epoch(8)), true),
            (Proof::Newer(epoch(7)), true),
            (Proof::Newer(epoch(8)), false),
            (Proof::OfSet(SetId::of(1).expect("a set"), epoch(8)), true),
            (Proof::OfSet(SetId::of(2).expect("a set"), epoch(8)), true),
            (Proof::OfSet(SetId::of(1).expect("a set"), epoch(7)), false),
            (Proof::Misplaced(SetId::of(1).expect("a set")), false),
            (Proof::Unknown, false),
            (Proof::Right, true),
            (Proof::Right, false),
            (Proof::Older(epoch(2)), true),
            (Proof::Foreign(SetId::of(1).expect("a set")), false),
            (Proof::Missing, false),
        ];
        let all = [Good, Copying, Removed]
            .into_iter()
            .flat_map(|health| proofs.map(|(proof, was_full)| Some(seen(health, proof, was_full))));
        let device = Seen { keeps_stamp: false, ..seen(Copying, Proof::Unknown, false) };
        all.chain([Some(device), None]).collect()
    }

    #[test]
    fn every_combination_of_three_members_has_the_verdict_of_the_second_table() {
        let (states, mut counts) = (states(), [0; 6]);
        let count = states.len();
        for code in 0..count.pow(3) {
            let member = |nth: u32| states[code / count.pow(nth) % count];
            let open = [member(0), member(1), member(2), None, None, None];
            let all: Vec<(usize, Seen)> =
                open.iter().enumerate().filter_map(|(n, seen)| Some((n, (*seen)?))).collect();
            let is_newer = all.iter().any(|(_, it)| it.newer().is_some());
            let of_set = |set: u64| {
                let set = SetId::of(set).expect("a set");
                all.iter().any(|(_, it)| matches!(it.proof, Proof::OfSet(of, _) if of == set))
            };
            let sets = [1, 2].into_iter().filter(|set| of_set(*set)).count();
            let is_proven = |it: &Seen| it.proof == Proof::Right || it.proof == Proof::Unknown;
            let full_proven =
                all.iter().any(|(_, it)| it.health == CopyHealth::Good && is_proven(it));
            let is_misplaced = all.iter().any(|(_, it)| matches!(it.proof, Proof::Misplaced(_)));
            let is_new = all.iter().any(|(_, it)| it.was_of_a_set());
            let may_be_full =
                |it: &Seen| if is_new { !it.keeps_stamp } else { it.health == CopyHealth::Good };
            let competes = all.iter().any(|(_, it)| it.proof == Proof::Unknown && may_be_full(it));
            let newest =
                all.iter().filter(|(_, it)| it.was_full).filter_map(|(_, it)| it.newer()).max();
            let latest = all.iter().filter_map(|(_, it)| it.newer()).max();
            let is_unproven = |it: &Seen| it.health != CopyHealth::Removed && !is_proven(it);
            let found = verdict(&open);
            let label = match found {
                Verdict::Sound => {
                    assert!(!is_newer && full_proven, "{open:?}");
                    assert!(!all.iter().any(|(_, it)| is_unproven(it)), "{open:?}");
                    0
                }
                Verdict::Copied(bits) => {
                    assert!(!is_newer && full_proven && bits != 0, "{open:?}");
                    for (n, it) in &all {
                        assert_eq!(bits & 1 << n != 0, is_unproven(it), "{open:?}");
                    }
                    1
                }
                Verdict::OldMetadata(stays) => {
                    let it = open[stays].expect("it is open");
                    assert!(it.was_full && it.newer().is_some() && !competes, "{open:?}");
                    assert!(!matches!(it.proof, Proof::OfSet(..)), "{open:?}");
                    assert_eq!(it.newer(), latest, "{open:?}: {stays} is not the newest");
                    2
                }
                Verdict::NewMetadata(stays) => {
                    let it = open[stays].expect("it is open");
                    assert!(it.was_full && !competes && sets == 1, "{open:?}");
                    assert!(matches!(it.proof, Proof::OfSet(..)), "{open:?}");
                    assert_eq!(it.newer(), latest, "{open:?}: {stays} is not the newest");
                    5
                }
                Verdict::OldMetadataUnclear => {
                    let is_unclear = competes || newest < latest || sets > 1;
                    assert!(is_misplaced || is_newer && is_unclear, "{open:?}");
                    3
                }
                Verdict::NoneProven => {
                    assert!(!is_newer && !full_proven, "{open:?}");
                    4
                }
            };
            counts[label] += 1;
        }
        assert_eq!(counts.iter().sum::<usize>(), 41 * 41 * 41);
        assert!(counts.iter().all(|count| *count > 100), "{counts:?}");
    }

    #[test]
    fn an_old_record_leaves_one_full_member_and_a_refusal_names_every_member() {
        use CopyHealth::{Failed, Good, Removed, Suspect};
        let entry = |health| {
            let disk = helio_format::members::DiskMark::UNKNOWN;
            Some(helio_format::members::MemberEntry { health, disk })
        };
        let states = |entries: &VolumeEntries| entries.map(|entry| entry.map(|it| it.health));
        let path = |n: usize| format!("/{n}");
        let newer = |health| Some(seen(health, Proof::Newer(epoch(8)), true));
        let mut entries = [None; MEMBERS_MAX];
        (entries[0], entries[1], entries[4]) = (entry(Good), entry(Removed), entry(Good));
        let mut open = [None; MEMBERS_MAX];
        (open[0], open[1]) = (Some(seen(Good, Proof::Right, true)), newer(Removed));
        let (mut all, mut epochs) = (entries, VolumeEpochs::default());
        judge(("db", "data"), (&mut all, &mut epochs), (&open, path)).expect("one is newer");
        assert_eq!(epochs.epoch, Some(epoch(8).far_later()));
        assert_eq!(states(&all)[..2], [Some(Failed), Some(Good)], "it was full since");
        assert_eq!(states(&all)[4], Some(Failed), "one that is absent, too");
        let mut all = entries;
        (all[0], open[0]) = (entry(Suspect), newer(Suspect));
        judge(("db", "data"), (&mut all, &mut epochs), (&open, path)).expect("one is newer");
        assert_eq!(states(&all)[..2], [Some(Suspect), Some(Failed)], "the first of equal ones");
        let mut all = entries;
        open[0] = Some(seen(Good, Proof::Unknown, false));
        let judged = judge(("db", "data"), (&mut all, &mut epochs), (&open, path));
        let refused = judged.expect_err("both may be the newest").to_string();
        assert!(refused.contains("/0 has no epoch on record"), "{refused}");
        assert!(refused.contains("name only the disk") && all == entries, "{refused}");
        (open[0], open[1]) = (Some(seen(Good, Proof::Older(epoch(2)), true)), None);
        let judged = judge(("db", "data"), (&mut all, &mut epochs), (&open, path));
        let refused = judged.expect_err("none is proven").to_string();
        assert!(refused.contains("/0 is older than the metadata (epoch 2)"), "{refused}");
        assert!(refused.contains("create db --node") && all == entries, "{refused}");
    }
}

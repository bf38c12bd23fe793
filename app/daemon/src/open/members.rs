// SPDX-License-Identifier: Apache-2.0
//! The members of a volume on this node, when its group is opened: which disk each one lies on ([`super::seats`]), what it is worth,
//! and what is recorded of that ([`mod@record`]).
//!
//! Of a new volume with `blank` all that can be opened are full: its disks hold nothing that counts, and the members differ wherever
//! nothing was written.
//!
//! At least one full member must be open. A recorded member that the file does not name is forgotten. What each
//! member is worth is then judged by its stamp ([`super::epochs`]). All of that is durable before anything is served.

mod record;

pub(super) use record::record;

use crate::epochs::{are_several, forget_members};
use crate::failed;
use crate::open::epochs::{self, OfVolume, Open, Seen};
use crate::open::seats::{Named, Seat, is_full, seat, unseated};
use crate::open::{failed_flush, identity};
use crate::shard::{MemberPlan, MemberStore, VolumePlan};
use anyhow::{Error, Result};
use helio_disk::Member;
use helio_engine::{Leg, MemberFound};
use helio_format::epochs::{Epochs, VolumeEpochs};
use helio_format::members::{CopyHealth, DiskMark, MEMBERS_MAX, MemberEntry, VolumeEntries};
use helio_ledger::{Found, Ledger, MapOwner};
use helio_shadow::{REGION, Shadow};
use helio_units::{Bytes, MemberIndex, VolumeIndex};

/// What the superblock has in the place of a disk's identity where the page of members tells several disks: it is no disk's.
const OF_A_SET: u128 = u128::MAX;

/// Judges the members by their stamps; a new one gets an entry, which tells whether it is to get the data. Another disk in the
/// place of all members is the engine's to judge. Returns whether the metadata is older than a member.
fn judge(
    name: (&str, &str),
    (entries, of): (&mut VolumeEntries, &mut OfVolume),
    (seats, named): (&[Seat], &[Named]),
) -> Result<bool> {
    let (mut open, mut paths): (Open, _) = ([None; MEMBERS_MAX], [None; MEMBERS_MAX]);
    for (seat, Named { path, store }) in seats.iter().zip(named) {
        let (Seat::Recorded(n) | Seat::New(n), Ok(store)) = (*seat, store) else { continue };
        let new = MemberEntry { health: CopyHealth::Unproven, disk: DiskMark::UNKNOWN };
        let health = entries[n].get_or_insert(new).health;
        let stamp = (store.keeps_stamp(), store.stamp());
        open[n] = Some(Seen::of(of, (n, health), stamp));
        paths[n] = Some(path);
    }
    if seats.iter().any(|seat| matches!(seat, Seat::Another(_))) {
        return Ok(false);
    }
    let path = |n: usize| paths[n].map_or(String::new(), |path| path.display().to_string());
    let shown = format!("{}/{}", name.0, name.1);
    if open.iter().flatten().any(Seen::was_of_a_set)
        && let Some(closed) = named.iter().find(|named| named.store.is_err())
    {
        return Err(epochs::not_compared(&shown, &closed.path));
    }
    epochs::judge(name, (entries, &mut of.epochs), (&open, path))
}

/// The superblock names a disk that no member was recorded on: the engine took that disk in the place of all members, and what is on
/// record of their stamps is not of it. Nor does it count if the superblock names no disk: then an operator accepted that of an only
/// member as it is, or the engine has not taken it yet. The stamps of several are judged nevertheless, since one may be older.
fn only_what_was_taken(entries: &mut VolumeEntries, epochs: &mut VolumeEpochs, recorded: u128) {
    let known = |entry: &MemberEntry| {
        // Of an only member, metadata of before it had stamps has the disk in the superblock alone.
        [DiskMark::of(recorded), DiskMark::UNKNOWN].contains(&entry.disk)
    };
    let is_taken = ![0, OF_A_SET].contains(&recorded) && !entries.iter().flatten().any(known);
    if is_taken || recorded == 0 && !are_several(entries) {
        let first = entries.iter().position(|entry| entry.as_ref().is_some_and(is_full));
        for (n, entry) in entries.iter_mut().enumerate() {
            *entry = entry.filter(|_| Some(n) == first);
        }
        forget_members(epochs);
    }
}

/// The disk of a recorded member cannot be opened for that reason, or is another one.
fn closed((group, volume, member): (&str, &str, &str), error: Option<Error>) -> MemberStore {
    let error = error.map(|error| format!("{error:#}"));
    let use_this = format!(
        "to use the disk that is at {member} now, run `helio member add {group}/{volume} {member}`, which overwrites that disk; to use \
         the missing one, name its path in the configuration file, then restart the daemon"
    );
    let (why, hint) = match &error {
        Some(error) => failed::in_parts(error),
        None => {
            ("the disk of this member is missing, and another disk is at this path", &*use_this)
        }
    };
    tracing::error!(group, volume, member, hint, "{why}");
    MemberStore::Closed(why.to_owned())
}

/// The members of a volume, and what is to be recorded of them.
pub(super) struct Seated {
    pub(super) plan: VolumePlan,
    entries: VolumeEntries,
    /// As the metadata has them, unless it is old.
    epochs: VolumeEpochs,
    old_metadata: bool,
    /// What the engine holds against its record: the identity of the disk, where it is not the one that was recorded.
    another: Option<u128>,
    new: Vec<MemberIndex>,
    absent: Vec<MemberIndex>,
}

impl Seated {
    fn of(
        (group, plan, is_blank): (&str, VolumePlan, bool),
        named: Vec<Named>,
        (mut entries, recorded, mut of): (VolumeEntries, u128, OfVolume),
        suspect: &mut bool,
    ) -> Result<Self> {
        only_what_was_taken(&mut entries, &mut of.epochs, recorded);
        let several = are_several(&entries);
        if let Some(only) = entries.iter_mut().flatten().next().filter(|_| !several) {
            only.disk = DiskMark::of(recorded);
        }
        let mark = |named: &Named| named.store.as_ref().ok().map(|s| DiskMark::of(identity(s)));
        let marks: Vec<Option<DiskMark>> = named.iter().map(mark).collect();
        let seats = match seat(&entries, &marks) {
            Ok(seats) => seats,
            Err(why) => return Err(unseated((group, &plan.name), why, named)),
        };
        let recorded_entries = entries;
        let old_metadata = judge((group, &plan.name), (&mut entries, &mut of), (&seats, &named))?;
        let is_blank = is_blank && can_be_blank((group, &plan.name), &seats, &named);
        let mut members: Vec<Option<MemberPlan>> = (0..MEMBERS_MAX).map(|_| None).collect();
        let (mut kept, mut another) = ([None; MEMBERS_MAX], None);
        let (mut new, mut absent) = (Vec::new(), Vec::new());
        for ((seat, mark), Named { path, store }) in seats.into_iter().zip(marks).zip(named) {
            let path = path.display().to_string();
            let (number, health) = match seat {
                Seat::Recorded(n) | Seat::New(n) if is_blank => (n, CopyHealth::Blank),
                Seat::Recorded(n) | Seat::Absent(n) | Seat::Another(n) | Seat::New(n) => {
                    (n, entries[n].map_or(CopyHealth::Unproven, |entry| entry.health))
                }
                Seat::Unknown => {
                    let error = store.err().map(|error| format!("{error:#}")).unwrap_or_default();
                    let (why, hint) = failed::in_parts(&error);
                    tracing::error!(group, volume = plan.name, member = path, hint, "{why}");
                    continue;
                }
            };
            // A copy that had hardly begun begins again.
            let is_absent = matches!(seat, Seat::Absent(_));
            let is_new = health == CopyHealth::Unproven && store.is_ok() && !is_absent;
            match seat {
                _ if is_new => new.push(MemberIndex(number as u8)),
                Seat::Absent(_) => absent.push(MemberIndex(number as u8)),
                Seat::Another(_) => another = store.as_ref().ok().map(identity),
                Seat::Recorded(_) | Seat::New(_) | Seat::Unknown => {}
            }
            let recorded = recorded_entries[number].map_or(DiskMark::UNKNOWN, |entry| entry.disk);
            let disk = mark.filter(|_| !is_absent).unwrap_or(recorded);
            kept[number] = Some(MemberEntry { health, disk });
            let is_used =
                !matches!(health, CopyHealth::Removed | CopyHealth::Failed | CopyHealth::Withdrawn);
            let store = match store {
                Ok(store) if is_used && !is_absent => MemberStore::Open(store),
                // Nothing reaches it until `helio member add` opens it again.
                Ok(_) if !is_absent => MemberStore::Closed(String::from("it is not in use")),
                other => closed((group, &plan.name, &path), other.err()),
            };
            members[number] = Some(MemberPlan { path, mark: disk, store });
        }
        let (plan, epochs) = (VolumePlan { members, ..plan }, of.epochs);
        let mut seated = Self { plan, entries: kept, epochs, old_metadata, another, new, absent };
        seated.wait_for_engine(&recorded_entries);
        *suspect = seated.doubt(group);
        Ok(seated)
    }

    /// Until the engine takes another disk, the record of the members stays as it is, and what else it has is absent.
    fn wait_for_engine(&mut self, entries: &VolumeEntries) {
        if self.another.is_none() {
            return;
        }
        for (n, (entry, member)) in entries.iter().zip(&mut self.plan.members).enumerate() {
            match (entry, member) {
                (Some(entry), Some(member)) => member.mark = entry.disk,
                (Some(_), None) => self.absent.push(MemberIndex(n as u8)),
                (None, _) => {}
            }
        }
        self.entries = *entries;
    }

    /// A member of which a flush failed when it was opened holds nothing that is proven, if another full one is there. Returns
    /// whether none is.
    fn doubt(&mut self, group: &str) -> bool {
        let Self { plan: VolumePlan { name, members, .. }, entries, .. } = self;
        let pairs = members.iter().zip(entries).filter_map(|(member, entry)| {
            let member = member.as_ref()?;
            Some((member, member.store()?.failed_flush(), entry.as_mut()?))
        });
        let pairs: Vec<_> = pairs.collect();
        let full = || pairs.iter().filter(|(_, _, entry)| is_full(entry));
        let is_last = !full().any(|(_, failed, _)| failed.is_none());
        let suspect = is_last && full().count() > 0;
        for (member, failed, entry) in pairs {
            if let Some(errno) = failed {
                failed_flush((group, name), &member.path, errno, is_last);
                if !is_last {
                    entry.health = CopyHealth::Failed;
                }
            }
        }
        suspect
    }

    /// The identity that the superblock is to have of the volume.
    fn recorded(&self, recorded: u128) -> u128 {
        match self.another {
            // The engine records it once it takes the disk.
            Some(_) => recorded,
            None if are_several(&self.entries) => OF_A_SET,
            None => self.plan.stores().next().map_or(recorded, identity),
        }
    }

    /// Several members are recorded, or were.
    fn is_set(&self, recorded: &VolumeEntries) -> bool {
        [&self.entries, recorded].into_iter().any(are_several)
    }

    /// Its members get stamps.
    const fn gets_stamps(&self) -> bool {
        self.another.is_none()
    }

    /// What a volume lies on, for the engine to hold against its record.
    pub(super) fn found(&self, recorded: u128) -> MemberFound {
        let full = |n: &usize| self.entries[*n].as_ref().is_some_and(is_full);
        let members = self.plan.members.iter().enumerate().filter(|(n, _)| full(n));
        let stores = members.filter_map(|(_, member)| {
            let member = member.as_ref()?;
            Some((member.path.as_str(), member.store()?))
        });
        let (path, store) =
            stores.map(Some).next().flatten().map_or(("", None), |(p, s)| (p, Some(s)));
        let own = store.map_or(0, identity);
        let identity = self.another.unwrap_or(if recorded == 0 { own } else { recorded });
        let nameplate = store.and_then(Member::nameplate).unwrap_or("without an identity");
        let shown = format!("volume {} ({path}) is {identity:032x}, {nameplate}", self.plan.name);
        MemberFound { identity, block: self.plan.alignment().0 as u32, shown }
    }
}

/// What the metadata has of the epochs of that volume.
fn of_volume(ledger: &Ledger, at: VolumeIndex) -> OfVolume {
    let Epochs { set, volumes } = ledger.epochs();
    OfVolume { is_new: false, set: *set, at, epochs: volumes[usize::from(at.0)] }
}

/// Whether several members of a new volume without data can be opened. One with a stamp held the data of a volume whose metadata is new.
fn can_be_blank((group, volume): (&str, &str), seats: &[Seat], named: &[Named]) -> bool {
    let is_stamped = |named: &Named| named.store.as_ref().is_ok_and(|it| it.stamp().is_some());
    if named.iter().any(is_stamped) {
        return false;
    }
    let there =
        seats.iter().filter(|seat| matches!(seat, Seat::Recorded(_) | Seat::New(_))).count();
    if seats.len() > 1 && there < 2 {
        tracing::warn!(
            group,
            volume,
            "only one of the members can be opened: `blank` has no effect, and the others will be compared with this one"
        );
    }
    there > 1
}

/// Gives the members of every volume their numbers; with each volume, whether its disks hold nothing that counts if it is new. Sets a
/// bit of `suspect` where a flush of the last full member failed.
pub(super) fn seated(
    group: &str,
    volumes: Vec<(VolumePlan, Vec<Named>, bool)>,
    (ledger, found): &(Ledger, Found),
    suspect: &mut u64,
) -> Result<Vec<Seated>> {
    let recorded = ledger.members().iter().zip(&found.superblock.members);
    let one = |(at, ((plan, named, is_blank), (entries, identity))): (
        u16,
        (_, (&VolumeEntries, &u128)),
    )| {
        let mut failed = false;
        let is_created = found.superblock.discarded && *identity == 0;
        let of = OfVolume { is_new: is_created, ..of_volume(ledger, VolumeIndex(at)) };
        // The engine never took a disk of it.
        let is_new = found.superblock.is_new() && *identity == 0;
        let is_blank = is_blank && is_new && entries.iter().flatten().count() == 1;
        let recorded = (*entries, *identity, of);
        let seated = Seated::of((group, plan, is_blank), named, recorded, &mut failed)?;
        *suspect |= u64::from(failed) << at;
        Ok(seated)
    };
    (0..).zip(volumes.into_iter().zip(recorded)).map(one).collect()
}

/// The layer that keeps the members alike, as the metadata has them, and the members that are new.
pub(super) fn shadow(
    sizes: &[Bytes],
    (ledger, found): &(Ledger, Found),
    seated: &[Seated],
) -> (Shadow, Vec<Leg>) {
    let states = |entries: &VolumeEntries| entries.map(|entry| entry.map(|entry| entry.health));
    let states: Vec<_> = ledger.members().iter().map(states).collect();
    let mut shadow = Shadow::new(sizes, REGION, &states);
    for (owner, page, bits) in &found.others {
        if let MapOwner::Member { volume, member } = owner {
            let leg = Leg { volume: *volume, member: MemberIndex(*member) };
            shadow.load(leg, *page, bits);
        }
    }
    let mut new = Vec::new();
    for (volume, seated) in (0..).map(VolumeIndex).zip(seated) {
        let leg = |member: &MemberIndex| Leg { volume, member: *member };
        seated.absent.iter().for_each(|member| shadow.absent(leg(member)));
        new.extend(seated.new.iter().map(leg));
    }
    (shadow, new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::epochs::raise;
    use crate::offline;
    use crate::open::seats::tests::entries;
    use CopyHealth::{Good, Removed};
    use helio_driver::{File, Linux};
    use helio_format::epochs::{Carried, Epoch};
    use helio_ledger::Change;
    use std::path::PathBuf;

    const NOTHING: DiskMark = DiskMark::UNKNOWN;

    /// Files of one size, each with an identity of its own.
    struct Files(tempfile::TempDir);

    impl Files {
        fn named(&self, name: &str) -> Named {
            let path = self.0.path().join(name);
            let file =
                std::fs::File::options().write(true).create(true).truncate(false).open(&path);
            file.and_then(|file| file.set_len(1 << 20)).expect("there is room");
            let options = helio_disk::OpenOptions {
                size: Bytes::mib(1),
                io: helio_disk::Io::Buffered,
                create: false,
                sparse: true,
                role: String::from("member"),
            };
            let store =
                helio_disk::open(&path, &options, &helio_disk::OtherUsers::of(&Linux::host()))
                    .map_err(Error::from);
            Named { path, store }
        }

        fn identity(&self, name: &str) -> u128 {
            identity(&self.named(name).store.expect("it can be opened"))
        }

        fn seated(
            &self,
            names: &[&str],
            (entries, recorded): (VolumeEntries, u128),
        ) -> Result<Seated> {
            let epochs = VolumeEpochs::default();
            let of = OfVolume { is_new: false, set: None, at: VolumeIndex(0), epochs };
            self.seated_as(names, (entries, recorded, of), false)
        }

        fn seated_as(
            &self,
            names: &[&str],
            recorded: (VolumeEntries, u128, OfVolume),
            is_blank: bool,
        ) -> Result<Seated> {
            let named = names.iter().map(|name| self.named(name)).collect();
            let plan = VolumePlan {
                name: String::from("data"),
                size: Bytes::mib(1),
                members: Vec::new(),
                buffered: true,
                sparse: true,
            };
            Seated::of(("db", plan, is_blank), named, recorded, &mut false)
        }
    }

    fn numbers(seated: &Seated) -> Vec<Option<String>> {
        let name = |member: &Option<MemberPlan>| {
            let path = PathBuf::from(&member.as_ref()?.path);
            Some(path.file_name()?.to_string_lossy().into_owned())
        };
        seated.plan.members.iter().take(2).map(name).collect()
    }

    #[test]
    fn of_a_new_volume_without_data_all_members_are_full_if_there_are_several() {
        let files = Files(tempfile::tempdir().expect("there is room"));
        let new = (entries(&[(Good, NOTHING)]), 0);
        let states = |names: &[&str]| {
            let epochs = VolumeEpochs::default();
            let of = OfVolume { is_new: false, set: None, at: VolumeIndex(0), epochs };
            let new = (new.0, new.1, of);
            let seated = files.seated_as(names, new, true).expect("they can be opened");
            assert!(seated.new.is_empty(), "nothing is copied");
            seated.entries.iter().flatten().map(|entry| entry.health).collect::<Vec<_>>()
        };
        assert_eq!(states(&["a", "b", "c"]), [CopyHealth::Blank; 3]);
        assert_eq!(states(&["a"]), [Good]);
    }

    #[test]
    fn the_superblock_tells_the_disk_of_an_only_member_whatever_its_number() {
        let files = Files(tempfile::tempdir().expect("there is room"));
        let mut only = [None; MEMBERS_MAX];
        only[1] = entries(&[(Good, NOTHING)])[0];
        let (recorded, c) = ((only, files.identity("b")), files.identity("c"));
        let seated = files.seated(&["c", "b"], recorded).expect("b is full");
        assert_eq!(numbers(&seated), [Some("c".into()), Some("b".into())]);
        assert_eq!((seated.new.as_slice(), seated.another), (&[MemberIndex(0)][..], None));
        drop(seated);
        let seated = files.seated(&["c"], recorded).expect("the engine judges it");
        assert_eq!(seated.found(recorded.1).identity, c);
        drop(seated);
        let seated = files.seated(&["b"], recorded).expect("b is full");
        assert_eq!(seated.found(recorded.1).identity, recorded.1);
    }

    #[test]
    fn nothing_is_recorded_of_another_disk_before_the_engine_has_taken_it() {
        let files = Files(tempfile::tempdir().expect("there is room"));
        let [a, b, c] = ["a", "b", "c"].map(|name| files.identity(name));
        let set = entries(&[(Removed, DiskMark::of(a)), (Good, DiskMark::of(b))]);
        let seated = files.seated(&["c"], (set, OF_A_SET)).expect("the engine judges it");
        assert_eq!((seated.entries, seated.recorded(OF_A_SET)), (set, OF_A_SET));
        assert_eq!(seated.found(OF_A_SET).identity, c);
        let refused = files.seated(&["a"], (set, OF_A_SET)).err().expect("a is not full");
        assert!(refused.to_string().contains("no disk that the file names"), "{refused}");
        // The engine took it, and the superblock has it now.
        drop(seated);
        let seated = files.seated(&["c"], (set, c)).expect("the engine took it");
        assert_eq!(seated.entries.iter().flatten().count(), 1, "the others are forgotten");
        assert_eq!((seated.recorded(c), seated.found(c).identity), (c, c));
        drop(seated);
        let seated = files.seated(&["b"], (set, c)).expect("the engine judges it");
        assert_eq!((seated.recorded(c), seated.found(c).identity), (c, b), "b is old");
        drop(seated);
        let seated = files.seated(&["c", "d"], (set, c)).expect("c is full");
        assert_eq!((seated.new.len(), seated.another), (1, None));
        // The engine did not take it, and a member is named again.
        drop(seated);
        let seated = files.seated(&["b"], (set, OF_A_SET)).expect("b is full");
        assert_eq!((seated.recorded(OF_A_SET), seated.another), (b, None));
    }

    #[test]
    fn of_two_full_members_of_which_neither_is_named_the_other_one_is_absent() {
        let files = Files(tempfile::tempdir().expect("there is room"));
        let [a, b] = ["a", "b"].map(|name| DiskMark::of(files.identity(name)));
        let set = entries(&[(Good, a), (Good, b)]);
        let seated = files.seated(&["c"], (set, OF_A_SET)).expect("the engine judges it");
        assert_eq!(seated.absent, [MemberIndex(1)]);
        assert_eq!(seated.plan.members[0].as_ref().map(|member| member.mark), Some(a));
    }

    /// The metadata file of a group with one volume, and its disks.
    struct Node {
        files: Files,
        metadata: File,
    }

    impl Node {
        fn new() -> Self {
            let files = Files(tempfile::tempdir().expect("there is room"));
            let path = files.0.path().join("db.meta");
            let metadata =
                crate::open::metadata::open(&Linux::host(), &path, true).expect("it is new");
            let engine = crate::open::metadata::tests::engine();
            crate::open::begin::first(&Linux::host(), (&metadata, &path), &engine)
                .expect("there is room");
            Self { files, metadata }
        }

        /// Its volume has two full members, `a` and `b`, each with a stamp.
        fn of_two() -> Self {
            let node = Self::new();
            node.start(&["a", "b"]).expect("a is full");
            node.change(|entries, _| {
                entries[1] = entries[1].map(|entry| MemberEntry { health: Good, ..entry });
            });
            assert_eq!(node.start(&["a", "b"]).expect("both are full"), [Some(Good); 2]);
            node
        }

        fn read(&self) -> (Ledger, Found) {
            let engine = crate::open::metadata::tests::engine();
            let read = crate::open::metadata::read(&self.metadata, "db.meta", &engine);
            let Ok(helio_ledger::Opened::Found(found)) = read else { panic!("it was written") };
            *found
        }

        fn seated(&self, names: &[&str]) -> Result<((Ledger, Found), Seated)> {
            let (ledger, found) = self.read();
            let of = of_volume(&ledger, VolumeIndex(0));
            let recorded = (ledger.members()[0], found.superblock.members[0]);
            let seated = self.files.seated_as(names, (recorded.0, recorded.1, of), false)?;
            Ok(((ledger, found), seated))
        }

        /// A start with these disks. Returns the states of the first two members.
        fn start(&self, names: &[&str]) -> Result<[Option<CopyHealth>; 2]> {
            let (mut found, seated) = self.seated(names)?;
            record((&Linux::host(), "db"), &mut found, &[seated], (&self.metadata, "db.meta"))?;
            let entries = self.read().0.members()[0];
            Ok([0, 1].map(|n| entries[n].map(|entry| entry.health)))
        }

        /// What changes while the group is served.
        fn change(&self, change: impl FnOnce(&mut VolumeEntries, &mut VolumeEpochs)) {
            let (mut ledger, _) = self.read();
            let (mut members, mut epochs) = (ledger.members().to_vec(), ledger.epochs().clone());
            change(&mut members[0], &mut epochs.volumes[0]);
            for change in [Change::Members(members), Change::Epochs(epochs)] {
                assert_eq!(ledger.keep(change), None);
            }
            offline::settle(&mut ledger, &self.metadata).expect("there is room");
        }

        fn stamp(&self, name: &str) -> Option<Vec<u8>> {
            let store = self.files.named(name).store.expect("it can be opened");
            store.stamp().map(<[u8]>::to_vec)
        }

        fn put_back(&self, name: &str, stamp: &[u8]) {
            let store = self.files.named(name).store.expect("it can be opened");
            store.set_stamp(stamp).expect("it had one");
        }
    }

    #[test]
    fn a_start_stamps_what_it_uses_and_a_member_that_was_put_back_gets_a_full_copy() {
        let node = Node::new();
        let states = node.start(&["a", "b"]).expect("a is full");
        assert_eq!(states, [Some(Good), Some(CopyHealth::Unproven)]);
        assert!(node.stamp("a").is_some() && node.stamp("b").is_none(), "b is not used yet");
        // It was copied, and the daemon was killed between the record of the next epoch and the stamps.
        node.change(|entries, epochs| {
            entries[1] = entries[1].map(|entry| MemberEntry { health: Good, ..entry });
            raise(epochs, entries, |_| true, |_| false);
        });
        assert_eq!(node.start(&["a", "b"]).expect("both are full"), [Some(Good); 2]);
        let (old, at) = (node.stamp("b").expect("it is used"), node.read().0.epochs().volumes[0]);
        assert_eq!((at.carried[0], at.carried[1].map(Carried::first)), (at.carried[1], at.epoch));
        // The same again, between the two stamps.
        node.change(|entries, epochs| raise(epochs, entries, |_| true, |_| false));
        let next = at.epoch.map(Epoch::next).expect("it has one");
        let of = (node.read().0.epochs().set.expect("there is a set"), VolumeIndex(0));
        node.put_back("a", crate::epochs::stamp(of, next, Good).as_ref());
        assert_eq!(node.start(&["a", "b"]).expect("both are full"), [Some(Good); 2]);
        assert_ne!(node.stamp("b"), Some(old.clone()));
        node.put_back("b", &old);
        let (found, seated) = node.seated(&["a", "b"]).expect("a is right");
        assert_eq!(seated.new, [MemberIndex(1)], "it gets the data");
        drop((found, seated));
        let states = node.start(&["b", "a"]).expect("a is right");
        assert_eq!(states, [Some(Good), Some(CopyHealth::Unproven)]);
        assert_eq!(node.read().0.epochs().volumes[0].carried[1], None);
        // Both, and one that is named alone.
        node.put_back("a", &old);
        for names in [&["a", "b"][..], &["a"]] {
            let refused = node.start(names).expect_err("nothing is proven").to_string();
            assert!(refused.contains("is older than the metadata"), "{refused}");
        }
    }

    #[test]
    fn with_old_metadata_the_newest_member_stays_and_the_epochs_go_on_behind_every_stamp() {
        let node = Node::of_two();
        let old = node.read().0;
        // The first one is removed, and the second one goes on alone.
        node.start(&["a", "b"]).expect("both are full");
        node.change(|entries, epochs| {
            entries[0] = entries[0].map(|entry| MemberEntry { health: Removed, ..entry });
            raise(epochs, entries, |_| true, |_| false);
        });
        node.start(&["a", "b"]).expect("the second one is full");
        let latest = node.read().0.epochs().volumes[0].epoch;
        node.change(|entries, epochs| {
            (*entries, *epochs) = (old.members()[0], old.epochs().volumes[0])
        });
        let states = node.start(&["a", "b"]).expect("one is the newest");
        assert_eq!(states, [Some(CopyHealth::Failed), Some(Good)]);
        assert!(node.read().0.epochs().volumes[0].epoch > latest);
        let states = node.start(&["a", "b"]).expect("the state is on record");
        assert_eq!(states, [Some(CopyHealth::Failed), Some(Good)]);
    }

    #[test]
    fn an_only_member_gets_the_next_stamp_at_each_start_and_an_older_copy_is_not_served() {
        let node = Node::new();
        assert_eq!(node.start(&["a"]).expect("it is full"), [Some(Good), None]);
        let first = node.stamp("a").expect("it is used");
        node.start(&["a", "b"]).expect("a is full");
        // The other one is not named any more.
        node.start(&["a"]).expect("a is full");
        let (last, epochs) = (node.stamp("a").expect("it is used"), node.read().0.epochs().clone());
        let third = Epoch::FIRST.next().next();
        assert_eq!(epochs.volumes[0].epoch, Some(third));
        assert_eq!(epochs.volumes[0].carried[0].map(Carried::first), Some(third));
        node.put_back("a", &first);
        let refused = node.start(&["a"]).expect_err("an older copy").to_string();
        assert!(refused.contains("is older than the metadata (epoch 1)"), "{refused}");
        assert_eq!((node.read().0.epochs(), node.stamp("a")), (&epochs, Some(first.clone())));
        node.put_back("a", &last);
        node.start(&["a"]).expect("the newest one");
        // The daemon was killed between the record of the next epoch and the stamp.
        let last = node.stamp("a").expect("it is used");
        node.change(|entries, epochs| raise(epochs, entries, |_| true, |_| false));
        node.start(&["a"]).expect("it may have either");
        assert_ne!(node.stamp("a"), Some(last));
    }

    #[test]
    fn a_disk_that_the_engine_took_for_the_only_one_needs_no_stamp_and_gets_one_then() {
        let node = Node::new();
        node.start(&["a"]).expect("it is full");
        let before = node.read().0.epochs().clone();
        let take = |identity: u128| {
            let (mut ledger, Found { mut superblock, .. }) = node.read();
            superblock.members[0] = identity;
            assert_eq!(ledger.keep(Change::Superblock(Box::new(superblock))), None);
            offline::settle(&mut ledger, &node.metadata).expect("there is room");
        };
        take(node.files.identity("a"));
        node.start(&["b"]).expect("the engine judges it");
        assert_eq!((node.read().0.epochs(), node.stamp("b")), (&before, None));
        take(node.files.identity("b"));
        assert_eq!(node.start(&["b"]).expect("it was taken"), [Some(Good), None]);
        assert!(node.stamp("b").is_some());
        let (found, seated) = node.seated(&["b"]).expect("it has a stamp");
        assert!(!seated.plan.has_another_disk() && seated.another.is_none());
        drop((found, seated));
        node.put_back("b", &[7; 28]);
        let refused = node.start(&["b"]).expect_err("the stamp is damaged").to_string();
        assert!(refused.contains("has no valid stamp"), "{refused}");
    }

    #[test]
    fn a_member_that_went_on_alone_is_newer_than_metadata_from_when_it_was_one_of_two() {
        let node = Node::of_two();
        let (mut ledger, Found { mut superblock, .. }) = node.read();
        (superblock.clean, superblock.equal, superblock.seeding) = (true, true, 7);
        assert_eq!(ledger.keep(Change::Superblock(Box::new(superblock))), None);
        offline::settle(&mut ledger, &node.metadata).expect("there is room");
        let metadata = node.files.0.path().join("db.meta");
        let backup = std::fs::read(&metadata).expect("it was written");
        assert_eq!(node.start(&["a"]).expect("a is full"), [Some(Good), None]);
        std::fs::write(&metadata, backup).expect("there is room");
        let states = node.start(&["b", "a"]).expect("a is the newest");
        assert_eq!(states, [Some(Good), Some(CopyHealth::Failed)]);
        // What was written since the backup is on no record: everything is compared.
        let record = node.read().1.superblock;
        assert!(record.marks_void && record.seeding == 0 && !record.clean && !record.equal);
    }

    #[test]
    fn a_disk_that_the_engine_took_is_judged_by_no_stamp_and_gets_none_before() {
        let node = Node::of_two();
        let before = node.read().0.epochs().clone();
        let (found, seated) = node.seated(&["c"]).expect("the engine judges it");
        assert!(seated.plan.has_another_disk());
        drop((found, seated));
        node.start(&["c"]).expect("the engine judges it");
        assert_eq!((node.read().0.epochs(), node.stamp("c")), (&before, None));
        let (mut ledger, Found { mut superblock, .. }) = node.read();
        superblock.members[0] = node.files.identity("c");
        assert_eq!(ledger.keep(Change::Superblock(Box::new(superblock))), None);
        offline::settle(&mut ledger, &node.metadata).expect("there is room");
        let states = node.start(&["c", "d"]).expect("c is full");
        assert_eq!(states, [Some(Good), Some(CopyHealth::Unproven)]);
        assert!(node.stamp("c").is_some());
        let (found, seated) = node.seated(&["c", "d"]).expect("c is full");
        assert!(!seated.plan.has_another_disk());
        drop((found, seated));
    }
}

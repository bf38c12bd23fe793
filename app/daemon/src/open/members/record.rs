// SPDX-License-Identifier: Apache-2.0
//! What a start records of the members of each volume: their states, their bitmaps if it has several, and their epochs.

use super::{Seated, of_volume};
use crate::epochs::{are_several, raise, set_id};
use crate::offline;
use crate::open::{allocate, epochs};
use crate::shard::MemberPlan;
use anyhow::{Context, Result, bail};
use helio_driver::{File, Host};
use helio_format::epochs::Epochs;
use helio_format::members::{CopyHealth, MEMBERS_MAX, MemberEntry, VolumeEntries};
use helio_format::superblock::Superblock;
use helio_ledger::{Change, Found, Ledger, MapOwner};
use helio_shadow::{REGION, blank_pages};
use helio_units::{Bytes, Generation, Role, VolumeIndex};

/// The epochs with which the group is served: that of each volume whose members get stamps is raised.
fn raised(host: &Host, ledger: &Ledger, seated: &[Seated]) -> std::io::Result<Epochs> {
    let mut all = ledger.epochs().clone();
    for (epochs, it) in all.volumes.iter_mut().zip(seated) {
        if it.gets_stamps() {
            *epochs = it.epochs;
            let store = |n: usize| it.plan.members[n].as_ref().and_then(MemberPlan::store);
            raise(epochs, &it.entries, |n| store(n).is_some(), |_| false);
        }
    }
    if all.set.is_none() && all.volumes.iter().any(|volume| volume.epoch.is_some()) {
        all.set = Some(set_id(host)?);
    }
    Ok(all)
}

/// Gives members the epochs that are durable in the metadata, and records which have theirs.
fn stamp(group: &str, ledger: &mut Ledger, seated: &[Seated], file: &File) -> std::io::Result<()> {
    let mut all = ledger.epochs().clone();
    for (at, it) in (0..).map(VolumeIndex).zip(seated) {
        if it.gets_stamps() {
            let mut of = of_volume(ledger, at);
            epochs::stamp((group, &it.plan), &it.entries, &mut of);
            all.volumes[usize::from(at.0)] = of.epochs;
        }
    }
    if all != *ledger.epochs() {
        let refused = ledger.keep(Change::Epochs(all));
        assert_eq!(refused, None, "a ledger that was just opened refuses a change");
        offline::settle(ledger, file)?;
    }
    Ok(())
}

/// Records the members of each volume, makes the bitmaps of several, and raises their epochs. Returns whether anything
/// was written; the ledger is of no use then.
pub(in crate::open) fn record(
    (host, group): (&Host, &str),
    (ledger, found): &mut (Ledger, Found),
    seated: &[Seated],
    (file, shown): (&File, &str),
) -> Result<bool> {
    let old_epochs = ledger.epochs().clone();
    let epochs = raised(host, ledger, seated)?;
    let mut members = ledger.members().to_vec();
    let mut aged = offline::with_age(ledger, &found.superblock);
    if seated.iter().any(|it| it.old_metadata) {
        // What was written since is not on record, nor is what the peer reported.
        (aged.clean, aged.equal, aged.sure) = (false, false, false);
        (aged.marks_void, aged.seeding) = (true, 0);
        if aged.role == Role::Primary {
            aged.peer_invalid = Generation::NONE;
        }
    }
    let (mut before, mut behind) = (aged.clone(), aged.clone());
    let (mut makes, mut removes, mut blank) = (Vec::new(), Vec::new(), Vec::new());
    for (volume, (seated, entries)) in (0..).map(VolumeIndex).zip(seated.iter().zip(&mut members)) {
        let is_set = seated.is_set(entries);
        blank.extend(blank_maps(volume, seated.plan.size, (entries, &seated.entries)));
        *entries = seated.entries;
        let at = usize::from(volume.0);
        if is_set {
            // The engine records that of a volume which had one member, and has one.
            behind.members[at] = seated.recorded(behind.members[at]);
        }
        let several = are_several(entries);
        if is_set && !several {
            before.members[at] = behind.members[at];
        }
        for (n, entry) in entries.iter().enumerate() {
            let owner = MapOwner::Member { volume, member: n as u8 };
            match (entry.is_some() && several, ledger.has_map(owner)) {
                (true, false) => makes.push((owner, REGION.0)),
                (false, true) => removes.push(owner),
                _ => {}
            }
        }
    }
    let same = members == ledger.members() && behind == aged;
    let same = same && epochs == old_epochs;
    if same && makes.is_empty() && removes.is_empty() {
        return Ok(false);
    }
    let Some(length) = ledger.length_with(&makes) else {
        bail!("{shown} has no room for another bitmap\n  hint: name fewer members")
    };
    if let Err(error) = allocate::in_full(file, length) {
        bail!(allocate::refusal(shown, length, &error));
    }
    let makes = makes.into_iter().map(|(owner, unit)| Change::Make { owner, unit }).collect();
    let mut changes = Vec::from([Change::Members(members), Change::Epochs(epochs)]);
    changes.extend(removes.into_iter().map(|owner| Change::Remove { owner }));
    // The bitmap of a blank member is durable before its state: without its bitmap it would count as equal. The superblock names the disk
    // of a member that stays alone before the others are forgotten, and stops to name one only once the entries of several do.
    let superblock = |old: &Superblock, new: &Superblock| {
        let change = (old != new).then(|| Change::Superblock(Box::new(new.clone())));
        Vec::from_iter(change)
    };
    let first = superblock(&found.superblock, &before);
    for step in [first, makes, blank, changes, superblock(&before, &behind)] {
        for change in step {
            let refused = ledger.keep(change);
            assert_eq!(refused, None, "a ledger that was just opened refuses a change");
        }
        offline::settle(ledger, file).with_context(|| shown.to_owned())?;
    }
    stamp(group, ledger, seated, file).with_context(|| shown.to_owned())?;
    Ok(true)
}

/// The bitmaps of members that are blank from now on.
fn blank_maps(
    volume: VolumeIndex,
    size: Bytes,
    (before, now): (&VolumeEntries, &VolumeEntries),
) -> Vec<Change> {
    let is_blank =
        |entry: &Option<MemberEntry>| entry.is_some_and(|entry| entry.health == CopyHealth::Blank);
    let new = (0..MEMBERS_MAX).filter(|n| is_blank(&now[*n]) && !is_blank(&before[*n]));
    let maps = new.flat_map(|member| {
        let owner = MapOwner::Member { volume, member: member as u8 };
        let page = move |(page, bits)| Change::Marks { owner, page, bits };
        blank_pages(size, REGION).into_iter().map(page)
    });
    maps.collect()
}

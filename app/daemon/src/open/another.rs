// SPDX-License-Identifier: Apache-2.0
//! Opening another disk for a volume that is served: in the place of one that is lost, or as one more member.

use super::{Taken, identity, is_held, options};
use crate::config::VolumeConfig;
use crate::patience::once_let_go;
use crate::shard::{MemberPlan, MemberStore, Room, Seat, VolumePlan};
use helio_api::ApiError;
use helio_disk::{Member, MemberIdentity, OpenError, OtherUsers};
use helio_driver::Host;
use helio_format::members::{DiskMark, MEMBERS_MAX};
use helio_units::Bytes;
use std::path::Path;

/// Opens what the file names for the volume now: another disk, or the same one, mended. Blocks.
///
/// # Errors
/// It cannot be the member of that volume.
pub(crate) fn another(
    host: &Host,
    (group, volume): (&str, &str),
    config: &VolumeConfig,
    node: &str,
    seat: Seat,
) -> Result<VolumePlan, ApiError> {
    let name = format!("{group}/{volume}");
    let [path] = config.members_on(node) else {
        let text = format!("the configuration file does not name one member of {name} on {node}");
        return Err(refused(text, String::from("name the new disk there")));
    };
    let options = options(&name, config);
    let opened = if seat.held.is_at(host, path) {
        seat.held.reopen(host, &options)
    } else {
        helio_disk::open(path, &options, &OtherUsers::of(host))
    };
    let member = fitting((&name, path), opened, (&seat.others, seat.alignment))?;
    let (mark, number) = (DiskMark::of(identity(&member)), usize::from(seat.number.0));
    let path = path.display().to_string();
    let mut members: Vec<_> = (0..MEMBERS_MAX).map(|_| None).collect();
    members[number] = Some(MemberPlan { path, mark, store: MemberStore::Open(member) });
    Ok(VolumePlan {
        name: volume.to_owned(),
        size: config.size,
        members,
        buffered: config.io == helio_api::Io::Buffered,
        sparse: config.sparse,
    })
}

/// Opens a disk that is to become one more member of a volume, or to return as one. Blocks.
///
/// # Errors
/// It cannot be a member of that volume.
pub(crate) fn one_more(
    host: &Host,
    (group, volume): (&str, &str),
    config: &VolumeConfig,
    path: &Path,
    room: &Room,
) -> Result<MemberPlan, ApiError> {
    let name = format!("{group}/{volume}");
    if let Ok(identity) = MemberIdentity::of_path(host, path) {
        apart((&name, path), &identity, &room.others)?;
    }
    let options = options(&name, config);
    let opened =
        once_let_go(host, || helio_disk::open(path, &options, &OtherUsers::of(host)), is_held);
    let member = fitting((&name, path), opened, (&room.others, room.alignment))?;
    let mark = DiskMark::of(identity(&member));
    Ok(MemberPlan { path: path.display().to_string(), mark, store: MemberStore::Open(member) })
}

fn refused(text: String, hint: impl Into<String>) -> ApiError {
    ApiError::new("disk-refused", text, hint)
}

/// What was opened, if it can be a member of the volume beside the others, and of clients that keep to that alignment.
fn fitting(
    (name, path): (&str, &Path),
    opened: Result<Member, OpenError>,
    (others, alignment): (&Taken, Bytes),
) -> Result<Member, ApiError> {
    let member = opened.map_err(|error| {
        let hint = error.refusal.hint(&error.path);
        refused(format!("{} {}: {}", error.role, error.path.display(), error.refusal), hint)
    })?;
    let shown = path.display();
    if let Some(errno) = member.failed_flush() {
        let text = format!("member of {name} {shown}: a flush of it failed: {errno}");
        return Err(refused(text, "see the kernel's log, and use another disk"));
    }
    apart((name, path), &member.identity(), others)?;
    if member.alignment() > alignment {
        let text = format!(
            "the blocks of {shown} are {}, and clients of {name} use blocks of {alignment}",
            member.alignment(),
        );
        let hint =
            "use a disk with smaller blocks; or disconnect the clients, and restart the daemon";
        return Err(refused(text, hint));
    }
    Ok(member)
}

/// No disk is a member twice.
fn apart(
    (name, path): (&str, &Path),
    identity: &MemberIdentity,
    others: &Taken,
) -> Result<(), ApiError> {
    let Some((_, other)) = others.iter().find(|(other, _)| other.overlaps(identity)) else {
        return Ok(());
    };
    let shown = path.display();
    if other == name {
        let text = format!("{shown} is in use as a member of {name}, or overlaps one");
        let group = name.split('/').next().unwrap_or(name);
        return Err(refused(text, format!("`helio status {group}` shows its members")));
    }
    let text = format!("{shown} is the member of {other}, or overlaps it");
    Err(refused(text, "give each volume its own disk"))
}

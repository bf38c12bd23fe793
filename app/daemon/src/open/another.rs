// SPDX-License-Identifier: Apache-2.0
//! Opening another disk for a volume whose own is lost.

use crate::config::VolumeConfig;
use crate::open::{self, options};
use crate::shard::{MemberPlan, MemberStore, Seat, VolumePlan};
use helio_api::ApiError;
use helio_disk::OpenError;
use helio_format::members::{DiskMark, MEMBERS_MAX};

/// Opens what the file names for the volume now: another disk, or the same one, mended. Blocks.
///
/// # Errors
/// It cannot be the member of that volume.
pub(crate) fn another(
    (group, volume): (&str, &str),
    config: &VolumeConfig,
    node: &str,
    seat: Seat,
) -> Result<VolumePlan, ApiError> {
    let name = format!("{group}/{volume}");
    let refused = |text: String, hint: String| ApiError::new("disk-refused", text, hint);
    let [path] = config.members_on(node) else {
        let text = format!("the configuration file does not name one member of {name} on {node}");
        return Err(refused(text, String::from("name the new disk there")));
    };
    let options = options(&name, config);
    let opened = if seat.held.is_at(path) {
        seat.held.reopen(&options)
    } else {
        helio_disk::open(path, &options)
    };
    let member = opened.map_err(|error: OpenError| {
        let hint = error.refusal.hint(&error.path);
        refused(format!("{} {}: {}", error.role, error.path.display(), error.refusal), hint)
    })?;
    if let Some(errno) = member.failed_flush() {
        let text = format!("{} {}: a flush of it failed: {errno}", options.role, path.display());
        let hint = "see the kernel's log, and use another disk";
        return Err(refused(text, String::from(hint)));
    }
    let identity = member.identity();
    if let Some((_, other)) = seat.others.iter().find(|(other, _)| other.overlaps(&identity)) {
        let text = format!("{} is the member of {other}, or overlaps it", path.display());
        return Err(refused(text, String::from("give each volume its own disk")));
    }
    if member.alignment() > seat.alignment {
        let text = format!(
            "the blocks of {} are {}, and clients of {name} use blocks of {}",
            path.display(),
            member.alignment(),
            seat.alignment
        );
        let hint =
            "use a disk with smaller blocks; or disconnect the clients, and restart the daemon";
        return Err(refused(text, String::from(hint)));
    }
    let (mark, number) = (DiskMark::of(open::identity(&member)), usize::from(seat.number.0));
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

// SPDX-License-Identifier: Apache-2.0
//! The members of a volume that has several on this node: what each does, and how far its copy is.

use helio_api::{ReadCostSource, SetMemberState, SetMemberStatus, VolumeStatus};
use helio_units::Bytes;

/// All members of a volume in a few words.
pub(super) fn summary(volume: &VolumeStatus) -> String {
    let unmerged = match volume.unmerged_bytes {
        Bytes::ZERO => String::new(),
        bytes => format!(", {bytes} not merged"),
    };
    let blank = match volume.blank_bytes {
        Bytes::ZERO => String::new(),
        bytes => format!(", {bytes} never written"),
    };
    let full = full(volume).count();
    let waits = volume.copy_waits.map(|waits| format!(", {waits}")).unwrap_or_default();
    format!("{} members, {full} full{unmerged}{blank}{waits}", volume.members.len())
}

/// A label and a text for each of the members.
pub(super) fn rows(volume: &VolumeStatus) -> impl Iterator<Item = (String, String)> {
    let sources: Vec<String> = full(volume).map(|member| member.number.to_string()).collect();
    let source = match sources.as_slice() {
        [] => String::new(),
        [one] => format!(", from member {one}"),
        several => format!(", from members {}", several.join(", ")),
    };
    volume.members.iter().map(move |member| {
        (
            format!("  member {}", member.number),
            format!("{}: {}", text(member, &source), member.path),
        )
    })
}

fn full(volume: &VolumeStatus) -> impl Iterator<Item = &SetMemberStatus> {
    volume.members.iter().filter(|member| member.state == SetMemberState::Full)
}

/// `source`: the members that are copied from.
fn text(member: &SetMemberStatus, source: &str) -> String {
    let mut text = member.state.to_string();
    match member.state {
        SetMemberState::Full => {}
        SetMemberState::Copying => {
            let percent = member.percent.map(|percent| format!(" {percent} %")).unwrap_or_default();
            let left = member.left_bytes.map(|left| format!(", {left} left")).unwrap_or_default();
            text += &format!("{percent}{left}{source}");
        }
        SetMemberState::Removed => {
            if member.withdrawn {
                text += " by a command";
            }
            match member.dirty_bytes {
                Some(dirty) => text += &format!(", {dirty} dirty"),
                None => text += ", no bitmap",
            }
        }
    }
    if let (Some(cost), Some(source)) = (member.read_cost, member.read_cost_source)
        && source != ReadCostSource::Unmeasured
    {
        text += &format!(", read cost {cost} ({source})");
    }
    if member.repaired.0 > 0 {
        text += &format!(", {} reads repaired", member.repaired);
    }
    match &member.why {
        Some(why) => text += &format!(", closed ({why})"),
        None if member.state == SetMemberState::Removed => {
            text += &format!(", still open, {} operations in progress", member.operations);
        }
        None => {}
    }
    text
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use helio_api::CopyWait;
    use helio_units::Items;

    fn member(number: u8, state: SetMemberState) -> SetMemberStatus {
        SetMemberStatus {
            number,
            path: format!("/dev/vg0/{}", char::from(b'a' + number)),
            state,
            left_bytes: None,
            percent: None,
            dirty_bytes: None,
            read_cost: None,
            read_cost_source: None,
            reads: Items(0),
            withdrawn: false,
            repaired: Items(0),
            operations: Items(0),
            open: true,
            why: None,
        }
    }

    /// Gives a volume a full member, one that is copied and one that was removed.
    pub(in crate::render) fn fill(volume: &mut VolumeStatus) {
        volume.unmerged_bytes = Bytes::mib(4);
        volume.copy_waits = Some(CopyWait::Others);
        volume.members = vec![
            SetMemberStatus {
                read_cost: Some(3),
                read_cost_source: Some(ReadCostSource::Measured),
                repaired: Items(2),
                ..member(0, SetMemberState::Full)
            },
            SetMemberStatus {
                left_bytes: Some(Bytes::mib(64)),
                percent: Some(75),
                ..member(1, SetMemberState::Copying)
            },
            SetMemberStatus {
                dirty_bytes: Some(Bytes::mib(1)),
                open: false,
                why: Some(String::from("it is not in use")),
                ..member(2, SetMemberState::Removed)
            },
        ];
    }

    #[test]
    fn a_removed_member_that_is_open_says_what_it_waits_for() {
        let removed =
            SetMemberStatus { operations: Items(3), ..member(1, SetMemberState::Removed) };
        let expected = "removed, no bitmap, still open, 3 operations in progress";
        assert_eq!(text(&removed, ""), expected);
        let dirty_bytes = Some(Bytes::mib(1));
        let removed = SetMemberStatus { withdrawn: true, dirty_bytes, ..removed };
        let text = text(&removed, "");
        assert!(text.starts_with("removed by a command, 1 MiB dirty"), "{text}");
    }

    #[test]
    fn a_copy_is_from_every_full_member() {
        let mut volume: VolumeStatus = serde_json::from_value(serde_json::json!({
            "name": "data", "size_bytes": 1, "member": "/dev/vg0/a", "io": "direct",
            "sparse": false, "dirty_bytes": 0, "clients": 0
        }))
        .expect("older daemons show no members");
        assert!(volume.members.is_empty());
        let copying = SetMemberState::Copying;
        volume.members = vec![
            member(0, SetMemberState::Full),
            member(1, copying),
            member(2, SetMemberState::Full),
        ];
        let (label, text) = rows(&volume).nth(1).expect("it is the second");
        assert_eq!(label, "  member 1");
        assert_eq!(text, "copying, from members 0, 2: /dev/vg0/b");
    }
}

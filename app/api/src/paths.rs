// SPDX-License-Identifier: Apache-2.0
//! Where each verb lives. `{group}` stands for a group's name.

use std::path::{Path, PathBuf};

/// GET: [`Status`](crate::Status) of every group.
pub const STATUS: &str = "/v2/status";
/// GET: [`Status`](crate::Status) with this group alone.
pub const GROUP: &str = "/v2/groups/{group}";
/// GET: [`RecorderDump`](crate::RecorderDump), what happened last.
pub const DEBUG_EVENTS: &str = "/v2/groups/{group}/debug/events";
/// GET: a stream of [`Event`](crate::event::Event)s, one JSON object a line.
pub const EVENTS: &str = "/v2/events";
/// POST without a body: stop replication and record dirty regions only; [`Accepted`](crate::Accepted).
pub const PAUSE: &str = "/v2/groups/{group}/pause";
/// POST without a body: end a pause with a resync of the dirty regions; [`Accepted`](crate::Accepted) when it began.
pub const RESUME: &str = "/v2/groups/{group}/resume";
/// POST [`ResyncRequest`](crate::ResyncRequest), or nothing: copy dirty regions, or everything, to the peer, then
/// replicate; [`Accepted`](crate::Accepted) when it began.
pub const RESYNC: &str = "/v2/groups/{group}/resync";
/// POST [`PromoteRequest`](crate::PromoteRequest): make this node primary; [`Accepted`](crate::Accepted).
pub const PROMOTE: &str = "/v2/groups/{group}/promote";
/// POST without a body: make this node secondary; [`Accepted`](crate::Accepted).
pub const DEMOTE: &str = "/v2/groups/{group}/demote";
/// POST [`SwitchRequest`](crate::SwitchRequest), or nothing: change roles with the other node, from either;
/// [`Accepted`](crate::Accepted) when it serves.
pub const SWITCH: &str = "/v2/groups/{group}/switch";
/// GET: [`Explanation`](crate::Explanation), how the two nodes stand to each other.
pub const EXPLAIN: &str = "/v2/groups/{group}/explain";
/// POST [`ResolveRequest`](crate::ResolveRequest): give up this node's side; [`Accepted`](crate::Accepted).
pub const RESOLVE: &str = "/v2/groups/{group}/resolve";
/// POST [`ReverseRequest`](crate::ReverseRequest): take the other node's copy; [`Accepted`](crate::Accepted).
pub const REVERSE: &str = "/v2/groups/{group}/resync/reverse";
/// POST [`MemberReplaceRequest`](crate::MemberReplaceRequest): take another disk in the place of a lost one;
/// [`Accepted`](crate::Accepted) when it is a volume's.
pub const MEMBER_REPLACE: &str = "/v2/groups/{group}/member/replace";
/// POST [`MemberAcceptRequest`](crate::MemberAcceptRequest): accept a suspect copy as it is; [`Accepted`](crate::Accepted).
pub const MEMBER_ACCEPT: &str = "/v2/groups/{group}/member/accept";
/// POST [`MemberAddRequest`](crate::MemberAddRequest): use another local member; [`Accepted`](crate::Accepted) when its copy
/// begins.
pub const MEMBER_ADD: &str = "/v2/groups/{group}/member/add";
/// POST [`MemberRemoveRequest`](crate::MemberRemoveRequest): remove a member; [`Accepted`](crate::Accepted) when it is
/// closed.
pub const MEMBER_REMOVE: &str = "/v2/groups/{group}/member/remove";
/// POST [`MemberMergeRequest`](crate::MemberMergeRequest): compare the members; [`Accepted`](crate::Accepted) when that begins.
pub const MEMBER_MERGE: &str = "/v2/groups/{group}/member/merge";
/// POST [`MemberSetRequest`](crate::MemberSetRequest): change settings of a member while it runs; [`Accepted`](crate::Accepted).
pub const MEMBER_SET: &str = "/v2/groups/{group}/member/set";
/// POST [`ModeRequest`](crate::ModeRequest): change the mode; [`Accepted`](crate::Accepted).
pub const MODE: &str = "/v2/groups/{group}/mode";
/// GET: [`QueueReply`](crate::QueueReply), the group's queue.
pub const QUEUE: &str = "/v2/groups/{group}/queue";
/// POST [`QueueRequest`](crate::QueueRequest): change the queue while it runs; [`Accepted`](crate::Accepted).
pub const QUEUE_SET: &str = "/v2/groups/{group}/queue/set";
/// POST without a body: let marks, counts at the bound and answers' times begin anew; [`Accepted`](crate::Accepted).
pub const QUEUE_RESET: &str = "/v2/groups/{group}/queue/reset";
/// POST [`VerifyRequest`](crate::VerifyRequest): compare the two copies; [`Accepted`](crate::Accepted) when it began.
pub const VERIFY: &str = "/v2/groups/{group}/verify";
/// POST without a body: compare no more; [`Accepted`](crate::Accepted).
pub const VERIFY_STOP: &str = "/v2/groups/{group}/verify/stop";
/// POST without a body: a disk is copied and shipped from now on; [`Accepted`](crate::Accepted) when it may be copied.
pub const SEED_BEGIN: &str = "/v2/groups/{group}/seed/begin";
/// POST without a body: the disk that was shipped is in place; [`Accepted`](crate::Accepted) when an update begins.
pub const SEED_END: &str = "/v2/groups/{group}/seed/end";
/// GET: [`SnapshotList`](crate::SnapshotList), the group's snapshots on this node.
pub const SNAPSHOTS: &str = "/v2/groups/{group}/snapshots";
/// POST [`SnapshotRequest`](crate::SnapshotRequest): create a snapshot; [`Accepted`](crate::Accepted) when this node has it.
pub const SNAPSHOT_CREATE: &str = "/v2/groups/{group}/snapshots/create";
/// POST [`SnapshotRequest`](crate::SnapshotRequest): delete a snapshot; [`Accepted`](crate::Accepted) when this node has it no more.
pub const SNAPSHOT_DELETE: &str = "/v2/groups/{group}/snapshots/delete";
/// POST [`SnapshotRestoreRequest`](crate::SnapshotRestoreRequest): restore the volumes from a snapshot; [`Accepted`](crate::Accepted) when they can be used.
pub const SNAPSHOT_RESTORE: &str = "/v2/groups/{group}/snapshots/restore";
/// POST [`DrillRequest`](crate::DrillRequest): record how a drill ended; [`Accepted`](crate::Accepted) when the record is durable.
pub const DRILL: &str = "/v2/groups/{group}/drill";
/// POST [`AttachRequest`](crate::AttachRequest): make a device of a volume; [`Attachment`](crate::Attachment).
pub const ATTACH: &str = "/v2/groups/{group}/attach";
/// POST [`DetachRequest`](crate::DetachRequest): make one of it no more; [`Accepted`](crate::Accepted).
pub const DETACH: &str = "/v2/groups/{group}/detach";
/// POST [`ReleaseRequest`](crate::ReleaseRequest): give the stores of a group back; [`Accepted`](crate::Accepted).
pub const RELEASE: &str = "/v2/groups/{group}/release";
/// POST [`TraceRequest`](crate::TraceRequest): record what applications ask; [`Accepted`](crate::Accepted) when it began.
pub const TRACE_START: &str = "/v2/groups/{group}/trace/start";
/// POST without a body: record no more; [`Accepted`](crate::Accepted) when the file is whole.
pub const TRACE_STOP: &str = "/v2/groups/{group}/trace/stop";
/// GET: [`Attachments`](crate::Attachments) of every group.
pub const ATTACHMENTS: &str = "/v2/attachments";
/// GET: [`ClientList`](crate::ClientList), the NBD clients.
pub const CLIENTS: &str = "/v2/clients";
/// POST [`ClientCloseRequest`](crate::ClientCloseRequest): disconnect some; [`Accepted`](crate::Accepted).
pub const CLIENT_CLOSE: &str = "/v2/clients/close";
/// GET: [`SavedList`](crate::SavedList), what was saved before it was discarded.
pub const SAVED: &str = "/v2/saved";
/// POST [`SavedDeleteRequest`](crate::SavedDeleteRequest): delete it; [`Accepted`](crate::Accepted).
pub const SAVED_DELETE: &str = "/v2/saved/delete";
/// POST [`ApplyRequest`](crate::ApplyRequest): read the file again; [`ApplyReply`](crate::ApplyReply).
pub const APPLY: &str = "/v2/apply";
/// GET: the [description](crate::document) of this API.
pub const DOCUMENT: &str = "/v2/openapi.json";

/// Name of the control socket in the state directory, the longest name of a socket there.
const CONTROL_SOCKET: &str = "control.sock";
/// Longest path of a socket: `sun_path` of unix(7) without its terminating zero.
const SOCKET_PATH_BYTES_MAX: usize = 107;

/// The control socket in a state directory.
///
/// # Errors
/// Its path is too long for a socket: the message, with its hint.
pub fn control_socket(state: &Path) -> Result<PathBuf, String> {
    let socket = state.join(CONTROL_SOCKET);
    match socket.as_os_str().len() {
        0..=SOCKET_PATH_BYTES_MAX => Ok(socket),
        length => Err(format!(
            "the path of the state directory is too long: {} has {length} bytes, and Linux allows {SOCKET_PATH_BYTES_MAX}\n  \
             hint: use a directory with a shorter path",
            socket.display()
        )),
    }
}

/// The path of one group. Bytes that mean something in a path are percent-encoded, so that a mistyped name
/// reaches the daemon as it was typed and is refused by name.
#[must_use]
pub fn of_group(template: &str, group: &str) -> String {
    let mut name = String::with_capacity(group.len());
    for byte in group.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.') {
            name.push(char::from(byte));
        } else {
            name.push_str(&format!("%{byte:02X}"));
        }
    }
    template.replace("{group}", &name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_socket_has_at_most_107_bytes() {
        let longest = "/".repeat(SOCKET_PATH_BYTES_MAX - CONTROL_SOCKET.len());
        assert!(control_socket(Path::new(&longest)).is_ok());
        let error = control_socket(Path::new(&format!("{longest}x"))).expect_err("108 bytes");
        assert!(error.contains("109 bytes") && error.contains("hint: "), "{error}");
    }

    #[test]
    fn a_name_with_a_slash_stays_one_step_of_the_path() {
        assert_eq!(of_group(PAUSE, "db"), "/v2/groups/db/pause");
        assert_eq!(of_group(MODE, "db/data 1"), "/v2/groups/db%2Fdata%201/mode");
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Statuses and snapshots for the tests of this room.

use helio_api::{SnapshotList, Status, SyncStatus};
use helio_units::{Bytes, Rate, State, Verdict};
use std::time::Duration;

/// One group, `db`, whose peer `lyon` is not connected.
pub(crate) fn status() -> Status {
    serde_json::from_str(include_str!("../render_sample.json")).expect("the sample is a status")
}

/// The same and two more: `mail` is OK, `web` is resynced.
pub(super) fn three() -> Status {
    let mut status = status();
    let mut mail = status.groups[0].clone();
    mail.name = "mail".into();
    mail.verdict.word = Verdict::Ok;
    mail.state = State::Replicating;
    mail.lag.bytes = Bytes::ZERO;
    let mut web = status.groups[0].clone();
    web.name = "web".into();
    web.state = State::Syncing;
    web.lag.bytes = Bytes::gib(1);
    web.sync = Some(SyncStatus {
        copied_bytes: Bytes::mib(460),
        to_copy_bytes: Bytes::gib(1),
        rate_bytes_per_second: Rate(92_000_000),
        eta_seconds: Some(Duration::from_millis(6_430)),
        converges: true,
        ..SyncStatus::default()
    });
    status.groups.extend([mail, web]);
    status
}

/// The snapshots of `db`: one.
pub(super) fn snapshots() -> SnapshotList {
    let list = serde_json::json!({
        "node": "paris", "group": "db", "volume_bytes": 268_435_456, "preserved_bytes": 131_072,
        "snapshots": [{
            "name": "daily", "at_ms": 1_795_210_565_054_u64, "identity": "1.92cc.31",
            "generation": "1.92cc", "position": 31, "consistent": true, "safe_copy": false,
            "changed_bytes": 65_536, "preserved_bytes": 131_072, "written_bytes": 0
        }],
        "missing": []
    });
    serde_json::from_value(list).expect("it is a list")
}

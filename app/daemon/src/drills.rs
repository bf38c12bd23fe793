// SPDX-License-Identifier: Apache-2.0
//! The last drills of a group, kept beside the metadata in `groups/GROUP.drill`: a small JSON file, replaced as a whole.
//! Nothing depends on it but what status shows.

use crate::durable;
use helio_api::{DrillRequest, DrillResult, DrillStatus};
use helio_driver::Host;
use helio_units::WallTime;
use std::io;
use std::path::{Path, PathBuf};

/// Where a group's record is kept.
pub(crate) fn path(state: &Path, group: &str) -> PathBuf {
    state.join("groups").join(format!("{group}.drill"))
}

/// Reads what an earlier drill left.
pub(crate) fn load(host: &Host, path: &Path) -> Option<DrillStatus> {
    durable::load(host, path, "the results of drills")
}

/// Adds a drill that ended now, durably, and returns what is shown from then on.
///
/// # Errors
/// The file system refuses.
pub(crate) fn record(
    host: &Host,
    path: &Path,
    (now, report): (WallTime, DrillRequest),
) -> io::Result<DrillStatus> {
    let drills = DrillStatus::after(load(host, path), DrillResult::of(now, report));
    durable::keep(host, path, &drills)?;
    Ok(drills)
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_driver::Linux;
    use std::fs;

    #[test]
    fn the_last_drill_and_the_last_success_are_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("db.drill");
        let host = Linux::host();
        let end = |at, failure: Option<&str>| {
            let failure = failure.map(str::to_owned);
            let report = DrillRequest { failure, position: Some(at), ..DrillRequest::default() };
            record(&host, &file, (WallTime(at), report)).expect("room")
        };
        assert_eq!(load(&host, &file), None);
        assert_eq!(end(1, Some("exit status 3")).last_success, None);
        assert_eq!(end(2, None).last_success.map(|drill| drill.at_ms), Some(WallTime(2)));
        let shown = end(3, Some("exit status 4"));
        assert_eq!((shown.last.at_ms, shown.last.position), (WallTime(3), Some(3)));
        assert_eq!(shown.last_success.as_ref().map(|drill| drill.at_ms), Some(WallTime(2)));
        assert_eq!(load(&host, &file), Some(shown));
        fs::write(&file, "{").expect("room");
        assert_eq!(load(&host, &file), None, "a file that cannot be read counts as missing");
        assert_eq!(end(4, None).last.at_ms, WallTime(4));
    }
}

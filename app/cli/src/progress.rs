// SPDX-License-Identifier: Apache-2.0
//! How far a copy has come, in a line: with a bar where it is drawn again and again, without where it is kept.

use crate::render::seconds;
use helio_api::SyncStatus;
use helio_units::Bytes;

/// Steps of the bar.
const STEPS: u64 = 20;

/// `460 MiB of 1 GiB copied (44 %), 92 MB/s, done in 6.3 s`.
pub(crate) fn text(sync: &SyncStatus) -> String {
    let left = sync
        .eta_seconds
        .map_or_else(|| "at an unknown time".to_owned(), |eta| format!("in {}", seconds(eta)));
    let ends = if sync.converges {
        format!("done {left}")
    } else {
        "will not converge at this write rate".to_owned()
    };
    let sent = match sync.shipped_bytes {
        Bytes::ZERO => String::new(),
        shipped => format!(", {shipped} of it sent"),
    };
    format!(
        "{} of {} copied ({} %){sent}, {}/s, {ends}",
        sync.copied_bytes,
        sync.to_copy_bytes,
        share(sync, 100),
        Bytes(sync.rate_bytes_per_second.0)
    )
}

/// The same behind a bar.
pub(crate) fn bar(sync: &SyncStatus) -> String {
    let done = share(sync, STEPS) as usize;
    let (full, rest) = ("#".repeat(done), "-".repeat(STEPS as usize - done));
    format!("[{full}{rest}] {}", text(sync))
}

/// What is done of it, in so many parts of the whole; the whole is not reached before the end.
pub(crate) fn share(sync: &SyncStatus, parts: u64) -> u64 {
    let (done, all) = (sync.copied_bytes.0, sync.to_copy_bytes.0);
    let share = u128::from(done) * u128::from(parts) / u128::from(all.max(1));
    // Writes meanwhile may mark more than there was to copy at the beginning.
    u64::try_from(share).map_or(parts, |share| share.min(parts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_units::Rate;
    use std::time::Duration;

    #[test]
    fn a_copy_shows_how_far_it_came_and_when_it_ends() {
        let sync = SyncStatus {
            copied_bytes: Bytes::mib(460),
            to_copy_bytes: Bytes::mib(1024),
            rate_bytes_per_second: Rate(92_000_000),
            eta_seconds: Some(Duration::from_millis(6_430)),
            converges: true,
            ..SyncStatus::default()
        };
        assert_eq!(text(&sync), "460 MiB of 1 GiB copied (44 %), 87.74 MiB/s, done in 6.4 s");
        let some = SyncStatus { shipped_bytes: Bytes::mib(3), ..sync };
        assert!(text(&some).contains("(44 %), 3 MiB of it sent, 87"), "{}", text(&some));
        let never = SyncStatus { converges: false, ..sync };
        assert!(text(&never).ends_with("will not converge at this write rate"));
        assert!(bar(&sync).starts_with("[########------------] 460 MiB"), "{}", bar(&sync));
        let begun =
            SyncStatus { to_copy_bytes: Bytes::mib(1), converges: true, ..SyncStatus::default() };
        assert!(text(&begun).ends_with("done at an unknown time"), "{}", text(&begun));
        let more = SyncStatus { copied_bytes: Bytes::mib(2), ..begun };
        assert!(bar(&more).starts_with("[####################] 2 MiB of 1 MiB copied (100 %)"));
    }
}

// SPDX-License-Identifier: Apache-2.0
//! How long a group waits for its peer and for its disks.

use super::error::ConfigError;
use super::table::Table;
use std::time::Duration;

/// The default of `peer-timeout` is DRBD's, long enough for a busy disk and short enough for an application.
const PEER: Duration = Duration::from_secs(6);
/// The default of `flush-limit` is what a full drive cache takes to drain.
const FLUSH_LIMIT: Duration = Duration::from_secs(60);
/// The default of `member-timeout` is OpenVMS's `SHADOW_MBR_TMO`. A kernel repeats a command that failed for two minutes or so
/// before it reports an error, and a disk that does that is not silent.
const MEMBER: Duration = Duration::from_secs(120);
/// Below this, an ordinary pause of the scheduler would count as a lost peer.
const SHORTEST_PEER: Duration = Duration::from_millis(100);
/// Below this, a disk that corrects an error or starts its motor would count as silent.
const SHORTEST_MEMBER: Duration = Duration::from_secs(1);
/// Beyond this, a disk that hangs would stop its group for longer than any repair by the kernel takes.
const LONGEST_MEMBER: Duration = Duration::from_secs(3600);

/// The default of `member-return`: what a cable that was pulled takes, or a controller that starts again.
const MEMBER_RETURN: Duration = Duration::from_secs(60);
/// Below this, a disk that fails at once would be copied all the time.
const SHORTEST_RETURN: Duration = Duration::from_secs(1);

/// The timeouts of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// A peer silent for this long, with something outstanding, is lost.
    pub peer: Duration,
    /// The same for a peer that reports that it is still flushing, or that its store waits; at least `peer`.
    pub flush_limit: Duration,
    /// A disk with an operation that has not completed for this long is silent.
    pub member: Duration,
    /// A member that was removed after an error is tried again after this long; none: only by a command.
    pub member_return: Option<Duration>,
}

impl Timeouts {
    /// `several`: the group has two nodes, and a volume has several members on a node. Such a node removes a silent member before its peer gives the node up.
    pub(super) fn read(table: &Table<'_>, several: bool) -> Result<Self, ConfigError> {
        let peer = peer(table)?;
        let flush_limit = flush_limit(table, peer, several)?;
        let most = if several { flush_limit / 2 } else { LONGEST_MEMBER };
        let (member, member_return) = (member(table, most)?, member_return(table)?);
        Ok(Self { peer, flush_limit, member, member_return })
    }
}

fn peer(table: &Table<'_>) -> Result<Duration, ConfigError> {
    match table.span("peer-timeout")? {
        Some(short) if short.value < SHORTEST_PEER => {
            let message = format!("`peer-timeout` {:?} is too short", short.value);
            let hint = format!("use at least {SHORTEST_PEER:?}");
            Err(table.refuse(short.at, message, hint))
        }
        span => Ok(span.map_or(PEER, |span| span.value)),
    }
}

fn flush_limit(table: &Table<'_>, peer: Duration, several: bool) -> Result<Duration, ConfigError> {
    match table.span("flush-limit")? {
        Some(limit) if several && limit.value < SHORTEST_MEMBER * 2 => {
            let message = format!(
                "`flush-limit` {:?} is too short for volumes with several members",
                limit.value
            );
            let hint =
                format!("use at least {:?}: half of it bounds member-timeout", SHORTEST_MEMBER * 2);
            Err(table.refuse(limit.at, message, hint))
        }
        Some(limit) if limit.value < peer => {
            let message =
                format!("`flush-limit` {:?} is less than peer-timeout {peer:?}", limit.value);
            let hint = "make it at least the peer timeout, which it extends";
            Err(table.refuse(limit.at, message, hint))
        }
        limit => Ok(limit.map_or(FLUSH_LIMIT.max(peer), |limit| limit.value)),
    }
}

fn member(table: &Table<'_>, most: Duration) -> Result<Duration, ConfigError> {
    match table.span("member-timeout")? {
        Some(short) if short.value < SHORTEST_MEMBER => {
            let message = format!("`member-timeout` {:?} is too short", short.value);
            let hint = format!("use at least {SHORTEST_MEMBER:?}");
            Err(table.refuse(short.at, message, hint))
        }
        Some(long) if long.value > LONGEST_MEMBER => {
            let message = format!("`member-timeout` {:?} is too long", long.value);
            Err(table.refuse(long.at, message, "use at most 1h"))
        }
        Some(long) if long.value > most => {
            let message = format!(
                "`member-timeout` {:?} is too long for volumes with several members",
                long.value
            );
            let hint =
                format!("use at most {most:?}, half of flush-limit, or a longer flush-limit");
            Err(table.refuse(long.at, message, hint))
        }
        timeout => Ok(timeout.map_or(MEMBER.min(most), |timeout| timeout.value)),
    }
}

fn member_return(table: &Table<'_>) -> Result<Option<Duration>, ConfigError> {
    match table.span_or_off("member-return")? {
        Some(Some(short)) if short.value < SHORTEST_RETURN => {
            let message = format!("`member-return` {:?} is too short", short.value);
            let hint = format!("use \"off\", or at least {SHORTEST_RETURN:?}");
            Err(table.refuse(short.at, message, hint))
        }
        Some(wait) => Ok(wait.map(|wait| wait.value)),
        None => Ok(Some(MEMBER_RETURN)),
    }
}

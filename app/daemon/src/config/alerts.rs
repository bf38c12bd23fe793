// SPDX-License-Identifier: Apache-2.0
//! The bounds of a group's figures: beyond them an alert begins.

use super::error::ConfigError;
use super::table::Table;
use std::time::Duration;

/// A figure of a group that can be beyond its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Alert {
    /// The oldest write that the peer does not have is older than the bound.
    LagAbove,
    /// At the rate at which it fills, the queue is full within the bound.
    QueueFullWithin,
    /// The resync does not converge at this write rate.
    ResyncNotConverging,
    /// The verdict is not OK.
    ProtectionLost,
}

impl Alert {
    /// Every alert.
    pub const ALL: [Self; 4] =
        [Self::LagAbove, Self::QueueFullWithin, Self::ResyncNotConverging, Self::ProtectionLost];

    /// Its key in the configuration file.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::LagAbove => "lag-above",
            Self::QueueFullWithin => "queue-full-within",
            Self::ResyncNotConverging => "resync-not-converging",
            Self::ProtectionLost => "protection-lost",
        }
    }

    /// Its field in events of a group.
    #[must_use]
    pub const fn field(self) -> &'static str {
        match self {
            Self::LagAbove => "lag_above",
            Self::QueueFullWithin => "queue_full_within",
            Self::ResyncNotConverging => "resync_not_converging",
            Self::ProtectionLost => "protection_lost",
        }
    }
}

const KEYS: &[&str] = &[
    Alert::LagAbove.word(),
    Alert::QueueFullWithin.word(),
    Alert::ResyncNotConverging.word(),
    Alert::ProtectionLost.word(),
];
/// Those that are about a peer.
const PEER_KEYS: &[&str] = &[KEYS[0], KEYS[1], KEYS[2]];
/// Figures are compared with their bounds once a second.
const SHORTEST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(168 * 60 * 60);
const LAG: Duration = Duration::from_secs(30);
const FULL: Duration = Duration::from_secs(60);
const PATIENCE: Duration = Duration::from_secs(10);

/// The bound of the lag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LagBound {
    /// 30 s, and two periods more in mode periodic.
    Auto,
    /// There is no alert.
    Off,
    /// So long.
    Above(Duration),
}

impl LagBound {
    /// The bound, if there is one. `period`: from one cut to the next, in mode periodic.
    #[must_use]
    pub fn age(self, period: Option<Duration>) -> Option<Duration> {
        match self {
            Self::Auto => Some(LAG + period.unwrap_or_default() * 2),
            Self::Off => None,
            Self::Above(age) => Some(age),
        }
    }
}

/// The bounds of a group; none: there is no alert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlertsConfig {
    /// Age of the oldest write that the peer does not have.
    pub lag_above: LagBound,
    /// Time until the queue is full.
    pub queue_full_within: Option<Duration>,
    /// For how long a resync does not converge.
    pub resync_not_converging: Option<Duration>,
    /// For how long the verdict is not OK.
    pub protection_lost: Option<Duration>,
}

impl Default for AlertsConfig {
    fn default() -> Self {
        Self {
            lag_above: LagBound::Auto,
            queue_full_within: Some(FULL),
            resync_not_converging: Some(PATIENCE),
            protection_lost: Some(PATIENCE),
        }
    }
}

impl AlertsConfig {
    /// The bound of every alert, as the file has it.
    pub(super) fn texts(&self) -> [(&'static str, String); 4] {
        let text = |bound: Option<Duration>| {
            bound.map_or_else(|| "off".to_owned(), |bound| format!("{bound:?}"))
        };
        let lag = match self.lag_above {
            LagBound::Auto => "auto".to_owned(),
            LagBound::Off => text(None),
            LagBound::Above(age) => text(Some(age)),
        };
        let [queue, resync, protection] =
            [self.queue_full_within, self.resync_not_converging, self.protection_lost].map(text);
        let [a, b, c, d] = Alert::ALL.map(Alert::word);
        [(a, lag), (b, queue), (c, resync), (d, protection)]
    }
}

/// `pairs`: the group has two nodes.
pub(super) fn alerts(group: &Table<'_>, pairs: bool) -> Result<AlertsConfig, ConfigError> {
    let defaults = AlertsConfig::default();
    let Some(table) = group.table("alerts", KEYS)? else { return Ok(defaults) };
    if !pairs {
        super::read::without_peer(&table, PEER_KEYS)?;
    }
    let key = Alert::LagAbove.word();
    let lag_above = match table.text(key)? {
        None => LagBound::Auto,
        Some(word) if word.value == "auto" => LagBound::Auto,
        Some(_) => match bound(&table, key, None)? {
            None => LagBound::Off,
            Some(age) => LagBound::Above(age),
        },
    };
    let time = |alert: Alert, otherwise| bound(&table, alert.word(), otherwise);
    Ok(AlertsConfig {
        lag_above,
        queue_full_within: time(Alert::QueueFullWithin, defaults.queue_full_within)?,
        resync_not_converging: time(Alert::ResyncNotConverging, defaults.resync_not_converging)?,
        protection_lost: time(Alert::ProtectionLost, defaults.protection_lost)?,
    })
}

/// A time, or none for the word `off`.
fn bound(
    table: &Table<'_>,
    key: &str,
    otherwise: Option<Duration>,
) -> Result<Option<Duration>, ConfigError> {
    match table.span_or_off(key)? {
        None => Ok(otherwise),
        Some(None) => Ok(None),
        Some(Some(given)) if (SHORTEST..=LONGEST).contains(&given.value) => Ok(Some(given.value)),
        Some(Some(given)) => {
            let message = format!("`{key}` {:?} is out of range", given.value);
            Err(table.refuse(given.at, message, "use \"off\", or a time from \"1s\" to \"168h\""))
        }
    }
}

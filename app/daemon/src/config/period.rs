// SPDX-License-Identifier: Apache-2.0
//! The time from one cut to the next, and what mode periodic needs.

use super::error::ConfigError;
use super::table::Table;
use core::time::Duration;
use helio_engine::{PERIOD, SafeCopy};
use helio_units::Mode;

/// The longest period.
const PERIOD_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// `period`: a time of at most a day.
pub(super) fn read(table: &Table<'_>) -> Result<Duration, ConfigError> {
    let Some(given) = table.span("period")? else { return Ok(PERIOD) };
    if given.value > PERIOD_MAX {
        let message = format!("`period` {:?} is longer than a day", given.value);
        let hint = "use \"0s\" (as fast as the link allows) to \"24h\"";
        return Err(table.refuse(given.at, message, hint));
    }
    Ok(given.value)
}

/// Refuses what mode periodic cannot do.
pub(super) fn check(
    table: &Table<'_>,
    mode: Mode,
    hold: Duration,
    safe_copy: SafeCopy,
) -> Result<(), ConfigError> {
    let refuse = |key: &str, message: &str, hint: &str| {
        Err(table.refuse(table.place(key).unwrap_or(table.at), message, hint))
    };
    match mode {
        Mode::Periodic if !hold.is_zero() => {
            let message = "`hold` needs mode sync or nearsync: in mode periodic the secondary does not have all acknowledged writes";
            refuse("hold", message, "leave `hold` out, or use another mode")
        }
        Mode::Periodic if safe_copy == SafeCopy::Off => {
            let message = "mode periodic needs a safe copy: while a cut is sent, it is the only complete copy on the secondary";
            refuse("safe-copy", message, "leave `safe-copy` out, or give it a size")
        }
        _ => Ok(()),
    }
}

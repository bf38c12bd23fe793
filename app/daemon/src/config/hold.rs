// SPDX-License-Identifier: Apache-2.0
//! How long a secondary's hold lease lasts.

use super::error::ConfigError;
use super::table::Table;
use core::time::Duration;
use helio_engine::{HOLD_MAX, HOLD_MIN};

/// `hold`: none, or a time within bounds.
pub(super) fn read(table: &Table<'_>) -> Result<Duration, ConfigError> {
    let Some(given) = table.span("hold")? else { return Ok(Duration::ZERO) };
    if !given.value.is_zero() && !(HOLD_MIN..=HOLD_MAX).contains(&given.value) {
        let message = format!("`hold` {:?} is out of bounds", given.value);
        let hint = format!("use \"0s\" for none, or {HOLD_MIN:?} to {HOLD_MAX:?}");
        return Err(table.refuse(given.at, message, hint));
    }
    Ok(given.value)
}

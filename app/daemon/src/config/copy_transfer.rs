// SPDX-License-Identifier: Apache-2.0
//! How much is copied to a member at a time.

use super::error::ConfigError;
use super::table::Table;
use helio_shadow::{REGION, TRANSFER_MAX, Transfer};

/// `copy-transfer`: auto, or whole regions of the bitmaps of members.
pub(super) fn read(table: &Table<'_>) -> Result<Transfer, ConfigError> {
    let Some(given) = table.bytes_or_auto("copy-transfer")? else { return Ok(Transfer::Auto) };
    let size = given.value;
    if !(REGION..=TRANSFER_MAX).contains(&size) || !size.0.is_multiple_of(REGION.0) {
        let message = format!("`copy-transfer` {size} is invalid");
        let hint = "use \"auto\", or a multiple of 64KiB up to 1MiB";
        return Err(table.refuse(given.at, message, hint));
    }
    Ok(Transfer::Fixed(size))
}

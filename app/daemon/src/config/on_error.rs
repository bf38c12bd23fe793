// SPDX-License-Identifier: Apache-2.0
//! What follows where the store of a primary fails.

use super::error::ConfigError;
use super::table::Table;
use helio_engine::OnError;

/// `on-error`.
pub(super) fn read(table: &Table<'_>) -> Result<OnError, ConfigError> {
    let Some(word) = table.text("on-error")? else { return Ok(OnError::default()) };
    match word.value {
        "pass" => Ok(OnError::Pass),
        "serve-from-peer" => Ok(OnError::ServeFromPeer),
        _ => {
            let message = format!("`on-error` `{}` is unknown", word.value);
            Err(table.refuse(word.at, message, "use pass or serve-from-peer"))
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
//! How finely a group remembers what may differ.

use super::error::ConfigError;
use super::table::Table;
use helio_engine::{HOT_EXTENTS, REGION};
use helio_format::superblock::{GRANULARITY_MAX, GRANULARITY_MIN, HOT_SLOTS_MAX};
use helio_units::Bytes;

/// Fewest hot extents: a long write covers several at once.
const HOT_EXTENTS_MIN: u64 = 64;

/// `granularity` and `hot-extents`.
pub(super) fn read(table: &Table<'_>) -> Result<(Bytes, u32), ConfigError> {
    let mut granularity = REGION;
    if let Some(given) = table.bytes("granularity")? {
        let bounds = u64::from(GRANULARITY_MIN)..=u64::from(GRANULARITY_MAX);
        if !given.value.0.is_power_of_two() || !bounds.contains(&given.value.0) {
            let message = format!("`granularity` {} is invalid", given.value);
            return Err(table.refuse(given.at, message, "use a power of two from 4KiB to 1MiB"));
        }
        granularity = given.value;
    }
    let mut hot = HOT_EXTENTS;
    if let Some(given) = table.count("hot-extents")? {
        if !(HOT_EXTENTS_MIN..=u64::from(HOT_SLOTS_MAX)).contains(&given.value) {
            let message = format!("`hot-extents` {} is out of bounds", given.value);
            let hint = format!("use {HOT_EXTENTS_MIN} to {HOT_SLOTS_MAX}");
            return Err(table.refuse(given.at, message, hint));
        }
        hot = given.value as u32;
    }
    Ok((granularity, hot))
}

// SPDX-License-Identifier: Apache-2.0
//! What travels is what was meant, and older clients survive newer daemons.

use helio_api::{AtStake, BufferStatus, LagStatus, ModeRequest, PromoteRequest, SyncStatus};
use helio_units::{Bytes, Items, Mode, Rate, WallTime};
use serde_json::{Value, from_value, json, to_value};
use std::time::Duration;

#[test]
fn units_travel_as_plain_numbers_in_the_unit_of_the_name() -> Result<(), serde_json::Error> {
    let lag =
        LagStatus { bytes: Bytes::kib(4), seconds: Duration::from_millis(250), writes: Items(1) };
    let wire = json!({"bytes": 4096, "seconds": 0.25, "writes": 1});
    assert_eq!(to_value(lag)?, wire);
    assert_eq!(from_value::<LagStatus>(wire)?, lag);
    Ok(())
}

#[test]
fn what_is_not_known_travels_as_null() -> Result<(), serde_json::Error> {
    let auto = BufferStatus { requested_bytes: None, actual_bytes: Bytes::mib(2) };
    let wire = to_value(auto)?;
    assert_eq!(wire["requested_bytes"], Value::Null);
    assert_eq!(from_value::<BufferStatus>(wire)?, auto);
    let sync = SyncStatus { rate_bytes_per_second: Rate(0), ..SyncStatus::default() };
    assert_eq!(from_value::<SyncStatus>(to_value(sync)?)?.eta_seconds, None);
    Ok(())
}

#[test]
fn a_newer_daemon_may_say_more_but_a_request_may_not() -> Result<(), serde_json::Error> {
    let stake: AtStake = from_value(json!({"text": "unknown", "since_ms": 5, "colour": "red"}))?;
    assert_eq!(stake.since_ms, Some(WallTime(5)));
    assert_eq!(stake.bytes, None);
    assert!(
        from_value::<PromoteRequest>(json!({"force": true, "confirmed": true, "x": 1})).is_err()
    );
    Ok(())
}

#[test]
fn a_mode_travels_as_its_word() -> Result<(), serde_json::Error> {
    assert_eq!(to_value(ModeRequest { mode: Mode::NearSync })?, json!({"mode": "nearsync"}));
    assert!(from_value::<ModeRequest>(json!({"mode": "superasync"})).is_err());
    Ok(())
}

#[test]
fn no_clock_shows_a_negative_span() {
    assert!(from_value::<LagStatus>(json!({"bytes": 0, "seconds": -1.0, "writes": 0})).is_err());
}

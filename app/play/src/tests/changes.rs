// SPDX-License-Identifier: Apache-2.0
//! The JSON of changes, and what is out of range.

use super::*;
use helio_units::Mode;

fn read(text: &str) -> Result<Change, ApiError> {
    Change::read(text.as_bytes())
}

#[test]
fn changes_are_read_as_the_page_sends_them() {
    let rtt = NewSettings { rtt_ms: Some(50.0), ..NewSettings::default() };
    assert_eq!(read(r#"{"set": {"rtt_ms": 50}}"#), Ok(Change::Set(rtt)));
    let mode = NewSettings { mode: Some(Mode::NearSync), ..NewSettings::default() };
    assert_eq!(read(r#"{"set": {"mode": "nearsync"}}"#), Ok(Change::Set(mode)));
    assert_eq!(read(r#"{"speed": 4}"#), Ok(Change::Speed(4.0)));
    let pressed = [
        ("cut", None, Button::Cut),
        ("restore", None, Button::Restore),
        ("kill", Some("paris"), Button::Kill(PARIS)),
        ("start", Some("lyon"), Button::Start(LYON)),
        ("fail-disk", Some("lyon"), Button::FailDisk(LYON)),
        ("replace-disk", Some("paris"), Button::ReplaceDisk(PARIS)),
        ("fail-flush", Some("paris"), Button::FailFlush(PARIS)),
        ("restart", None, Button::Restart),
    ];
    for (press, node, button) in pressed {
        let text = json!({ "press": press, "node": node }).to_string();
        assert_eq!(read(&text), Ok(Change::Press(button)), "{text}");
    }
}

#[test]
fn what_is_no_change_or_out_of_range_is_refused_with_a_hint() {
    let wrong = [
        "",
        "{}",
        r#"{"press": "explode"}"#,
        r#"{"press": "fail-over"}"#,
        r#"{"press": "kill"}"#,
        r#"{"press": "kill", "node": "rome"}"#,
        r#"{"press": "cut", "node": "paris"}"#,
        r#"{"speed": 1, "press": "cut"}"#,
        r#"{"speed": 61}"#,
        r#"{"speed": -1}"#,
        r#"{"set": {"rtt_ms": 2001}}"#,
        r#"{"set": {"rate_mbit": 0}}"#,
        r#"{"set": {"loss_percent": 51}}"#,
        r#"{"set": {"writes_per_second": 2001}}"#,
        r#"{"set": {"mode": "raid"}}"#,
        r#"{"set": {"colour": 1}}"#,
    ];
    for text in wrong {
        let error = read(text).expect_err(text);
        assert!(error.code == "bad-request" && error.hint.is_some(), "{text}: {error:?}");
    }
    assert!(Change::Press(Button::Kill(2)).check().is_err());
    assert!(Change::Speed(f64::NAN).check().is_err());
}

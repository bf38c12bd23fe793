// SPDX-License-Identifier: Apache-2.0
//! The laboratory: what the other end of a measurement or a recording says, and files with weather.
//!
//! Input: a byte that says what, then the bytes: a hello (0), a plan (1), a frame (2), a datagram of a recording (3);
//! the same with the checksum mended (4 to 7); others are a file with weather.

use crate::pieces::byte;
use helio_lab::strangers::{Door, rewritten};
use helio_link::checksum;
use helio_netmodel::{Ppm, WayWeather, Weather, WeatherRow, WeatherWriter};
use helio_units::Rate;
use std::time::Duration;

/// Bytes of the flushes that frames are of.
const FLUSH: u64 = 4096;
const DOORS: [Door; 4] = [Door::Hello, Door::Plan, Door::Frame(FLUSH), Door::Datagram];

pub(crate) fn run(mut data: &[u8]) {
    let what = usize::from(byte(&mut data));
    match (DOORS.get(what), DOORS.get(what.wrapping_sub(4))) {
        (Some(door), _) => frame(*door, data),
        (_, Some(door)) => frame(*door, &mended(*door, data)),
        _ => weather(data),
    }
}

/// Where the checksum of what stands in front is, by how it begins.
fn sealed(door: Door, data: &[u8]) -> usize {
    match door {
        Door::Hello | Door::Plan => 64,
        Door::Frame(_) if data.starts_with(b"HLfl") => 32,
        Door::Frame(_) if data.starts_with(b"HLre") => 128,
        Door::Frame(_) => 48,
        Door::Datagram => 96,
    }
}

fn mended(door: Door, data: &[u8]) -> Vec<u8> {
    let mut bytes = data.to_vec();
    if let Some(sealed) = bytes.get_mut(..sealed(door, data)) {
        let (fields, sum) = sealed.split_at_mut(sealed.len() - 4);
        sum.copy_from_slice(&checksum(fields).to_le_bytes());
    }
    bytes
}

fn frame(door: Door, data: &[u8]) {
    match rewritten(door, data) {
        Err(why) => assert!(!why.to_string().is_empty()),
        Ok(None) => assert!(data.len() < sealed(door, data), "all of it is there"),
        Ok(Some(bytes)) => {
            assert_eq!(data.get(..4), bytes.get(..4), "it is what it says it is");
            assert_eq!(rewritten(door, &bytes), Ok(Some(bytes)), "it is read as something else");
        }
    }
}

fn weather(data: &[u8]) {
    let weather = match Weather::read(data, checksum) {
        Ok(weather) => weather,
        Err(why) => {
            assert!(why.line > 0 && why.to_string().starts_with("line "), "{why}");
            return;
        }
    };
    // A row takes thirteen bytes at least.
    assert!(weather.rows().len() <= data.len() / 13, "more than there is room for");
    assert!(weather.rows()[0].at.is_zero() && weather.rows().is_sorted_by(|a, b| a.at < b.at));
    let read = Weather::read(written(weather.rows(), weather.lasts()).as_bytes(), checksum);
    assert_eq!(read, Ok(weather), "what was written is read as something else");
}

fn written(rows: &[WeatherRow], lasts: Duration) -> String {
    let (mut writer, mut text) = WeatherWriter::begin(checksum);
    rows.iter().for_each(|row| text += &writer.row(row));
    text + &writer.end(lasts)
}

pub(crate) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let greeting = |kind: u8, fields: &[(usize, u8)]| {
        let mut bytes = [0; 64];
        bytes[..8].copy_from_slice(b"HELIOLAB");
        (bytes[8], bytes[10]) = (1, kind);
        fields.iter().for_each(|(at, value)| bytes[*at] = *value);
        bytes.to_vec()
    };
    let frame = |kind: &[u8; 4], length: usize, fields: &[(usize, u8)]| {
        let mut bytes = vec![0; length];
        bytes[..4].copy_from_slice(kind);
        fields.iter().for_each(|(at, value)| bytes[*at] = *value);
        bytes
    };
    let datagram = |kind: u8, length: usize| {
        let mut bytes = vec![0; length];
        bytes[..8].copy_from_slice(b"HELIOREC");
        (bytes[8], bytes[10], bytes[12], bytes[48], bytes[56]) = (1, kind, 3, 9, 7);
        bytes
    };
    let way = |loss| WayWeather {
        jitter: Duration::from_micros(120),
        loss: Ppm(loss),
        rate: Some(Rate(4_800_000)),
    };
    let row = |at| WeatherRow {
        at: Duration::from_millis(at),
        round_trip: Duration::from_millis(32),
        there: way(20_000),
        back: WayWeather { rate: None, ..way(1_000_000) },
    };
    let file = written(&[row(0), row(1_020)], Duration::from_secs(2));
    let by_hand = format!(
        "{}#end,1,5\n",
        &written(&[row(0)], Duration::from_secs(1)).split("#end").next().unwrap_or_default()
    );
    [
        ("hello", 4, greeting(1, &[(12, 2), (16, 7)])),
        ("plan", 5, greeting(2, &[(12, 1), (14, 2), (16, 7), (25, 16)])),
        ("flush", 6, frame(b"HLfl", 32, &[(5, 16), (9, 16), (16, 1)])),
        ("ack", 6, frame(b"HLak", 48, &[(8, 1)])),
        ("end", 6, frame(b"HLen", 48, &[(4, 1), (18, 1)])),
        ("report", 6, frame(b"HLre", 128, &[(4, 1), (8, 9)])),
        ("echo", 7, datagram(5, 96)),
        ("burst", 7, datagram(6, 1372)),
        ("weather", 8, file.into_bytes()),
        ("weather-by-hand", 8, by_hand.into_bytes()),
    ]
    .map(|(name, what, bytes)| (name, [&[what], &bytes[..]].concat()))
    .to_vec()
}

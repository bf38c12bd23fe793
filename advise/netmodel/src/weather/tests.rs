// SPDX-License-Identifier: Apache-2.0
use super::*;
use alloc::vec;

/// Stands for a checksum: depends on every byte and its place.
fn sum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(7, |sum: u32, byte| sum.wrapping_mul(31).wrapping_add(u32::from(*byte)))
}

fn rows() -> Vec<WeatherRow> {
    let way = |us, loss, rate| WayWeather {
        jitter: Duration::from_micros(us),
        loss: Ppm(loss),
        rate: Some(Rate(rate)),
    };
    let row = |ms, there, back| WeatherRow {
        at: Duration::from_millis(ms),
        round_trip: Duration::from_nanos(32_000_001),
        there,
        back,
    };
    let free = WayWeather { rate: None, ..way(0, 1, 1) };
    vec![
        row(0, way(120, 0, 4_800_000), way(1, 1_000_000, 193_001)),
        row(1_020, free, way(60_000_000, 29, 125_000_000)),
    ]
}

fn written(rows: &[WeatherRow], lasts: Duration) -> String {
    let (mut writer, mut text) = WeatherWriter::begin(sum);
    rows.iter().for_each(|row| text += &writer.row(row));
    text + &writer.end(lasts)
}

fn lasts() -> Duration {
    Duration::from_millis(2_040)
}

#[test]
fn what_was_written_is_read_to_the_last_bit() {
    let text = written(&rows(), lasts());
    assert!(text.contains("\n0,32.000001,0.12,0,38400,0.001,100,1544.008\n"), "{text}");
    let read = Weather::read(text.as_bytes(), sum).expect("it is whole");
    assert_eq!((read.rows(), read.lasts()), (&rows()[..], lasts()));
}

#[test]
fn a_file_by_hand_has_remarks_and_needs_no_checksum() {
    let head = format!("{FIRST}\n{}\n", FIELDS.join(","));
    let text = format!(
        "{head}# a quiet night\n0,20,0,0,,0,0,\n\n# worse\n5,20.5,.5,1,800,0,0,\n#end,2,10\n"
    );
    let why = Weather::read(text.as_bytes(), sum).expect_err("no digit before the point");
    assert_eq!(why.to_string(), "line 7, field 3 (there_jitter_ms): \".5\" is not a number");
    let read = Weather::read(text.replace(",.5,", ",0.5,").as_bytes(), sum).expect("it is one");
    assert_eq!(read.rows()[1].there.rate, Some(Rate(100_000)));
    assert_eq!(read.rows()[1].there.jitter, Duration::from_micros(500));
    assert_eq!(read.lasts(), Duration::from_secs(10));
}

#[test]
fn what_is_damaged_or_cut_short_is_refused() {
    let text = written(&rows(), lasts());
    for length in 0..text.len() {
        assert!(Weather::read(&text.as_bytes()[..length], sum).is_err(), "{length} bytes");
    }
    for at in 0..text.len() - 1 {
        let mut bytes = text.clone().into_bytes();
        bytes[at] = if bytes[at] == b'1' { b'2' } else { b'1' };
        assert!(Weather::read(&bytes, sum).is_err(), "byte {at}");
    }
    let more = Weather::read((text + "0,1\n").as_bytes(), sum).expect_err("after the end");
    assert_eq!(more.to_string(), "line 6: \"0,1\" is after the end");
}

#[test]
fn every_refusal_names_the_line_and_the_value() {
    let head = format!("{FIRST}\n{}\n", FIELDS.join(","));
    let first = "0,1,0,0,,0,0,\n";
    for (rows, said) in [
        ("1,1,0,0,,0,0,\n", "line 3, field 1 (at_s): \"1\" is not 0"),
        ("0,61000,0,0,,0,0,\n", "line 3, field 2 (rtt_ms): \"61000\" is too long"),
        ("0,1,0,100.1,,0,0,\n", "line 3, field 4 (there_loss_percent): \"100.1\" is more"),
        ("0,1,0,0,,0,0,0\n", "line 3, field 8 (back_rate_kbit): \"0\" is not a valid rate"),
        ("0,1,0,0,,0,-1,\n", "line 3, field 7 (back_loss_percent): \"-1\" is not a number"),
        ("0,1,0,0,,0,0\n", "line 3: \"0,1,0,0,,0,0\" does not have the eight values"),
        (
            "0,99999999999999999999,0,0,,0,0,\n",
            "line 3, field 2 (rtt_ms): \"99999999999999999999\" is too",
        ),
        ("#end,0,1\n", "line 3: \"#end,0,1\" is before the first row"),
        ("0,1,0,0,,0,0,\n0,1,0,0,,0,0,\n", "line 4, field 1 (at_s): \"0\" is not later"),
        ("0,1,0,0,,0,0,\n#end,2,1\n", "line 4: \"#end,2,1\" has a wrong number"),
        ("0,1,0,0,,0,0,\n2,1,0,0,,0,0,\n#end,2,1\n", "line 5: \"#end,2,1\" ends before"),
        (
            "0,1,0,0,,0,0,\n#end,1,1,00000000\n",
            "line 4: \"#end,1,1,00000000\" has a wrong checksum",
        ),
        (first, "line 4: the file is truncated"),
    ] {
        let why =
            Weather::read(format!("{head}{rows}").as_bytes(), sum).expect_err(rows).to_string();
        assert!(why.starts_with(said), "{rows}: {why}");
    }
    let other = Weather::read(b"#helio-weather,2\n", sum).expect_err("a later version").to_string();
    assert!(other.contains("#helio-weather,1"), "{other}");
    let long = format!("{head}{}\n", "0".repeat(600));
    assert!(Weather::read(long.as_bytes(), sum).expect_err("long").to_string().contains("longer"));
}

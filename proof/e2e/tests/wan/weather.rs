// SPDX-License-Identifier: Apache-2.0
//! A line changes by a schedule; what it is like is recorded, and the recording is replayed.

use crate::common::*;
use helio_netmodel::{WayWeather, Weather, WeatherRow};
use helio_testkit::{Group, Side, TempDir, helio, helio_binary, in_rate, in_time, run};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_schedule_cuts_and_heals_the_line() {
    let orders = ["--at", "300ms cut there", "--at", "2s heal", "--at", "2100ms link t1"];
    let Some(mut line) = lay(&[&["--rtt", "2ms"], &orders[..]].concat()) else { return };
    let said = line.wan.introduction().join("\n");
    assert!(said.contains("\n--at: 3 commands, once\n"), "{said}");
    let [left, right] = datagrams(&line.wan);
    // Whatever was said has taken effect: what is sent now tells.
    let cut = line.wan.hear();
    assert!(cut.starts_with("at 0.3s, cut there: the link is cut from left to right"), "{cut}");
    left.send(b"lost").expect("the device is up");
    in_time(line.begun.elapsed(), Duration::from_secs(2), "a datagram before the line heals");
    assert_eq!(line.wan.hear(), "at 2s, heal: the link is up");
    passes(&left, &right);
    assert_eq!(
        line.wan.hear(),
        "at 2.1s, link t1: round trip 2 ms, 1.54 Mbit/s in each direction, queue of 256 KiB"
    );
    let stats = line.wan.tell("stats");
    assert!(stats.contains("1 at a cut"), "the first one, and it alone: {stats}");
}

#[test]
fn a_recording_tells_what_the_line_is_and_its_replay_is_the_same_line() {
    let folder = TempDir::new();
    let [first, second] = ["first.csv", "second.csv"].map(|name| folder.path().join(name));
    let shape = ["--rtt", "30ms", "--rate", "20Mbit/s", "--loss", "8%", "--jitter", "2ms"];
    let Some(line) = lay(&shape) else { return };
    let told = ["--time", "1200ms", "--every", "300ms", "--probe", "2ms"];
    let recorded = Figures::of(&record(&line, &first, &told));
    let ordered = Figures { round_trip: 30 * MS, jitter: 2 * MS, loss: 80_000, rate: 2_500_000 };
    recorded.iter().for_each(|way| way.agree(&ordered));
    drop(line);
    let replay = ["--recording", first.to_str().expect("a plain path"), "--repeat"];
    let Some(line) = lay(&replay) else { return };
    let again = Figures::of(&record(&line, &second, &told));
    again.iter().zip(&recorded).for_each(|(way, before)| way.agree(before));
}

/// Records the line from left to right, into a file; what that says.
pub(crate) fn record(line: &Alone, file: &Path, told: &[&str]) -> Weather {
    let at = format!("{}:4000", line.wan.address(Side::Right));
    let mut answering = line.wan.command(Side::Right, helio_binary());
    answering.args(["lab", "answer", "--local", &at, "--remote"]);
    answering.arg(line.wan.address(Side::Left).to_string()).stderr(Stdio::null());
    let _answering = Group::spawn(&mut answering).expect("it starts");
    let mut recording = line.wan.command(Side::Left, helio_binary());
    recording.args(["lab", "record", "--remote", &at]).args(told).arg(file);
    let said = run(&mut recording).expect_success();
    let text = std::fs::read(file).expect("it was written");
    let weather = Weather::read(&text, helio_link::checksum).expect("it is whole");
    let rows = said.lines().filter(|line| line.starts_with("at ")).count();
    assert_eq!(rows, weather.rows().len(), "every row is told: {said}");
    weather
}

/// What all rows say of a way. A machine that is busy holds packets up: round trip and jitter are those of the best row,
/// the rate that of the middle one.
#[derive(Debug)]
pub(crate) struct Figures {
    pub(crate) round_trip: Duration,
    pub(crate) jitter: Duration,
    pub(crate) loss: u32,
    pub(crate) rate: u64,
}

impl Figures {
    /// There and back.
    pub(crate) fn of(weather: &Weather) -> [Self; 2] {
        let rows = weather.rows();
        assert!(rows.len() >= 3, "{rows:?}");
        [|row: &WeatherRow| row.there, |row: &WeatherRow| row.back].map(|way| {
            let ways: Vec<WayWeather> = rows.iter().map(way).collect();
            let mut rates: Vec<u64> = ways.iter().filter_map(|way| way.rate).map(|r| r.0).collect();
            rates.sort_unstable();
            Self {
                round_trip: rows.iter().map(|row| row.round_trip).min().expect("a row"),
                jitter: ways.iter().map(|way| way.jitter).min().expect("a row"),
                loss: ways.iter().map(|way| way.loss.0).sum::<u32>() / ways.len() as u32,
                rate: rates.get(rates.len() / 2).copied().unwrap_or(0),
            }
        })
    }

    /// Within 2 ms of round trip, 1 ms of jitter, 4.5 % of loss and 15 % of the rate.
    fn agree(&self, other: &Self) {
        // A busy machine makes the line longer and thinner, never shorter.
        let is_no_better = self.round_trip + 2 * MS >= other.round_trip
            && self.jitter + MS >= other.jitter
            && self.rate * 100 <= other.rate * 115;
        assert!(is_no_better, "{self:?} {other:?}");
        in_time(self.round_trip, other.round_trip + 2 * MS, "a round trip");
        in_time(self.jitter, other.jitter + MS, "the jitter");
        in_rate(self.rate as f64, other.rate as f64 * 0.85, "the line, in B/s,");
        assert!(self.loss.abs_diff(other.loss) <= 45_000, "{self:?} {other:?}");
    }
}

#[test]
fn what_is_no_weather_and_no_schedule_lays_no_line() {
    let folder = TempDir::new();
    let file = folder.path().join("link.csv");
    let path = file.to_str().expect("a plain path");
    std::fs::write(&file, "#helio-weather,1\n").expect("a scratch folder");
    let why = helio(&["lab", "wan", "--recording", path]).expect_failure();
    assert!(why.contains("link.csv, line 2: the file is truncated"), "{why}");
    std::fs::write(&file, "1s cut\n2 heal\n").expect("a scratch folder");
    let why = helio(&["lab", "wan", "--schedule", path]).expect_failure();
    assert!(why.contains("link.csv, line 2, time: `2` needs a unit"), "{why}");
    let why = helio(&["lab", "wan", "--at", "1s reset"]).expect_failure();
    assert!(
        why.contains("--at number 1, command: `reset`: a link of packets has no connections"),
        "{why}"
    );
    let both =
        run(Command::new(helio_binary()).args(["lab", "wan", "--recording", path, "--rtt", "1ms"]));
    assert!(both.expect_failure().contains("cannot be used with"));
}

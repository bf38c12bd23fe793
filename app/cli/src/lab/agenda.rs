// SPDX-License-Identifier: Apache-2.0
//! What is done to a line when its time comes: schedules, and weather.

use super::orders::Order;
use super::schedule::{self, MOST_LINE, MOST_LINES, Obeys};
use super::seconds;
use super::shape::Change;
use crate::args::Course;
use crate::failure::{failed, hinted, unreadable};
use anyhow::{Result, bail};
use helio_netmodel::{Weather, WeatherRow};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

/// Nothing begins again sooner.
pub(super) const LEAST_PERIOD: Duration = Weather::LEAST_PERIOD;
/// The most bytes of a file with weather: a week of seconds, generously.
const MOST_WEATHER: usize = 128 << 20;

/// An order and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    /// Since the track began.
    pub(super) at: Duration,
    /// How it was told, or what it is.
    pub(super) said: String,
    pub(super) order: Order,
}

/// Orders in the order of their times, once or again and again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Track {
    pub(super) entries: Vec<Entry>,
    /// From one beginning to the next; later than the last order.
    pub(super) period: Option<Duration>,
    next: usize,
    /// When this round began.
    began: Duration,
}

impl Track {
    /// Of a schedule.
    fn schedule(text: &str, obeys: Obeys, place: impl Fn(usize) -> String) -> Result<Self> {
        schedule::read(text, obeys, place).map_err(|why| {
            hinted(why.to_string(), "correct it; one row is TIME COMMAND, such as `10s cut`")
        })
    }

    /// Of weather, whose first row is there from the beginning.
    fn weather(weather: &Weather, repeat: bool) -> Self {
        let entry = |row: &WeatherRow| {
            let order = Order::Change(Change::Weather(*row));
            Entry { at: row.at, said: "recording".to_owned(), order }
        };
        Self {
            entries: weather.rows().iter().map(entry).collect(),
            period: repeat.then_some(weather.lasts()),
            next: 1,
            began: Duration::ZERO,
        }
        .rolled()
    }

    /// When the next order comes.
    fn next_at(&self) -> Option<Duration> {
        self.entries.get(self.next).map(|entry| self.began.saturating_add(entry.at))
    }

    fn take(&mut self) -> Option<Entry> {
        let entry = self.entries.get(self.next)?.clone();
        self.next += 1;
        *self = std::mem::take(self).rolled();
        Some(entry)
    }

    /// Begins again where it is at its end and does so.
    fn rolled(mut self) -> Self {
        if let Some(period) = self.period.filter(|_| self.next >= self.entries.len()) {
            (self.next, self.began) = (0, self.began.saturating_add(period));
        }
        self
    }
}

/// Everything that is to be done. Times count from when the line is there.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    tracks: Vec<Track>,
    /// What the line is like at the beginning, where weather says that.
    pub(super) first: Option<Change>,
    /// What is planned, a line each.
    pub(super) plans: Vec<String>,
}

impl Agenda {
    /// Reads what the course names.
    ///
    /// # Errors
    /// A file cannot be read, or says something else; names file, line and field.
    pub(super) fn read(course: &Course, obeys: Obeys) -> Result<Self> {
        let mut agenda = Self::default();
        // First, so that what is planned for the same moment comes on top of it.
        if let Some(path) = &course.recording {
            agenda.add_weather(path, course.repeat)?;
        }
        if let Some(path) = &course.schedule {
            let shown = path.display();
            let bytes = read_within(path, MOST_LINES * (MOST_LINE + 1))?;
            let what = format!("{shown} is no schedule");
            let hint = "name a text file with rows of TIME COMMAND, such as `10s cut`";
            let text = String::from_utf8(bytes).map_err(failed(what, hint))?;
            let track = Track::schedule(&text, obeys, |line| format!("{shown}, line {line}"))?;
            agenda.add(&format!("schedule {shown}"), track);
        }
        if !course.at.is_empty() {
            if let Some(number) = course.at.iter().position(|line| line.contains('\n')) {
                bail!(
                    "--at number {} has more than one row\n  hint: give an --at for each",
                    number + 1
                );
            }
            let text = course.at.join("\n");
            agenda.add("--at", Track::schedule(&text, obeys, |n| format!("--at number {n}"))?);
        }
        Ok(agenda)
    }

    fn add_weather(&mut self, path: &Path, repeat: bool) -> Result<()> {
        let shown = path.display();
        let weather = weather_of(path)?;
        if repeat && weather.lasts() < LEAST_PERIOD {
            bail!(
                "{shown} lasts {:?}, too short to repeat\n  hint: leave out --repeat, or record for longer",
                weather.lasts()
            );
        }
        self.first = weather.rows().first().map(|row| Change::Weather(*row));
        self.plans.push(format!(
            "recording {shown}: {} rows, {}, {}",
            weather.rows().len(),
            seconds(weather.lasts()),
            if repeat { "again and again" } else { "once" }
        ));
        self.tracks.push(Track::weather(&weather, repeat));
        Ok(())
    }

    fn add(&mut self, name: &str, track: Track) {
        let again = track
            .period
            .map_or_else(|| "once".to_owned(), |every| format!("again every {}", seconds(every)));
        self.plans.push(format!("{name}: {} commands, {again}", track.entries.len()));
        self.tracks.push(track);
    }

    /// When the next order comes.
    pub(super) fn next_at(&self) -> Option<Duration> {
        self.tracks.iter().filter_map(Track::next_at).min()
    }

    /// The next order whose time has come, and that time.
    pub(super) fn due(&mut self, now: Duration) -> Option<(Duration, Entry)> {
        let at = self.next_at().filter(|at| *at <= now)?;
        let track = self.tracks.iter_mut().find(|track| track.next_at() == Some(at))?;
        Some((at, track.take()?))
    }
}

/// Weather from a file.
///
/// # Errors
/// It cannot be read, or is none; names line and field.
pub(crate) fn weather_of(path: &Path) -> Result<Weather> {
    let bytes = read_within(path, MOST_WEATHER)?;
    Weather::read(&bytes, helio_link::checksum).map_err(|why| {
        hinted(format!("{}, {why}", path.display()), "name a file that `helio lab record` wrote")
    })
}

/// A file of a bounded size.
fn read_within(path: &Path, most: usize) -> Result<Vec<u8>> {
    let shown = path.display();
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable(path))?;
    file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(unreadable(path))?;
    if bytes.len() > most {
        bail!("{shown} is larger than {most} bytes\n  hint: check that it is the right file");
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_netmodel::WeatherWriter;

    const OBEYS: Obeys = Obeys { help: "", refuses: |_| None };

    fn course(at: &[&str]) -> Course {
        let at = at.iter().map(ToString::to_string).collect();
        Course { schedule: None, at, recording: None, repeat: false }
    }

    /// The times in seconds and names of what comes until then.
    fn until(agenda: &mut Agenda, seconds: u64) -> Vec<(u64, String)> {
        let now = Duration::from_secs(seconds);
        std::iter::from_fn(|| agenda.due(now))
            .map(|(at, entry)| (at.as_secs(), entry.said))
            .collect()
    }

    #[test]
    fn tracks_run_side_by_side_and_those_that_repeat_do_so_by_their_own_time() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("storm");
        std::fs::write(&file, "1s cut\n2s heal\nrepeat every 4s").expect("written");
        let course = Course { schedule: Some(file), ..course(&["6s stats", "5s cut there"]) };
        let mut agenda = Agenda::read(&course, OBEYS).expect("it can be read");
        assert_eq!(until(&mut agenda, 0), []);
        assert_eq!(agenda.next_at(), Some(Duration::from_secs(1)));
        let said = |list: &[(u64, &str)]| -> Vec<(u64, String)> {
            list.iter().map(|(at, said)| (*at, (*said).to_owned())).collect()
        };
        assert_eq!(
            until(&mut agenda, 9),
            said(&[
                (1, "cut"),
                (2, "heal"),
                (5, "cut"),
                (5, "cut there"),
                (6, "heal"),
                (6, "stats"),
                (9, "cut")
            ])
        );
        assert_eq!(agenda.next_at(), Some(Duration::from_secs(10)));
        assert!(agenda.plans[0].ends_with("2 commands, again every 4s"), "{:?}", agenda.plans);
        assert_eq!(agenda.plans[1], "--at: 2 commands, once");
    }

    #[test]
    fn weather_begins_with_its_first_row_and_ends_with_its_last() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("link.csv");
        let way = helio_netmodel::WayWeather::default();
        let row = |seconds| WeatherRow {
            at: Duration::from_secs(seconds),
            round_trip: Duration::from_millis(seconds),
            there: way,
            back: way,
        };
        let (mut writer, mut text) = WeatherWriter::begin(helio_link::checksum);
        [0, 3].iter().for_each(|seconds| text += &writer.row(&row(*seconds)));
        std::fs::write(&file, text + &writer.end(Duration::from_secs(5))).expect("written");
        let times = |repeat| {
            let course = Course { recording: Some(file.clone()), repeat, ..course(&[]) };
            let mut agenda = Agenda::read(&course, OBEYS).expect("it is a recording");
            assert_eq!(agenda.first, Some(Change::Weather(row(0))));
            until(&mut agenda, 12).into_iter().map(|(at, _)| at).collect::<Vec<u64>>()
        };
        assert_eq!(times(false), [3]);
        assert_eq!(times(true), [3, 5, 8, 10]);
    }

    #[test]
    fn what_is_no_schedule_and_no_weather_is_named() {
        let why =
            |course: &Course| Agenda::read(course, OBEYS).expect_err("it is none").to_string();
        let without = why(&course(&["1s cut", "2s"]));
        let (text, hint) = without.split_once("\n  hint: ").expect("it has a hint");
        assert_eq!(text, "--at number 2, command: the command is missing after the time");
        assert!(hint.contains("`10s cut`"), "{hint}");
        assert_eq!(
            why(&course(&["1s cut\n2s heal"])),
            "--at number 1 has more than one row\n  hint: give an --at for each"
        );
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("storm");
        let absent = Course { recording: Some(file.clone()), ..course(&[]) };
        assert!(why(&absent).starts_with("cannot read "), "{}", why(&absent));
        std::fs::write(&file, "1s cut\n").expect("written");
        assert!(
            why(&absent).contains("storm, line 1: \"1s cut\" is not a recording"),
            "{}",
            why(&absent)
        );
        std::fs::write(&file, vec![b'#'; MOST_LINES * (MOST_LINE + 1) + 1]).expect("written");
        let large = Course { schedule: Some(file), ..course(&[]) };
        assert!(why(&large).contains("is larger than"), "{}", why(&large));
    }
}

// SPDX-License-Identifier: Apache-2.0
//! What a link becomes over time: weather that was recorded, at its pace.

use core::time::Duration;
use helio_netmodel::{Ppm, Profile, WayWeather, Weather, WeatherRow};
use helio_units::Bytes;
use std::sync::Arc;

/// Where more is lost, nothing gets through.
const MOST_LOSS: Ppm = Ppm(500_000);

/// Recorded weather, counted from the beginning of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Course {
    /// What was recorded.
    pub weather: Arc<Weather>,
    /// It begins again when it is over; otherwise the link stays as it was at last.
    pub repeat: bool,
    /// What may wait in front of the line; none is rate times round trip, at least 256 KiB.
    pub queue: Option<Bytes>,
}

impl Course {
    /// The row in force so long after the beginning, and when that ends.
    pub(super) fn at(&self, since: Duration) -> (&WeatherRow, Option<Duration>) {
        let (rows, lasts) = (self.weather.rows(), self.weather.lasts());
        let rounds = if self.repeat { since.as_nanos() / lasts.as_nanos().max(1) } else { 0 };
        let begun = Duration::from_nanos((rounds * lasts.as_nanos()) as u64);
        let next = rows.partition_point(|row| row.at <= since.saturating_sub(begun)).max(1);
        let ends = rows.get(next).map(|row| row.at).or(self.repeat.then_some(lasts));
        (&rows[next - 1], ends.map(|at| begun + at))
    }

    /// Both ways as a row has them, and whether anything passes there.
    #[must_use]
    pub fn profiles(&self, row: &WeatherRow) -> [(Profile, bool); 2] {
        [row.there, row.back].map(|WayWeather { jitter, loss, rate }| {
            let passes = loss <= MOST_LOSS;
            let plain = Profile { delay: row.round_trip / 2, ..Profile::ideal() };
            let line = rate.map_or(plain, |rate| Profile::wan(row.round_trip, rate));
            let queue = self.queue.unwrap_or(line.queue);
            (Profile { jitter, loss, queue, ..line }, passes)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_netmodel::WeatherWriter;

    fn course(repeat: bool) -> Course {
        let row = |seconds, loss| WeatherRow {
            at: Duration::from_secs(seconds),
            round_trip: Duration::from_millis(10 + seconds),
            there: WayWeather { loss, ..WayWeather::default() },
            back: WayWeather::default(),
        };
        let (mut writer, mut text) = WeatherWriter::begin(|_| 0);
        text += &writer.row(&row(0, Ppm::NONE));
        text += &writer.row(&row(3, Ppm(500_001)));
        text += &writer.end(Duration::from_secs(5));
        let weather = Weather::read(text.as_bytes(), |_| 0).expect("it was written so");
        Course { weather: Arc::new(weather), repeat, queue: None }
    }

    #[test]
    fn rows_hold_until_the_next_and_begin_again_or_stay() {
        let at = |repeat, ms| {
            let course = course(repeat);
            let (row, ends) = course.at(Duration::from_millis(ms));
            (row.at.as_secs(), ends.map(|at| at.as_secs()))
        };
        assert_eq!(
            [0, 2999, 3000].map(|ms| at(false, ms)),
            [(0, Some(3)), (0, Some(3)), (3, None)]
        );
        assert_eq!(
            [4999, 5000, 8000].map(|ms| at(true, ms)),
            [(3, Some(5)), (0, Some(8)), (3, Some(10))]
        );
        assert_eq!(at(false, 1_000_000), (3, None), "it stays as it was at last");
    }

    #[test]
    fn where_more_than_half_is_lost_nothing_passes_that_way() {
        let course = course(false);
        let (row, _) = course.at(Duration::from_secs(4));
        let told = course.profiles(row).map(|(way, passes)| (way.delay.as_micros(), passes));
        assert_eq!(told, [(6500, false), (6500, true)]);
    }
}

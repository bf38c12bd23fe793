// SPDX-License-Identifier: Apache-2.0
//! Links as people write them: `rtt=32ms,rate=4.8MB/s`, or the name of a line and its round trip.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use helio_netmodel::{Ppm, Preset, Profile, Weather};
use helio_twin::{Course, LinkModel, Transport};
use helio_units::{Bytes, Rate, parse_bytes, parse_duration, parse_rate};
use std::sync::Arc;

/// A link to forecast for, the same both ways.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// As it was written.
    pub name: String,
    /// There and back.
    pub round_trip: Duration,
    /// Each way; none is without limit.
    pub rate: Option<Rate>,
    /// The most that chance adds, each way.
    pub jitter: Duration,
    /// Share of packets lost, each way.
    pub loss: Ppm,
    /// What may wait in front of the line; none is rate times round trip, at least 256 KiB.
    pub queue: Option<Bytes>,
    /// A relay ends TCP on both sides, as `helio lab relay` does: no window, no loss.
    pub relay: bool,
    /// It is as it was recorded; what is said above is then the recording's least round trip and mean rate.
    pub course: Option<Course>,
}

impl Link {
    /// As the twin takes it, with an exact window.
    #[must_use]
    pub fn model(&self, window: Bytes) -> LinkModel {
        let transport = if self.relay { Transport::Relay } else { Transport::Tcp { window } };
        if let Some(course) = &self.course {
            let course = Some(course.clone());
            let fair = self.fair();
            let [forth, back] = fair.unwrap_or_else(|| [Profile::ideal(), Profile::ideal()]);
            return LinkModel { forth, back, transport, course };
        }
        let mut line = Profile { delay: self.round_trip / 2, ..Profile::ideal() };
        if let Some(rate) = self.rate {
            line = Profile::wan(self.round_trip, rate);
        }
        line.queue = self.queue.unwrap_or(line.queue);
        (line.jitter, line.loss) = (self.jitter, self.loss);
        LinkModel { forth: line.clone(), back: line, transport, course: None }
    }

    /// Weather in which something passes both ways: the two nodes meet before a workload begins.
    fn fair(&self) -> Option<[Profile; 2]> {
        let course = self.course.iter();
        let rows =
            course.flat_map(|course| course.weather.rows().iter().map(|row| course.profiles(row)));
        let mut fair = rows.filter(|ways| ways.iter().all(|(_, passes)| *passes));
        fair.next().map(|ways| ways.map(|(way, _)| way))
    }

    /// A link that is as it was recorded. `text` may say `queue=`, `relay` and `repeat` besides.
    ///
    /// # Errors
    /// It says something else, or nothing ever passes both ways.
    pub fn replaying(text: &str, weather: Weather) -> Result<Self, LineError> {
        let wrong =
            |field: &str, why: &str| LineError { field: field.to_owned(), why: why.to_owned() };
        let (mut queue, mut relay, mut repeat) = (None, false, false);
        let mut files = 0;
        for field in text.split(',') {
            match field.split_once('=').unwrap_or((field, "")) {
                ("recording", _) if files == 0 => files += 1,
                ("recording", _) => {
                    return Err(wrong(field, "a link has only one recording; omit one"));
                }
                ("queue", size) => {
                    let size = parse_bytes(size).map_err(|why| wrong(field, &why.to_string()))?;
                    queue = Some(size);
                }
                ("relay", "") => relay = true,
                ("repeat", "") => repeat = true,
                _ => {
                    return Err(wrong(
                        field,
                        "the recording defines the link; only queue=, relay and repeat may be added",
                    ));
                }
            }
        }
        if repeat && weather.lasts() < Weather::LEAST_PERIOD {
            let least = Weather::LEAST_PERIOD.as_millis();
            let why = format!("it lasts less than {least} ms; omit repeat, or record for longer");
            return Err(LineError { field: text.to_owned(), why });
        }
        let rows = weather.rows();
        let ends = rows.iter().skip(1).map(|row| row.at).chain([weather.lasts()]);
        let bytes = rows.iter().zip(ends).map(|(row, end)| {
            row.there.rate.map(|rate| u128::from(rate.bytes_in(end.saturating_sub(row.at)).0))
        });
        let bytes = bytes.sum::<Option<u128>>();
        let rate = bytes.map(|bytes| bytes * 1_000_000_000 / weather.lasts().as_nanos().max(1));
        let link = Self {
            name: text.to_owned(),
            round_trip: rows.iter().map(|row| row.round_trip).min().unwrap_or_default(),
            rate: rate.map(|rate| Rate(u64::try_from(rate).unwrap_or(u64::MAX))),
            jitter: Duration::ZERO,
            loss: Ppm::NONE,
            queue,
            relay,
            course: Some(Course { weather: Arc::new(weather), repeat, queue }),
        };
        if link.fair().is_none() {
            return Err(wrong(
                text,
                "nothing passes in both directions at the same time in this recording; record the link while it works",
            ));
        }
        Ok(link)
    }
}

/// What is wrong with a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError {
    field: String,
    why: String,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.why)
    }
}

impl core::error::Error for LineError {}

impl FromStr for Link {
    type Err = LineError;

    fn from_str(text: &str) -> Result<Self, LineError> {
        let wrong = |field: &str, why: String| LineError { field: field.to_owned(), why };
        let mut link = Self {
            name: text.to_owned(),
            round_trip: Duration::ZERO,
            rate: None,
            jitter: Duration::ZERO,
            loss: Ppm::NONE,
            queue: None,
            relay: false,
            course: None,
        };
        let mut told = false;
        for field in text.split(',') {
            if let Ok(preset) = field.parse::<Preset>() {
                link.rate = Some(preset.rate);
                told |= preset.round_trip.is_some();
                link.round_trip = preset.round_trip.unwrap_or(link.round_trip);
                continue;
            }
            let time = |text| parse_duration(text).map_err(|error| wrong(field, error.to_string()));
            match field.split_once('=').unwrap_or((field, "")) {
                ("rtt", text) => (link.round_trip, told) = (time(text)?, true),
                ("jitter", text) => link.jitter = time(text)?,
                ("rate", text) => {
                    let rate = parse_rate(text).map_err(|error| wrong(field, error.to_string()))?;
                    if rate.0 == 0 {
                        return Err(wrong(field, "a link that carries nothing".to_owned()));
                    }
                    link.rate = Some(rate);
                }
                ("loss", text) => {
                    let loss: Ppm =
                        text.parse().map_err(|error| wrong(field, format!("{error}")))?;
                    if loss > Ppm(500_000) {
                        return Err(wrong(
                            field,
                            "more than half is lost; nothing passes".to_owned(),
                        ));
                    }
                    link.loss = loss;
                }
                ("queue", text) => {
                    link.queue =
                        Some(parse_bytes(text).map_err(|error| wrong(field, error.to_string()))?);
                }
                ("relay", "") => link.relay = true,
                _ => {
                    return Err(wrong(
                        field,
                        format!(
                            "write rtt=, rate=, jitter=, loss=, queue= or relay, one of {}, or recording=FILE",
                            Preset::names()
                        ),
                    ));
                }
            }
        }
        if !told {
            return Err(wrong(text, "its round trip is missing; add rtt=20ms".to_owned()));
        }
        if link.round_trip > Duration::from_secs(60) || link.jitter > Duration::from_secs(60) {
            return Err(wrong(text, "longer than a minute; check the unit".to_owned()));
        }
        Ok(link)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_netmodel::{WayWeather, WeatherRow, WeatherWriter};

    /// Two seconds of weather, each with its round trip in ms and its loss.
    fn weather(rows: [(u64, Ppm); 2]) -> Weather {
        let (mut writer, mut text) = WeatherWriter::begin(|_| 0);
        for ((ms, loss), at) in rows.into_iter().zip([0, 1]) {
            let way = WayWeather { loss, rate: Some(Rate::mbit(8 << at)), ..WayWeather::default() };
            let (at, round_trip) = (Duration::from_secs(at), Duration::from_millis(ms));
            text += &writer.row(&WeatherRow { at, round_trip, there: way, back: way });
        }
        text += &writer.end(Duration::from_secs(2));
        Weather::read(text.as_bytes(), |_| 0).expect("it was written so")
    }

    #[test]
    fn weather_says_what_the_link_is_like_and_the_nodes_meet_while_it_carries() {
        let storm = weather([(10, Ppm::ALL), (30, Ppm::NONE)]);
        let link = Link::replaying("recording=x.csv,queue=1MiB,repeat", storm).expect("it carries");
        assert_eq!((link.round_trip.as_millis(), link.rate), (10, Some(Rate(1_500_000))));
        let model = link.model(Bytes::mib(1));
        assert_eq!((model.forth.delay.as_millis(), model.forth.queue), (15, Bytes::mib(1)));
        assert!(model.course.is_some_and(|course| course.repeat));
        let calm = || weather([(10, Ppm::NONE); 2]);
        let more =
            Link::replaying("recording=x.csv,rtt=5ms", calm()).expect_err("it is said there");
        assert!(more.to_string().starts_with("rtt=5ms: the recording defines"), "{more}");
        let never = Link::replaying("recording=x.csv", weather([(10, Ppm::ALL); 2]));
        assert!(never.is_err_and(|why| why.to_string().contains("nothing passes in both")));
    }

    #[test]
    fn links_are_named_or_told_field_by_field() {
        let link: Link = "portland".parse().expect("it has a name");
        assert_eq!((link.round_trip.as_millis(), link.rate), (32, Some(Rate(4_800_000))));
        let link: Link = "t3,rtt=40ms,jitter=2ms,loss=0.1%".parse().expect("it is complete");
        assert_eq!((link.rate, link.loss), (Some(Rate(5_592_000)), Ppm(1000)));
        assert_eq!(link.model(Bytes::mib(1)).forth.delay.as_millis(), 20);
        let wrong = [
            "t3",
            "rtt=40",
            "rtt=40ms,rate=5",
            "rtt=5ms,loss=90%",
            "rtt=2h",
            "rtt=1ms,rat=1MB/s",
            "rtt=1ms,rate=0MB/s",
        ];
        for text in wrong {
            let error = text.parse::<Link>().expect_err(text).to_string();
            assert!(error.contains(text.rsplit(',').next().expect("a field")), "{text}: {error}");
        }
    }
}

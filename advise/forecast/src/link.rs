// SPDX-License-Identifier: Apache-2.0
//! Links as people write them: `rtt=32ms,rate=4.8MB/s`, or the name of a line and its round trip.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use helio_netmodel::{Ppm, Preset, Profile};
use helio_twin::{LinkModel, Transport};
use helio_units::{Bytes, Rate, parse_bytes, parse_duration, parse_rate};

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
}

impl Link {
    /// As the twin takes it, with an exact window.
    #[must_use]
    pub fn model(&self, window: Bytes) -> LinkModel {
        let mut line = Profile { delay: self.round_trip / 2, ..Profile::ideal() };
        if let Some(rate) = self.rate {
            line = Profile::wan(self.round_trip, rate);
        }
        line.queue = self.queue.unwrap_or(line.queue);
        (line.jitter, line.loss) = (self.jitter, self.loss);
        let transport = if self.relay { Transport::Relay } else { Transport::Tcp { window } };
        LinkModel { forth: line.clone(), back: line, transport }
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
                            "more than half is lost; nothing gets through".to_owned(),
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
                            "write rtt=, rate=, jitter=, loss=, queue= or relay, or one of {}",
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
            return Err(wrong(text, "longer than a minute; look at the unit".to_owned()));
        }
        Ok(link)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

// SPDX-License-Identifier: Apache-2.0
//! Weather that was recorded: what a link was like over time, as text that people and spreadsheets read.
//!
//! ```text
//! #helio-weather,1
//! at_s,rtt_ms,there_jitter_ms,there_loss_percent,there_rate_kbit,back_jitter_ms,back_loss_percent,back_rate_kbit
//! 0,32.041,0.12,0,38400,0.2,0,38211.5
//! 1.02,33.5,0.12,2,38400,0.2,0,38211.5
//! #end,2,2.04,9a0c1d37
//! ```
//!
//! | line | what |
//! |---|---|
//! | the first | the format and its version |
//! | the second | the names of the values, in this order |
//! | a row | what held from `at_s` on, until the next row or the end: the round trip without jitter, and for each way the bound of jitter, the share of packets lost, and the rate, of IP packets; no rate is no limit |
//! | `#end` | how many rows there are, how long they last in seconds, and, where nobody wrote it by hand, a checksum |
//! | `# ` and more | a remark, anywhere between |
//!
//! The first row is at 0, each later than the one before. Numbers are decimal, without sign and exponent; what is finer
//! than a nanosecond, a millionth or a bit is cut off. The checksum is chained, so that both sides make it line by line:
//! from 0 on, for every line, that of the four bytes of the one before (little-endian) and of the line without its end;
//! at last of `#end` without the checksum. It is eight hexadecimal digits. Every line has its end, also the last.

use crate::Ppm;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;
use helio_units::Rate;

#[cfg(test)]
mod tests;

const FIRST: &str = "#helio-weather,1";
const END: &str = "#end";
/// The values of a row, in their order.
const FIELDS: [&str; 8] = [
    "at_s",
    "rtt_ms",
    "there_jitter_ms",
    "there_loss_percent",
    "there_rate_kbit",
    "back_jitter_ms",
    "back_loss_percent",
    "back_rate_kbit",
];
/// The longest line, in bytes.
const MOST_LINE: usize = 512;
/// How much of a value an error repeats, in characters.
const SHOWN: usize = 40;
/// The most bits a second; far beyond any link.
const MOST_BITS: u64 = 1_000_000_000_000_000;

/// What a link was like over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weather {
    rows: Vec<WeatherRow>,
    lasts: Duration,
}

/// What a link was like from a moment on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeatherRow {
    /// Since the beginning.
    pub at: Duration,
    /// There and back, without jitter.
    pub round_trip: Duration,
    /// The way there.
    pub there: WayWeather,
    /// The way back.
    pub back: WayWeather,
}

/// What one way of a link was like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WayWeather {
    /// The most that chance added.
    pub jitter: Duration,
    /// The share of packets that was lost.
    pub loss: Ppm,
    /// How fast IP packets passed; none is without limit.
    pub rate: Option<Rate>,
}

/// Makes the checksum of some bytes; CRC-32C in every file there is.
pub type Checksum = fn(&[u8]) -> u32;

/// Why a file is no weather.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeatherError {
    /// Which line, counted from 1.
    pub line: u64,
    /// Which value of it, from 0 on; none where it is the line.
    pub field: Option<usize>,
    found: String,
    what: &'static str,
}

impl fmt::Display for WeatherError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}", self.line)?;
        if let Some(number) = self.field {
            write!(f, ", field {}", number + 1)?;
        }
        if let Some(name) = self.field.and_then(|number| FIELDS.get(number)) {
            write!(f, " ({name})")?;
        }
        match self.found.as_str() {
            "" => write!(f, ": {}", self.what),
            found => write!(f, ": {found:?} {}", self.what),
        }
    }
}

impl core::error::Error for WeatherError {}

impl Weather {
    /// The most rows: a week of seconds.
    pub const MOST_ROWS: usize = 604_800;
    /// The least it lasts where it is replayed again and again.
    pub const LEAST_PERIOD: Duration = Duration::from_millis(100);
    /// The longest it lasts.
    pub const MOST_LASTS: Duration = Duration::from_secs(366 * 86_400);
    /// The longest round trip and jitter.
    pub const MOST_DELAY: Duration = Duration::from_secs(60);

    /// Reads a file.
    ///
    /// # Errors
    /// It is another kind of file, damaged, cut short, or beyond a bound; names line and field.
    pub fn read(text: &[u8], checksum: Checksum) -> Result<Self, WeatherError> {
        let mut reader =
            Reader { number: 0, sum: Sum::new(checksum), rows: Vec::new(), lasts: None };
        for line in text.split(|byte| *byte == b'\n') {
            reader.line(line)?;
        }
        match reader.lasts.filter(|_| text.ends_with(b"\n")) {
            Some(lasts) => Ok(Self { rows: reader.rows, lasts }),
            None => Err(reader.whole(
                "",
                "the file is truncated, it has no #end; hint: record again, or write #end,ROWS,SECONDS after its rows",
            )),
        }
    }

    /// What held when, the earliest first; there is at least one, and the first is at 0.
    #[must_use]
    pub fn rows(&self) -> &[WeatherRow] {
        &self.rows
    }

    /// From the beginning to the end of the last row.
    #[must_use]
    pub const fn lasts(&self) -> Duration {
        self.lasts
    }
}

/// Writes a file line by line, so that what was recorded is there whatever happens later.
#[derive(Debug)]
pub struct WeatherWriter {
    rows: u64,
    sum: Sum,
}

impl WeatherWriter {
    /// The writer, and the first lines.
    #[must_use]
    pub fn begin(checksum: Checksum) -> (Self, String) {
        let mut sum = Sum::new(checksum);
        let names = FIELDS.join(",");
        sum.add(FIRST.as_bytes());
        sum.add(names.as_bytes());
        (Self { rows: 0, sum }, format!("{FIRST}\n{names}\n"))
    }

    /// The line of a row.
    #[must_use]
    pub fn row(&mut self, row: &WeatherRow) -> String {
        let mut line =
            format!("{},{}", decimal(nanos(row.at), 9), decimal(nanos(row.round_trip), 6));
        for way in [row.there, row.back] {
            let rate = way.rate.map(|rate| decimal(u128::from(rate.0) * 8, 3)).unwrap_or_default();
            let (jitter, loss) = (decimal(nanos(way.jitter), 6), decimal(way.loss.0.into(), 4));
            line += &format!(",{jitter},{loss},{rate}");
        }
        self.rows += 1;
        self.sum.add(line.as_bytes());
        line + "\n"
    }

    /// The last line, for rows that last so long.
    #[must_use]
    pub fn end(mut self, lasts: Duration) -> String {
        let line = format!("{END},{},{}", self.rows, decimal(nanos(lasts), 9));
        self.sum.add(line.as_bytes());
        format!("{line},{:08x}\n", self.sum.value)
    }
}

/// The checksum of the lines so far.
#[derive(Debug)]
struct Sum {
    value: u32,
    of: Checksum,
}

impl Sum {
    const fn new(of: Checksum) -> Self {
        Self { value: 0, of }
    }

    fn add(&mut self, line: &[u8]) {
        let mut chained = Vec::from(self.value.to_le_bytes());
        chained.extend_from_slice(line);
        self.value = (self.of)(&chained);
    }
}

const fn nanos(span: Duration) -> u128 {
    span.as_nanos()
}

/// A number of units of which `10^digits` make one, without zeros that say nothing.
fn decimal(value: u128, digits: usize) -> String {
    let unit = 10u128.pow(digits as u32);
    let text = format!("{}.{:0digits$}", value / unit, value % unit);
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// The other way; what is finer is cut off.
fn whole(text: &str, digits: usize) -> Result<u64, &'static str> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !number(whole) || !number(fraction) {
        return Err("is not a number");
    }
    let fine = fraction.bytes().chain(core::iter::repeat(b'0')).take(digits);
    whole.bytes().chain(fine).try_fold(0u64, |value, digit| {
        let value =
            value.checked_mul(10).and_then(|value| value.checked_add(u64::from(digit - b'0')));
        value.ok_or("is too large")
    })
}

/// What was read so far.
struct Reader {
    number: u64,
    sum: Sum,
    rows: Vec<WeatherRow>,
    /// The end was read.
    lasts: Option<Duration>,
}

impl Reader {
    fn line(&mut self, line: &[u8]) -> Result<(), WeatherError> {
        self.number += 1;
        if line.is_empty() {
            return Ok(());
        }
        if line.len() > MOST_LINE {
            return Err(self.whole("", "is longer than any row of a recording"));
        }
        let text = core::str::from_utf8(line).map_err(|_| self.whole("", "is not text"))?;
        if self.lasts.is_some() {
            return Err(self.whole(text, "is after the end"));
        }
        match self.number {
            1 if text != FIRST => {
                return Err(self.whole(
                    text,
                    "is not a recording of this version, which starts with #helio-weather,1",
                ));
            }
            1 => {}
            2 if text != FIELDS.join(",") => {
                return Err(
                    self.whole(text, "does not name the columns of a recording in their order")
                );
            }
            2 => {}
            _ if text == "#" || text.starts_with("# ") => {}
            _ if text.starts_with(END) => return self.end(text),
            _ => self.row(text)?,
        }
        self.sum.add(line);
        Ok(())
    }

    /// What is wrong with the whole line.
    fn whole(&self, found: &str, what: &'static str) -> WeatherError {
        WeatherError {
            line: self.number,
            field: None,
            found: found.chars().take(SHOWN).collect(),
            what,
        }
    }

    /// What is wrong with a value.
    fn value(&self, field: usize, found: &str, what: &'static str) -> WeatherError {
        WeatherError { field: Some(field), ..self.whole(found, what) }
    }

    fn row(&mut self, text: &str) -> Result<(), WeatherError> {
        if self.rows.len() == Weather::MOST_ROWS {
            return Err(self.whole("", "exceeds the maximum of 604800 rows"));
        }
        let values: Vec<&str> = text.split(',').collect();
        if values.len() != FIELDS.len() {
            return Err(self.whole(text, "does not have the eight values of a row"));
        }
        let at = self.time(0, values[0], 9, Weather::MOST_LASTS)?;
        match self.rows.last() {
            None if !at.is_zero() => {
                return Err(self.value(0, values[0], "is not 0, but the first row must be"));
            }
            Some(last) if at <= last.at => {
                return Err(self.value(0, values[0], "is not later than the row before"));
            }
            _ => {}
        }
        let round_trip = self.time(1, values[1], 6, Weather::MOST_DELAY)?;
        let (there, back) = (self.way(2, &values)?, self.way(5, &values)?);
        self.rows.push(WeatherRow { at, round_trip, there, back });
        Ok(())
    }

    /// The three values of a way.
    fn way(&self, first: usize, values: &[&str]) -> Result<WayWeather, WeatherError> {
        let jitter = self.time(first, values[first], 6, Weather::MOST_DELAY)?;
        let loss = values[first + 1];
        let ppm = whole(loss, 4).map_err(|why| self.value(first + 1, loss, why))?;
        let ppm = u32::try_from(ppm).map(Ppm).ok().filter(|ppm| *ppm <= Ppm::ALL);
        let loss = ppm.ok_or_else(|| self.value(first + 1, loss, "is more than 100 percent"))?;
        let rate = match values[first + 2] {
            "" => None,
            text => {
                let bits = whole(text, 3).map_err(|why| self.value(first + 2, text, why))?;
                if !(8..=MOST_BITS).contains(&bits) {
                    return Err(self.value(
                        first + 2,
                        text,
                        "is not a valid rate; a link that carries nothing loses 100 percent",
                    ));
                }
                Some(Rate(bits / 8))
            }
        };
        Ok(WayWeather { jitter, loss, rate })
    }

    fn time(
        &self,
        field: usize,
        text: &str,
        digits: usize,
        most: Duration,
    ) -> Result<Duration, WeatherError> {
        let time = whole(text, digits)
            .map(Duration::from_nanos)
            .map_err(|why| self.value(field, text, why))?;
        if time > most {
            return Err(self.value(field, text, "is too long for a recording; check the unit"));
        }
        Ok(time)
    }

    fn end(&mut self, text: &str) -> Result<(), WeatherError> {
        let values: Vec<&str> = text.split(',').collect();
        let ([_, rows, lasts] | [_, rows, lasts, _]) = values[..] else {
            return Err(self.whole(text, "is not an end of a recording: #end,ROWS,SECONDS"));
        };
        if values[0] != END || rows != self.rows.len().to_string() {
            return Err(
                self.whole(text, "has a wrong number of rows; some are missing, or too many")
            );
        }
        let last = self.rows.last().ok_or_else(|| self.whole(text, "is before the first row"))?.at;
        let lasts = self.time(2, lasts, 9, Weather::MOST_LASTS)?;
        if lasts <= last {
            return Err(self.whole(text, "ends before its last row"));
        }
        self.sum.add(values[..3].join(",").as_bytes());
        if values.get(3).is_some_and(|sum| *sum != format!("{:08x}", self.sum.value)) {
            return Err(self.whole(
                text,
                "has a wrong checksum; hint: use a complete copy, or remove the checksum if rows were changed on \
                 purpose",
            ));
        }
        self.lasts = Some(lasts);
        Ok(())
    }
}

// SPDX-License-Identifier: Apache-2.0
//! What DB2's log scanner prints, as far as the calculator needs it.
//!
//! A sample is a line of its own that begins with a date and tells rate, interval, pages per flush and so on, each with
//! its unit, separated by commas. Its MB are 2^20 bytes: 17.6 pages in 0.009435 s are the 7.3 MB/s it prints. Lines of
//! other kinds are passed over.

use crate::calculator::Sample;
use crate::flush::PAGE;
use helio_units::{Bytes, Rate};
use std::fmt;

/// Numbers above this are no figures of a log.
const MOST: f64 = 1e9;

/// What a scan says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// The samples in their order, each with its date and time.
    pub samples: Vec<(String, Sample)>,
    /// The average log rate, where the scan tells it.
    pub average: Option<Rate>,
}

/// A line that is not as the scanner writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanError {
    /// Which line, from 1.
    pub line: usize,
    /// Which field of it, by its unit.
    pub field: &'static str,
    /// What was found there; nothing where the line ends before it.
    pub found: Option<String>,
}

impl fmt::Display for ScanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, field) = (self.line, self.field);
        match &self.found {
            Some(found) => write!(f, "line {line}: `{found}` is not a number for {field}"),
            None => write!(f, "line {line} has no {field}: the scan is truncated or changed there"),
        }
    }
}

impl std::error::Error for ScanError {}

/// Reads everything the scanner printed.
///
/// # Errors
/// Names line and field of the first sample that is damaged.
pub fn scan(text: &str) -> Result<Scan, ScanError> {
    let mut scan = Scan::default();
    let mut rates_follow = false;
    for (number, line) in (1..).zip(text.lines()) {
        let reader = Reader { number, line };
        if std::mem::take(&mut rates_follow) {
            scan.average = Some(reader.average()?);
        } else if line.starts_with("Distribution of log write rate") {
            rates_follow = true;
        } else if is_dated(line) {
            scan.samples.push((line[..19].to_owned(), reader.sample()?));
        }
    }
    Ok(scan)
}

/// Whether a line begins as `2013-02-26 15:32:09 ` does.
fn is_dated(line: &str) -> bool {
    let form = b"0000-00-00 00:00:00 ";
    let fits = |(found, form): (u8, &u8)| {
        if *form == b'0' { found.is_ascii_digit() } else { found == *form }
    };
    line.len() > form.len() && line.bytes().zip(form).all(fits)
}

#[derive(Clone, Copy)]
struct Reader<'a> {
    number: usize,
    line: &'a str,
}

impl Reader<'_> {
    fn sample(self) -> Result<Sample, ScanError> {
        let pages = |count: f64| Bytes((count * PAGE.0 as f64).round() as u64);
        let rate = megabytes(self.before("MB/s")?);
        let (flush, transaction) = (pages(self.before("pg/f")?), pages(self.before("pg/tr")?));
        if flush == Bytes::ZERO {
            return Err(self.wrong("pg/f", Some("0")));
        }
        Ok(Sample::new(rate, flush, transaction, self.behind("nOpenTrans")?))
    }

    fn average(self) -> Result<Rate, ScanError> {
        self.behind("Avg").map(megabytes)
    }

    /// The number that stands before its unit.
    fn before(self, unit: &'static str) -> Result<f64, ScanError> {
        let words: Vec<&str> = self.line[19.min(self.line.len())..]
            .split([' ', ','])
            .filter(|word| !word.is_empty())
            .collect();
        let at = words.iter().position(|word| *word == unit).filter(|at| *at > 0);
        self.figure(unit, at.map(|at| words[at - 1]))
    }

    /// The number that stands behind its name.
    fn behind(self, name: &'static str) -> Result<f64, ScanError> {
        let mut words = self.line.split([' ', ',']).filter(|word| !word.is_empty());
        let found = words.by_ref().find(|word| *word == name).and_then(|_| words.next());
        self.figure(name, found)
    }

    fn figure(self, field: &'static str, found: Option<&str>) -> Result<f64, ScanError> {
        let word = found.ok_or_else(|| self.wrong(field, None))?;
        let figure = word.parse().ok().filter(|figure| (0.0..=MOST).contains(figure));
        figure.ok_or_else(|| self.wrong(field, Some(word)))
    }

    fn wrong(self, field: &'static str, found: Option<&str>) -> ScanError {
        ScanError { line: self.number, field, found: found.map(str::to_owned) }
    }
}

fn megabytes(figure: f64) -> Rate {
    Rate((figure * f64::from(1 << 20)).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "2013-02-26 15:32:09  7.307 MB/s, 60 sec,  17.6 pg/f, 0.009435 sec/f,  15.9 pg/tr, \
                        0.186589 sec/tr, 0.008580 sec/cmt, nOpenTrans  22.7";

    #[test]
    fn samples_and_the_average_are_read_and_the_rest_is_passed_over() {
        let text = format!(
            "Scanned 3 files\n{LINE}\nDistribution of log write rate (unit is MB/s):\n\
             Total 99 numbers, Sum 66.530, Min 0.004, Max 7.306, Avg 0.672\n"
        );
        let told = scan(&text).expect("it is a scan");
        let sample = Sample { rate: Rate(7_661_945), flush: Bytes(72_090), most: Bytes(1_478_350) };
        let (when, found) = &told.samples[0];
        assert_eq!(
            (when.as_str(), found.rate, found.flush),
            ("2013-02-26 15:32:09", sample.rate, sample.flush)
        );
        assert!(found.most.0.abs_diff(sample.most.0) < 32, "{found:?}");
        assert_eq!(told.average, Some(Rate(704_643)));
    }

    #[test]
    fn damage_is_named_by_line_and_field() {
        let says = |text: &str| scan(text).expect_err("it is damaged").to_string();
        let cut = &LINE[..LINE.len() - 8];
        assert_eq!(
            says(&format!("\n{cut}")),
            "line 2 has no nOpenTrans: the scan is truncated or changed there"
        );
        assert_eq!(says(&LINE.replace("17.6", "many")), "line 1: `many` is not a number for pg/f");
        assert_eq!(says(&LINE.replace("17.6", "0.0")), "line 1: `0` is not a number for pg/f");
        assert_eq!(says(&LINE.replace("7.307", "-7")), "line 1: `-7` is not a number for MB/s");
        assert_eq!(
            says(&LINE.replace("MB/s", "GB/s")),
            "line 1 has no MB/s: the scan is truncated or changed there"
        );
        let average = "Distribution of log write rate (unit is MB/s):\nTotal 99 numbers";
        assert_eq!(says(average), "line 2 has no Avg: the scan is truncated or changed there");
    }
}

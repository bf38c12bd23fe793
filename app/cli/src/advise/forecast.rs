// SPDX-License-Identifier: Apache-2.0
//! What `helio plan forecast --json` wrote, and the run of it that a group is held against.

use super::text_of;
use crate::failure::failed;
use anyhow::{Result, anyhow, bail};
use helio_plan::live::Promise;
use helio_units::{Bytes, Mode, Rate};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

/// What helps if a file is no forecast.
const AGAIN: &str = "write it again with `helio plan forecast --json`";
/// The longest span a forecast may tell of; what is longer has its unit wrong.
const LONGEST_US: f64 = 366.0 * 86_400e6;

/// A forecast: its runs, and which is its answer.
#[derive(Debug)]
pub(crate) struct Forecast {
    file: String,
    cells: Vec<Value>,
    answer: Option<usize>,
}

/// Reads it.
///
/// # Errors
/// It cannot be read, is damaged, or is something else; file, place and field are named.
pub(crate) fn read(file: &Path) -> Result<Forecast> {
    of_text(file.display().to_string(), &text_of(file)?)
}

fn of_text(file: String, text: &str) -> Result<Forecast> {
    let json: Value = serde_json::from_str(text)
        .map_err(failed(format!("{file} is not JSON, or is cut short"), AGAIN))?;
    let Some(cells) = json.get("cells").and_then(Value::as_array) else {
        bail!("{file} has no `cells`\n  hint: {AGAIN}");
    };
    let answer = json.pointer("/answer/cell").and_then(Value::as_u64);
    let answer = answer.map(usize::try_from).transpose()?;
    Ok(Forecast { file, cells: cells.clone(), answer })
}

impl Forecast {
    /// The run that was asked for; otherwise the answer's, or the only one in that mode.
    pub(crate) fn promise(&self, asked: Option<usize>, mode: Mode) -> Result<Promise> {
        let at = match asked.or(self.answer) {
            Some(at) => at,
            None => self.only(mode)?,
        };
        let (file, count) = (&self.file, self.cells.len());
        let cell = self.cells.get(at);
        let cell = cell.ok_or_else(|| {
            anyhow!("{file} has no run {at}\n  hint: give --cell 0 to {}", count.saturating_sub(1))
        })?;
        let field = Field { file, at, cell };
        if let Some(stuck) = cell.get("stuck").and_then(Value::as_str) {
            bail!("{file}: run {at} has no figures: {stuck}\n  hint: name another run with --cell");
        }
        field.promise()
    }

    fn only(&self, mode: Mode) -> Result<usize> {
        let file = &self.file;
        let of = |cell: &Value| cell.get("mode").and_then(Value::as_str) == Some(mode.word());
        let fits: Vec<_> = self.cells.iter().enumerate().filter(|(_, cell)| of(cell)).collect();
        let (list, what): (Vec<_>, _) = match fits[..] {
            [(at, _)] => return Ok(at),
            [] => (self.cells.iter().enumerate().collect(), format!("no run is in {mode}")),
            _ => (fits, format!("several runs are in {mode}")),
        };
        let word =
            |cell: &Value, key| cell.get(key).and_then(Value::as_str).unwrap_or("?").to_owned();
        let list: Vec<_> = list
            .iter()
            .take(20)
            .map(|(at, cell)| {
                format!(
                    "{at}: {}, queue {}, {}",
                    word(cell, "mode"),
                    word(cell, "queue"),
                    word(cell, "link")
                )
            })
            .collect();
        bail!("{file}: {what}\n  hint: select one with --cell NUMBER: {}", list.join("; "));
    }
}

/// A run's fields, with a name for each in errors.
struct Field<'a> {
    file: &'a str,
    at: usize,
    cell: &'a Value,
}

impl Field<'_> {
    fn wrong(&self, path: &str, what: &str) -> anyhow::Error {
        let (file, at) = (self.file, self.at);
        let found = self.cell.pointer(path).map_or("nothing".to_owned(), Value::to_string);
        anyhow!("{file}: cells[{at}]{}: {found} is {what}\n  hint: {AGAIN}", path.replace('/', "."))
    }

    fn whole(&self, path: &str) -> Result<u64> {
        let found = self.cell.pointer(path).and_then(Value::as_u64);
        found.ok_or_else(|| self.wrong(path, "not a whole number"))
    }

    /// A percentile of bytes, which may have a fraction.
    fn bytes(&self, path: &str) -> Result<Bytes> {
        Ok(Bytes(self.number(path, u64::MAX as f64)? as u64))
    }

    fn number(&self, path: &str, most: f64) -> Result<f64> {
        let found = self.cell.pointer(path).and_then(Value::as_f64);
        let found = found.ok_or_else(|| self.wrong(path, "not a number"))?;
        if (0.0..=most).contains(&found) {
            Ok(found)
        } else {
            Err(self.wrong(path, "out of range"))
        }
    }

    fn time(&self, path: &str) -> Result<Duration> {
        Ok(Duration::from_secs_f64(self.number(path, LONGEST_US)? / 1e6))
    }

    /// What half and 99 of 100 of them take; none where there are none.
    fn times(&self, path: &str) -> Result<Option<[Duration; 2]>> {
        let percentiles = [self.time(&format!("{path}/p50"))?, self.time(&format!("{path}/p99"))?];
        Ok((self.whole(&format!("{path}/count"))? > 0).then_some(percentiles))
    }

    fn rate(&self) -> Result<Option<Rate>> {
        match self.cell.get("rate") {
            None | Some(Value::Null) => Ok(None),
            Some(_) => self.whole("/rate").map(|rate| Some(Rate(rate))),
        }
    }

    fn promise(&self) -> Result<Promise> {
        let word = |path: &str| self.cell.pointer(path).and_then(Value::as_str);
        let mode = word("/mode").and_then(Mode::from_word);
        Ok(Promise {
            link: word("/link").ok_or_else(|| self.wrong("/link", "not a text"))?.to_owned(),
            round_trip: self.time("/round_trip_us")?,
            rate: self.rate()?,
            mode: mode.ok_or_else(|| self.wrong("/mode", "none of sync, nearsync, async"))?,
            bound: Bytes(self.whole("/figures/queue_bound")?),
            high: Bytes(self.whole("/figures/queue_high")?),
            lag: self.bytes("/figures/lag_bytes/p99")?,
            behind: self.time("/figures/behind/p99")?,
            writes: self.times("/figures/writes")?,
            flushes: self.times("/figures/flushes")?,
            throughput: Rate(self.whole("/figures/throughput")?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cell(mode: &str, queue: &str) -> Value {
        let times = |p99: f64| json!({ "count": 9, "p50": 1.0, "p99": p99 });
        json!({
            "link": "rtt=40ms,rate=8Mbit/s", "round_trip_us": 40_000, "rate": 1_000_000,
            "buffer": 1, "queue": queue, "mode": mode,
            "figures": {
                "writes": times(300.5), "flushes": { "count": 0, "p50": 0, "p99": 0 }, "lag_bytes": times(4096.0),
                "behind": times(21_000.0), "throughput": 5000, "queue_bound": 8_388_608, "queue_high": 65_536,
            },
        })
    }

    fn forecast(json: &Value) -> Result<Forecast> {
        of_text("plan.json".into(), &json.to_string())
    }

    /// Why a forecast of these runs promises nothing for async.
    fn refused(json: &Value) -> String {
        let promise = forecast(json).and_then(|forecast| forecast.promise(None, Mode::Async));
        format!("{:#}", promise.expect_err("there is something wrong"))
    }

    #[test]
    fn a_run_is_found_by_its_mode_its_number_or_as_the_answer() {
        let cells =
            json!({ "cells": [cell("sync", "auto"), cell("async", "8 MiB")], "answer": null });
        let promise =
            forecast(&cells).and_then(|f| f.promise(None, Mode::Async)).expect("it is there");
        assert_eq!(
            (promise.mode, promise.bound, promise.lag),
            (Mode::Async, Bytes::mib(8), Bytes::kib(4))
        );
        assert_eq!((promise.rate, promise.flushes), (Some(Rate(1_000_000)), None));
        let writes = [1000, 300_500].map(Duration::from_nanos);
        assert_eq!(promise.writes, Some(writes));
        assert_eq!((promise.round_trip.as_millis(), promise.behind.as_millis()), (40, 21));
        let first =
            forecast(&cells).and_then(|f| f.promise(Some(0), Mode::Async)).expect("there too");
        assert_eq!(first.mode, Mode::Sync);
        let answered = json!({ "cells": cells["cells"], "answer": { "cell": 0 } });
        let answer =
            forecast(&answered).and_then(|f| f.promise(None, Mode::Async)).expect("and there");
        assert_eq!(answer.mode, Mode::Sync);
    }

    #[test]
    fn who_could_mean_several_runs_is_asked_which() {
        let two = json!({ "cells": [cell("async", "1 MiB"), cell("sync", "auto"), cell("async", "8 MiB")] });
        let told = refused(&two);
        assert!(
            told.contains("0: async, queue 1 MiB") && told.contains("2: async, queue 8 MiB"),
            "{told}"
        );
        assert!(told.contains("--cell") && !told.contains("sync, queue auto"), "{told}");
        assert!(
            refused(&json!({ "cells": [cell("sync", "auto")] })).contains("no run is in async")
        );
        let far = forecast(&two)
            .and_then(|f| f.promise(Some(3), Mode::Async))
            .expect_err("there are three");
        assert!(far.to_string().contains("no run 3\n  hint: give --cell 0 to 2"), "{far}");
    }

    #[test]
    fn a_damaged_field_is_named() {
        for (path, wrong, words) in [
            ("/figures/queue_high", json!("much"), "\"much\" is not a whole number"),
            ("/figures/queue_bound", json!(-1), "-1 is not a whole number"),
            ("/figures/behind/p99", json!(-2.0), "out of range"),
            ("/figures/writes/p99", json!(1e18), "out of range"),
            ("/figures/lag_bytes", json!(null), "nothing is not a number"),
            ("/rate", json!("fast"), "not a whole number"),
            ("/round_trip_us", json!([]), "not a number"),
        ] {
            let mut cells = json!({ "cells": [cell("async", "auto")] });
            let place = cells.pointer_mut(&format!("/cells/0{path}")).expect("it is there");
            *place = wrong;
            let told = refused(&cells);
            let name = format!("plan.json: cells[0]{}", path.replace('/', "."));
            assert!(told.starts_with(&name) && told.contains(words), "{told}");
        }
        assert!(refused(&json!({ "nodes": [] })).contains("no `cells`"));
        let stuck = json!({ "cells": [{ "mode": "async", "stuck": "it waits for ever" }] });
        assert!(refused(&stuck).contains("it waits for ever"));
        let cut = of_text("plan.json".into(), "{ \"cells\": [").expect_err("it is cut off");
        let told = format!("{cut:#}");
        assert!(told.starts_with("plan.json is not JSON") && told.contains("line 1"), "{told}");
    }
}

// SPDX-License-Identifier: Apache-2.0
//! `helio plan`: what a link, a disk and a workload come to, before anything is built. One file per subcommand.

mod calculator;
mod examples;
mod forecast;
mod fragment;
mod load;
mod marks;
mod queue;
mod table;
mod window;

use crate::args::PlanVerb;
use crate::verbs::print;
use anyhow::Result;
use serde_json::Value;
use std::process::ExitCode;
use std::time::Duration;

pub(crate) fn run(verb: PlanVerb) -> Result<ExitCode> {
    match verb {
        PlanVerb::Examples { json } => {
            let all = helio_plan::examples();
            tell(json, || examples::text(&all), || examples::json(&all))
        }
        PlanVerb::Forecast(asked) => forecast::run(&asked),
        PlanVerb::Calculator(wish) => {
            let told = calculator::told(&wish)?;
            tell(wish.json, || told.text(), || told.json())
        }
        PlanVerb::Window(wish) => tell(wish.json, || window::text(&wish), || window::json(&wish)),
        PlanVerb::Queue(wish) => {
            let told = queue::told(&wish);
            tell(wish.json, || told.text(), || told.json())
        }
        PlanVerb::Marks(wish) => {
            let rows = marks::rows(&wish);
            tell(wish.json, || marks::text(&wish, &rows), || marks::json(&wish, &rows))
        }
    }
}

fn tell(
    json: bool,
    text: impl FnOnce() -> String,
    value: impl FnOnce() -> Value,
) -> Result<ExitCode> {
    print(&if json { serde_json::to_string_pretty(&value())? + "\n" } else { text() })?;
    Ok(ExitCode::SUCCESS)
}

/// A span in the unit that suits it: `34.1 s`, `257.1 ms`, `2.3 h`.
pub(crate) fn span(span: Duration) -> String {
    let seconds = span.as_secs_f64();
    let (figure, unit) = match seconds {
        s if s >= 2.0 * 86_400.0 => (s / 86_400.0, "days"),
        s if s >= 2.0 * 3600.0 => (s / 3600.0, "h"),
        s if s >= 120.0 => (s / 60.0, "min"),
        s if s >= 1.0 => (s, "s"),
        s if s >= 1e-3 => (s * 1e3, "ms"),
        s => (s * 1e6, "us"),
    };
    format!("{} {unit}", decimals(figure, if figure < 10.0 { 2 } else { 1 }))
}

/// A number without zeros that say nothing; at least one decimal is asked for.
fn decimals(number: f64, most: usize) -> String {
    let text = format!("{number:.most$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_told_in_units_that_suit_them() {
        for (micros, text) in [
            (100, "100 us"),
            (50_000, "50 ms"),
            (257_090, "257.1 ms"),
            (34_133_333, "34.1 s"),
            (7_200_000_000, "2 h"),
            (600_000_000, "10 min"),
            (864_000_000_000, "10 days"),
        ] {
            assert_eq!(span(Duration::from_micros(micros)), text);
        }
    }
}

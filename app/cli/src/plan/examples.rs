// SPDX-License-Identifier: Apache-2.0
//! `helio plan examples`: the numbers of the sources, recomputed.

use super::decimals;
use super::table::{noted, table};
use helio_plan::{Example, Source, Value, Verdict};
use serde_json::json;
use std::fmt::Write;

pub(super) fn text(all: &[Example]) -> String {
    let mut out = String::new();
    for source in Source::ALL {
        let own: Vec<&Example> = all.iter().filter(|example| example.source == source).collect();
        let head = ["", "formula", "stated", "computed", ""].map(str::to_owned).to_vec();
        let rows: Vec<_> = std::iter::once(head).chain(own.iter().map(|one| row(one))).collect();
        let notes = std::iter::once("").chain(own.iter().map(|one| one.note));
        let _infallible = writeln!(out, "{}\n{}", source.name(), noted(&table(&rows), notes));
    }
    out + &summary(all)
}

fn row(example: &Example) -> Vec<String> {
    let unit = |figure: String| format!("{figure} {}", example.unit).trim_end().to_owned();
    vec![
        example.what.to_owned(),
        example.formula.to_owned(),
        unit(example.stated.to_string()),
        unit(match &example.computed {
            Value::Number(number) => decimals(*number, example.stated.decimals()),
            Value::Words(words) => words.clone(),
        }),
        example.verdict().word().to_owned(),
    ]
}

fn summary(all: &[Example]) -> String {
    let count = |verdict| all.iter().filter(|example| example.verdict() == verdict).count();
    format!(
        "{} numbers: {} agree, {} about as stated, {} measured within what the formula allows, {} differ\n",
        all.len(),
        count(Verdict::Agrees),
        count(Verdict::About),
        count(Verdict::Within),
        count(Verdict::Differs)
    )
}

pub(super) fn json(all: &[Example]) -> serde_json::Value {
    let list = all.iter().map(|example| {
        let computed = match &example.computed {
            Value::Number(number) => json!(number),
            Value::Words(words) => json!(words),
        };
        let words = example.stated.to_string();
        json!({
            "source": example.source.word(),
            "what": example.what,
            "formula": example.formula,
            "stated": example.stated.figure().map_or_else(|| json!(words), |figure| json!(figure)),
            "stated_as": words,
            "computed": computed,
            "unit": example.unit,
            "verdict": example.verdict().word(),
            "note": example.note,
        })
    });
    json!({ "examples": list.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_erratum_has_its_reason_on_the_line_below() {
        let all = helio_plan::examples();
        let shown = text(&all);
        let mut lines = shown.lines().skip_while(|line| !line.contains("room for each of 4194304"));
        let (line, note) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        assert!(
            line.contains("2048 B") && line.ends_with("2 B       differs")
                || line.ends_with("differs"),
            "{line}"
        );
        assert!(note.contains("2 Kbytes") && note.starts_with("      "), "{note}");
        let counted = format!("{} numbers: ", all.len());
        assert!(shown.lines().last().is_some_and(|line| line.starts_with(&counted)), "{shown}");
    }
}

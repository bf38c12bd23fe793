// SPDX-License-Identifier: Apache-2.0
//! Advice for people, and for programs: what to change first, what is well behind it, what could not be judged last.

use super::Told;
use crate::render::line;
use helio_plan::live::{Judgement, Verdict};
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Duration;

/// In the order they are told.
const VERDICTS: [Verdict; 4] = [Verdict::Change, Verdict::Watch, Verdict::Well, Verdict::Unknown];

pub(super) fn text(node: &str, span: Duration, told: &[Told]) -> String {
    let mut out = String::new();
    for (n, told) in told.iter().enumerate() {
        if n > 0 {
            out.push('\n');
        }
        group(&mut out, node, span, told);
    }
    if told.is_empty() {
        out = format!("node {node} is in no group\n");
    }
    out
}

fn group(out: &mut String, node: &str, span: Duration, told: &Told) {
    let judged = match &told.judged {
        Ok(judged) => judged,
        Err(why) => {
            let _infallible = writeln!(out, "{}  not judged: {why}", told.group);
            return;
        }
    };
    let count = |verdict| judged.iter().filter(|judged| judged.verdict == verdict).count();
    let change = match count(Verdict::Change) {
        0 => "nothing to change".to_owned(),
        some => format!("{some} to change"),
    };
    let _infallible = writeln!(
        out,
        "{}  {change}, {} to watch; on {node}, measured for {:.1} s",
        told.group,
        count(Verdict::Watch),
        span.as_secs_f64()
    );
    for verdict in VERDICTS {
        let of: Vec<_> = judged.iter().filter(|judged| judged.verdict == verdict).collect();
        match verdict {
            Verdict::Change | Verdict::Watch => of.iter().for_each(|judged| whole(out, judged)),
            Verdict::Well => {
                of.iter().for_each(|judged| line(out, verdict.word(), &in_short(judged)));
            }
            Verdict::Unknown => unknown(out, &of),
        }
    }
}

fn in_short(judged: &Judgement) -> String {
    format!("{}: {}", judged.label, judged.told)
}

fn whole(out: &mut String, judged: &Judgement) {
    line(out, judged.verdict.word(), &in_short(judged));
    line(out, "  rule", &format!("{} ({})", judged.label.rule(), judged.label.source()));
    for (n, hint) in judged.hints.iter().enumerate() {
        line(out, if n == 0 { "  do" } else { "" }, hint);
    }
}

/// What has one reason is told once.
fn unknown(out: &mut String, of: &[&Judgement]) {
    let mut reasons: Vec<&str> = Vec::new();
    for judged in of {
        if !reasons.contains(&judged.told.as_str()) {
            reasons.push(&judged.told);
        }
    }
    for reason in reasons {
        let labels: Vec<_> = of
            .iter()
            .filter(|judged| judged.told == reason)
            .map(|judged| judged.label.word())
            .collect();
        line(out, Verdict::Unknown.word(), &format!("{}: {reason}", labels.join(", ")));
    }
}

pub(super) fn json(node: &str, span: Duration, told: &[Told]) -> Value {
    let finding = |judged: &Judgement| {
        let figure = judged.figure;
        json!({
            "label": judged.label.word(),
            "verdict": judged.verdict.word(),
            "observed": judged.told,
            "value": figure.map(|figure| figure.value),
            "threshold": figure.map(|figure| figure.threshold),
            "unit": figure.map(|figure| figure.unit),
            "rule": judged.label.rule(),
            "source": judged.label.source(),
            "hints": judged.hints,
        })
    };
    let groups = told.iter().map(|told| {
        let findings = told.judged.iter().flatten().map(finding).collect::<Vec<_>>();
        json!({ "group": told.group, "not_judged": told.judged.as_ref().err(), "findings": findings })
    });
    json!({ "node": node, "looked_seconds": span.as_secs_f64(), "groups": groups.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_plan::live::{Figure, Label};

    fn told() -> Vec<Told> {
        let one = |label, verdict, told: &str| Judgement {
            label,
            verdict,
            told: told.into(),
            figure: Some(Figure { value: 99.0, threshold: 85.0, unit: "%" }),
            hints: vec!["first".into(), "second".into()],
        };
        let judged = vec![
            one(Label::QueueItems, Verdict::Well, "few"),
            one(Label::QueueBytes, Verdict::Change, "99 % of it"),
            one(Label::LinkRate, Verdict::Unknown, "no forecast"),
            one(Label::PlanLag, Verdict::Unknown, "no forecast"),
        ];
        let other = Told { group: "log".into(), judged: Err("paris is secondary".into()) };
        vec![Told { group: "db".into(), judged: Ok(judged) }, other]
    }

    #[test]
    fn what_is_to_be_changed_stands_first_and_what_has_one_reason_together() {
        let shown = text("paris", Duration::from_secs(2), &told());
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "db  1 to change, 0 to watch; on paris, measured for 2.0 s");
        assert_eq!(lines[1], "  change     queue-bytes: 99 % of it");
        assert!(
            lines[2].starts_with("    rule     high water")
                && lines[2].contains("(Sun remote mirror")
        );
        assert_eq!((lines[3], lines[4]), ("    do       first", "             second"));
        assert_eq!(lines[5], "  well       queue-items: few");
        assert_eq!(lines[6], "  unknown    link-rate, plan-lag: no forecast");
        assert_eq!((lines[7], lines[8]), ("", "log  not judged: paris is secondary"));
    }

    #[test]
    fn programs_get_label_number_and_threshold() {
        let json = json("paris", Duration::from_secs(2), &told());
        let finding = &json["groups"][0]["findings"][1];
        assert_eq!(
            (&finding["label"], &finding["verdict"]),
            (&json!("queue-bytes"), &json!("change"))
        );
        assert_eq!((&finding["value"], &finding["threshold"]), (&json!(99.0), &json!(85.0)));
        assert_eq!(json["groups"][1]["not_judged"], "paris is secondary");
    }
}

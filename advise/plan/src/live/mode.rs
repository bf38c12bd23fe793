// SPDX-License-Identifier: Apache-2.0
//! Whether the mode suits, by Sun's TABLE 2.

use super::{Figure, Judgement, Label, Promise, Seen, millis};
use crate::{Choice, Flow, HIGH_LATENCY, Situation, advise};
use helio_units::{Mode, Rate};

/// What comes and what drains. A queue that is not pressed drains all that comes; one in front of which writes wait
/// would get more than it is given.
fn flow(seen: &Seen) -> Flow {
    let heavy = seen.queue.pressed && (seen.queue.waited.meanwhile > 0 || seen.written > seen.sent);
    if heavy {
        Flow { fill: seen.written.max(Rate(seen.sent.0.saturating_add(1))), drain: seen.sent }
    } else {
        Flow { fill: seen.written, drain: seen.written.max(seen.sent) }
    }
}

pub(super) fn unsuited(seen: &Seen, promise: Option<&Promise>) -> Judgement {
    let (label, group, mode) = (Label::ModeUnsuited, &seen.group, seen.mode);
    let link = match &seen.link {
        Ok(link) => link,
        Err(why) => return Judgement::unknown(label, why.clone()),
    };
    let situation = Situation { work: seen.work, rtt: link.round_trip, flow: flow(seen) };
    let advice = advise(situation);
    let load = if situation.heavy() { "heavy" } else { "light" };
    let told = format!(
        "{mode} over {} with a {load} load; for {} that is {}: {}",
        millis(link.round_trip),
        seen.work.word(),
        advice.choice.words(),
        advice.place
    );
    let milliseconds = |time: core::time::Duration| time.as_secs_f64() * 1e3;
    let figure = Figure::of(milliseconds(link.round_trip), milliseconds(HIGH_LATENCY), "ms");
    if promise.is_some_and(|promise| promise.mode == mode) {
        return Judgement::well(label, format!("{told}; the forecast has {mode}")).figure(figure);
    }
    let turn = |to: Mode| {
        [
            format!("`helio mode {group} {to}`"),
            format!("to keep it, in the configuration file: [group.{group}] mode = \"{to}\""),
        ]
    };
    let waits = mode != Mode::Async;
    let update = format!("`helio resync {group}`");
    match advice.choice {
        Choice::SyncOrAsync => Judgement::well(label, told),
        Choice::Sync if waits => Judgement::well(label, told),
        Choice::Async | Choice::AsyncOrCopies if !waits => Judgement::well(label, told),
        Choice::Sync => Judgement::watch(label, told).hints(turn(Mode::Sync)).hints([
            "an acknowledged write is then never lost with the host".into(),
        ]),
        Choice::Async | Choice::AsyncOrCopies => {
            Judgement::change(label, told).hints(turn(Mode::Async)).hints([
                "the last acknowledged writes are then lost with the host; give the kind of workload with `--work`, \
                 or a forecast with this mode"
                    .into(),
            ])
        }
        Choice::Copies => Judgement::change(label, told).hints([format!(
            "`helio pause {group}`, and {update} as often as the loss of data allows; or a faster link"
        )]),
        Choice::Logging => Judgement::change(label, told)
            .hints([format!("`helio pause {group}` before the load, and `helio resume {group}` after it")]),
    }
    .figure(figure)
}

// SPDX-License-Identifier: Apache-2.0
//! Every rule on both sides of its threshold.

use super::Verdict::{Change, Unknown, Watch, Well};
use super::*;
use crate::Work;
use core::time::Duration;
use helio_units::{Mode, Rate};

const MIB: Bytes = Bytes::mib(1);
const SECOND: Duration = Duration::from_secs(1);
const NANO: Duration = Duration::from_nanos(1);
const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// As many as say something, as forecast.
fn times() -> Times {
    Times { count: 100, median: ms(8), p99: ms(16) }
}

/// A group that does as it should, over a link of a millisecond.
fn seen() -> Seen {
    let queue = QueueSeen {
        held: Bytes::kib(64),
        pressed: false,
        bound: Bytes(1000),
        high: Bytes(100),
        bound_items: 1000,
        high_items: 10,
        automatic: false,
        waited: Counted::default(),
        wait_time: Duration::ZERO,
        refused: Counted::default(),
        dropped: Counted::default(),
    };
    let link = LinkSeen {
        round_trip: ms(1),
        tcp_round_trip: ms(1),
        busy: SECOND,
        limited_by_peer: Duration::ZERO,
        limited_here: Duration::ZERO,
        here: Buffers::default(),
        there: None,
    };
    Seen {
        group: "db".into(),
        node: "paris".into(),
        peer: "lyon".into(),
        span: SECOND * 2,
        mode: Mode::Sync,
        work: Work::Oltp,
        queue,
        written: Rate(1000),
        sent: Rate(1000),
        lag: Bytes::ZERO,
        behind: Duration::ZERO,
        answers: Ok(AnswersSeen { writes: times(), flushes: times() }),
        link: Ok(link),
    }
}

/// A forecast that holds.
fn promise() -> Promise {
    Promise {
        link: "rtt=1ms,rate=8kbit/s".into(),
        round_trip: ms(1),
        rate: Some(Rate(1000)),
        mode: Mode::Sync,
        bound: Bytes(1000),
        high: Bytes(100),
        lag: Bytes(1000),
        behind: ms(100),
        writes: Some([ms(8), ms(16)]),
        flushes: Some([ms(8), ms(16)]),
        throughput: Rate(1000),
    }
}

fn link(seen: &mut Seen) -> &mut LinkSeen {
    seen.link.as_mut().expect("the story has one")
}

/// What one rule says once the story was changed, and with which words.
fn said(label: Label, change: impl FnOnce(&mut Seen, &mut Promise)) -> Judgement {
    let (mut seen, mut promise) = (seen(), promise());
    change(&mut seen, &mut promise);
    let all = judge(&seen, Some(&promise));
    all.into_iter().find(|judged| judged.label == label).expect("every rule says something")
}

#[track_caller]
fn assert_said(
    label: Label,
    verdict: Verdict,
    words: &str,
    change: impl FnOnce(&mut Seen, &mut Promise),
) {
    let judged = said(label, change);
    let text = format!("{} {}", judged.told, judged.hints.join(" "));
    assert_eq!(judged.verdict, verdict, "{label}: {text}");
    assert!(text.contains(words), "{label} should say `{words}`: {text}");
    let advises = matches!(verdict, Verdict::Change | Verdict::Watch);
    assert!(!advises || !judged.hints.is_empty(), "{label}: {text}");
    assert!(verdict != Verdict::Unknown || judged.figure.is_none(), "{label}: {text}");
}

/// What a rule says without a forecast.
#[track_caller]
fn assert_mode(verdict: Verdict, words: &str, change: impl FnOnce(&mut Seen)) {
    let mut seen = seen();
    change(&mut seen);
    let all = judge(&seen, None);
    let judged =
        all.iter().find(|judged| judged.label == Label::ModeUnsuited).expect("it is there");
    let text = format!("{} {}", judged.told, judged.hints.join(" "));
    assert_eq!(judged.verdict, verdict, "{text}");
    assert!(text.contains(words), "it should say `{words}`: {text}");
}

#[test]
fn a_group_that_does_as_forecast_is_well_by_every_rule_that_can_be_judged() {
    let judged = judge(&seen(), Some(&promise()));
    let labels: Vec<_> = judged.iter().map(|judged| judged.label).collect();
    assert_eq!(labels, Label::ALL);
    for judged in judged {
        let wanted = if judged.label == Label::LinkRate { Unknown } else { Well };
        assert_eq!(judged.verdict, wanted, "{judged:?}");
        assert!(judged.hints.is_empty(), "{judged:?}");
    }
}

#[test]
fn a_queue_is_watched_from_eighty_and_enlarged_from_eighty_five_percent_on() {
    let bytes = |high: u64| move |s: &mut Seen, _: &mut Promise| s.queue.high = Bytes(high);
    assert_said(Label::QueueBytes, Well, "80 %", bytes(799));
    assert_said(Label::QueueBytes, Watch, "helio queue reset db", bytes(800));
    assert_said(Label::QueueBytes, Watch, "85 %", bytes(849));
    assert_said(Label::QueueBytes, Change, "helio queue set db --memory 2000B", bytes(850));
    let items = |high: u64| move |s: &mut Seen, _: &mut Promise| s.queue.high_items = high;
    assert_said(Label::QueueItems, Well, "799 of 1000 items", items(799));
    assert_said(Label::QueueItems, Watch, "80 %", items(800));
    assert_said(Label::QueueItems, Change, "--items 2000", items(850));
    assert_said(Label::QueueBytes, Change, "--memory 2MiB", |s, _| {
        (s.queue.bound, s.queue.high) = (MIB, MIB);
    });
    assert_eq!(queue::enlarged(1000, 1600), 4000, "80 % of the next would not be enough");
}

#[test]
fn a_pressed_queue_that_gets_more_than_is_sent_is_full_some_day() {
    let more = |pressed: bool, written: u64| {
        move |s: &mut Seen, _: &mut Promise| {
            (s.queue.pressed, s.written) = (pressed, Rate(written));
            (s.queue.bound, s.queue.held) = (Bytes(2000), Bytes(1000));
        }
    };
    assert_said(Label::QueueFills, Well, "the queue did not grow", more(false, 5000));
    assert_said(Label::QueueFills, Well, "was sent", more(true, 1000));
    assert_said(Label::QueueFills, Watch, "full in 1.0 s", more(true, 2000));
}

#[test]
fn what_happens_at_the_bound_is_to_be_changed_of_late_and_to_be_known_before() {
    type Place = fn(&mut QueueSeen) -> &mut Counted;
    let rules: [(Label, Place, &str); 3] = [
        (Label::WritesWait, |q| &mut q.waited, "--memory"),
        (Label::WritesRefused, |q| &mut q.refused, "--when-full block"),
        (Label::QueueDropped, |q| &mut q.dropped, "--when-full block/log"),
    ];
    for (label, place, hint) in rules {
        assert_said(label, Well, "0 ", |_, _| {});
        assert_said(label, Watch, "helio queue reset db", |s, _| place(&mut s.queue).before = 3);
        assert_said(label, Change, hint, |s, _| place(&mut s.queue).meanwhile = 1);
    }
    assert_said(
        Label::WritesWait,
        Change,
        "7 writes waited for space in the queue during the measurement, 1.5 s",
        |s, _| {
            (s.queue.waited.meanwhile, s.queue.wait_time) = (7, ms(1500));
        },
    );
}

fn asked(size: Bytes) -> BufferSeen {
    BufferSeen { requested: Some(size), actual: size * 2 }
}

#[test]
fn a_buffer_is_capped_below_twice_what_was_asked_for_at_either_end() {
    let both = Buffers { send: asked(MIB), receive: asked(MIB) };
    let less = BufferSeen { actual: Bytes(MIB.0 * 2 - 1), ..asked(MIB) };
    assert_said(Label::BuffersCapped, Well, "left to the kernel", |_, _| {});
    assert_said(Label::BuffersCapped, Well, "--peer-status", |s, _| link(s).here = both);
    assert_said(
        Label::BuffersCapped,
        Change,
        "on paris: `sysctl -w net.core.wmem_max=1048576`",
        |s, _| {
            link(s).here = Buffers { send: less, ..both };
        },
    );
    assert_said(
        Label::BuffersCapped,
        Change,
        "on lyon: `sysctl -w net.core.rmem_max=1048576`",
        |s, _| {
            (link(s).here, link(s).there) = (both, Some(Buffers { receive: less, ..both }));
        },
    );
}

#[test]
fn one_size_is_asked_for_everywhere_or_it_is_told() {
    let both = Buffers { send: asked(MIB), receive: asked(MIB) };
    assert_said(Label::BuffersUnequal, Well, "auto", |_, _| {});
    assert_said(Label::BuffersUnequal, Well, "1MiB", |s, _| {
        (link(s).here, link(s).there) = (both, Some(both));
    });
    let larger = Buffers { receive: asked(MIB * 2), ..both };
    assert_said(Label::BuffersUnequal, Change, "receive-buffer = \"2MiB\"", |s, _| {
        link(s).here = larger
    });
    assert_said(Label::BuffersUnequal, Change, "lyon receive 2MiB", |s, _| {
        (link(s).here, link(s).there) = (both, Some(larger));
    });
    let half = Buffers { receive: BufferSeen::default(), ..both };
    assert_said(Label::BuffersUnequal, Change, "paris receive auto", |s, _| link(s).here = half);
}

#[test]
fn buffers_are_the_limit_from_half_of_the_busy_time_on() {
    // What went out is what the half of 64 KiB carries in each millisecond.
    let full = (32 << 10) * 1000;
    let buffers = Buffers {
        send: BufferSeen { requested: None, actual: Bytes::kib(64) },
        receive: BufferSeen { requested: None, actual: Bytes::kib(64) },
    };
    let limited = move |by_peer: Duration, here: Duration, sent: u64| {
        move |s: &mut Seen, p: &mut Promise| {
            (s.sent, p.rate) = (Rate(sent), None);
            (link(s).limited_by_peer, link(s).limited_here) = (by_peer, here);
            (link(s).here, link(s).there) = (buffers, Some(buffers));
        }
    };
    let label = Label::BuffersLimit;
    assert_said(label, Well, "of the 1.0 s", limited(ms(250), ms(250) - NANO, full));
    let there = "on lyon: raise the last number of `sysctl net.ipv4.tcp_rmem` to 131072";
    assert_said(label, Change, there, limited(ms(250), ms(250), full));
    assert_said(
        label,
        Change,
        "on paris: raise the last number of `sysctl net.ipv4.tcp_wmem`",
        limited(ms(100), ms(800), full),
    );
    // Half of what it carries is not little; less is, and then it is no buffer that is too small.
    assert_said(label, Change, "64 KiB", limited(SECOND, Duration::ZERO, full / 2));
    assert_said(label, Watch, "the disk of lyon", limited(SECOND, Duration::ZERO, full / 2 - 1));
    assert_said(label, Unknown, "--peer-status", |s, p| {
        limited(SECOND, Duration::ZERO, full)(s, p);
        link(s).there = None;
    });
    // Who asked for a size is told a larger one: twice the product, or twice of what it was.
    assert_said(label, Change, "send-buffer = \"4MiB\"", |s, p| {
        limited(Duration::ZERO, SECOND, full)(s, p);
        p.rate = Some(Rate::mbit(100));
        (link(s).round_trip, link(s).here.send.requested) = (ms(100), Some(Bytes::kib(32)));
    });
    assert_said(label, Change, "receive-buffer = \"128KiB\"", |s, p| {
        limited(SECOND, Duration::ZERO, full)(s, p);
        (link(s).here, link(s).there) =
            (Buffers { send: asked(Bytes::kib(64)), receive: asked(Bytes::kib(64)) }, None);
    });
    assert_said(label, Unknown, "hardly anything", |s, p| {
        limited(SECOND, SECOND, full)(s, p);
        link(s).busy = ms(100) - NANO;
    });
}

#[test]
fn the_mode_is_held_against_table_2() {
    let of = |mode: Mode, rtt: Duration, heavy: bool| {
        move |s: &mut Seen| {
            (s.mode, link(s).round_trip, s.queue.pressed) = (mode, rtt, heavy);
            s.written = Rate(if heavy { 2000 } else { 1000 });
        }
    };
    let near = ms(10) - NANO;
    for mode in [Mode::Sync, Mode::NearSync] {
        assert_mode(Well, "low latency", of(mode, near, false));
        assert_mode(Change, "`helio mode db async`", of(mode, ms(10), false));
        assert_mode(Change, "`helio pause db`", of(mode, ms(10), true));
    }
    assert_mode(Watch, "`helio mode db sync`", of(Mode::Async, near, false));
    assert_mode(Well, "10 ms", of(Mode::Async, ms(10), false));
    assert_mode(Change, "as often as the loss of data allows", of(Mode::Async, ms(10), true));
    assert_mode(Change, "heavy load", |s| {
        of(Mode::Async, ms(10), true)(s);
        (s.written, s.queue.waited.meanwhile) = (Rate(900), 1);
    });
    assert_mode(Well, "redo-logs", |s| {
        of(Mode::Async, ms(10), true)(s);
        s.work = Work::RedoLogs;
    });
    assert_mode(Change, "`helio resume db` after it", |s| s.work = Work::Loading);
    // Who forecast it so meant it so.
    assert_said(Label::ModeUnsuited, Well, "the forecast has sync", |s, _| {
        link(s).round_trip = SECOND
    });
}

#[test]
fn a_link_is_slower_than_planned_below_nine_tenths_of_its_rate_while_it_is_full() {
    let sent = |rate: u64| {
        move |s: &mut Seen, _: &mut Promise| (s.queue.pressed, s.sent) = (true, Rate(rate))
    };
    assert_said(Label::LinkRate, Well, "more waited", sent(900));
    assert_said(Label::LinkRate, Change, "helio lab link", sent(899));
    assert_said(Label::LinkRate, Unknown, "was not full", |s, _| s.sent = Rate(1));
    assert_said(Label::LinkRate, Unknown, "has no rate", |s, p| {
        sent(1)(s, p);
        p.rate = None;
    });
}

#[test]
fn a_round_trip_is_longer_than_planned_by_more_than_a_tenth_and_a_millisecond() {
    let most = ms(45);
    let of = |rtt: Duration| {
        move |s: &mut Seen, p: &mut Promise| (link(s).round_trip, p.round_trip) = (rtt, ms(40))
    };
    assert_said(Label::LinkRoundTrip, Well, "45 ms at least", of(most));
    assert_said(Label::LinkRoundTrip, Change, "the forecast has 40 ms", of(most + NANO));
}

#[test]
fn mode_and_bound_are_the_forecasts() {
    assert_said(Label::PlanMode, Well, "as forecast", |_, _| {});
    assert_said(Label::PlanMode, Change, "helio mode db async", |_, p| p.mode = Mode::Async);
    assert_said(Label::PlanQueue, Well, "1000 B", |_, _| {});
    let fewer = |automatic: bool| {
        move |s: &mut Seen, _: &mut Promise| {
            (s.queue.bound, s.queue.automatic) = (Bytes(999), automatic)
        }
    };
    assert_said(Label::PlanQueue, Change, "--memory 1000B", fewer(false));
    assert_said(Label::PlanQueue, Watch, "grows automatically", fewer(true));
}

#[test]
fn what_comes_out_is_held_against_the_forecast_with_a_tenth_to_spare() {
    let high = |bytes: u64| move |s: &mut Seen, _: &mut Promise| s.queue.high = Bytes(bytes);
    assert_said(Label::PlanHighWater, Well, "110 B", high(110));
    assert_said(Label::PlanHighWater, Watch, "helio trace start db", high(111));
    let load = |rate: u64| move |s: &mut Seen, _: &mut Promise| s.written = Rate(rate);
    assert_said(Label::PlanLoad, Well, "is written", load(1100));
    assert_said(Label::PlanLoad, Watch, "helio plan forecast", load(1101));
    let lag = |bytes: u64, age: Duration| {
        move |s: &mut Seen, _: &mut Promise| (s.lag, s.behind) = (Bytes(bytes), age)
    };
    let most = 1100 + (64 << 10);
    assert_said(Label::PlanLag, Well, "behind", lag(most, ms(120)));
    assert_said(Label::PlanLag, Change, "forced failover", lag(most + 1, ms(0)));
    assert_said(Label::PlanLag, Change, "helio trace", lag(0, ms(120) + NANO));
    assert_said(Label::PlanLatency, Unknown, "the forecast is of async", |_, p| {
        p.mode = Mode::Async
    });
}

fn answered(seen: &mut Seen) -> &mut AnswersSeen {
    seen.answers.as_mut().expect("the story has them")
}

#[test]
fn answers_are_held_against_the_forecasts_like_with_like() {
    let (p99, median) = (ms(21), ms(9) + ms(8) / 10);
    let of = |found: Times| move |s: &mut Seen, _: &mut Promise| answered(s).writes = found;
    assert_said(
        Label::PlanLatency,
        Well,
        "the forecast has 16 ms as the p99",
        of(Times { p99, ..times() }),
    );
    let slow = Times { p99: p99 + NANO, ..times() };
    assert_said(Label::PlanLatency, Change, "--disk", of(slow));
    assert_said(Label::PlanFlushLatency, Well, "flushes were acknowledged within 16 ms", of(slow));
    assert_said(Label::PlanMedian, Well, "as the median", of(Times { median, ..times() }));
    let slow = Times { median: median + NANO, ..times() };
    assert_said(Label::PlanMedian, Watch, "helio queue reset db", of(slow));
    assert_said(Label::PlanFlushLatency, Change, "99 % of 100 flushes", |s, _| {
        answered(s).flushes.p99 = p99 + NANO;
    });
}

#[test]
fn answers_that_are_few_or_not_forecast_are_not_judged() {
    let few = Times { count: 99, p99: SECOND, ..times() };
    assert_said(Label::PlanLatency, Unknown, "at least 100", |s, _| answered(s).writes = few);
    assert_said(Label::PlanFlushLatency, Unknown, "has no flushes", |_, p| p.flushes = None);
    assert_said(Label::PlanMedian, Unknown, "nobody tells", |s, _| {
        s.answers = Err("nobody tells".into());
    });
}

#[test]
fn without_a_link_or_a_forecast_the_rules_that_need_them_say_so() {
    let of_link = [
        Label::BuffersCapped,
        Label::BuffersUnequal,
        Label::BuffersLimit,
        Label::ModeUnsuited,
        Label::LinkRate,
        Label::LinkRoundTrip,
    ];
    for label in Label::ALL {
        let judged = said(label, |s, p| {
            s.link = Err("lyon is not connected".into());
            p.mode = Mode::Async;
        });
        let told = judged.told.contains("lyon is not connected");
        assert_eq!(told, of_link.contains(&label), "{judged:?}");
    }
    let plain = judge(&seen(), None);
    let lacking: Vec<_> =
        plain.iter().filter(|judged| judged.told.contains("--forecast")).collect();
    assert_eq!(lacking.len(), 10, "{lacking:?}");
    assert!(lacking.iter().all(|judged| judged.verdict == Unknown));
}

#[test]
fn the_page_has_every_rule_as_the_code_has_it() {
    let page = include_str!("../../../../docs/reference/advise.md");
    let rows = page.lines().filter(|line| {
        let word = line.strip_prefix("| `").and_then(|rest| rest.split_once('`'));
        word.is_some_and(|(word, _)| Label::ALL.iter().any(|label| label.word() == word))
    });
    let wanted = Label::ALL.map(|l| format!("| `{}` | {} | {} |", l.word(), l.rule(), l.source()));
    assert_eq!(rows.collect::<Vec<_>>(), wanted);
}

#[test]
fn sizes_are_told_as_they_are_read() {
    for (bytes, text) in [(3 << 20, "3MiB"), (1536, "1536B"), (3 << 10, "3KiB"), (0, "0B")] {
        assert_eq!(exact(Bytes(bytes)), text);
        assert_eq!(helio_units::parse_bytes(text), Ok(Bytes(bytes)));
    }
}

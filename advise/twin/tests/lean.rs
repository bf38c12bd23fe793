// SPDX-License-Identifier: Apache-2.0
//! The lean pair against closed formulas where they hold, and against itself.

use core::num::NonZeroU32;
use core::time::Duration;
use helio_engine::{Config, OnError, QueueConfig, SafeCopy};
use helio_netmodel::{Outage, Ppm, Profile, WayWeather, Weather, WeatherRow, WeatherWriter};
use helio_twin::{
    Course, DiskModel, Figures, LinkModel, Outcome, Pair, PairConfig, Processor, Run, ServiceTime,
    Transport, crc32c,
};
use helio_units::{Bytes, Items, Mode, Moment, Rate, State};
use helio_workload::{Arrivals, RequestRate, SizeShare, Synthetic, Workload};
use std::sync::Arc;

const MS: Duration = Duration::from_millis(1);

fn settings(mode: Mode, queue: Bytes) -> Config {
    Config {
        mode,
        queue: QueueConfig { memory: Some(queue), ..QueueConfig::default() },
        safe_copy: SafeCopy::Off,
        on_error: OnError::Pass,
        ..Config::new("plan", "", "", vec![Bytes::gib(1)])
    }
}

fn config(mode: Mode, queue: Bytes, line: &Profile) -> PairConfig {
    let disk = DiskModel {
        read: ServiceTime::even(MS),
        write: ServiceTime::even(MS),
        flush: ServiceTime::even(MS * 4),
        lanes: NonZeroU32::new(64).expect("lanes"),
        bandwidth: None,
    };
    let back = Profile { outages: line.outages.clone(), ..line.clone() };
    PairConfig {
        settings: settings(mode, queue),
        link: LinkModel { forth: line.clone(), back, transport: Transport::Relay, course: None },
        disks: [disk, disk],
        processor: Processor { turn: Duration::ZERO, event: Duration::ZERO, kib: Duration::ZERO },
        client: Duration::ZERO,
        depth: 1 << 16,
        seed: 7,
    }
}

fn workload(rate: u64, size: Bytes, seconds: u64, arrivals: Arrivals) -> Workload {
    let of = Synthetic {
        rate: RequestRate(rate),
        sizes: vec![SizeShare { size, weight: 1 }],
        arrivals,
        duration: Duration::from_secs(seconds),
        flush_every: Items(100),
        ..Synthetic::default()
    };
    of.draw().expect("it is sound")
}

fn run(config: PairConfig, workload: &Workload) -> (Figures, Pair) {
    let mut pair = Pair::new(config).expect("they mirror");
    let figures = pair.run(&Run {
        requests: workload.requests(),
        begin: Moment::ZERO,
        measured: Moment::ZERO,
        end: Moment::ZERO + workload.span(),
        patience: Duration::from_secs(600),
        every: Duration::from_millis(10),
    });
    // What is level is durable a little later.
    pair.pass(Duration::from_secs(1));
    (figures, pair)
}

fn near(found: Duration, wanted: Duration, percent: u32) -> bool {
    found.abs_diff(wanted) <= wanted * percent / 100
}

#[test]
fn a_write_takes_what_its_mode_waits_for() {
    let line = Profile { delay: MS * 10, ..Profile::ideal() };
    let work = workload(200, Bytes::kib(4), 10, Arrivals::Even);
    // sync: one way, the peer's disk, and back. nearsync: both ways. async: the own disk.
    let expected = [(Mode::Sync, MS * 21), (Mode::NearSync, MS * 20), (Mode::Async, MS)];
    for (mode, wanted) in expected {
        let (figures, _) = run(config(mode, Bytes::mib(8), &line), &work);
        let found = figures.writes.time_at(50.0);
        assert!(near(found, wanted, 2), "{mode}: {found:?} against {wanted:?}");
        assert_eq!((figures.outcome, figures.denied), (Outcome::Level, Items(0)));
        assert_eq!(figures.writes.count(), 2000, "{mode}");
        assert_eq!(figures.flushes.count(), 20, "{mode}");
    }
}

#[test]
fn a_queue_fills_in_its_size_by_the_difference_of_the_rates() {
    // 2,000 writes of 4 KiB are 8.192 MB/s; the line carries 4 MB/s with its frames, so 16 MiB last about 4 s.
    let rate = Rate(4_000_000);
    let line = Profile { delay: MS * 5, rate: Some(rate), ..Profile::ideal() };
    let work = workload(2000, Bytes::kib(4), 12, Arrivals::Even);
    let queue = Bytes::mib(16);
    let (figures, _) = run(config(Mode::Async, queue, &line), &work);
    let carried = 4_000_000.0 * 4096.0 / (4096.0 + 36.0 + 24.0);
    let wanted = Duration::from_secs_f64(queue.0 as f64 / (8_192_000.0 - carried));
    let found = figures.full_after.expect("it fills");
    assert!(near(found, wanted, 5), "{found:?} against {wanted:?}");
    assert!(figures.throttled.0 > 0 && figures.queue_high <= queue);
    let found = figures.throughput();
    assert!(
        found.0 > 3_900_000 && found.0 < 6_000_000,
        "what the line carries, and the queue: {found}"
    );
}

#[test]
fn bytes_in_are_bytes_through_and_nothing_stays_held() {
    let line = Profile { delay: MS * 3, rate: Some(Rate::mbit(1000)), ..Profile::ideal() };
    let work = workload(1500, Bytes::kib(8), 10, Arrivals::Random);
    for mode in Mode::IN_ORDER {
        let (figures, pair) = run(config(mode, Bytes::mib(32), &line), &work);
        let written = 15_000 * 8192;
        assert_eq!(figures.answered, Bytes(written), "{mode}");
        assert!(
            figures.sent.0 > written && figures.sent.0 < written * 102 / 100,
            "{mode}: {}",
            figures.sent
        );
        assert_eq!(pair.held(), 0, "{mode}: payloads are held though everything is durable");
        assert_eq!(pair.differing(), 0, "{mode}");
    }
}

#[test]
fn one_seed_gives_one_set_of_figures() {
    let line = Profile { jitter: MS * 4, ..Profile::wan(MS * 20, Rate::mbit(50)) };
    let work = workload(800, Bytes::kib(4), 5, Arrivals::Random);
    let with = |seed| {
        let mut config = config(Mode::Sync, Bytes::mib(8), &line);
        for disk in &mut config.disks {
            disk.write = ServiceTime { median: MS, p99: MS * 5 };
        }
        run(PairConfig { seed, ..config }, &work).0
    };
    assert_eq!(with(1), with(1));
    assert_ne!(with(1), with(2));
}

#[test]
fn an_outage_is_waited_out_in_the_queue_or_costs_a_resync() {
    let outage = |seconds: u64| {
        let at = |s| Moment::ZERO + Duration::from_secs(s);
        let outages = vec![Outage { from: at(5), to: at(5 + seconds) }];
        Profile { outages, ..Profile::wan(MS * 10, Rate::mbit(200)) }
    };
    let work = workload(500, Bytes::kib(4), 30, Arrivals::Random);
    // 2 MB/s for 3 s fit into 64 MiB; for 12 s they do not fit into 8 MiB, and the queue is dropped.
    let (kept, _) = run(config(Mode::Async, Bytes::mib(64), &outage(3)), &work);
    assert_eq!((kept.dropped, kept.outcome), (Items(0), Outcome::Level));
    assert!(kept.behind.most() > 2_900_000_000, "{}", kept.behind.most());
    let (dropped, pair) = run(config(Mode::Async, Bytes::mib(8), &outage(12)), &work);
    assert_eq!((dropped.dropped, dropped.outcome), (Items(1), Outcome::Level));
    assert!(dropped.samples.iter().any(|sample| sample.state == State::Syncing));
    assert!(dropped.behind.most() > 11_900_000_000 && dropped.level_after > kept.level_after);
    assert_eq!((pair.differing(), pair.held()), (0, 0));
    assert_eq!(dropped.writes.count() + dropped.denied.0, 15_000);
}

#[test]
fn a_window_rules_where_it_is_less_than_what_the_line_holds() {
    // 64 KiB per 50 ms are 1.31 MB/s, whatever the line could carry.
    let line = Profile { delay: MS * 25, rate: Some(Rate::mbit(1000)), ..Profile::ideal() };
    let mut with = config(Mode::Async, Bytes::mib(2), &line);
    with.link.transport = Transport::Tcp { window: Bytes::kib(64) };
    let (figures, _) = run(with, &workload(1000, Bytes::kib(4), 20, Arrivals::Even));
    let wanted = Bytes::kib(64).0 * 20;
    let found = figures.throughput().0;
    assert!(found.abs_diff(wanted) < wanted / 10, "{found} against {wanted}");
}

/// Everything that a run came to, in one line; samples as a sum of them all.
fn line_of(figures: &Figures) -> String {
    let of = |spread: &helio_twin::Spread| {
        format!("{}/{}/{}/{}", spread.count(), spread.at(50.0), spread.at(99.0), spread.most())
    };
    let samples = figures.samples.iter().flat_map(|sample| format!("{sample:?}").into_bytes());
    let sum = samples.fold(0xCBF2_9CE4_8422_2325u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    });
    format!(
        "events {} writes {} responses {} flushes {} reads {} sent {} received {} dropped {} throttled {} level {:?} {:?} \
         samples {sum:016x}",
        figures.events.0,
        of(&figures.writes),
        of(&figures.responses),
        of(&figures.flushes),
        of(&figures.reads),
        figures.sent.0,
        figures.received.0,
        figures.dropped.0,
        figures.throttled.0,
        figures.level_after,
        figures.outcome,
    )
}

/// A link that is recorded: 40 ms, then nothing for 300 ms, then 10 ms at 20 Mbit/s.
fn recorded() -> Course {
    let way = |rate, loss| WayWeather { jitter: MS, loss: Ppm(loss), rate };
    let row = |at, round_trip, way| WeatherRow { at, round_trip, there: way, back: way };
    let (mut writer, mut text) = WeatherWriter::begin(crc32c);
    for row in [
        row(Duration::ZERO, MS * 40, way(None, 1000)),
        row(MS * 1500, MS * 40, way(None, 900_000)),
        row(MS * 1800, MS * 10, way(Some(Rate::mbit(20)), 0)),
    ] {
        text += &writer.row(&row);
    }
    text += &writer.end(MS * 2500);
    let weather = Weather::read(text.as_bytes(), crc32c).expect("it is what was written");
    Course { weather: Arc::new(weather), repeat: true, queue: None }
}

/// Runs of every kind: modes, transports, FUA, reads, a pause in receiving, outages with and without a resync, a safe copy.
fn varied() -> Vec<(&'static str, PairConfig)> {
    let at = |millis| Moment::ZERO + MS * millis;
    let outage = |to| vec![Outage { from: at(1000), to: at(to) }];
    let lossy = Profile { jitter: MS, loss: Ppm(5000), ..Profile::wan(MS * 8, Rate::mbit(100)) };
    let cut = Profile { outages: outage(3500), ..lossy.clone() };
    let long = Profile { outages: outage(9000), ..lossy.clone() };
    let busy = |mode, queue, line: &Profile| {
        let mut config = config(mode, queue, line);
        for disk in &mut config.disks {
            let time = |median| ServiceTime { median, p99: median * 4 };
            (disk.read, disk.write, disk.flush) = (time(MS / 4), time(MS / 5), time(MS * 2));
            disk.lanes = NonZeroU32::new(8).expect("lanes");
            disk.bandwidth = Some(Rate(50_000_000));
        }
        let of = Duration::from_nanos;
        config.processor = Processor { turn: of(10_000), event: of(2000), kib: of(150) };
        (config.link.transport, config.client) =
            (Transport::Tcp { window: Bytes::kib(256) }, MS / 20);
        config
    };
    let mut slow_peer = busy(Mode::Async, Bytes::mib(64), &Profile::ideal());
    slow_peer.disks[1].bandwidth = Some(Rate(3_000_000));
    let mut safe = busy(Mode::Async, Bytes::mib(1), &long);
    safe.settings.safe_copy = SafeCopy::On { bound: None };
    let mut weather = busy(Mode::NearSync, Bytes::mib(8), &lossy);
    weather.link.course = Some(recorded());
    let mut relay = busy(Mode::Async, Bytes::mib(1), &long);
    relay.link.transport = Transport::Relay;
    vec![
        ("sync", busy(Mode::Sync, Bytes::mib(8), &lossy)),
        ("nearsync", busy(Mode::NearSync, Bytes::mib(8), &lossy)),
        ("async", busy(Mode::Async, Bytes::mib(8), &lossy)),
        ("async, outage", busy(Mode::Async, Bytes::mib(64), &cut)),
        ("sync, outage", busy(Mode::Sync, Bytes::mib(8), &cut)),
        ("relay, outage, small queue", relay),
        ("safe copy, outage, small queue", safe),
        ("slow peer", slow_peer),
        ("recorded link", weather),
    ]
}

#[test]
fn a_seed_gives_the_figures_that_it_always_gave() {
    let of = Synthetic {
        rate: RequestRate(400),
        sizes: vec![
            SizeShare { size: Bytes::kib(4), weight: 3 },
            SizeShare { size: Bytes::kib(64), weight: 1 },
        ],
        reads: Ppm(200_000),
        fua: Ppm(50_000),
        flush_every: Items(50),
        duration: Duration::from_secs(12),
        ..Synthetic::default()
    };
    let work = of.draw().expect("it is sound");
    let found: Vec<String> = varied()
        .into_iter()
        .map(|(name, config)| format!("{name}: {}", line_of(&run(config, &work).0)))
        .collect();
    assert_eq!(found, include_str!("figures.txt").lines().collect::<Vec<_>>(), "{found:#?}");
}

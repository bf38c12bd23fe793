// SPDX-License-Identifier: Apache-2.0
//! Both ends in one process, over loopback.

use helio_driver::Linux;
use helio_lab::{
    Ask, Disk, Duty, Event, Job, Keys, LabError, Mode, Outcome, Place, Search, Stage, Waking,
    follow, run_primary, run_standby, search,
};
use helio_tls::NodeKey;
use std::net::{SocketAddr, TcpListener};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant, SystemTime};

/// How long an end waits for the other one: no test here is about that.
const PATIENCE: Duration = Duration::from_secs(600);

fn place(at: SocketAddr, blocking: bool) -> Place {
    Place {
        local: at,
        remote: at,
        callers: None,
        bind: false,
        patience: PATIENCE,
        ask: Ask { blocking, ..Ask::default() },
        keys: None,
    }
}

fn job(mode: Mode, flushes: u64) -> Job {
    Job {
        mode,
        flush: 40_000,
        time: None,
        flushes: Some(flushes),
        target: None,
        disk: None,
        compress: None,
        window: None,
        streams: 1,
        standbys: 1,
    }
}

/// A loopback address nobody listens on.
fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port")
}

/// Runs a primary and its standbys to their end.
fn measure(primary: &Place, standbys: &[&Place], job: &Job, duty: Duty) -> (Outcome, Vec<Outcome>) {
    let (stop, waking) = (AtomicBool::new(false), Waking::told(Duration::from_millis(1)));
    let stage = Stage { watch: &|_| {}, stop: &stop, verbose: false };
    let whole = |ran: Result<Outcome, LabError>| {
        let outcome = ran.unwrap_or_else(|why| panic!("it did not run: {why}"));
        assert!(outcome.failure.is_none(), "{:?}", outcome.failure);
        outcome
    };
    std::thread::scope(|scope| {
        let first = scope.spawn(|| run_primary(primary, job, waking, &stage));
        let others: Vec<_> = standbys
            .iter()
            .map(|place| scope.spawn(move || run_standby(place, &duty, waking, &stage)))
            .collect();
        let others = others.into_iter().map(|end| whole(end.join().expect("no panic"))).collect();
        (whole(first.join().expect("no panic")), others)
    })
}

#[test]
fn every_mode_ships_every_flush_whether_calls_block_or_not() {
    for mode in [Mode::Sync, Mode::NearSync, Mode::Async, Mode::SuperAsync] {
        for (here, there) in [(false, false), (true, false), (false, true), (true, true)] {
            let at = free();
            let (primary, standby) = (place(at, here), place(at, there));
            let (one, others) = measure(&primary, &[&standby], &job(mode, 300), Duty::default());
            assert_eq!((one.bytes(), others[0].bytes()), (12_000_000, 12_000_000), "{mode:?}");
            assert_eq!(one.tally.sent.sum(), 12_000_000, "heads are part of flushes");
            assert_eq!(others[0].tally.received.sum(), 12_000_000);
            assert_eq!(one.tally.received.sum(), 300 * 48, "48 bytes acknowledge each");
            assert_eq!(one.counts.delivered.count(), 300);
            let told = one.wires[0].report.expect("it told");
            assert_eq!((told.flushes, told.bytes), (300, 12_000_000));
            assert!(one.wires[0].figures.window_scale.is_some(), "loopback scales windows");
        }
    }
}

#[test]
fn streams_and_standbys_each_have_their_flushes() {
    let at = free();
    let (primary, standby) = (place(at, false), place(at, false));
    let both = Job { streams: 3, standbys: 2, compress: Some(4.0), ..job(Mode::NearSync, 100) };
    let (one, others) = measure(&primary, &[&standby, &standby], &both, Duty::default());
    assert_eq!((one.counts.flushes.count(), one.wires.len()), (100, 6));
    assert!(others.iter().all(|other| other.bytes() == one.bytes() && other.wires.len() == 3));
    let ratio = one.bytes() as f64 / one.counts.wire as f64;
    assert!((3.7..4.3).contains(&ratio), "{ratio}");
}

#[test]
fn a_window_bounds_what_is_under_way_and_a_slow_standby_what_arrives() {
    let at = free();
    let (primary, standby) = (place(at, false), place(at, false));
    let narrow = Job { window: Some(80_000), ..job(Mode::Async, 60) };
    let duty = Duty { apply: Some(4e6), buffer: Some(80_000), disk: None };
    let (one, others) = measure(&primary, &[&standby], &narrow, duty);
    // 2.4 MB at 4 MB/s: 0.6 s, less the two flushes that find room.
    assert!(one.span >= Duration::from_millis(450), "{:?}", one.span);
    assert!(
        others[0].counts.blocked >= Duration::from_millis(400),
        "{:?}",
        others[0].counts.blocked
    );
    assert!(others[0].counts.most_waiting <= 80_000, "{}", others[0].counts.most_waiting);
}

#[test]
fn with_keys_everything_is_sealed_and_a_stranger_hears_why_it_is_not_let_in() {
    let folder = tempfile::tempdir().expect("a folder");
    let key =
        |name: &str| NodeKey::create(&Linux::host(), &folder.path().join(name)).expect("a key");
    let (paris, lyon, nice) = (key("paris"), key("lyon"), key("nice"));
    let keyed = |at, own: &NodeKey, other: &NodeKey| Place {
        keys: Some(Keys { own: own.clone(), trusted: vec![other.public()] }),
        ..place(at, false)
    };
    let at = free();
    let (primary, standby) = (keyed(at, &paris, &lyon), keyed(at, &lyon, &paris));
    for mode in [Mode::NearSync, Mode::Async] {
        let (one, others) = measure(&primary, &[&standby], &job(mode, 200), Duty::default());
        assert_eq!(others[0].bytes(), one.bytes());
        assert!(one.tally.sent.sum() > one.bytes().into(), "records have heads of their own");
    }
    let (stop, gone) = (AtomicBool::new(false), AtomicBool::new(false));
    let waking = Waking::told(Duration::ZERO);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let stage = Stage { watch: &|_| {}, stop: &gone, verbose: false };
            run_primary(&primary, &job(Mode::Sync, 1), waking, &stage).err()
        });
        let stage = Stage { watch: &|_| {}, stop: &stop, verbose: false };
        let stranger = keyed(at, &nice, &paris);
        let why = run_standby(&stranger, &Duty::default(), waking, &stage).expect_err("unknown");
        assert!(matches!(why, LabError::Tls { .. }), "{why}");
        gone.store(true, Ordering::Relaxed);
        assert!(matches!(waits.join().expect("no panic"), Some(LabError::Interrupted)));
    });
}

#[test]
fn the_moment_both_ends_tell_is_when_the_connection_came() {
    let now_ms = || {
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        since_1970.expect("it is later than 1970").as_millis() as u64
    };
    let (at, stop, waking) = (free(), AtomicBool::new(false), Waking::told(Duration::ZERO));
    let (listened, told) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let watch = |event: &Event| match event {
        Event::Listening(_) => {
            let begun = now_ms();
            while now_ms() <= begun {
                std::hint::spin_loop();
            }
            listened.store(now_ms(), Ordering::Relaxed);
        }
        Event::Terms { began_ms, .. } => told.lock().expect("no panic").push(*began_ms),
        _ => {}
    };
    let stage = Stage { watch: &watch, stop: &stop, verbose: false };
    let run = job(Mode::Sync, 1);
    std::thread::scope(|scope| {
        let one = scope.spawn(|| run_primary(&place(at, false), &run, waking, &stage).map(drop));
        let other = run_standby(&place(at, false), &Duty::default(), waking, &stage);
        assert!(one.join().expect("no panic").is_ok() && other.is_ok());
    });
    let told = told.into_inner().expect("no panic");
    assert!(told.len() == 2 && told[0] == told[1], "{told:?}");
    assert!(told[0] >= listened.into_inner(), "it waited a while for the connection: {told:?}");
}

#[test]
fn a_search_that_is_interrupted_lets_its_standby_go() {
    let (at, waking) = (free(), Waking::told(Duration::from_millis(1)));
    let (stop, never, runs) = (AtomicBool::new(false), AtomicBool::new(false), AtomicU64::new(0));
    // The first run is the meeting, the second a step.
    let watch = |event: &Event| {
        if matches!(event, Event::Running) && runs.fetch_add(1, Ordering::Relaxed) == 1 {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let how = Search {
        from: 65_536,
        most: 1 << 20,
        time: PATIENCE,
        flush: 65_536,
        streams: 1,
        exact: false,
        hiccup: None,
    };
    std::thread::scope(|scope| {
        let standby = scope.spawn(|| {
            let stage = Stage { watch: &|_| {}, stop: &never, verbose: false };
            follow(&place(at, false), &Duty::default(), waking, &stage, &mut |_| {})
        });
        let stage = Stage { watch: &watch, stop: &stop, verbose: false };
        let why = search(&place(at, false), &how, waking, &stage, &mut |_| {}).err();
        assert!(matches!(why, Some(LabError::Interrupted)), "{why:?}");
        let followed = standby.join().expect("no panic");
        assert!(followed.is_ok(), "it called again: {followed:?}");
    });
}

#[test]
fn a_standby_does_not_count_the_time_before_the_others_came() {
    const LATER: Duration = Duration::from_millis(300);
    let (at, stop, waking) = (free(), AtomicBool::new(false), Waking::told(Duration::ZERO));
    let quiet = Stage { watch: &|_| {}, stop: &stop, verbose: false };
    let run = Job { standbys: 2, ..job(Mode::NearSync, 50) };
    let (ready, is_ready) = sync_channel(1);
    let began = Mutex::new(None);
    let starts = |event: &Event| {
        if matches!(event, Event::Running) {
            *began.lock().expect("no panic") = Some(Instant::now());
        }
    };
    let (standby, duty) = (place(at, false), Duty::default());
    std::thread::scope(|scope| {
        let stage = Stage { watch: &starts, ..quiet };
        let one = scope.spawn({
            let (primary, run) = (place(at, false), &run);
            move || run_primary(&primary, run, waking, &stage).map(drop)
        });
        let early = scope.spawn({
            let standby = &standby;
            move || {
                let told = move |event: &Event| {
                    if matches!(event, Event::Running) {
                        let _ = ready.send(Instant::now());
                    }
                };
                let stage = Stage { watch: &told, ..quiet };
                (run_standby(standby, &duty, waking, &stage), Instant::now())
            }
        });
        let was_ready = is_ready.recv().expect("it told");
        waking.until(was_ready + LATER, || false);
        run_standby(&standby, &duty, waking, &quiet).expect("it ran");
        one.join().expect("no panic").expect("it ran");
        let (outcome, end) = early.join().expect("no panic");
        let began = began.lock().expect("no panic").expect("it told");
        assert!(began >= was_ready + LATER);
        let span = outcome.expect("it ran").span;
        assert!(span > Duration::ZERO && span <= end - began, "{span:?}");
    });
}

#[test]
fn what_makes_no_sense_is_refused_before_anybody_is_called() {
    let (stop, waking) = (AtomicBool::new(false), Waking::told(Duration::ZERO));
    let stage = Stage { watch: &|_| {}, stop: &stop, verbose: false };
    let whole = job(Mode::Sync, 1);
    let stuck = Disk { rate: 0.0, overhead: Duration::ZERO };
    for wrong in [
        Job { flush: 10, ..whole.clone() },
        Job { flush: 1 << 40, ..whole.clone() },
        Job { streams: 0, ..whole.clone() },
        Job { standbys: 17, ..whole.clone() },
        Job { target: Some(0.0), ..whole.clone() },
        Job { disk: Some(stuck), ..whole.clone() },
        Job { window: Some(39_999), ..whole.clone() },
        Job { compress: Some(20.5), ..whole.clone() },
    ] {
        let why = run_primary(&place(free(), false), &wrong, waking, &stage).expect_err("no sense");
        assert!(matches!(why, LabError::Asked(_)), "{why}");
    }
    for wrong in [
        Duty { disk: Some(stuck), ..Duty::default() },
        Duty { apply: Some(0.0), ..Duty::default() },
    ] {
        let why = run_standby(&place(free(), false), &wrong, waking, &stage).expect_err("no sense");
        assert!(matches!(why, LabError::Asked(_)), "{why}");
    }
}

// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::record::{Listen, run_answer};
use std::net::UdpSocket;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

const MS: Duration = Duration::from_millis(1);

fn asking(remote: SocketAddr) -> Asking {
    let (time, every, probe) = (300 * MS, 100 * MS, 2 * MS);
    Asking { remote, local: None, time, every, probe, rates: Some(150 * MS), patience: 10_000 * MS }
}

/// Sets it when it is dropped.
struct Stopping<'s>(&'s AtomicBool);

impl Drop for Stopping<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs an answering end, and `work` with its address.
fn with_answerer(work: impl FnOnce(SocketAddr)) {
    let (stop, at) = (AtomicBool::new(false), Mutex::new(None));
    let heard = |event: &Event| {
        if let Event::Listening(local) = event {
            *at.lock().expect("nobody panics with it") = Some(*local);
        }
    };
    let stage = &Stage { watch: &heard, stop: &stop, verbose: false };
    std::thread::scope(|scope| {
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let end = scope.spawn(move || run_answer(Listen { local, remote: None }, stage));
        let local = loop {
            if let Some(local) = *at.lock().expect("nobody panics with it") {
                break local;
            }
            std::thread::yield_now();
        };
        // Also where the work panics: the scope waits for the answering end.
        let stopping = Stopping(&stop);
        work(local);
        drop(stopping);
        end.join().expect("no panic").expect("it listened");
    });
}

fn record(asking: &Asking) -> Result<(Vec<WeatherRow>, Duration), LabError> {
    let stop = AtomicBool::new(false);
    let mut rows = Vec::new();
    let stage = Stage { watch: &|_| {}, stop: &stop, verbose: false };
    let lasts = run_record(asking, &stage, &mut |row| {
        rows.push(*row);
        Ok(())
    })?;
    Ok((rows, lasts))
}

#[test]
fn a_host_that_asks_itself_is_near_and_loses_nothing() {
    with_answerer(|local| {
        let (rows, lasts) = record(&asking(local)).expect("it answers");
        assert!(rows.len() >= 2 && rows[0].at.is_zero(), "{rows:?}");
        assert!(rows.is_sorted_by(|one, other| one.at < other.at), "{rows:?}");
        assert!(rows.last().is_some_and(|row| row.at < lasts), "{rows:?}");
        for row in &rows {
            assert!(row.round_trip < 50 * MS, "{row:?}");
        }
        let (again, _) =
            record(&Asking { rates: None, ..asking(local) }).expect("one after the other");
        assert!(again.iter().all(|row| row.there.rate.is_none()), "{again:?}");
    });
}

#[test]
fn what_strangers_send_changes_nothing() {
    with_answerer(|local| {
        let stranger = UdpSocket::bind("127.0.0.1:0").expect("a port");
        stranger.set_nonblocking(true).expect("a socket can be");
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let burst = Datagram { first: 1, second: 512, ..Datagram::new(Kind::Want, 7, 7) };
                let bye = Datagram::new(Kind::Bye, 7, 7).encode();
                while !done.load(Ordering::Relaxed) {
                    for bytes in [&b"HELIOREC"[..], &burst.encode(), &bye, &[0; 2000], b""] {
                        // What does not go out is no attack.
                        let _ = stranger.send_to(bytes, local);
                    }
                    std::thread::yield_now();
                }
            });
            let ended = Stopping(&done);
            let (rows, _) =
                record(&Asking { rates: None, ..asking(local) }).expect("it answers all the same");
            drop(ended);
            assert!(rows.len() >= 2, "{rows:?}");
        });
        let heard = stranger.recv(&mut [0; 2000]);
        assert!(heard.is_err(), "nothing was sent to who has no token: {heard:?}");
    });
}

#[test]
fn a_second_one_has_to_wait_and_is_told() {
    with_answerer(|local| {
        let first = Asking { time: 100 * MS, rates: None, ..asking(local) };
        let stop = AtomicBool::new(false);
        let stage = Stage { watch: &|_| {}, stop: &stop, verbose: false };
        let asker = Asker::call(&first, &stage).expect("it answers");
        asker.send(Datagram { number: 1, ..Datagram::new(Kind::Probe, 0, 0) });
        let why = record(&first).expect_err("one is being served");
        assert!(matches!(why, LabError::Busy { .. }), "{why}");
        asker.send(Datagram::new(Kind::Bye, 0, 0));
        record(&first).expect("now it is free");
    });
}

#[test]
fn what_cannot_be_asked_is_said() {
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    for (wrong, said) in [
        (Asking { every: 50 * MS, ..asking(at) }, "--every"),
        (Asking { probe: 60 * MS, ..asking(at) }, "--probe"),
        (Asking { time: MS, ..asking(at) }, "--time"),
        (Asking { time: 70_000_000 * MS, ..asking(at) }, "too many rows"),
        (Asking { patience: MS, ..asking(at) }, "no answer from 127.0.0.1:1"),
    ] {
        let why = record(&wrong).expect_err("it cannot be").to_string();
        assert!(why.contains(said), "{why}");
    }
    let stop = AtomicBool::new(true);
    let stage = Stage { watch: &|_| {}, stop: &stop, verbose: false };
    let listen = Listen { local: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)), remote: None };
    let why = run_answer(listen, &stage).expect_err("anybody could ask").to_string();
    assert!(why.contains("--remote"), "{why}");
}

#[test]
fn a_row_tells_the_two_ways_apart() {
    let probe =
        |came, times: Option<(i64, i64)>| Probe { sent: 0, came, times, back: times.is_some() };
    let second = 1_000_000_000;
    let phase = |probes| Phase { at: MS, first: 1, probes, over: None, rates: [Some(5), None] };
    let times = |ms: i64| Some((second + 5_000_000, -second + ms * 1_000_000));
    let probes =
        vec![probe(true, times(7)), probe(true, times(9)), probe(true, None), probe(false, None)];
    let told = row(&phase(probes), Duration::ZERO);
    assert_eq!((told.round_trip, told.there.jitter), (12 * MS, Duration::ZERO));
    assert_eq!((told.there.loss.0, told.back.loss.0), (250_000, 333_333));
    assert_eq!((told.there.rate, told.back.rate), (Some(Rate(5)), None));
    let dead = row(&phase(vec![probe(false, None)]), 9 * MS);
    assert_eq!(
        (dead.round_trip, dead.there.loss.0, dead.back.loss.0),
        (9 * MS, 1_000_000, 1_000_000)
    );
}

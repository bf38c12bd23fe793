// SPDX-License-Identifier: Apache-2.0
//! Processes: what a kill leaves, what they hold, and that a seed tells everything.

use crate::common::{Desk, MEMBER, create, durable, inet, pass, read, settle, two, write};
use helio_driver::{Driver, Errno, Machine, Mode, OFlags, Op, Outcome};
use helio_world::{Held, World};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::time::Duration;

#[test]
fn a_killed_process_keeps_what_ended_and_the_rest_happens_later_or_never() {
    let mut seen = BTreeSet::new();
    for seed in 0..60 {
        let (world, paris, _) = two(seed);
        let mut desk = Desk::on(&world, &paris);
        let file = durable(&desk.host(), MEMBER, &[0; 1024]);
        desk.write(&file, 0, &[1; 512]);
        desk.submit(2, write(&file, 512, &[2; 512]));
        desk.process.kill();
        assert!(!desk.process.is_alive());
        let host = paris.process().host();
        let content = || host.read(Path::new(MEMBER)).expect("it can be read");
        let before = content();
        assert_eq!(before[..512], [1; 512]);
        settle(&world);
        seen.insert((before[512], content()[512]));
        assert!(desk.ended(2).is_none(), "a dead process gets no answer");
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [(0, 0), (0, 2)]);
}

#[test]
fn a_lock_ends_with_its_handle_and_after_a_kill_with_the_last_operation() {
    let mut waited = 0;
    for seed in 0..40 {
        let (world, paris, _) = two(seed);
        let mut desk = Desk::on(&world, &paris);
        let file = durable(&desk.host(), MEMBER, &[0; 512]);
        assert_eq!(file.body().lock(), Ok(true));
        let again = create(&desk.host(), MEMBER);
        assert_eq!(again.body().lock(), Ok(false));
        drop(file);
        assert_eq!(again.body().lock(), Ok(true));
        desk.submit(1, write(&again, 0, &[1; 512]));
        desk.process.kill();
        let next = create(&paris.process().host(), MEMBER);
        let at_once = next.body().lock().expect("it can be asked for");
        let before = next.read_all().expect("it can be read");
        settle(&world);
        assert_eq!(next.body().lock(), Ok(true));
        let changed = next.read_all().expect("it can be read") != before;
        assert!(!(at_once && changed), "the operation of a dead process passed a lock");
        waited += u32::from(!at_once);
    }
    assert!((10..30).contains(&waited), "{waited}");
}

#[test]
fn what_a_process_holds_is_counted_and_bounded() {
    let (_world, paris, _) = two(1);
    let process = paris.process();
    let host = process.host();
    let file = create(&host, MEMBER);
    let clone = file.clone();
    let listener = host.listen(&inet(1, 7400), 4).expect("listening");
    assert_eq!(process.held(), Held { files: 1, sockets: 1 });
    paris.set_descriptors(2);
    let more = host.open(Path::new(MEMBER), OFlags::RDONLY, Mode::empty());
    assert_eq!(more.err(), Some(Errno::MFILE));
    drop((file, listener));
    assert_eq!(process.held(), Held { files: 1, sockets: 0 });
    drop(clone);
    assert_eq!(process.held(), Held::default());
}

#[test]
fn work_beside_a_process_happens_soon_after_and_not_after_its_death() {
    let (world, paris, _) = two(1);
    let process = paris.process();
    let done = Arc::new(AtomicU32::new(0));
    let work = |host: helio_driver::Host| {
        let done = done.clone();
        let job = Box::new(move || {
            done.fetch_add(u32::from(!host.exists(Path::new("/nothing"))), SeqCst);
        });
        assert!(process.host().take_work("work", job).is_none(), "the machine takes it");
    };
    work(process.host());
    assert_eq!(done.load(SeqCst), 0);
    settle(&world);
    assert_eq!(done.load(SeqCst), 1);
    work(process.host());
    process.kill();
    settle(&world);
    assert_eq!(done.load(SeqCst), 1);
}

#[test]
fn a_waker_ends_every_wait_once() {
    let (world, paris, _) = two(1);
    let mut desk = Desk::on(&world, &paris);
    let waker = desk.driver.waker();
    desk.submit(1, Op::Wait);
    assert!(!desk.driver.is_ready());
    waker.wake();
    waker.wake();
    assert!(desk.driver.is_ready());
    assert!(matches!(desk.ended(1), Some(Outcome::Wait)));
    desk.submit(2, Op::Wait);
    assert!(desk.ended(2).is_none());
    waker.wake();
    assert!(matches!(desk.ended(2), Some(Outcome::Wait)));
}

#[test]
fn the_clocks_of_a_machine_follow_the_world() {
    let (world, paris, tokyo) = two(1);
    pass(&world, Duration::from_secs(10));
    paris.cut_power();
    paris.boot();
    pass(&world, Duration::from_secs(5));
    assert_eq!(paris.since_boot(), Duration::from_secs(5));
    assert_eq!(tokyo.since_boot(), Duration::from_secs(15));
    tokyo.set_calendar(Duration::from_secs(3_000_000_000));
    pass(&world, Duration::from_secs(1));
    assert_eq!(paris.calendar(), Duration::from_secs(1_700_000_016));
    assert_eq!(tokyo.calendar(), Duration::from_secs(3_000_000_001));
}

#[test]
fn operations_on_files_end_in_any_order() {
    let (world, paris, _) = two(1);
    let mut desk = Desk::on(&world, &paris);
    let file = durable(&desk.host(), MEMBER, &[0; 4096]);
    let mut orders = BTreeSet::new();
    for _ in 0..100 {
        (0..3).for_each(|token| desk.submit(token, read(&file, 0, 512)));
        let mut order = Vec::new();
        while order.len() < 3 {
            let ended: Vec<u64> = (0..3).filter(|token| desk.ended(*token).is_some()).collect();
            order.extend(ended);
            world.advance();
        }
        orders.insert(order);
    }
    assert_eq!(orders.len(), 6);
    assert_eq!(desk.driver.under_way(), 0);
}

fn run(seed: u64) -> (u64, Vec<String>) {
    let (world, paris, tokyo) = two(seed);
    let (mut here, mut there) = (Desk::on(&world, &paris), Desk::on(&world, &tokyo));
    let file = durable(&here.host(), MEMBER, &[0; 8192]);
    let listener = there.host().listen(&inet(2, 7400), 4).expect("listening");
    there.submit(1, Op::Accept { listener });
    let socket = here.host().stream_for(&inet(2, 7400)).expect("a socket");
    here.submit(1, Op::Connect { socket, address: inet(2, 7400) });
    (10..20).for_each(|token| here.submit(token, write(&file, 0, &[token as u8; 4096])));
    here.outcome(1);
    there.outcome(1);
    here.process.kill();
    settle(&world);
    paris.cut_power();
    there.process.kill();
    (world.digest(), world.story())
}

#[test]
fn the_same_seed_tells_the_same_story() {
    for seed in 0..10 {
        let (first, second) = (run(seed), run(seed));
        assert_eq!(first.1, second.1);
        assert_eq!(first.0, second.0);
    }
    assert_ne!(run(1).0, run(2).0);
    assert!(World::new(1, false).story().is_empty());
}

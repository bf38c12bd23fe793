// SPDX-License-Identifier: Apache-2.0
//! Sockets of two processes: streams, their ends, and links that carry nothing.

use crate::common::{Desk, inet, pass, settle, two};
use helio_driver::{Accepted, Address, Buffer, Driver, Errno, Op, Outcome, Piece, Socket};
use helio_netmodel::{Ppm, Profile};
use helio_units::Rate;
use helio_world::{Odds, SimMachine, SocketOptions, World};
use proptest::prelude::*;
use std::time::Duration;

fn recv(socket: &Socket, length: usize) -> Op {
    Op::Recv { socket: socket.clone(), buffer: Buffer::zeroed(length), range: 0..length }
}

fn send(socket: &Socket, bytes: &[u8]) -> Op {
    Op::Send { socket: socket.clone(), pieces: vec![Piece::Bytes(bytes.to_vec())] }
}

fn received(outcome: Outcome) -> Vec<u8> {
    match outcome {
        Outcome::Recv { buffer, result: Ok(count) } => buffer[..count].to_vec(),
        other => panic!("{other:?}"),
    }
}

fn errno(outcome: Outcome) -> Option<Errno> {
    outcome.error().and_then(|error| error.errno())
}

fn accepted(outcome: Outcome) -> Accepted {
    match outcome {
        Outcome::Accept(Ok(accepted)) => accepted,
        other => panic!("{other:?}"),
    }
}

struct Pair {
    world: World,
    paris: SimMachine,
    tokyo: SimMachine,
    here: Desk,
    there: Desk,
    near: Socket,
    far: Socket,
}

/// Two processes on two machines, and a connection between them.
fn pair(seed: u64) -> Pair {
    let (world, paris, tokyo) = two(seed);
    let (mut here, mut there) = (Desk::on(&world, &paris), Desk::on(&world, &tokyo));
    let address = inet(2, 7400);
    let listener = there.host().listen(&address, 4).expect("listening");
    there.submit(1, Op::Accept { listener });
    let near = here.host().stream_for(&address).expect("a socket");
    let outcome = here.run(Op::Connect { socket: near.clone(), address });
    assert!(matches!(outcome, Outcome::Connect(Ok(()))), "{outcome:?}");
    let far = accepted(there.outcome(1));
    assert_eq!(far.peer, near.local_address().expect("its address"));
    Pair { world, paris, tokyo, here, there, near, far: far.socket }
}

/// Receives until so many bytes are there.
fn receive_all(desk: &mut Desk, socket: &Socket, length: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < length {
        let some = received(desk.run(recv(socket, length - all.len())));
        assert!(!some.is_empty(), "the stream ended after {} bytes", all.len());
        all.extend(some);
    }
    all
}

#[test]
fn an_echo_within_a_machine_over_a_unix_socket() {
    let (world, paris, _) = two(1);
    let mut desk = Desk::on(&world, &paris);
    let address = Address::Unix("/helio.sock".into());
    let listener = desk.host().listen(&address, 1).expect("listening");
    assert!(desk.host().listen(&address, 1).is_err(), "the path exists");
    let near = desk.host().stream_for(&address).expect("a socket");
    assert_eq!(
        desk.run(Op::Connect { socket: near.clone(), address: address.clone() }).error(),
        None
    );
    let far = accepted(desk.run(Op::Accept { listener: listener.clone() }));
    assert_eq!(far.peer, None);
    assert_eq!(desk.run(send(&near, b"good day")).error(), None);
    assert_eq!(receive_all(&mut desk, &far.socket, 8), b"good day");
    drop((listener, far));
    assert_eq!(received(desk.run(recv(&near, 8))), b"");
    let again = desk.host().stream_for(&address).expect("a socket");
    let outcome = desk.run(Op::Connect { socket: again, address });
    assert_eq!(errno(outcome), Some(Errno::CONNREFUSED), "the path is there, its listener is not");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn bytes_arrive_in_order_however_the_link_treats_them(
        seed: u64, loss in 0..100_000u32, sizes in prop::collection::vec(1..100_000usize, 1..12),
    ) {
        let mut it = pair(seed);
        let profile = Profile {
            loss: Ppm(loss),
            jitter: Duration::from_millis(5),
            ..Profile::wan(Duration::from_millis(20), Rate::mbit(200))
        };
        it.world.set_link(&it.paris, &it.tokyo, &profile);
        let mut all = Vec::new();
        for (token, size) in sizes.iter().enumerate() {
            let bytes: Vec<u8> = (0..*size).map(|n| (n * 7 + token) as u8).collect();
            it.here.submit(token as u64, send(&it.near, &bytes));
            all.extend(bytes);
        }
        let cut = all.len() / 2;
        let mut arrived = receive_all(&mut it.there, &it.far, cut);
        it.world.cut(&it.paris, &it.tokyo);
        pass(&it.world, Duration::from_secs(30));
        it.world.heal(&it.paris, &it.tokyo);
        arrived.extend(receive_all(&mut it.there, &it.far, all.len() - cut));
        prop_assert!(arrived == all);
        for token in 0..sizes.len() as u64 {
            prop_assert_eq!(it.here.outcome(token).error(), None);
        }
    }
}

#[test]
fn a_sender_waits_for_a_receiver_that_does_not_read() {
    let mut it = pair(1);
    it.world.set_sockets(SocketOptions {
        send_buffer: 1000,
        receive_buffer: 500,
        ..SocketOptions::default()
    });
    it.here.submit(1, send(&it.near, &[1; 1400]));
    it.here.submit(2, send(&it.near, &[2; 200]));
    settle(&it.world);
    assert_eq!(it.here.outcome(1).error(), None);
    assert!(it.here.ended(2).is_none());
    assert_eq!(receive_all(&mut it.there, &it.far, 1600)[1400..], [2; 200]);
    assert_eq!(it.here.outcome(2).error(), None);
}

#[test]
fn a_receiver_that_takes_little_at_a_time_does_not_make_segments_small() {
    let mut it = pair(1);
    it.here.submit(1, send(&it.near, &vec![7; 4 << 20]));
    let (mut arrived, mut events) = (0, 0);
    while arrived < 4 << 20 {
        it.there.submit(2, recv(&it.far, 300));
        arrived += loop {
            if let Some(outcome) = it.there.ended(2) {
                break received(outcome).len();
            }
            assert!(it.world.advance());
            events += 1;
        };
    }
    assert!(events < 4000, "{events}");
}

#[test]
fn a_connection_without_a_listener_is_refused_and_one_over_a_cut_link_times_out() {
    let (world, paris, tokyo) = two(1);
    let mut desk = Desk::on(&world, &paris);
    let connect = |desk: &mut Desk, address: Address| {
        let socket = desk.host().stream_for(&address).expect("a socket");
        errno(desk.run(Op::Connect { socket, address }))
    };
    assert_eq!(connect(&mut desk, inet(2, 7400)), Some(Errno::CONNREFUSED));
    world.cut(&paris, &tokyo);
    let began = world.now();
    assert_eq!(connect(&mut desk, inet(2, 7400)), Some(Errno::TIMEDOUT));
    assert_eq!(world.now().since(began), SocketOptions::default().connect_within);
    assert_eq!(connect(&mut desk, Address::Unix("/none".into())), Some(Errno::NOENT));
}

#[test]
fn a_full_backlog_makes_others_wait_until_one_is_accepted() {
    let (world, paris, tokyo) = two(1);
    let (mut here, mut there) = (Desk::on(&world, &paris), Desk::on(&world, &tokyo));
    let address = inet(2, 7400);
    let listener = there.host().listen(&address, 1).expect("listening");
    for token in 0..2 {
        let socket = here.host().stream_for(&address).expect("a socket");
        here.submit(token, Op::Connect { socket, address: address.clone() });
    }
    pass(&world, Duration::from_millis(500));
    let done: Vec<bool> = (0..2).map(|token| here.ended(token).is_some()).collect();
    assert_eq!(done.iter().filter(|done| **done).count(), 1);
    there.submit(1, Op::Accept { listener: listener.clone() });
    let late = done.iter().position(|done| !done).expect("one waits");
    assert_eq!(here.outcome(late as u64).error(), None);
}

#[test]
fn an_accept_without_a_free_descriptor_leaves_the_connection_waiting() {
    let (world, paris, tokyo) = two(1);
    let (mut here, mut there) = (Desk::on(&world, &paris), Desk::on(&world, &tokyo));
    let address = inet(2, 7400);
    let listener = there.host().listen(&address, 1).expect("listening");
    let socket = here.host().stream_for(&address).expect("a socket");
    assert_eq!(here.run(Op::Connect { socket, address }).error(), None);
    tokyo.set_descriptors(1);
    let refused = there.run(Op::Accept { listener: listener.clone() });
    assert_eq!(errno(refused), Some(Errno::MFILE));
    tokyo.set_descriptors(2);
    accepted(there.run(Op::Accept { listener }));
}

#[test]
fn a_cut_link_tells_neither_end_and_what_was_sent_arrives_after_it_heals() {
    let mut it = pair(1);
    it.there.submit(5, recv(&it.far, 100));
    it.world.cut_way(&it.paris, &it.tokyo);
    assert_eq!(it.here.run(send(&it.near, b"late")).error(), None);
    assert_eq!(it.there.run(send(&it.far, b"back")).error(), None);
    assert_eq!(receive_all(&mut it.here, &it.near, 4), b"back", "the other direction carries");
    pass(&it.world, Duration::from_secs(60));
    assert!(it.there.ended(5).is_none());
    it.world.heal(&it.paris, &it.tokyo);
    assert!(b"late".starts_with(&received(it.there.outcome(5))));
}

#[test]
fn a_sender_gives_up_a_link_that_stays_cut() {
    let mut it = pair(1);
    it.world.cut(&it.paris, &it.tokyo);
    it.here.submit(1, recv(&it.near, 10));
    it.there.submit(1, recv(&it.far, 10));
    assert_eq!(it.here.run(send(&it.near, b"lost")).error(), None);
    assert_eq!(errno(it.here.outcome(1)), Some(Errno::TIMEDOUT));
    settle(&it.world);
    assert!(it.there.ended(1).is_none(), "an end that sends nothing never learns");
    it.world.heal(&it.paris, &it.tokyo);
    assert_eq!(it.there.run(send(&it.far, b"hello")).error(), None);
    assert_eq!(errno(it.there.outcome(1)), Some(Errno::CONNRESET));
}

#[test]
fn a_connection_to_a_machine_that_lost_power_is_half_open_until_its_end_sends() {
    let mut it = pair(1);
    it.here.submit(1, recv(&it.near, 10));
    it.tokyo.cut_power();
    pass(&it.world, Duration::from_secs(600));
    it.tokyo.boot();
    pass(&it.world, Duration::from_secs(600));
    assert!(it.here.ended(1).is_none());
    assert_eq!(it.here.run(send(&it.near, b"anyone?")).error(), None);
    assert_eq!(errno(it.here.outcome(1)), Some(Errno::CONNRESET));
    drop(it.near);
    it.here.look();
    settle(&it.world);
    assert_eq!(it.world.connections(), 0);
}

#[test]
fn the_kernel_ends_the_connections_of_a_killed_process() {
    let mut it = pair(1);
    it.here.submit(1, recv(&it.near, 10));
    it.there.process.kill();
    assert_eq!(received(it.here.outcome(1)), b"");
    let mut it = pair(2);
    assert_eq!(it.here.run(send(&it.near, b"unread")).error(), None);
    settle(&it.world);
    it.there.process.kill();
    assert_eq!(errno(it.here.run(recv(&it.near, 10))), Some(Errno::CONNRESET));
    it.here.process.kill();
    settle(&it.world);
    assert_eq!(it.world.connections(), 0);
}

#[test]
fn a_reset_by_the_story_reaches_both_ends() {
    let mut it = pair(1);
    it.here.submit(1, recv(&it.near, 10));
    it.there.submit(1, recv(&it.far, 10));
    it.world.reset_connections(&it.paris, &it.tokyo);
    assert_eq!(errno(it.here.outcome(1)), Some(Errno::CONNRESET));
    assert_eq!(errno(it.there.outcome(1)), Some(Errno::CONNRESET));
}

#[test]
fn a_reset_by_the_dice_strikes_an_arriving_segment() {
    let mut it = pair(1);
    it.tokyo.set_odds(Odds { reset: Ppm::ALL, accept: Ppm::ALL, ..Odds::default() });
    it.there.submit(1, recv(&it.far, 10));
    assert_eq!(it.here.run(send(&it.near, b"x")).error(), None);
    assert_eq!(errno(it.there.outcome(1)), Some(Errno::CONNRESET));
    let address = inet(2, 7401);
    let listener = it.there.host().listen(&address, 1).expect("listening");
    let socket = it.here.host().stream_for(&address).expect("a socket");
    assert_eq!(it.here.run(Op::Connect { socket, address }).error(), None);
    assert_eq!(errno(it.there.run(Op::Accept { listener })), Some(Errno::NFILE));
}

#[test]
fn cancelling_ends_what_waits_at_a_socket_and_nothing_else() {
    let mut it = pair(1);
    let address = inet(1, 7400);
    let listener = it.here.host().listen(&address, 1).expect("listening");
    it.here.submit(1, recv(&it.near, 64));
    it.here.submit(2, recv(&it.near, 64));
    it.here.submit(3, send(&it.near, &vec![0; 16 << 20]));
    it.here.submit(4, Op::Accept { listener });
    it.here.driver.cancel(&it.near);
    for token in 1..=3 {
        let outcome = it.here.outcome(token);
        assert!(outcome.error().is_some_and(|error| error.is_cancelled()), "{outcome:?}");
    }
    assert!(it.here.ended(4).is_none());
    assert_eq!(it.here.process.held().sockets, 2);
}

#[test]
fn shutting_down_ends_both_directions_and_keeps_the_socket() {
    let mut it = pair(1);
    it.here.submit(1, recv(&it.near, 10));
    it.there.submit(1, recv(&it.far, 10));
    it.near.shutdown().expect("shut down");
    assert_eq!(received(it.here.outcome(1)), b"");
    assert_eq!(received(it.there.outcome(1)), b"");
    assert_eq!(errno(it.here.run(send(&it.near, b"x"))), Some(Errno::PIPE));
    assert_eq!(it.here.process.held().sockets, 1);
}

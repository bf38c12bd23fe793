// SPDX-License-Identifier: Apache-2.0
//! Sockets, wakers and time-outs through the driver, for real.

use super::desk;
use crate::common::{Desk, scratch};
use helio_driver::{
    Accepted, Address, Buffer, Cause, DriverOptions, Errno, Linux, Machine, Op, Outcome, Piece,
    Socket,
};
use helio_units::Extent;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

fn pair() -> (Socket, Socket) {
    let (here, there) = UnixStream::pair().expect("a pair");
    (Socket::new(here), Socket::new(there))
}

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

/// Receives until `length` bytes are there.
fn receive_all(desk: &mut Desk, socket: &Socket, length: usize) -> Vec<u8> {
    let mut all = Vec::new();
    while all.len() < length {
        let some = received(desk.run(recv(socket, length - all.len())));
        assert!(!some.is_empty(), "the stream ended after {} bytes", all.len());
        all.extend_from_slice(&some);
    }
    all
}

fn accepted(outcome: Outcome) -> Accepted {
    match outcome {
        Outcome::Accept(Ok(accepted)) => accepted,
        other => panic!("{other:?}"),
    }
}

/// Both ends of a connection through a listener, all made by the driver.
fn connected(desk: &mut Desk, listener: &Socket, address: Address) -> (Socket, Accepted) {
    let socket = Linux::default().stream_for(&address).expect("a socket");
    desk.submit(1, Op::Accept { listener: listener.clone() });
    desk.submit(2, Op::Connect { socket: socket.clone(), address });
    let outcome = desk.outcome(2);
    assert!(matches!(outcome, Outcome::Connect(Ok(()))), "{outcome:?}");
    let there = accepted(desk.outcome(1));
    (socket, there)
}

#[test]
fn an_echo_over_tcp_and_over_a_unix_socket() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut desk = desk(DriverOptions::default());
    let port_zero = Address::Inet("127.0.0.1:0".parse().expect("an address"));
    let path = Address::Unix(folder.path().join("echo.sock"));
    for wanted in [port_zero, path] {
        let listener = Linux::default().listen(&wanted, 8).expect("listening");
        let bound = listener.local_address().expect("its name");
        let address = bound.map_or(wanted, Address::Inet);
        let (here, there) = connected(&mut desk, &listener, address);
        assert_eq!(there.peer, here.local_address().expect("its name"));
        desk.submit(3, recv(&there.socket, 100));
        desk.submit(4, send(&here, b"good day"));
        let question = received(desk.outcome(3));
        assert_eq!(question, b"good day");
        assert_eq!(desk.outcome(4).error(), None);
        desk.submit(5, send(&there.socket, &question));
        assert_eq!(received(desk.run(recv(&here, 100))), b"good day");
        assert_eq!(desk.outcome(5).error(), None);
        drop(there);
        assert_eq!(received(desk.run(recv(&here, 100))), b"");
    }
}

#[test]
fn a_refused_connection_is_a_connect_error() {
    let listener =
        Linux::default().listen(&Address::Inet("127.0.0.1:0".parse().expect("an address")), 1);
    let address = listener.and_then(|l| l.local_address()).expect("a port").expect("TCP");
    let socket = Linux::default().stream_for(&Address::Inet(address)).expect("a socket");
    let outcome =
        desk(DriverOptions::default()).run(Op::Connect { socket, address: Address::Inet(address) });
    assert_eq!(outcome.error().and_then(|e| e.errno()), Some(Errno::CONNREFUSED));
}

#[test]
fn a_send_larger_than_the_socket_goes_out_in_order_while_the_other_end_reads() {
    let (mut desk, (here, there)) = (desk(DriverOptions::default()), pair());
    let mut payload = Buffer::zeroed(8 << 20);
    for (index, byte) in payload.iter_mut().enumerate() {
        *byte = (index % 253) as u8;
    }
    let payload = payload.into_shared();
    // More pieces than one call to the kernel carries.
    let pieces: Vec<Piece> =
        (0..256).map(|i| Piece::Shared(payload.clone(), i << 15..(i + 1) << 15)).collect();
    desk.submit(1, Op::Send { socket: here.clone(), pieces });
    desk.submit(2, send(&here, b"the end"));
    let all = receive_all(&mut desk, &there, payload.len());
    assert!(all == payload[..], "the bytes are those that were sent");
    assert_eq!(receive_all(&mut desk, &there, 7), b"the end");
    assert_eq!(desk.outcome(1).error(), None);
    assert_eq!(desk.outcome(2).error(), None);
}

#[test]
fn receives_complete_in_the_order_they_were_submitted() {
    let (mut desk, (here, there)) = (desk(DriverOptions::default()), pair());
    for token in 0..4 {
        desk.submit(token, recv(&there, 2));
    }
    assert_eq!(desk.run(send(&here, b"aabbccdd")).error(), None);
    for (token, expected) in [b"aa", b"bb", b"cc", b"dd"].into_iter().enumerate() {
        assert_eq!(received(desk.outcome(token as u64)), expected);
    }
}

#[test]
fn cancelling_a_socket_ends_everything_on_it_and_nothing_else() {
    let (mut desk, (here, there)) = (desk(DriverOptions::default()), pair());
    let (other, far) = pair();
    desk.submit(1, recv(&here, 64));
    desk.submit(2, recv(&here, 64));
    let flood = Buffer::zeroed(16 << 20).into_shared();
    desk.submit(
        3,
        Op::Send { socket: here.clone(), pieces: vec![Piece::Shared(flood, 0..16 << 20)] },
    );
    desk.submit(4, recv(&other, 64));
    desk.driver.cancel(&here);
    for token in 1..=3 {
        let outcome = desk.outcome(token);
        assert!(outcome.error().is_some_and(|error| error.is_cancelled()), "{outcome:?}");
        match outcome {
            Outcome::Recv { buffer, .. } => assert_eq!(buffer.len(), 64),
            Outcome::Send { pieces, .. } => assert_eq!(pieces.len(), 1),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(desk.run(send(&far, b"still here")).error(), None);
    assert_eq!(received(desk.outcome(4)), b"still here");
    drop(there);
}

#[test]
fn sending_to_an_end_that_went_away_is_an_error_and_no_signal() {
    let (mut desk, (here, there)) = (desk(DriverOptions::default()), pair());
    drop(there);
    let error = desk.run(send(&here, b"anyone?")).error().expect("nobody");
    assert_eq!(error.errno(), Some(Errno::PIPE));
}

#[test]
fn an_empty_range_is_refused_because_it_would_read_as_the_end() {
    let (mut desk, (here, _there)) = (desk(DriverOptions::default()), pair());
    assert_eq!(desk.run(recv(&here, 0)).error().map(|error| error.cause), Some(Cause::Misfit));
}

#[test]
fn shutting_down_ends_a_receive_that_waits() {
    let (mut desk, (here, _there)) = (desk(DriverOptions::default()), pair());
    desk.submit(1, recv(&here, 10));
    here.shutdown().expect("shut down");
    assert_eq!(received(desk.outcome(1)), b"");
}

#[test]
fn a_waker_ends_the_sleep_from_another_thread_however_often_it_is_called() {
    for spin in [Duration::ZERO, Duration::from_micros(200)] {
        let mut desk = desk(DriverOptions { workers: 1, spin });
        for round in 0..200 {
            let waker = desk.driver.waker();
            desk.submit(round, Op::Wait);
            let thread = std::thread::spawn(move || {
                for _ in 0..5 {
                    waker.wake();
                }
            });
            assert!(matches!(desk.outcome(round), Outcome::Wait));
            thread.join().expect("the thread ends");
            // What is left of the calls is one wake-up at most; it must not end the next round early.
            desk.driver.wait(Some(Duration::ZERO), &mut Vec::new()).expect("waiting works");
        }
    }
}

#[test]
fn a_call_made_before_the_wait_is_not_lost() {
    let mut desk = desk(DriverOptions::default());
    desk.driver.waker().wake();
    desk.driver.wait(None, &mut Vec::new()).expect("waiting works");
}

#[test]
fn a_wait_ends_at_its_timeout_and_not_before() {
    for spin in [Duration::ZERO, Duration::from_micros(200)] {
        let mut desk = desk(DriverOptions { workers: 1, spin });
        let (here, _there) = pair();
        desk.submit(1, recv(&here, 10));
        let (began, span, mut out) = (Instant::now(), Duration::from_millis(30), Vec::new());
        desk.driver.wait(Some(span), &mut out).expect("waiting works");
        assert!(out.is_empty());
        assert!(began.elapsed() >= span, "{:?}", began.elapsed());
    }
}

#[test]
fn files_and_sockets_wait_side_by_side_with_spinning() {
    let options = DriverOptions { workers: 4, spin: Duration::from_micros(200) };
    let (mut desk, (here, there)) = (desk(options), pair());
    let file = scratch(1 << 20);
    let echo = std::thread::spawn(move || {
        let mut desk = super::desk(DriverOptions::default());
        for _ in 0..500 {
            let question = receive_all(&mut desk, &there, 64);
            assert_eq!(desk.run(send(&there, &question)).error(), None);
        }
    });
    for round in 0..500u64 {
        let block = Buffer::zeroed(4096).into_shared();
        let pieces = vec![Piece::Shared(block, 0..4096)];
        let extent = Extent::new(round % 256 * 4096, 4096);
        desk.submit(1, Op::Write { file: file.clone(), extent, pieces, sync: false });
        desk.submit(2, send(&here, &[round as u8; 64]));
        assert_eq!(receive_all(&mut desk, &here, 64), [round as u8; 64]);
        assert_eq!(desk.outcome(1).error(), None);
        assert_eq!(desk.outcome(2).error(), None);
    }
    echo.join().expect("the echo ends");
}

#[test]
fn who_waits_for_input_is_told_of_it_and_reads_it_himself() {
    let (mut desk, (here, there)) = (desk(DriverOptions::default()), pair());
    desk.submit(1, Op::Ready { socket: there.clone() });
    assert_eq!(desk.run(send(&here, b"letter")).error(), None);
    assert!(matches!(desk.outcome(1), Outcome::Ready(Ok(()))));
    let again = desk.run(Op::Ready { socket: there.clone() });
    assert!(matches!(again, Outcome::Ready(Ok(()))), "nothing was read: {again:?}");
    assert_eq!(received(desk.run(recv(&there, 100))), b"letter");
    desk.submit(2, Op::Ready { socket: there.clone() });
    desk.driver.cancel(&there);
    assert!(desk.outcome(2).error().is_some_and(|error| error.is_cancelled()));
    drop(here);
    assert!(matches!(desk.run(Op::Ready { socket: there }), Outcome::Ready(Ok(()))), "the end");
}

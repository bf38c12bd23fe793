// SPDX-License-Identifier: Apache-2.0
//! What the stories share: a line, and sockets at its ends.

use helio_testkit::{Side, Wan, say_skipped, timely};
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// No story waits longer than this for anything.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// A line of one's own: nobody else's is there as long as it is.
pub(crate) struct Alone {
    pub(crate) wan: Wan,
    /// Before it was laid: its schedules began later.
    pub(crate) begun: Instant,
    _turn: MutexGuard<'static, ()>,
}

/// Waits for one's turn and lays a line; `None`, said plainly, where the machine does not let us.
pub(crate) fn lay(arguments: &[&str]) -> Option<Alone> {
    static ALONE: Mutex<()> = Mutex::new(());
    let turn = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(lacking) = Wan::lacking() {
        say_skipped(lacking);
        return None;
    }
    let begun = Instant::now();
    Some(Alone { wan: Wan::start(arguments), begun, _turn: turn })
}

/// Datagram sockets at both ends, connected.
pub(crate) fn datagrams(wan: &Wan) -> [UdpSocket; 2] {
    let socket = |side| {
        let address = wan.address(side);
        let socket = wan.inside(side, || UdpSocket::bind((address, 0)).expect("a port"));
        socket.set_read_timeout(Some(DEADLINE)).expect("a timeout is not zero");
        socket
    };
    let [left, right] = [socket(Side::Left), socket(Side::Right)];
    left.connect(right.local_addr().expect("an address")).expect("it is a datagram socket");
    right.connect(left.local_addr().expect("an address")).expect("it is a datagram socket");
    [left, right]
}

/// Round trips of datagrams, one after the other, sorted.
pub(crate) fn pings([left, right]: &[UdpSocket; 2], count: u8) -> Vec<Duration> {
    let round = |number: u8| {
        let begun = Instant::now();
        let mut heard = [0];
        for (from, to) in [(left, right), (right, left)] {
            from.send(&[number]).expect("the device is up");
            timely(to.recv(&mut heard), "a datagram").expect("nothing is lost");
            assert_eq!(heard, [number], "they arrive once and in order");
        }
        begun.elapsed()
    };
    let mut took: Vec<Duration> = (0..count).map(round).collect();
    took.sort_unstable();
    took
}

/// A datagram comes through.
#[track_caller]
pub(crate) fn passes(from: &UdpSocket, to: &UdpSocket) {
    to.set_read_timeout(Some(DEADLINE)).expect("a timeout is not zero");
    from.send(b"x").expect("the device is up");
    timely(to.recv(&mut [0; 8]), "a datagram").expect("the device is up");
}

/// No datagram comes within a time much longer than the line is.
#[track_caller]
pub(crate) fn is_held_up(from: &UdpSocket, to: &UdpSocket) {
    to.set_read_timeout(Some(Duration::from_millis(300))).expect("a timeout is not zero");
    from.send(b"x").expect("the device is up");
    match to.recv(&mut [0; 8]) {
        Ok(_) => panic!("a datagram passed"),
        Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
        Err(e) => panic!("a datagram socket failed: {e}"),
    }
}

/// A connection from left to right that uses this congestion control.
pub(crate) fn connection(wan: &Wan, congestion: &str) -> [TcpStream; 2] {
    let right = wan.address(Side::Right);
    let listener = wan.inside(Side::Right, || TcpListener::bind((right, 0)).expect("a port"));
    let to = listener.local_addr().expect("an address");
    let left = wan.inside(Side::Left, || TcpStream::connect(to).expect("the link is up"));
    let right = listener.accept().expect("it has called").0;
    for stream in [&left, &right] {
        rustix::net::sockopt::set_tcp_congestion(stream, congestion).expect("the kernel has it");
        stream.set_nodelay(true).expect("TCP knows nodelay");
        stream.set_read_timeout(Some(DEADLINE)).expect("a timeout is not zero");
        stream.set_write_timeout(Some(DEADLINE)).expect("a timeout is not zero");
    }
    [left, right]
}

/// Sends from left to right for `span`; returns what arrived after `settled`, in bit/s.
pub(crate) fn pour([left, right]: [TcpStream; 2], settled: Duration, span: Duration) -> f64 {
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // Until the receiver has heard enough and hangs up.
            let (mut left, water) = (left, vec![9; 64 << 10]);
            while left.write_all(&water).is_ok() {}
        });
        let (mut right, mut buffer, begun) = (right, vec![0; 256 << 10], Instant::now());
        let (mut total, mut counted_from) = (0, None);
        while begun.elapsed() < span {
            let n = timely(right.read(&mut buffer), "the stream").expect("the link is up");
            match counted_from {
                Some(_) => total += n,
                None if begun.elapsed() >= settled => counted_from = Some(Instant::now()),
                None => {}
            }
        }
        let counted = counted_from.expect("it settled").elapsed().as_secs_f64();
        drop(right);
        total as f64 * 8.0 / counted
    })
}

/// Sends from left to right for `span` with at most `window` bytes that the other application has not answered;
/// returns what was answered after `settled`, in bit/s.
pub(crate) fn windowed(
    [left, right]: &[TcpStream; 2],
    window: usize,
    settled: Duration,
    span: Duration,
) -> f64 {
    const PIECE: usize = 1024;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut right, mut piece) = (right, [0; PIECE]);
            while right.read_exact(&mut piece).is_ok() && piece[0] == 1 {
                right.write_all(&[1]).expect("the link is up");
            }
        });
        let (mut left, begun) = (left, Instant::now());
        let (mut unanswered, mut answers) = (0, vec![0; window / PIECE]);
        let (mut answered, mut counted_from) = (0, None);
        while begun.elapsed() < span {
            while unanswered < window / PIECE {
                left.write_all(&[1; PIECE]).expect("the link is up");
                unanswered += 1;
            }
            let n = timely(left.read(&mut answers), "answers").expect("answers come");
            unanswered -= n;
            match counted_from {
                Some(_) => answered += n,
                None if begun.elapsed() >= settled => counted_from = Some(Instant::now()),
                None => {}
            }
        }
        let counted = counted_from.expect("it settled").elapsed().as_secs_f64();
        left.write_all(&[0; PIECE]).expect("the link is up");
        (answered * PIECE) as f64 * 8.0 / counted
    })
}

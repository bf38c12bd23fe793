// SPDX-License-Identifier: Apache-2.0
//! What the relay's stories share: targets on loopback, and streams whose every byte is known from a seed.

use helio_netmodel::Dice;
use helio_units::Rate;
use helio_wan::{Profile, Relay, RelayConfig};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Any free port of the loopback.
pub(crate) fn anywhere() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 0))
}

/// A relay to `target`.
pub(crate) fn relay(target: SocketAddr, there: Profile, back: Profile, seed: u64) -> Relay {
    Relay::start(RelayConfig { listen: anywhere(), target, there, back, seed })
        .expect("the loopback has a free port")
}

/// A relay to `target` that is a link of this round trip and rate.
pub(crate) fn wan(target: SocketAddr, rtt: Duration, rate: Rate, seed: u64) -> Relay {
    relay(target, Profile::wan(rtt, rate), Profile::wan(rtt, rate), seed)
}

/// A target that treats each of its first `callers` in turn, in one thread.
pub(crate) fn target<T: Send + 'static>(
    callers: usize,
    mut treat: impl FnMut(TcpStream) -> T + Send + 'static,
) -> (SocketAddr, JoinHandle<Vec<T>>) {
    let listener = TcpListener::bind(anywhere()).expect("the loopback has a free port");
    let address = listener.local_addr().expect("a bound socket has an address");
    let thread = std::thread::spawn(move || {
        (0..callers).map(|_| treat(prompt(listener.accept().expect("a caller").0))).collect()
    });
    (address, thread)
}

/// A client of the relay.
pub(crate) fn call(address: SocketAddr) -> TcpStream {
    prompt(TcpStream::connect(address).expect("the relay listens"))
}

/// Without a limit in time: a story that hangs is named by the test harness, and a busy machine breaks none.
fn prompt(stream: TcpStream) -> TcpStream {
    stream.set_nodelay(true).expect("TCP knows nodelay");
    stream
}

/// Says back what it hears until the end of the stream.
pub(crate) fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            n => stream.write_all(&buffer[..n])?,
        }
    }
}

/// Sends `length` bytes that `seed` decides, in pieces of uneven size.
pub(crate) fn recite(mut stream: &TcpStream, seed: u64, length: usize) -> io::Result<()> {
    let (mut words, mut cuts) = (Dice::new(seed).split("words"), Dice::new(seed).split("cuts"));
    let mut text = Vec::new();
    let mut left = length;
    while left > 0 {
        let piece = left.min(1 + cuts.below(40_000) as usize);
        while text.len() < piece {
            text.extend(words.next_u64().to_le_bytes());
        }
        stream.write_all(&text[..piece])?;
        text.drain(..piece);
        left -= piece;
    }
    Ok(())
}

/// Reads to the end of the stream and returns its length, or where it first differs from what `seed` decides.
pub(crate) fn check(mut stream: &TcpStream, seed: u64) -> Result<usize, String> {
    let mut words = Dice::new(seed).split("words");
    let mut expected = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    let mut total = 0;
    loop {
        let n = stream.read(&mut buffer).map_err(|e| format!("after {total} bytes: {e}"))?;
        if n == 0 {
            return Ok(total);
        }
        while expected.len() < n {
            expected.extend(words.next_u64().to_le_bytes());
        }
        if let Some(at) = (0..n).find(|&at| buffer[at] != expected[at]) {
            return Err(format!("byte {} is not the one sent", total + at));
        }
        expected.drain(..n);
        total += n;
    }
}

/// Polls until `ready`.
pub(crate) fn until(mut ready: impl FnMut() -> bool) {
    while !ready() {
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// An echo of single bytes that waits before each answer.
pub(crate) fn late_echo(mut stream: TcpStream, pause: Duration) -> io::Result<()> {
    let mut byte = [0];
    while stream.read(&mut byte)? > 0 {
        let heard = Instant::now();
        until(|| heard.elapsed() >= pause);
        stream.write_all(&byte)?;
    }
    Ok(())
}

/// One byte to an echo and back: how long it took.
pub(crate) fn ping(mut stream: &TcpStream) -> Duration {
    let begun = Instant::now();
    stream.write_all(&[7]).expect("the relay reads");
    stream.read_exact(&mut [0]).expect("the echo answers");
    begun.elapsed()
}

/// What is wrong with a stream that should have been reset, if anything.
pub(crate) fn not_reset(mut stream: &TcpStream) -> Option<String> {
    match stream.read(&mut [0; 16]) {
        Err(e) if e.kind() == io::ErrorKind::ConnectionReset => None,
        other => Some(format!("{other:?}")),
    }
}

// SPDX-License-Identifier: Apache-2.0
//! simhadr's blocks, in its order and its words. Its MBytes are 10^6 bytes, its KBytes 10^3, its pages 4096.

use super::options::PAGE;
use super::resolve::Host;
use crate::outcome::{End, Outcome, total};
use crate::socket::Properties;
use crate::store::{DiskResult, Trial};
use crate::watch::Event;
use crate::wire::Mode;
use helio_units::WallTime;
use helio_workload::Distribution;
use std::fmt::Write;
use std::net::IpAddr;
use std::time::Duration;

/// A mode in its words.
pub(crate) fn word(mode: Mode) -> &'static str {
    match mode {
        Mode::Sync => "SYNC",
        Mode::NearSync => "NEARSYNC",
        Mode::Async => "ASYNC",
        Mode::SuperAsync => "SUPERASYNC",
    }
}

/// What a name was resolved to.
pub(crate) fn host(which: &str, asked: &str, host: &Host) -> String {
    let mut text =
        format!("Resolving {which} host {asked} via getaddrinfo()\nhostname={}\n", host.name);
    if let Some(alias) = &host.alias {
        let _ = writeln!(text, "alias: {alias}");
    }
    // The numbers of the address families are the kernel's.
    let (family, length) = match host.addresses.first() {
        Some(IpAddr::V6(_)) => (10, 16),
        _ => (2, 4),
    };
    let _ = writeln!(text, "address_type={family} address_length={length}");
    for address in &host.addresses {
        let _ = writeln!(text, "address: {address}");
    }
    text
}

fn properties(when: &str, it: &Properties) -> String {
    format!(
        "Socket property upon {when}\nBlockingIO={}\nNAGLE={}\nSO_SNDBUF={}\nSO_RCVBUF={}\n\
         SO_LINGER: onoff={}, length={}\n",
        it.blocking,
        it.nagle,
        it.send_buffer,
        it.receive_buffer,
        u8::from(it.linger.is_some()),
        it.linger.unwrap_or(0)
    )
}

/// A moment as simhadr writes it, in UTC: `2008-07-09_17:12:25_UTC`.
fn moment(ms: u64) -> String {
    WallTime(ms).to_string().trim_end_matches('Z').replace(' ', "_") + "_UTC"
}

/// What simhadr prints of something that happens; empty where it prints nothing.
pub(crate) fn event(event: &Event) -> String {
    match event {
        Event::Created(it) => properties("creation", it),
        Event::Resized([send, receive], it) => {
            let mut text = String::from("\n");
            for (asked, name) in [(send, "SO_SNDBUF"), (receive, "SO_RCVBUF")] {
                if *asked {
                    let _ = writeln!(text, "Calling setsockopt({name})");
                }
            }
            text + &properties("buffer resizing", it)
        }
        Event::Binding => "\nBinding socket to local address.\n".to_owned(),
        Event::Listening(at) => format!("Listening on local host TCP port {}\n", at.port()),
        Event::Calling(at) => format!("\nConnecting to remote host TCP port {}\n", at.port()),
        Event::Connected(_) => "\nConnected.\n\n".to_owned(),
        Event::Ready(it) => {
            let mut text = String::new();
            if !it.blocking {
                text += "Calling fcntl(O_NONBLOCK)\n";
            }
            if !it.nagle {
                text += "Calling setsockopt(TCP_NODELAY)\n";
            }
            text + &properties("connection", it) + "\n"
        }
        Event::Terms { sent, mode, flush, began_ms } => format!(
            "{} handshake message:\nsyncMode={}\nflushSize={}\nconnTime={}\n\n{}\n\n",
            if *sent { "Sending" } else { "Received" },
            word(*mode),
            flush / PAGE,
            moment(*began_ms),
            if *sent {
                "Sending log flushes. Press Ctrl-C to stop."
            } else {
                "Receiving log flushes."
            }
        ),
        Event::Running => String::new(),
        Event::Refused(why) => format!("{why}\n"),
        Event::Did { what: "congestion", took, .. } => {
            format!("congestion: {:.6} seconds\n", took.as_secs_f64())
        }
        Event::Did { what, bytes, took } => {
            format!("{what}: {bytes} bytes, {:.6} seconds\n", took.as_secs_f64())
        }
    }
}

fn megabytes(bytes: u64, span: Duration) -> String {
    let rate = crate::outcome::per_second(bytes, span) / 1e6;
    format!("{rate:.6} MBytes/sec")
}

fn each(whole: f64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { whole / count as f64 }
}

/// `NEARSYNC: Total B bytes in S seconds, X MBytes/sec`
pub(crate) fn golden(mode: Mode, bytes: u64, span: Duration) -> String {
    let seconds = span.as_secs_f64();
    format!(
        "{}: Total {bytes} bytes in {seconds:.6} seconds, {}\n",
        word(mode),
        megabytes(bytes, span)
    )
}

/// A block of calls: `Total B bytes sent in ...`.
fn calls(what: &str, call: &str, bytes: &Distribution, span: Duration, comma: &str) -> String {
    let (sum, count) = (total(bytes), bytes.count());
    format!(
        "Total {sum} bytes {what} in {:.6} seconds. {}\nTotal {count} {call} calls, {:.3} KBytes/{call}{comma}\n",
        span.as_secs_f64(),
        megabytes(sum, span),
        each(sum as f64 / 1e3, count)
    )
}

/// One distribution, with the lines for values or ranges.
fn distribution(what: &str, unit: &str, numbers: &Distribution) -> String {
    let mut text = format!(
        "\nDistribution of {what} (unit is {unit}):\nTotal {} numbers, Sum {}, Min {}, Max {}, Avg {}\n",
        numbers.count(),
        numbers.sum(),
        numbers.min(),
        numbers.max(),
        numbers.mean()
    );
    for bucket in numbers.buckets() {
        let _ = if numbers.is_exact() {
            writeln!(text, "Exactly{:>11}{:>12} numbers", bucket.from, bucket.count)
        } else {
            let range = format!("From {} to {}", bucket.from, bucket.to);
            let room = 36_usize.saturating_sub(range.len()).max(2);
            writeln!(text, "{range}{:>room$} numbers", bucket.count)
        };
    }
    text
}

/// The result of a run.
pub(crate) fn outcome(it: &Outcome) -> String {
    let (span, flushes) = (it.span, &it.counts.flushes);
    let seconds = span.as_secs_f64();
    let mut text = golden(it.mode, it.bytes(), span);
    let _ = writeln!(
        text,
        "Total {} flushes, {:.6} sec/flush, {} pages ({} bytes)/flush\n",
        flushes.count(),
        each(seconds, flushes.count()),
        it.flush / PAGE,
        it.flush
    );
    text += &calls("sent", "send", &it.tally.sent, span, ",");
    let stuck = &it.tally.congestion;
    let stuck_for = stuck.sum() as f64 / 1e6;
    let _ = writeln!(
        text,
        "Total {} congestions, {stuck_for:.6} seconds, {:.6} second/congestion\n",
        stuck.count(),
        // The sample's 0.848714 s of 3136 make 0.000270: it divides whole microseconds.
        stuck.mean() as f64 / 1e6
    );
    text += &calls("recv", "recv", &it.tally.received, span, "");
    text += &distribution("log write size", "byte", flushes);
    if it.end == End::Primary {
        text += &distribution("log shipping time", "microsecond", &it.counts.shipping);
    }
    text += &distribution("congestion duration", "microsecond", stuck);
    text += &distribution("send size", "byte", &it.tally.sent);
    text + &distribution("recv size", "byte", &it.tally.received)
}

/// The result of a disk test.
pub(crate) fn disk(trial: Trial, size: u64, it: &DiskResult) -> String {
    let (done, one) = match trial {
        Trial::Write => ("written", "write"),
        Trial::Read => ("read", "read"),
    };
    let (sum, count, span) = (total(&it.sizes), it.sizes.count(), it.span);
    let mut text = format!(
        "Total {sum} bytes {done} in {:.6} seconds, {}\nTotal {count} {one}s, {:.6} sec/{one}, \
         {} pages ({size} bytes)/{one}\n",
        span.as_secs_f64(),
        megabytes(sum, span),
        each(span.as_secs_f64(), count),
        size / PAGE
    );
    text += &distribution(&format!("{one} size"), "byte", &it.sizes);
    text + &distribution(&format!("{one} time"), "microsecond", &it.times)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::Tally;
    use crate::outcome::Counts;

    #[test]
    fn the_golden_lines_come_out_to_the_last_digit() {
        let line = golden(Mode::Async, 2_097_152, Duration::from_micros(12_460_158));
        assert_eq!(line, "ASYNC: Total 2097152 bytes in 12.460158 seconds, 0.168309 MBytes/sec\n");
        let line = golden(Mode::NearSync, 410_255_360, Duration::from_micros(4_000_821));
        let stated = "NEARSYNC: Total 410255360 bytes in 4.000821 seconds, 102.542793 MBytes/sec\n";
        assert_eq!(line, stated);
    }

    #[test]
    fn distributions_are_laid_out_as_in_the_sample() {
        let mut acks = Distribution::default();
        (0..3130).for_each(|_| acks.add(48));
        let text = distribution("recv size", "byte", &acks);
        assert_eq!(
            text,
            "\nDistribution of recv size (unit is byte):\n\
             Total 3130 numbers, Sum 150240, Min 48, Max 48, Avg 48\n\
             Exactly         48        3130 numbers\n"
        );
        let mut times = Distribution::default();
        (0..3130).for_each(|n| times.add(1262 + n % 361));
        (0..3).for_each(|_| times.add(200));
        let text = distribution("log shipping time", "microsecond", &times);
        assert!(text.contains("\nFrom 128 to 255                    3 numbers\n"), "{text}");
        assert!(text.contains("\nFrom 1024 to 2047               3130 numbers\n"), "{text}");
    }

    #[test]
    fn calls_and_moments_have_the_samples_form() {
        let mut acks = Distribution::default();
        (0..3130).for_each(|_| acks.add(48));
        let text = calls("recv", "recv", &acks, Duration::from_micros(4_000_821), "");
        assert_eq!(
            text,
            "Total 150240 bytes recv in 4.000821 seconds. 0.037552 MBytes/sec\n\
             Total 3130 recv calls, 0.048 KBytes/recv\n"
        );
        assert_eq!(moment(1_215_648_745_000), "2008-07-10_00:12:25_UTC");
    }

    fn times(values: &[(u64, u64)]) -> Distribution {
        let mut all = Distribution::default();
        values.iter().for_each(|&(value, times)| (0..times).for_each(|_| all.add(value)));
        all
    }

    #[test]
    fn the_samples_numbers_come_out_as_the_samples_lines() {
        let flushes = times(&[(131_072, 3130)]);
        let counts = Counts { flushes, shipping: times(&[(1270, 3130)]), ..Counts::default() };
        let tally = Tally {
            sent: times(&[(37_662, 10_892), (40_856, 1)]),
            received: times(&[(48, 3130)]),
            congestion: times(&[(270, 3135), (2264, 1)]),
        };
        let run = Outcome {
            end: End::Primary,
            mode: Mode::NearSync,
            flush: 131_072,
            streams: 1,
            span: Duration::from_micros(4_000_821),
            counts,
            tally,
            wires: Vec::new(),
            failure: None,
            interrupted: false,
            again: None,
        };
        assert_eq!(
            outcome(&run),
            "NEARSYNC: Total 410255360 bytes in 4.000821 seconds, 102.542793 MBytes/sec\n\
             Total 3130 flushes, 0.001278 sec/flush, 32 pages (131072 bytes)/flush\n\n\
             Total 410255360 bytes sent in 4.000821 seconds. 102.542793 MBytes/sec\n\
             Total 10893 send calls, 37.662 KBytes/send,\n\
             Total 3136 congestions, 0.848714 seconds, 0.000270 second/congestion\n\n\
             Total 150240 bytes recv in 4.000821 seconds. 0.037552 MBytes/sec\n\
             Total 3130 recv calls, 0.048 KBytes/recv\n\n\
             Distribution of log write size (unit is byte):\n\
             Total 3130 numbers, Sum 410255360, Min 131072, Max 131072, Avg 131072\n\
             Exactly     131072        3130 numbers\n\n\
             Distribution of log shipping time (unit is microsecond):\n\
             Total 3130 numbers, Sum 3975100, Min 1270, Max 1270, Avg 1270\n\
             Exactly       1270        3130 numbers\n\n\
             Distribution of congestion duration (unit is microsecond):\n\
             Total 3136 numbers, Sum 848714, Min 270, Max 2264, Avg 270\n\
             Exactly        270        3135 numbers\n\
             Exactly       2264           1 numbers\n\n\
             Distribution of send size (unit is byte):\n\
             Total 10893 numbers, Sum 410255360, Min 37662, Max 40856, Avg 37662\n\
             Exactly      37662       10892 numbers\n\
             Exactly      40856           1 numbers\n\n\
             Distribution of recv size (unit is byte):\n\
             Total 3130 numbers, Sum 150240, Min 48, Max 48, Avg 48\n\
             Exactly         48        3130 numbers\n"
        );
    }

    #[test]
    fn a_host_is_told_with_its_alias() {
        let found = Host {
            name: "brant.example.com".to_owned(),
            alias: Some("brant".to_owned()),
            addresses: vec![IpAddr::from([192, 0, 2, 49])],
        };
        assert_eq!(
            host("local", "brant", &found),
            "Resolving local host brant via getaddrinfo()\nhostname=brant.example.com\nalias: brant\n\
             address_type=2 address_length=4\naddress: 192.0.2.49\n"
        );
    }
}

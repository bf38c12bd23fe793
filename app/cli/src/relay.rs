// SPDX-License-Identifier: Apache-2.0
//! `helio lab relay`: a long line for real connections, in the foreground, governed from standard input.

use anyhow::{Context, Result};
use helio_units::{Rate, parse_duration, parse_rate};
use helio_wan::{Cut, Profile, Relay, RelayConfig, RelayControl};
use std::fmt;
use std::io::{self, BufRead, Write};
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

const HELP: &str = "commands: cut, reset, heal, rtt TIME, rate RATE, stats, quit";

/// One line of standard input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Cut(Cut),
    Heal,
    Rtt(Duration),
    Rate(Rate),
    Stats,
    Quit,
}

/// Relays from `listen` to `to` until told to quit. Where standard input ends, it goes on until a signal ends
/// it. Port 0 lets the kernel choose; without a round trip or a rate the line adds none.
///
/// # Errors
/// Where it cannot listen, or nobody reads what it says.
pub(crate) fn run(
    listen: SocketAddr,
    to: SocketAddr,
    rtt: Option<Duration>,
    rate: Option<Rate>,
) -> Result<ExitCode> {
    let mut shape = Shape { rtt: rtt.unwrap_or_default(), rate };
    let (there, back) = (shape.profile(), shape.profile());
    let relay = Relay::start(RelayConfig { listen, target: to, there, back, seed: 1 })
        .with_context(|| format!("cannot relay on {listen}"))?;
    say(&format!("listening on {}, relaying to {to}", relay.local_addr()))?;
    say(&shape.to_string())?;
    say(HELP)?;
    let control = relay.control();
    for line in io::stdin().lock().lines() {
        let order = match parse(&line?) {
            Ok(Some(order)) => order,
            Ok(None) => continue,
            Err(why) => {
                say(&why)?;
                continue;
            }
        };
        match order {
            Order::Quit => return Ok(ExitCode::SUCCESS),
            Order::Stats => say(&stats(&control))?,
            Order::Cut(cut) => {
                control.cut(cut);
                say(cut_text(Some(cut)))?;
            }
            Order::Heal => {
                control.heal();
                say(cut_text(None))?;
            }
            Order::Rtt(rtt) => {
                shape.rtt = rtt;
                shape.impose(&control)?;
            }
            Order::Rate(rate) => {
                shape.rate = Some(rate);
                shape.impose(&control)?;
            }
        }
    }
    // Nobody gives orders any more, as with `</dev/null`; the line stays.
    loop {
        std::thread::park();
    }
}

/// Reads one line; nothing where it is empty.
fn parse(line: &str) -> Result<Option<Order>, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let order = match words.as_slice() {
        [] => return Ok(None),
        ["cut"] => Order::Cut(Cut::Freeze),
        ["reset"] => Order::Cut(Cut::Reset),
        ["heal"] => Order::Heal,
        ["stats"] => Order::Stats,
        ["quit"] => Order::Quit,
        ["rtt", time] => Order::Rtt(parse_duration(time).map_err(|why| format!("`{time}` {why}"))?),
        ["rate", rate] => Order::Rate(parse_rate(rate).map_err(|why| format!("`{rate}` {why}"))?),
        _ => return Err(format!("`{}` is no command; {HELP}", line.trim())),
    };
    Ok(Some(order))
}

/// What the line is like now.
#[derive(Clone, Copy, Debug)]
struct Shape {
    rtt: Duration,
    /// Each way; none is without limit.
    rate: Option<Rate>,
}

impl Shape {
    /// One direction of it.
    fn profile(self) -> Profile {
        match self.rate {
            Some(rate) => Profile::wan(self.rtt, rate),
            None => Profile { delay: self.rtt / 2, ..Profile::ideal() },
        }
    }

    /// Gives it to the line, and says so.
    fn impose(self, control: &RelayControl) -> io::Result<()> {
        control.set_profile(self.profile(), self.profile());
        say(&self.to_string())
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "round trip {} ms, ", self.rtt.as_secs_f64() * 1e3)?;
        match self.rate {
            Some(rate) => write!(f, "{rate} each way"),
            None => f.write_str("no limit to the rate"),
        }
    }
}

fn cut_text(cut: Option<Cut>) -> &'static str {
    match cut {
        None => "the line is whole",
        Some(Cut::Freeze) => "the line is cut: nothing passes and nobody is told",
        Some(Cut::Reset) => "the line is cut: every connection is reset",
    }
}

fn stats(control: &RelayControl) -> String {
    let stats = control.stats();
    format!(
        "{} connections ({} ever); to the target {} delivered, {} on the way; back {} delivered, {} on \
         the way; {}",
        stats.connections,
        stats.accepted,
        stats.there.delivered,
        stats.there.queued,
        stats.back.delivered,
        stats.back.queued,
        cut_text(stats.cut)
    )
}

/// Says it at once: a program may be reading.
fn say(line: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_understood() {
        let order = |line| parse(line).expect("it is a command");
        assert_eq!(order("cut"), Some(Order::Cut(Cut::Freeze)));
        assert_eq!(order("reset"), Some(Order::Cut(Cut::Reset)));
        assert_eq!(order("heal"), Some(Order::Heal));
        assert_eq!(order("  rtt   20ms "), Some(Order::Rtt(Duration::from_millis(20))));
        assert_eq!(order("rate 10Mbit/s"), Some(Order::Rate(Rate::mbit(10))));
        assert_eq!(order("stats"), Some(Order::Stats));
        assert_eq!(order("quit"), Some(Order::Quit));
        assert_eq!(order("  "), None);
    }

    #[test]
    fn what_is_no_command_says_what_would_be() {
        assert!(parse("sever").expect_err("no such").contains("cut, reset, heal"));
        assert!(parse("cut now").is_err());
        assert_eq!(parse("rtt 20"), Err("`20` needs a unit: us, ms, s, min or h".to_owned()));
    }

    #[test]
    fn a_line_is_described_with_its_units() {
        let rtt = Duration::from_millis(50);
        let limited = Shape { rtt, rate: Some(Rate::mbit(100)) };
        assert_eq!(limited.to_string(), "round trip 50 ms, 12.50 MB/s each way");
        let free = Shape { rtt, rate: None };
        assert_eq!(free.to_string(), "round trip 50 ms, no limit to the rate");
        assert_eq!(free.profile().delay, limited.profile().delay);
    }
}

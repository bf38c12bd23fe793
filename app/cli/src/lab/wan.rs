// SPDX-License-Identifier: Apache-2.0
//! `helio lab wan`: a line below TCP between two network namespaces. Whatever runs in them meets the kernel's own
//! TCP at both ends, with the line's delay, rate and loss between.

use super::agenda::Agenda;
use super::govern::{Ear, Governed, govern};
use super::orders::Order;
use super::say;
use super::schedule::Obeys;
use super::shape::{Change, Shape};
use crate::args;
use crate::failure::failed;
use crate::signals::Signals;
use anyhow::{Result, bail};
use helio_wan::{Emulator, EmulatorConfig, EmulatorError, WayTally};
use std::process::ExitCode;
use std::time::Duration;

const HELP: &str = "commands: cut [there|back], heal [there|back], rtt TIME, rate RATE, loss PERCENT, jitter TIME, \
                    queue SIZE, link NAME, stats, quit";
const FIX: &str = "correct the option, or repair what the kernel refuses";
/// How many datagrams take a first look at the line.
const PROBES: u32 = 5;
/// What that look may take beside two round trips.
const PROBE_TIME: Duration = Duration::from_secs(1);

/// Lays a line and keeps it until told to quit, or until a signal. Where standard input ends, it goes on until a
/// signal ends it.
///
/// # Errors
/// Where the line cannot be laid, the course cannot be read, or nobody reads what it says.
pub(crate) fn run(wan: args::Wan) -> Result<ExitCode> {
    let agenda = Agenda::read(&wan.course, Line::OBEYS)?;
    // Before anything is made, so that nothing is left behind.
    let ear = Ear::listen(Some(Signals::catch()?))?;
    let mut shape = Shape::from(wan.line);
    shape.change(Change::Loss(wan.loss));
    agenda.first.into_iter().for_each(|first| shape.change(first));
    let [there, back] = shape.profiles();
    let emulator = match Emulator::start(EmulatorConfig {
        left: wan.left,
        right: wan.right,
        mtu: wan.mtu,
        there,
        back,
        seed: wan.seed,
    }) {
        Ok(emulator) => emulator,
        Err(why @ EmulatorError::Lacking(_)) => {
            bail!("{why}\n  hint: `helio lab relay` emulates a link for TCP without any of these")
        }
        Err(why) => return Err(failed("the link was not made", FIX)(why)),
    };
    introduce(&emulator, &shape, wan.mtu)?;
    for plan in &agenda.plans {
        say(plan)?;
    }
    say(HELP)?;
    govern(&mut Line { shape, emulator }, &ear, agenda)?;
    Ok(ExitCode::SUCCESS)
}

struct Line {
    shape: Shape,
    emulator: Emulator,
}

impl Governed for Line {
    const OBEYS: Obeys = Obeys {
        help: HELP,
        refuses: |order| match order {
            Order::Reset => {
                Some("a link of packets has no connections to reset; use helio lab relay")
            }
            _ => None,
        },
    };

    fn obey(&mut self, order: Order) -> Result<String> {
        let control = self.emulator.control();
        match order {
            Order::Cut(ways) => control.cut(ways),
            Order::Heal(ways) => control.heal(ways),
            Order::Change(change) => {
                self.shape.change(change);
                let [there, back] = self.shape.profiles();
                control.set_profile(there, back);
                return Ok(self.shape.to_string());
            }
            Order::Stats | Order::Reset | Order::Quit => return stats(&self.emulator),
        }
        Ok(match control.stats() {
            Some(stats) => cut_text(stats.there.down, stats.back.down).to_owned(),
            None => GONE.to_owned(),
        })
    }
}

/// Says where the ends are, what the kernel is set to, and what a first look at the line shows.
fn introduce(emulator: &Emulator, shape: &Shape, mtu: u16) -> Result<()> {
    let [left, right] = emulator.ends();
    for (side, end) in [("left", &left), ("right", &right)] {
        let made = if end.made { "new" } else { "existing" };
        let (name, device, address) = (&end.namespace, end.device, end.address);
        say(&format!("{side}: network namespace {name} ({made}), {device}, {address}"))?;
    }
    let congestion = emulator.congestion()?;
    let available = congestion.available.join(", ");
    say(&format!("congestion control: {} by default, of {available}", congestion.default))?;
    say(&format!("{shape}, MTU {mtu}"))?;
    let jitter = shape.there.jitter + shape.back.jitter;
    let limit = PROBE_TIME + 2 * (shape.rtt + jitter);
    let probe = emulator.probe(PROBES, limit)?;
    let ms = |span: Duration| span.as_secs_f64() * 1e3;
    say(&match probe.back {
        0 => format!("measured: none of {} datagrams returned", probe.sent),
        back => format!(
            "measured: round trip {:.3} ms at least, {:.3} ms on average; {back} of {} datagrams returned",
            ms(probe.least),
            ms(probe.mean),
            probe.sent
        ),
    })?;
    say(&format!("try: ip netns exec {} ping {}", left.namespace, right.address))?;
    Ok(())
}

const GONE: &str =
    "the link is gone: another program removed its devices; quit, and start it again";

fn cut_text(there: bool, back: bool) -> &'static str {
    match (there, back) {
        (false, false) => "the link is up",
        (true, true) => "the link is cut in both directions: packets are dropped silently",
        (true, false) => "the link is cut from left to right: packets are dropped silently",
        (false, true) => "the link is cut from right to left: packets are dropped silently",
    }
}

fn stats(emulator: &Emulator) -> Result<String> {
    let Some(stats) = emulator.control().stats() else { return Ok(GONE.to_owned()) };
    let [left, right] = emulator.overrun()?;
    let there = way(&stats.there, left.0);
    let back = way(&stats.back, right.0);
    let cut = cut_text(stats.there.down, stats.back.down);
    Ok(format!("there {there}; back {back}; {cut}"))
}

fn way(tally: &WayTally, overrun: u64) -> String {
    let us = |span: Duration| span.as_secs_f64() * 1e6;
    format!(
        "{} packets ({}): {} delivered ({}), {} lost, {} dropped at the queue, {} at a cut, {} overrun, {} refused, \
         {} in transit, {:.0} us late on average and {:.0} us at most",
        tally.taken.items,
        tally.taken.bytes,
        tally.delivered.items,
        tally.delivered.bytes,
        tally.lost.items,
        tally.queue_full.items,
        tally.cut.items,
        overrun,
        tally.refused.items,
        tally.held.items,
        us(tally.late_on_average),
        us(tally.late_at_most)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::orders;

    #[test]
    fn the_help_names_orders_that_are_understood() {
        for line in ["cut there", "heal back", "loss 1%", "queue 1MB", "link t3", "stats", "quit"] {
            let word = line.split(' ').next().expect("it has a first word");
            assert!(HELP.contains(word), "{word}");
            assert!(orders::parse(line, HELP).is_ok_and(|order| order.is_some()), "{line}");
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
//! `helio lab relay`: a long line for real connections, without any privilege.

use super::orders::{Order, parse};
use super::shape::Change;
use super::{Shape, say};
use anyhow::{Context, Result};
use helio_wan::{Cut, Relay, RelayConfig, RelayControl, Ways};
use std::io::{self, BufRead};
use std::net::SocketAddr;
use std::process::ExitCode;

const HELP: &str =
    "commands: cut, reset, heal, rtt TIME, rate RATE, jitter TIME, queue SIZE, stats, quit";
/// What is said of orders that only a line below TCP can obey.
const BELOW_TCP: &str = "a relay ends TCP on both sides, where nothing is lost and no way goes alone: see helio lab wan";

/// Relays from `listen` to `to` until told to quit. Where standard input ends, it goes on until a signal ends
/// it. Port 0 lets the kernel choose.
///
/// # Errors
/// Where it cannot listen, or nobody reads what it says.
pub(crate) fn run(listen: SocketAddr, to: SocketAddr, mut shape: Shape) -> Result<ExitCode> {
    let (there, back) = (shape.profile(), shape.profile());
    let relay = Relay::start(RelayConfig { listen, target: to, there, back, seed: 1 })
        .with_context(|| format!("cannot relay on {listen}"))?;
    say(&format!("listening on {}, relaying to {to}", relay.local_addr()))?;
    say(&shape.to_string())?;
    say(HELP)?;
    let control = relay.control();
    for line in io::stdin().lock().lines() {
        let answer = match parse(&line?, HELP) {
            Ok(None) => continue,
            Ok(Some(Order::Quit)) => return Ok(ExitCode::SUCCESS),
            Ok(Some(order)) => obey(order, &mut shape, &control),
            Err(why) => why,
        };
        say(&answer)?;
    }
    // Nobody gives orders any more, as with `</dev/null`; the line stays.
    loop {
        std::thread::park();
    }
}

/// Carries out an order, and says what came of it.
fn obey(order: Order, shape: &mut Shape, control: &RelayControl) -> String {
    match order {
        Order::Cut(Ways::Both) => {
            control.cut(Cut::Freeze);
            cut_text(Some(Cut::Freeze)).to_owned()
        }
        Order::Reset => {
            control.cut(Cut::Reset);
            cut_text(Some(Cut::Reset)).to_owned()
        }
        Order::Heal(Ways::Both) => {
            control.heal();
            cut_text(None).to_owned()
        }
        Order::Cut(_) | Order::Heal(_) | Order::Change(Change::Loss(_)) => BELOW_TCP.to_owned(),
        Order::Change(change) => {
            shape.change(change);
            control.set_profile(shape.profile(), shape.profile());
            shape.to_string()
        }
        Order::Stats | Order::Quit => stats(control),
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

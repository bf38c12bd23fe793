// SPDX-License-Identifier: Apache-2.0
//! `helio lab relay`: a long line for real connections, without any privilege.

use super::agenda::Agenda;
use super::govern::{Ear, Governed, govern};
use super::orders::Order;
use super::say;
use super::schedule::Obeys;
use super::shape::{Change, Shape};
use crate::args;
use crate::failure::failed;
use anyhow::{Result, bail};
use helio_netmodel::{Ppm, Profile, WayWeather, WeatherRow};
use helio_units::Rate;
use helio_wan::{Cut, Relay, RelayConfig, RelayControl, Ways};
use std::process::ExitCode;

const HELP: &str = "commands: cut, reset, heal, rtt TIME, rate RATE, jitter TIME, queue SIZE, link NAME, stats, quit";
/// What is said of orders that only a line below TCP can obey.
const BELOW_TCP: &str =
    "a relay ends TCP on both sides: it has no loss and no separate directions; use helio lab wan";

/// Relays until told to quit. Where standard input ends, it goes on until a signal ends it. Port 0 lets the kernel
/// choose.
///
/// # Errors
/// Where it cannot listen, the course cannot be read, or nobody reads what it says.
pub(crate) fn run(relay: args::Relay) -> Result<ExitCode> {
    let args::Relay { listen, to, line, course } = relay;
    if listen == to {
        bail!(
            "--listen and --to are both {listen}\n  hint: give --to the address of another program"
        );
    }
    let agenda = Agenda::read(&course, Line::OBEYS)?;
    let mut shape = Shape::from(line);
    agenda.first.into_iter().for_each(|first| shape.change(carried(first)));
    let [there, back] = profiles(shape);
    let relay =
        Relay::start(RelayConfig { listen, target: to, there, back, seed: 1 }).map_err(failed(
            format!("cannot listen on {listen}"),
            "give --listen an address of this host and a free port",
        ))?;
    say(&format!("listening on {}, relaying to {to}", relay.local_addr()))?;
    say(&shape.to_string())?;
    for plan in &agenda.plans {
        say(plan)?;
    }
    say(HELP)?;
    // A signal may end it at once: nothing is left behind.
    let ear = Ear::listen(None)?;
    govern(&mut Line { shape, control: relay.control() }, &ear, agenda)?;
    Ok(ExitCode::SUCCESS)
}

struct Line {
    shape: Shape,
    control: RelayControl,
}

impl Governed for Line {
    const OBEYS: Obeys = Obeys {
        help: HELP,
        refuses: |order| match order {
            Order::Cut(Ways::Both) | Order::Heal(Ways::Both) => None,
            Order::Cut(_) | Order::Heal(_) | Order::Change(Change::Loss(_)) => Some(BELOW_TCP),
            _ => None,
        },
    };

    fn obey(&mut self, order: Order) -> Result<String> {
        Ok(match order {
            Order::Cut(_) => {
                self.control.cut(Cut::Freeze);
                cut_text(Some(Cut::Freeze)).to_owned()
            }
            Order::Reset => {
                self.control.cut(Cut::Reset);
                cut_text(Some(Cut::Reset)).to_owned()
            }
            Order::Heal(_) => {
                self.control.heal();
                cut_text(None).to_owned()
            }
            Order::Change(change) => {
                self.shape.change(carried(change));
                let [there, back] = profiles(self.shape);
                self.control.set_profile(there, back);
                self.shape.to_string()
            }
            Order::Stats | Order::Quit => stats(&self.control),
        })
    }
}

/// A change as far as a relay can carry it out: of weather, packets that were lost are nothing to it, but where all of
/// them were, nothing passes.
fn carried(change: Change) -> Change {
    let way = |way: WayWeather| match way.loss {
        Ppm::ALL => way,
        _ => WayWeather { loss: Ppm::NONE, ..way },
    };
    match change {
        Change::Weather(row) => {
            Change::Weather(WeatherRow { there: way(row.there), back: way(row.back), ..row })
        }
        other => other,
    }
}

/// Both ways, of which one that loses everything carries nothing.
fn profiles(shape: Shape) -> [Profile; 2] {
    shape.profiles().map(|profile| match profile.loss {
        Ppm::ALL => Profile { rate: Some(Rate(0)), ..profile },
        _ => profile,
    })
}

fn cut_text(cut: Option<Cut>) -> &'static str {
    match cut {
        None => "the link is up",
        Some(Cut::Freeze) => "the link is cut: nothing passes, and no connection ends",
        Some(Cut::After(_)) => "only the first bytes of each connection pass",
        Some(Cut::Reset) => "the link is cut: every connection is reset",
    }
}

fn stats(control: &RelayControl) -> String {
    let stats = control.stats();
    format!(
        "{} connections ({} in total); to the target {} delivered, {} in transit; back {} delivered, {} in transit; \
         {}",
        stats.connections,
        stats.accepted,
        stats.there.delivered,
        stats.there.queued,
        stats.back.delivered,
        stats.back.queued,
        cut_text(stats.cut)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn weather_that_loses_everything_stops_a_way_and_lesser_loss_is_nothing_to_it() {
        let lossy = |loss| WayWeather { loss, ..WayWeather::default() };
        let (there, back) = (lossy(Ppm::ALL), lossy(Ppm(20_000)));
        let change = Change::Weather(WeatherRow {
            at: Duration::ZERO,
            round_trip: Duration::from_millis(8),
            there,
            back,
        });
        let mut shape = Shape { rtt: Duration::ZERO, there: back, back, queue: None };
        shape.change(carried(change));
        let [there, back] = profiles(shape);
        assert_eq!((there.rate, back.rate, back.loss), (Some(Rate(0)), None, Ppm::NONE));
        assert!(shape.to_string().contains("nothing passes; back no rate limit"), "{shape}");
    }

    #[test]
    fn what_only_a_line_below_tcp_obeys_is_refused() {
        let refused = |line: &str| {
            let order = crate::lab::orders::parse(line, HELP).expect(line).expect("an order");
            (Line::OBEYS.refuses)(&order).is_some()
        };
        assert!(["cut there", "heal back", "loss 1%"].into_iter().all(refused));
        assert!(!["cut", "heal", "reset", "rtt 1ms", "link t1", "stats"].into_iter().any(refused));
    }
}

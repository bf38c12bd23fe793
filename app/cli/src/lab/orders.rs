// SPDX-License-Identifier: Apache-2.0
//! The language of standard input, and of schedules: one order a line.

use super::shape::Change;
use helio_netmodel::{NoPreset, NoShare};
use helio_units::{parse_bytes, parse_duration, parse_rate};
use helio_wan::Ways;

/// One order. Not every line obeys every order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Cut(Ways),
    Reset,
    Heal(Ways),
    Change(Change),
    Stats,
    Quit,
}

/// Reads one line; nothing where it is empty. `help` names what would be understood.
pub(super) fn parse(line: &str, help: &str) -> Result<Option<Order>, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let order = match words.as_slice() {
        [] => return Ok(None),
        ["cut"] => Order::Cut(Ways::Both),
        ["cut", "there"] => Order::Cut(Ways::There),
        ["cut", "back"] => Order::Cut(Ways::Back),
        ["reset"] => Order::Reset,
        ["heal"] => Order::Heal(Ways::Both),
        ["heal", "there"] => Order::Heal(Ways::There),
        ["heal", "back"] => Order::Heal(Ways::Back),
        ["stats"] => Order::Stats,
        ["quit"] => Order::Quit,
        [what, amount] => match change(what, amount) {
            Some(Ok(change)) => Order::Change(change),
            Some(Err(why)) => return Err(format!("`{amount}` {why}")),
            None => return Err(unknown(line, help)),
        },
        _ => return Err(unknown(line, help)),
    };
    Ok(Some(order))
}

fn unknown(line: &str, help: &str) -> String {
    format!("`{}` is not a command; {help}", line.trim())
}

/// What is to be changed about the line, or why the amount is none; nothing where it is not about that.
fn change(what: &str, amount: &str) -> Option<Result<Change, String>> {
    Some(match what {
        "rtt" => parse_duration(amount).map(Change::Rtt).map_err(|why| why.to_string()),
        "rate" => parse_rate(amount).map(Change::Rate).map_err(|why| why.to_string()),
        "jitter" => parse_duration(amount).map(Change::Jitter).map_err(|why| why.to_string()),
        "link" => amount.parse().map(Change::Link).map_err(|why: NoPreset| why.to_string()),
        "queue" => parse_bytes(amount).map(Change::Queue).map_err(|why| why.to_string()),
        "loss" => amount.parse().map(Change::Loss).map_err(|why: NoShare| why.to_string()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_netmodel::{Ppm, Preset};
    use helio_units::{Bytes, Rate};
    use std::time::Duration;

    #[test]
    fn every_command_is_understood() {
        let order = |line: &str| parse(line, "").expect("it is a command");
        let change = |line: &str| match order(line) {
            Some(Order::Change(change)) => change,
            other => panic!("{line} is {other:?}"),
        };
        for (words, ways) in [("", Ways::Both), ("there", Ways::There), ("back", Ways::Back)] {
            assert_eq!(order(&format!("cut {words}")), Some(Order::Cut(ways)));
            assert_eq!(order(&format!("heal {words}")), Some(Order::Heal(ways)));
        }
        assert_eq!(order("reset"), Some(Order::Reset));
        assert_eq!(order("stats"), Some(Order::Stats));
        assert_eq!(order("quit"), Some(Order::Quit));
        assert_eq!(order("  "), None);
        assert_eq!(change("  rtt   20ms "), Change::Rtt(Duration::from_millis(20)));
        assert_eq!(change("rate 10Mbit/s"), Change::Rate(Rate::mbit(10)));
        assert_eq!(change("jitter 300us"), Change::Jitter(Duration::from_micros(300)));
        assert_eq!(change("queue 1MB"), Change::Queue(Bytes(1_000_000)));
        assert_eq!(change("loss 0.1%"), Change::Loss(Ppm(1_000)));
        assert_eq!(change("link t1"), Change::Link(Preset::ALL[0]));
    }

    #[test]
    fn what_is_no_command_says_what_would_be() {
        let says = |line| parse(line, "commands: cut, heal").expect_err("it is none");
        assert_eq!(says(" sever"), "`sever` is not a command; commands: cut, heal");
        assert!(says("cut now").contains("not a command"));
        assert!(says("heal it now please").contains("not a command"));
        assert_eq!(says("rtt 20"), "`20` needs a unit: us, ms, s, min or h");
        assert!(says("loss 1").starts_with("`1` is not a percentage"));
        assert!(says("link t2").starts_with("`t2` is not a named link; the names are t1, "));
    }
}

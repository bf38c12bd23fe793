// SPDX-License-Identifier: Apache-2.0
//! File descriptors: how many the configuration may need at once, and whether the kernel gives that many.
//!
//! Asked for at the start, where it can be put right, and not when the thousandth client comes. Beyond the start
//! nothing here watches: a listener that finds none left rests and tries again.

use crate::config::{GroupView, NodeView, VolumeConfig};
use crate::control;
use crate::shard::{STRANGERS_MAX, guests_of};
use anyhow::{Result, bail};
use helio_driver::Host;

/// The reactor, the control server's runtime, listeners, the state directory's lock, standard streams, and what is
/// open for a moment only (a certificate, the kernel's tables). Measured at an idle daemon: 18.
const FIXED: u64 = 64;
/// A group's metadata and its mirror, its connection, the one that takes its place, and one that says its last words.
const PER_GROUP: u64 = 5;

/// What may be open at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    clients: u32,
    members: u64,
    groups: u64,
}

/// The most that a node of the group has.
fn members(view: &GroupView<'_>) -> u64 {
    let most = |volume: &VolumeConfig| volume.members.values().map(Vec::len).max();
    view.group.volumes.values().filter_map(most).sum::<usize>() as u64
}

impl Need {
    pub(crate) fn of(view: &NodeView<'_>) -> Self {
        Self {
            clients: view.node.clients,
            members: view.groups.iter().map(members).sum(),
            groups: view.groups.len() as u64,
        }
    }

    /// Descriptors that do not depend on how many clients there are.
    fn without_clients(self) -> u64 {
        let control = control::Limits::default().connections as u64;
        FIXED + control + STRANGERS_MAX as u64 + self.members + PER_GROUP * self.groups
    }

    fn total(self) -> u64 {
        u64::from(self.clients) + u64::from(guests_of(self.clients)) + self.without_clients()
    }
}

/// What is to be done about a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// It is high enough.
    Enough,
    /// The soft limit must rise, and the hard one lets it.
    Raise,
    /// The hard limit is too low for this configuration.
    Short { hard: u64 },
}

/// `None` is no limit.
fn judge(total: u64, soft: Option<u64>, hard: Option<u64>) -> Verdict {
    match (soft, hard) {
        (None, _) => Verdict::Enough,
        (Some(soft), _) if soft >= total => Verdict::Enough,
        (_, Some(hard)) if hard < total => Verdict::Short { hard },
        _ => Verdict::Raise,
    }
}

/// Sees to it that so many descriptors may be open.
///
/// # Errors
/// [`allowed`] says no, or the kernel does.
pub(crate) fn provide(host: &Host, need: Need) -> Result<()> {
    allowed(host, need)?;
    let [current, maximum] = host.descriptor_limits();
    if judge(need.total(), current, maximum) == Verdict::Raise {
        tracing::debug!(descriptors = need.total(), "limit raised");
        host.limit_descriptors(need.total()).map_err(|error| {
            anyhow::anyhow!(
                "the kernel did not raise the limit of file descriptors to {}: {error}\n  hint: {}",
                need.total(),
                hint(need, maximum.unwrap_or(0))
            )
        })?;
    }
    Ok(())
}

/// Says whether the hard limit lets so many be open, and returns how many that is.
///
/// # Errors
/// It does not; with the numbers and the hints.
pub(crate) fn allowed(host: &Host, need: Need) -> Result<u64> {
    let [current, maximum] = host.descriptor_limits();
    match judge(need.total(), current, maximum) {
        Verdict::Enough | Verdict::Raise => Ok(need.total()),
        Verdict::Short { hard } => bail!(
            "{} file descriptors may be needed ({} clients, {} connections without an export, {} members, {} groups, {} for \
             everything else), and the hard limit is {hard}\n  hint: {}",
            need.total(),
            need.clients,
            guests_of(need.clients),
            need.members,
            need.groups,
            need.without_clients() - need.members,
            hint(need, hard)
        ),
    }
}

fn hint(need: Need, hard: u64) -> String {
    let raise = format!(
        "raise it (`LimitNOFILE={}` in the unit, `ulimit -Hn {0}` in a shell)",
        need.total()
    );
    let fits = |clients: &u32| Need { clients: *clients, ..need }.total() <= hard;
    match (1..need.clients).rev().find(fits) {
        Some(clients) => format!("{raise}, or set `clients = {clients}` or less for the node"),
        None => raise,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEED: Need = Need { clients: 1024, members: 3, groups: 2 };

    #[test]
    fn a_limit_is_left_raised_or_too_low() {
        for (soft, hard, verdict) in [
            (None, None, Verdict::Enough),
            (Some(2000), Some(2000), Verdict::Enough),
            (Some(1500), Some(1500), Verdict::Enough),
            (Some(1499), Some(1500), Verdict::Raise),
            (Some(1499), None, Verdict::Raise),
            (Some(256), Some(1499), Verdict::Short { hard: 1499 }),
        ] {
            assert_eq!(judge(1500, soft, hard), verdict, "{soft:?} {hard:?}");
        }
    }

    #[test]
    fn everything_that_may_be_open_counts() {
        let more = Need { clients: 1025, members: 4, groups: 3 };
        assert_eq!(more.total() - NEED.total(), 1 + 1 + PER_GROUP);
        assert_eq!(NEED.total() - NEED.without_clients(), 2 * 1024);
    }

    #[test]
    fn the_hint_names_a_number_of_clients_that_would_do() {
        let hard = NEED.without_clients() + 71;
        assert!(hint(NEED, hard).contains("set `clients = 7` or less"), "{}", hint(NEED, hard));
        assert!(!hint(NEED, 7).contains("clients ="), "no number of clients would do");
    }
}

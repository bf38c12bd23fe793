// SPDX-License-Identifier: Apache-2.0
//! What an operator can do about a group in a view, before the daemon is asked: each offer is one command of the command line, with
//! its help and what is at stake.

use crate::args;
use crate::request::Request;
use helio_api::GroupStatus;
use helio_units::{Generation, Mode, Role, WallTime};

/// What a command does: its help, in a line.
pub(crate) fn effect(line: &str) -> String {
    let mut command = args::command();
    for word in line.split(' ').skip(1) {
        match command.find_subcommand(word) {
            Some(inner) => command = inner.clone(),
            None => break,
        }
    }
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

/// What is at stake, as far as it is known before the daemon is asked. `primary`: the group as its primary shows it, if that is
/// another node and known.
pub(crate) fn stake(request: &Request, g: &GroupStatus, primary: Option<&GroupStatus>) -> String {
    let (name, node, peer) =
        (&g.name, &g.node, g.peer.as_ref().map_or("its peer", |peer| &peer.name));
    let secondary = if g.role == Role::Primary { peer } else { node };
    match request {
        Request::Pause => format!(
            "until replication resumes, new writes exist only on the primary; if it fails, {secondary} does not have them"
        ),
        Request::Resync(wish) if wish.full => format!(
            "until the resync ends, the copy of {name} on {secondary} is inconsistent and cannot be promoted"
        ),
        Request::Resync(wish) if wish.give_up_safe_copy => {
            format!("until the resync ends, {secondary} has no consistent copy of {name}")
        }
        // Data that is missing on this primary is on the peer.
        Request::Resume | Request::Resync(_) if g.role == Role::Primary && !g.consistent => {
            format!("nothing; missing data is copied from {peer} to {node}, and clients continue")
        }
        Request::Resume | Request::Resync(_) => format!(
            "until the resync ends, the copy on {secondary} is inconsistent; {secondary} preserves its last consistent copy, unless `safe-copy` is \"off\""
        ),
        Request::Reverse(_) => {
            format!("writes that only {node} has are saved, then overwritten with the copy of {peer}")
        }
        Request::Verify(wish) if wish.repair => {
            format!(
                "where the copies of {name} differ, the blocks of {node} overwrite those of {peer}, even if the blocks of {peer} are the correct ones"
            )
        }
        Request::Verify(_) => {
            "nothing; both copies are read and compared over the link, and no data changes".into()
        }
        Request::VerifyStop => "nothing; the next verify continues at its position".into(),
        Request::Promote(wish) if wish.force || wish.fence => {
            format!("writes that only {peer} has are lost, and so is the data of its clients if it still serves any")
        }
        Request::Promote(wish) if wish.restore => {
            "everything that was written after the safe copy is discarded".into()
        }
        Request::Promote(_) if g.peer.is_some() && g.generation == Generation::NONE.to_string() => format!(
            "if neither node has a copy yet, all data of {name} on {peer} is overwritten with the data of {node}; otherwise the daemon refuses"
        ),
        Request::Promote(_) => format!(
            "writes that {node} does not have would be lost; if there may be any, the daemon refuses, or asks again"
        ),
        Request::Demote => format!("clients of {node} must be disconnected; they lose their volumes"),
        Request::Switch(wish) => switch(wish.force, g, primary),
        Request::Resolve(_) => format!(
            "the writes that exist only on {node}; the daemon shows them, asks again, and saves them before it discards them"
        ),
        Request::MemberReplace(_) => {
            "all data on the disk in the configuration file is overwritten; the daemon names it, and asks again".into()
        }
        Request::MemberAccept(_) => {
            "acknowledged writes that are missing from this copy are lost; the daemon asks again".into()
        }
        Request::Mode(wish) => mode(wish.mode, secondary),
        Request::SnapshotCreate(_) => {
            let nodes = if g.peer.is_some() { " on both nodes" } else { "" };
            format!("nothing; until the snapshot is deleted, overwritten data needs space{nodes}")
        }
    }
}

/// The default name of a snapshot that a view creates: `top-20261120-213720`.
pub(crate) fn snapshot_name(view: &str, now: WallTime) -> String {
    let moment: String = now.to_string().chars().filter(char::is_ascii_digit).collect();
    let (day, time) = moment.split_at(moment.len().min(8));
    format!("{view}-{day}-{time}")
}

/// Which clients lose their connection, as far as it is known.
fn switch(force: bool, g: &GroupStatus, primary: Option<&GroupStatus>) -> String {
    let peer = g.peer.as_ref().map_or("its peer", |peer| &peer.name);
    let (from, to) = if g.role == Role::Primary { (&*g.node, peer) } else { (peer, &*g.node) };
    let primary = if g.role == Role::Primary { Some(g) } else { primary };
    let connections: Option<u64> =
        primary.map(|g| g.volumes.iter().map(|volume| volume.clients.0).sum());
    let clients = match connections {
        None => format!("clients are disconnected from {from}, and must connect to {to}"),
        Some(0) => format!("no client is connected to {from}"),
        Some(1) => format!("1 connection to {from} is closed, and its client must connect to {to}"),
        Some(n) => {
            format!("{n} connections to {from} are closed, and their clients must connect to {to}")
        }
    };
    let devices = format!("; processes that use a device of {} get I/O errors", g.name);
    format!("{clients}{}; no acknowledged write is lost", if force { &devices } else { "" })
}

fn mode(mode: Mode, secondary: &str) -> String {
    match mode {
        Mode::Sync => format!("each write waits until it is durable on {secondary}"),
        Mode::NearSync => format!("each write waits until {secondary} has received it"),
        Mode::Async => format!(
            "if the primary fails, acknowledged writes that {secondary} does not have yet are lost"
        ),
        Mode::Periodic => format!(
            "if the primary fails, everything that was written since the last cut on {secondary} is lost"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::sample;
    use helio_units::{Items, form};

    const COMMANDS: [&str; 21] = [
        "helio pause db",
        "helio resume db",
        "helio resync db",
        "helio resync db --full",
        "helio resync db --give-up-safe-copy",
        "helio resync db --reverse",
        "helio verify start db",
        "helio verify start db --repair",
        "helio verify stop db",
        "helio promote db",
        "helio promote db --force",
        "helio promote db --restore",
        "helio demote db",
        "helio switch db",
        "helio switch db --force",
        "helio resolve db --discard paris",
        "helio member replace db/data",
        "helio member accept db/data",
        "helio mode db sync",
        "helio mode db periodic",
        "helio snapshot create db@one",
    ];

    #[test]
    fn every_offer_has_its_help_and_what_is_at_stake() {
        let group = sample::status().groups.remove(0);
        for line in COMMANDS {
            let (_, request) = Request::of_line(line).expect(line);
            assert!(!effect(line).is_empty(), "{line}");
            assert_eq!(form::of_text(line, &stake(&request, &group, None)), Vec::<String>::new());
        }
        assert_eq!(
            effect("helio verify stop db"),
            "Stop the running verify; the next verify continues at its position"
        );
    }

    #[test]
    fn a_primary_without_its_data_gets_it_from_its_peer() {
        let mut group = sample::status().groups.remove(0);
        let (_, request) = Request::of_line("helio resync db").expect("a command");
        assert!(stake(&request, &group, None).contains("the copy on lyon is inconsistent"));
        group.consistent = false;
        assert!(
            stake(&request, &group, None).contains("missing data is copied from lyon to paris")
        );
    }

    #[test]
    fn a_snapshot_in_a_group_of_one_node_needs_space_on_that_node_only() {
        let mut group = sample::status().groups.remove(0);
        let (_, request) = Request::of_line("helio snapshot create db@one").expect("a command");
        assert!(stake(&request, &group, None).ends_with("needs space on both nodes"));
        group.peer = None;
        assert!(stake(&request, &group, None).ends_with("needs space"));
    }

    #[test]
    fn a_switch_says_how_many_connections_are_closed() {
        let mut group = sample::status().groups.remove(0);
        let (_, request) = Request::of_line("helio switch db").expect("a command");
        group.volumes.truncate(1);
        for (connections, begins) in [
            (0, "no client is connected to paris; "),
            (1, "1 connection to paris is closed, and its client must connect to lyon; "),
            (3, "3 connections to paris are closed, and their clients must connect to lyon; "),
        ] {
            group.volumes[0].clients = Items(connections);
            let stake = stake(&request, &group, None);
            assert!(stake.starts_with(begins), "{stake}");
        }
        let there = GroupStatus { role: Role::Secondary, ..group.clone() };
        let unknown = stake(&request, &there, None);
        assert!(
            unknown.starts_with("clients are disconnected from lyon, and must connect to paris; ")
        );
        assert!(stake(&request, &there, Some(&group)).starts_with("3 connections "));
    }

    #[test]
    fn a_promotion_of_a_node_without_a_copy_overwrites_the_other_node_or_is_refused() {
        let mut group = sample::status().groups.remove(0);
        let (_, request) = Request::of_line("helio promote db").expect("a command");
        assert!(!stake(&request, &group, None).contains("overwritten"));
        group.generation = Generation::NONE.to_string();
        let first = stake(&request, &group, None);
        assert!(first.contains("all data of db on lyon is overwritten"), "{first}");
    }
}

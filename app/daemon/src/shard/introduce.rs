// SPDX-License-Identifier: Apache-2.0
//! From a stranger on the peers' port to a group's peer: by its first message, and by its key.

use super::Shard;
use super::callers::Caller;
use super::strangers::{Introduced, farewell};
use super::stream::Stream;
use super::token::Kind;
use helio_driver::{Driver, Outcome};
use helio_format::message::{Hello, Parting};
use helio_units::Moment;
use std::net::SocketAddr;

impl<D: Driver> Shard<D> {
    /// Something of a stranger ended, `at` its slot and epoch.
    pub(super) fn stranger_done(
        &mut self,
        kind: Kind,
        at: (usize, u32),
        outcome: Outcome,
        now: Moment,
    ) {
        let Self { strangers, driver, .. } = self;
        let introduced = match outcome {
            Outcome::Recv { buffer, result } => {
                strangers.received(at, buffer, result.ok(), now, driver)
            }
            Outcome::Send { pieces, .. } => strangers.sent(at, pieces, now, driver),
            Outcome::Compute => strangers.shaken(at, now, driver),
            other => panic!("a {kind:?} cannot end as {other:?}"),
        };
        match introduced {
            Introduced::Hello { stream, from, hello } => self.introduced(stream, from, hello, now),
            Introduced::UnknownKey { key, from } => {
                // Groups with other peers are not concerned.
                let links = self.groups.iter_mut().map(|group| &mut group.link);
                let from_there =
                    links.filter(|link| from.is_some_and(|from| link.route().is_from(from.ip())));
                from_there.for_each(|link| link.called_with(key, from, now));
            }
            Introduced::Nothing => {}
        }
    }

    /// A stranger said hello: it belongs to a group, or it goes.
    fn introduced(&mut self, stream: Stream, from: Option<SocketAddr>, hello: Hello, now: Moment) {
        let Some(index) = self.find(&hello.group) else {
            let why = match self.failures.get(&hello.group) {
                Some(failed) => {
                    format!("group {} is not served on this node: {}", failed.name, failed.reason)
                }
                None => self.of_no_group(&hello),
            };
            return self.refuse(stream, from, &why, now);
        };
        let group = &mut self.groups[index];
        if group.config.peer_name() != Some(hello.node.as_str()) {
            let why = match group.config.peer_name() {
                Some(peer) => format!(
                    "group {} is mirrored with {peer}, not with {1}. If {peer} was renamed to {1}, give it this name in the configuration \
                     of both nodes",
                    group.name, hello.node
                ),
                None => format!("group {} has only one node, {}", group.name, group.config.node),
            };
            return self.refuse(stream, from, &why, now);
        }
        if !group.link.guard.admits(&stream) {
            let mut why = format!(
                "group {}: this connection does not have the key of {}",
                group.name, group.peer
            );
            if let Some(key) = stream.peer_key() {
                group.link.called_with(key, from, now);
                why = format!("{why}, but {key}");
            }
            return self.refuse(stream, from, &why, now);
        }
        let caller = Caller { incarnation: hello.incarnation, from };
        if let Err(later) = group.link.callers.accept(caller, group.link.is_up()) {
            let known =
                |from: Option<String>| from.unwrap_or_else(|| String::from("an unknown address"));
            // A port changes with every call.
            let this = known(from.map(|from| from.ip().to_string()));
            let other = known(later.from.map(|from| from.to_string()));
            let why = format!(
                "group {}: two daemons of node {} run: the one that calls from {this}, and one that was started later, and is connected \
                 from {other}. Stop one of them. A copied machine needs a node name, a key and disks of its own",
                group.name, hello.node
            );
            return self.refuse(stream, from, &why, now);
        }
        if !group.engine.view().is_unsteady() {
            self.strangers.log.accepted(from);
        }
        self.rota.stir(index);
        let Self { groups, driver, .. } = self;
        groups[index].guarded(|group| {
            // A new connection shows that the old one is stale, whatever its socket believes.
            if group.link.is_up() {
                group.lost(now, String::from("the peer connected again"));
            }
            group.link.adopt(stream, now, driver);
            group.connected(now);
            let message = helio_format::message::Message::Hello(hello);
            group.heard(now, helio_link::Arrived { message, payload: None });
        });
    }

    /// Why no group of this node is that of a hello. A group has the same generations under each of its names.
    fn of_no_group(&self, hello: &Hello) -> String {
        let Hello { group, node, lineage, .. } = hello;
        let ours = |it: &&super::Group| {
            it.config.peer_name() == Some(node) && it.engine.view().shares_history(lineage)
        };
        let Some(same) = self.groups.iter().find(ours) else {
            return format!("no group {group} on this node");
        };
        format!(
            "group {group} of {node} is group {} of {}: it was renamed on one of the two nodes only. Give it one name in the configuration \
             of both nodes, and record this name on each of them (`helio rename group --help`)",
            same.name, same.config.node
        )
    }

    fn refuse(&mut self, stream: Stream, from: Option<SocketAddr>, why: &str, now: Moment) {
        self.strangers.log.refused(from, why, now);
        farewell(stream, Parting::Refused, why, &mut self.driver);
    }
}

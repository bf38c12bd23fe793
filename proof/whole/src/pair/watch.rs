// SPDX-License-Identifier: Apache-2.0
//! Follows the requests, orders and changes of a story, and which faults each of them meets.

use super::act::{Luck, Order};
use super::luck::Ends;
use super::run::{Asked, Run};
use crate::coverage::{Change, Coverage, Lucks, Met};
use helio_netmodel::Dice;
use helio_units::Moment;
use helio_world::FileFault;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// How long a fault is in effect.
#[derive(Clone, Debug)]
pub(super) enum Effect {
    /// It strikes, and that is all.
    Once,
    Until(Moment),
    /// Until calls of that kind on a file of a node no longer fail.
    Fails(usize, PathBuf, FileFault),
    /// To the end of the story.
    Stays,
}

/// When what is followed ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// With the response to this request to the control plane of a node.
    Response {
        request: u64,
        node: usize,
    },
    /// With the end of the daemon of a node.
    Ended {
        node: usize,
    },
    Passed(Moment),
}

/// Something that a fault can meet.
#[derive(Clone, Copy, Debug)]
struct Followed {
    met: Met,
    until: Until,
    lucks: Lucks,
}

/// A fault that is to strike so long after something.
pub(super) type Strike = (Luck, Duration, Dice);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Watch {
    effects: Vec<(Luck, Effect)>,
    /// A fault that is to strike after the request of an order.
    armed: Option<(Order, Strike)>,
    followed: Vec<Followed>,
    pub(super) coverage: Coverage,
}

impl Run {
    /// A fault strikes.
    pub(super) fn struck(&mut self, luck: Luck, effect: Effect) {
        let lucks: Lucks = [luck].into_iter().collect();
        let waits = self.waiting_clients();
        let Watch { effects, followed, coverage, .. } = &mut self.watch;
        waits.into_iter().for_each(|label| coverage.met(Met::Client(label), lucks));
        followed.iter_mut().for_each(|it| it.lucks.add(luck));
        if !matches!(effect, Effect::Once) {
            effects.push((luck, effect));
        }
    }

    /// A fault is to strike so long after the request of an order. One that still waits for another order strikes soon.
    pub(super) fn arm(&mut self, order: Order, strike: Strike) {
        if let Some((waits_for, _)) = self.watch.armed {
            self.fire(waits_for);
        }
        self.watch.armed = Some((order, strike));
    }

    /// An order is under way now: a fault that waited for it strikes soon.
    pub(super) fn fire(&mut self, order: Order) {
        let armed = self.watch.armed.take_if(|(waits_for, _)| *waits_for == order);
        if let Some((_, (luck, after, dice))) = armed {
            self.ends.push((self.world.now() + after, Ends::Strike(luck, dice)));
        }
    }

    /// Nothing is in effect any more.
    pub(super) fn forget_effects(&mut self) {
        self.watch.effects.clear();
        self.watch.armed = None;
    }

    /// The faults in effect now.
    pub(super) fn in_effect(&mut self) -> Lucks {
        let (now, nodes) = (self.world.now(), &self.nodes);
        self.watch.effects.retain(|(_, effect)| match effect {
            Effect::Once => false,
            Effect::Until(end) => now < *end,
            Effect::Fails(node, path, fault) => nodes[*node].machine.is_failing(path, *fault),
            Effect::Stays => true,
        });
        self.watch.effects.iter().map(|(luck, _)| *luck).collect()
    }

    /// Clients asked these of the server.
    pub(super) fn clients_asked(&mut self, asked: Vec<&'static str>) {
        if !asked.is_empty() {
            let lucks = self.in_effect();
            let coverage = &mut self.watch.coverage;
            asked.into_iter().for_each(|label| coverage.met(Met::Client(label), lucks));
        }
    }

    /// Follows something from now on.
    pub(super) fn follow(&mut self, met: Met, until: Until) {
        let lucks = self.in_effect();
        self.watch.followed.push(Followed { met, until, lucks });
    }

    /// Takes a step of an order, and follows the order by the requests to the control plane that the step makes.
    pub(super) fn in_order(&mut self, order: Order, step: impl FnOnce(&mut Self)) {
        let behind = self.requests;
        step(self);
        let asked = self.asked.range(behind + 1..);
        let asked: Vec<(u64, usize)> = asked.map(|(request, it)| (*request, it.node)).collect();
        if !asked.is_empty() {
            self.fire(order);
        }
        for (request, node) in asked {
            self.follow(Met::Order(order), Until::Response { request, node });
        }
    }

    /// What was followed until then is over. Changes count if they `happened`.
    pub(super) fn followed(&mut self, happened: bool, is_over: impl Fn(Until) -> bool) {
        let Watch { followed, coverage, .. } = &mut self.watch;
        followed.retain(|it| {
            let over = is_over(it.until);
            if over && (happened || !matches!(it.met, Met::Change(_))) {
                coverage.met(it.met, it.lucks);
            }
            !over
        });
    }

    /// A change came with the response to a request: the faults that met the order met it, too.
    pub(super) fn changed(&mut self, change: Change, by: u64) {
        let by =
            |it: &&Followed| matches!(it.until, Until::Response { request, .. } if request == by);
        if let Some(lucks) = self.watch.followed.iter().find(by).map(|it| it.lucks) {
            self.watch.coverage.met(Met::Change(change), lucks);
        }
    }

    /// The daemon of a node is gone, and nothing responds any more.
    pub(super) fn daemon_gone(&mut self, node: usize, cleanly: bool) {
        let (lost, kept) = std::mem::take(&mut self.asked)
            .into_iter()
            .partition::<BTreeMap<_, _>, _>(|(_, asked)| asked.node == node);
        self.asked = kept;
        // What it did not report may have happened.
        for Asked { group, wish, .. } in lost.into_values() {
            if let Some(group) = group {
                self.groups[group].discard(node, wish);
            }
        }
        self.followed(cleanly, |until| match until {
            Until::Response { node: at, .. } | Until::Ended { node: at } => at == node,
            Until::Passed(_) => false,
        });
    }
}

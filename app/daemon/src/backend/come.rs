// SPDX-License-Identifier: Apache-2.0
//! Groups that come while others are served.

use super::{Daemon, of_refusal};
use crate::config::Config;
use crate::descriptors;
use crate::errands::{self, Errands};
use crate::failed;
use crate::shard::{Ask, GroupPlan, ServiceAsk, dice};
use crate::{open, trust};
use helio_api::{ApiError, code};
use helio_driver::Host;
use std::sync::Arc;

impl Daemon {
    /// Groups of this node that the file has and nobody serves yet, where both nodes are as they were at the start.
    pub(super) fn coming(&self, running: &Config, new: &Config) -> Vec<String> {
        let mut trusting = running.clone();
        trusting.nodes_as(new);
        let new_here = new.groups.iter().filter(|(name, group)| {
            let as_before = |node: &String| trusting.nodes.get(node) == new.nodes.get(node);
            !running.groups.contains_key(*name)
                && group.nodes.contains(&self.node)
                && group.nodes.iter().all(as_before)
        });
        new_here.map(|(name, _)| name.clone()).collect()
    }

    /// Groups of this node that could not be opened, and are to be tried again. What the file says of them counts.
    pub(super) fn to_retry(&self, new: &Config) -> Vec<String> {
        let mut names = self.failures.to_retry();
        names.retain(|name| {
            new.groups.get(name).is_some_and(|group| group.nodes.contains(&self.node))
        });
        names
    }

    /// Tries to serve each of these again. Returns a line for each that is served.
    pub(super) async fn retry(
        &self,
        (running, new): (&Config, &Config),
        names: &[String],
    ) -> (Vec<String>, Option<ApiError>) {
        let (mut lines, mut refused) = (Vec::new(), None);
        for name in names {
            let done = match self.open(running, std::slice::from_ref(name)).await {
                Ok(plans) => {
                    let mut served = Ok(());
                    for plan in plans {
                        served = self.serve(plan, new).await;
                    }
                    served
                }
                Err(error) => {
                    let why = (error.error.clone(), error.hint.clone().unwrap_or_default());
                    self.failures.add(name, why, false);
                    Err(error)
                }
            };
            match done {
                Ok(()) => lines.push(format!("group {name}: served again")),
                Err(error) => refused = Some(error),
            }
        }
        (lines, refused)
    }

    /// Opens what they need. Where one cannot be opened, none is served, and nothing is changed.
    pub(super) async fn open(
        &self,
        running: &Config,
        come: &[String],
    ) -> Result<Vec<GroupPlan>, ApiError> {
        if come.is_empty() {
            return Ok(Vec::new());
        }
        let names = come.join(", ");
        let (running, come) = (running.clone(), come.to_vec());
        let (node, state) = (self.node.clone(), self.state.clone());
        let (host, failures) = (Host::clone(&self.host), Arc::clone(&self.failures));
        let opening = move || -> anyhow::Result<Vec<GroupPlan>> {
            let view = running.for_node(&node)?;
            descriptors::provide(&host, descriptors::Need::of(&view))?;
            let own = trust::own_key(&host, &view, &state)?;
            let place = (state.as_path(), &*failures);
            let open =
                |group: &String| open::one_plan(&host, &view, (&node, group), place, own.as_ref());
            come.iter().map(open).collect()
        };
        self.blocking(opening).await?.map_err(|error| {
            let (reason, hint) = failed::of_opening(&names, &error);
            ApiError::new("not-added", format!("{names} cannot be served: {reason}"), hint)
        })
    }

    /// Serves one.
    pub(super) async fn serve(&self, plan: GroupPlan, new: &Config) -> Result<(), ApiError> {
        let name = plan.engine.group.clone();
        let errands = Errands::of(&plan);
        let dice = dice(&self.host).map_err(|error| {
            ApiError::new(code::INTERNAL, format!("no random numbers: {error}"), "apply again")
        })?;
        let plan = Box::new(plan);
        let ask = |reply| Ask::Service(ServiceAsk::Serve { plan, dice, reply });
        self.shard.answer(ask).await?.map_err(of_refusal)?;
        if let Some(group) = new.groups.get(&name) {
            self.config_mut().groups.insert(name, group.clone());
        }
        if let Some(me) = self.me.upgrade() {
            errands::add(errands, &me);
        }
        Ok(())
    }
}

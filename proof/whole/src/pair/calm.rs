// SPDX-License-Identifier: Apache-2.0
//! Liveness: once nothing goes wrong any more, everything becomes level within a bound of virtual time, and the operator does only
//! what the status recommends.

use super::run::{Run, Wish};
use helio_api::GroupStatus;
use helio_units::{Role, State, Verdict};
use serde_json::{Value, json};
use std::time::Duration;

/// How long it may take.
const BOUND: Duration = Duration::from_secs(1200);
/// How often the operator looks.
const LOOKS: Duration = Duration::from_secs(5);

impl Run {
    /// Waits until everything is level.
    ///
    /// # Errors
    /// What is not.
    pub(super) fn calm_down(&mut self) -> Result<(), String> {
        self.end_all_luck();
        let until = self.world.now() + BOUND;
        while self.world.now() < until {
            self.pass(LOOKS)?;
            self.status = [None, None];
            self.look(0);
            self.look(1);
            self.pass(Duration::from_millis(500))?;
            if (0..self.groups.len()).all(|group| self.is_level(group)) {
                return Ok(());
            }
            self.advised += 1;
            for group in 0..self.groups.len() {
                if !self.is_level(group) {
                    self.follow_advice(group)?;
                }
            }
        }
        let told: Vec<String> = (0..2).map(|node| self.words(node)).collect();
        Err(format!(
            "not level {} s after the last misfortune: {}",
            BOUND.as_secs(),
            told.join("; ")
        ))
    }

    fn words(&self, node: usize) -> String {
        let name = self.nodes[node].name;
        let Some(status) = &self.status[node] else {
            let why = self.nodes[node].why.clone().unwrap_or_default();
            return format!("{name} does not respond {why}");
        };
        let group = |it: &GroupStatus| {
            format!("{} {} {} {:?} ({})", it.name, it.role, it.state, it.verdict, it.next)
        };
        let groups: Vec<String> = status.groups.iter().map(group).collect();
        let failed: Vec<String> =
            status.failed.iter().map(|it| format!("{}: {}", it.name, it.reason)).collect();
        format!("{name}: {} {}", groups.join(", "), failed.join(", "))
    }

    pub(super) fn group_status(&self, node: usize, group: usize) -> Option<&GroupStatus> {
        let name = self.groups[group].shape.name;
        self.status[node].as_ref()?.groups.iter().find(|it| it.name == name)
    }

    fn is_level(&self, group: usize) -> bool {
        let (Some(one), Some(other)) = (self.group_status(0, group), self.group_status(1, group))
        else {
            return false;
        };
        let whole = |it: &GroupStatus| {
            it.volumes.iter().all(|volume| {
                volume.unmerged_bytes.0 == 0
                    && volume.members.iter().all(|it| it.left_bytes.is_none_or(|left| left.0 == 0))
            })
        };
        let roles = [one.role, other.role];
        roles.contains(&Role::Primary)
            && roles.contains(&Role::Secondary)
            && [one, other].iter().all(|it| {
                it.verdict.word == Verdict::Ok
                    && it.state == State::Replicating
                    && it.lag.bytes.0 == 0
                    && whole(it)
            })
    }

    /// Does what the status of either node recommends.
    fn follow_advice(&mut self, group: usize) -> Result<(), String> {
        for node in 0..2 {
            let Some(status) = self.group_status(node, group) else { continue };
            let (next, is_primary) = (status.next.clone(), status.role == Role::Primary);
            self.world.tell(format_args!("{}: advice: {next}", self.nodes[node].name));
            let serves = self.groups[group].last_served;
            if next.contains("restart") {
                let named =
                    self.nodes.iter().position(|it| next.contains(&format!("on {}", it.name)));
                let (node, mut dice) = (named.unwrap_or(node), self.world.dice("restart"));
                self.stop(node, &mut dice);
                continue;
            }
            let Some((command, behind)) =
                next.split_once("`helio ").and_then(|(_, rest)| rest.split_once('`'))
            else {
                continue;
            };
            let at = self
                .nodes
                .iter()
                .position(|it| behind.trim_start().starts_with(&format!("on {}", it.name)));
            let words: Vec<&str> = command.split(' ').collect();
            // Both nodes may say so: the one that served last does it.
            let turn = usize::from(self.advised % 4 == 3);
            let chosen = at.or(serves.map(|it| it ^ turn)).unwrap_or(turn);
            let (at, verb, body, wish): (usize, &str, Value, Wish) = match words[..] {
                ["promote", _] => (
                    chosen,
                    "promote",
                    json!({ "force": false, "confirmed": false }),
                    Wish::Promote { forced: false },
                ),
                ["promote", _, "--force", ..] => continue,
                ["resume", _] => (at.unwrap_or(node), "resume", json!({}), Wish::Other),
                ["resync", _, ref more @ ..] => {
                    let body = json!({ "full": more.contains(&"--full"), "give_up_safe_copy": more.contains(&"--give-up-safe-copy") });
                    (at.unwrap_or(node), "resync", body, Wish::Other)
                }
                ["demote", _] if is_primary && serves != Some(node) => {
                    (node, "demote", json!({}), Wish::Demote)
                }
                ["demote", _] if !is_primary && serves != Some(node) => {
                    let body = json!({ "discard": self.nodes[node].name, "confirmed": true });
                    (node, "resolve", body, Wish::Other)
                }
                ["demote", _] => continue,
                ["resolve", _, "--discard", name, ..] => {
                    let body = json!({ "discard": name, "confirmed": true });
                    (at.unwrap_or(node), "resolve", body, Wish::Other)
                }
                ["status", ..] => continue,
                ["seed", "end", _] => (at.unwrap_or(node), "seed/end", json!({}), Wish::Other),
                ["member", "replace", volume] => {
                    let volume = volume.split('/').nth(1).unwrap_or_default();
                    let body = json!({ "volume": volume, "confirmed": true });
                    (at.unwrap_or(node), "member/replace", body, Wish::Other)
                }
                ["member", "accept", volume] => {
                    let volume = volume.split('/').nth(1).unwrap_or_default();
                    let body = json!({ "volume": volume, "confirmed": true });
                    (at.unwrap_or(node), "member/accept", body, Wish::Other)
                }
                ["pause", _] => continue,
                _ => return Err(format!("the advice cannot be followed: {next}")),
            };
            self.post(at, group, verb, &body, wish);
        }
        Ok(())
    }
}

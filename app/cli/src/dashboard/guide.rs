// SPDX-License-Identifier: Apache-2.0
//! Which actions the page offers, and what they request. The name of an action is the command that does the same; so
//! every command that a status or a hint recommends can be an action, too.

use super::forecast::{Planned, expected};
use crate::offer::{effect, snapshot_name, stake};
use crate::request::Request;
use crate::typed;
use helio_api::{ApiError, GroupStatus, Status, code};
use helio_units::{Mode, Role, WallTime};
use helio_web::{Act, Ask, Forecast, Guide, Input, Looks, Offer};

/// The names of snapshots, as a pattern of a browser.
const NAME: &str = r"[A-Za-z0-9][A-Za-z0-9_.:\-]{0,62}";
/// What stands for a node in advice that is for either of them.
const EITHER: &str = "NODE";

/// The guide of real and simulated daemons.
pub(super) struct Desk {
    planned: Option<Planned>,
}

impl Desk {
    pub(super) fn new(planned: Option<Planned>) -> Self {
        Self { planned }
    }
}

impl Guide for Desk {
    fn offers(&self, status: &Status, group: &GroupStatus, others: &[&Status]) -> Vec<Offer> {
        let node = &group.node;
        let mut advised = typed::commands_for(&group.next, node);
        for other in others {
            let same = other.groups.iter().filter(|of| of.name == group.name);
            advised.extend(same.flat_map(|of| typed::commands_on(&of.next, node)));
        }
        let mut lines: Vec<(String, bool)> = Vec::new();
        let advised = advised.iter().map(|line| (line.replace(EITHER, node), true));
        let common = common(group).into_iter().map(|line| (line, true));
        for (line, common) in
            advised.clone().chain(common).chain(more(group).into_iter().map(|line| (line, false)))
        {
            if lines.iter().all(|(known, _)| *known != line) {
                lines.push((line, common));
            }
        }
        let advised: Vec<String> = advised.map(|(line, _)| line).collect();
        let offers = lines.into_iter().filter_map(|(line, common)| {
            let is_advised = advised.contains(&line);
            offer(line, group, status.at_ms).map(|offer| Offer {
                advised: is_advised,
                common,
                ..offer
            })
        });
        offers.collect()
    }

    fn advised(&self, text: &str, node: &str, group: &str) -> Vec<Offer> {
        let lines = typed::commands_for(text, node).into_iter();
        let lines = lines.map(|line| line.replace(EITHER, node));
        let offers = lines.filter_map(|line| {
            let (of, _) = Request::of_line(&line)?;
            (of == group).then(|| Offer {
                label: label(&line, group),
                effect: effect(&line),
                stake: String::new(),
                command: line.clone(),
                action: line,
                input: None,
                advised: true,
                common: true,
            })
        });
        offers.collect()
    }

    fn request(&self, act: &Act) -> Result<Ask, ApiError> {
        let line = format!("{}{}", act.action, act.input.as_deref().unwrap_or_default());
        let (_, request) =
            Request::of_line(&line).filter(|(group, _)| *group == act.group).ok_or_else(|| {
                ApiError::new(
                    code::BAD_REQUEST,
                    format!("the page does not run `{line}` on group {}", act.group),
                    "run the command in a terminal",
                )
            })?;
        let confirmed = request.confirmed(&act.group).filter(|_| act.confirmed);
        let request = confirmed.map_or(request, |(confirmed, _)| confirmed);
        Ok(Ask {
            path: request.path(&act.group),
            body: Some(request.body().to_string().into_bytes()),
        })
    }

    fn forecast(&self, looks: &Looks, group: &GroupStatus) -> Option<Forecast> {
        expected(looks, group, self.planned.as_ref())
    }
}

/// The command of an action, with what the page shows of it; none if the group has no such action.
fn offer(line: String, group: &GroupStatus, now: WallTime) -> Option<Offer> {
    let creates = line.ends_with('@');
    let input = creates.then(|| Input {
        label: "name of the snapshot".into(),
        value: snapshot_name("web", now),
        pattern: NAME.into(),
    });
    let whole = input.as_ref().map_or_else(|| line.clone(), |input| line.clone() + &input.value);
    let (of, request) = Request::of_line(&whole)?;
    (of == group.name).then(|| Offer {
        label: label(&line, &group.name),
        effect: effect(&line),
        stake: stake(&request, group),
        command: whole,
        action: line,
        input,
        advised: false,
        common: false,
    })
}

/// A command without the program and its object: `promote --force`.
fn label(line: &str, group: &str) -> String {
    let is_object = |word: &str| {
        word.strip_prefix(group).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '@']))
    };
    let words: Vec<&str> = line.split(' ').skip(1).filter(|word| !is_object(word)).collect();
    words.join(" ")
}

/// The commands that are used most.
fn common(g: &GroupStatus) -> Vec<String> {
    let name = &g.name;
    let verbs = match (g.role, g.peer.is_some()) {
        (Role::Primary, true) => vec!["switch", "resync", "verify start"],
        (Role::Secondary, true) => vec!["promote", "switch"],
        (Role::Primary, false) => vec![],
        (Role::Secondary, false) => vec!["promote"],
    };
    let mut lines: Vec<String> = verbs.iter().map(|verb| format!("helio {verb} {name}")).collect();
    lines.push(format!("helio snapshot create {name}@"));
    lines
}

/// The other ones.
fn more(g: &GroupStatus) -> Vec<String> {
    let name = &g.name;
    let mut lines = Vec::new();
    if g.peer.is_some() {
        lines.push(format!("helio pause {name}"));
        lines.push(format!("helio resume {name}"));
        if g.role == Role::Primary {
            if g.verify.run.is_some() {
                lines.push(format!("helio verify stop {name}"));
            }
            let others = Mode::ALL.into_iter().filter(|mode| *mode != g.mode.requested);
            lines.extend(others.map(|mode| format!("helio mode {name} {mode}")));
            lines.push(format!("helio resync {name} --full"));
        }
    }
    if g.role == Role::Primary {
        lines.push(format!("helio demote {name}"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::sample;

    fn offers(change: impl FnOnce(&mut Status)) -> Vec<Offer> {
        let mut status = sample::status();
        change(&mut status);
        Desk::new(None).offers(&status, &status.groups[0], &[])
    }

    fn find<'a>(offers: &'a [Offer], action: &str) -> &'a Offer {
        let found = offers.iter().find(|offer| offer.action == action);
        found.unwrap_or_else(|| panic!("no {action} in {offers:#?}"))
    }

    fn act(action: &str, input: Option<&str>, confirmed: bool) -> Act {
        let (group, action, input) = ("db".into(), action.into(), input.map(str::to_owned));
        Act { node: 0, group, action, input, confirmed }
    }

    #[test]
    fn what_the_status_recommends_is_the_first_action_of_its_node() {
        let split = "choose the node to discard: `helio demote db` on it, then `helio resolve db --discard NODE` on it";
        let here = offers(|status| status.groups[0].next = split.into());
        let first: Vec<&str> = here.iter().take(2).map(|offer| offer.action.as_str()).collect();
        assert_eq!(first, ["helio demote db", "helio resolve db --discard paris"]);
        assert!(here[..2].iter().all(|offer| offer.advised && offer.common));
        assert_eq!(here.iter().filter(|offer| offer.action == "helio demote db").count(), 1);
        assert_eq!(
            find(&here, "helio resolve db --discard paris").label,
            "resolve --discard paris"
        );

        let there = offers(|status| status.groups[0].next = "`helio demote db` on lyon".into());
        assert!(there.iter().all(|offer| !offer.advised), "{there:#?}");
    }

    #[test]
    fn what_the_peer_recommends_for_this_node_is_an_action_of_it() {
        let (mut paris, mut lyon) = (sample::status(), sample::status());
        paris.groups[0].next = "nothing".into();
        lyon.groups[0].next =
            "repair the disk on paris, then `helio resync db --full` on paris; or `helio pause db`"
                .into();
        let offers = Desk::new(None).offers(&paris, &paris.groups[0], &[&lyon]);
        assert!(find(&offers, "helio resync db --full").advised);
        assert!(!find(&offers, "helio pause db").advised);
    }

    #[test]
    fn a_snapshot_needs_a_name() {
        let offers = offers(|_| {});
        let offer = find(&offers, "helio snapshot create db@");
        let input = offer.input.as_ref().expect("a name");
        assert_eq!(input.value, "web-20261120-213720");
        let ask =
            Desk::new(None).request(&act(&offer.action, Some("one"), false)).expect("an action");
        assert_eq!(ask.path, "/v2/groups/db/snapshots/create");
        let body = String::from_utf8(ask.body.expect("a body")).expect("JSON");
        assert!(body.contains(r#""name":"one""#), "{body}");
        assert!(Desk::new(None).request(&act(&offer.action, None, false)).is_err());
    }

    #[test]
    fn an_action_is_confirmed_to_the_daemon_after_it_was_asked_and_no_other_command_runs() {
        let body = |confirmed| {
            let asked = act("helio promote db --force", None, confirmed);
            Desk::new(None).request(&asked).expect("an action").body
        };
        assert_ne!(body(false), body(true));
        for line in ["helio release db --force", "helio pause mail", "helio daemon", "sh", ""] {
            let refused = Desk::new(None).request(&act(line, None, true)).expect_err(line);
            assert!(refused.hint.is_some(), "{refused}");
        }
    }

    #[test]
    fn the_commands_of_a_hint_are_actions() {
        let hint = "`helio switch db` exchanges the roles; `helio status db` shows more; `helio pause mail`";
        let offers = Desk::new(None).advised(hint, "lyon", "db");
        let actions: Vec<&str> = offers.iter().map(|offer| offer.action.as_str()).collect();
        assert_eq!(actions, ["helio switch db"]);
    }
}

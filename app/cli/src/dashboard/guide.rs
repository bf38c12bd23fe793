// SPDX-License-Identifier: Apache-2.0
//! Which actions the page offers, and what they request. The name of an action is the command that does the same; so
//! every command that a status or a hint recommends can be an action, too.

use super::forecast::{Planned, expected};
use crate::offer::{effect, snapshot_name, stake};
use crate::request::Request;
use crate::typed;
use helio_api::{ApiError, GroupStatus, Status, code};
use helio_units::{CopyName, Mode, Role, Verdict, WallTime};
use helio_web::{Act, Ask, Choice, Forecast, Guide, Input, Looks, Offer, Step};
use std::collections::HashMap;
use std::iter::once;
use std::sync::{Mutex, PoisonError};

/// The names of snapshots, as a pattern of a browser.
const NAME: &str = r"[A-Za-z0-9][A-Za-z0-9_.:\-]{0,62}";
/// The rule of names, as a hint.
const NAME_RULE: &str = "use up to 63 letters, digits, `-`, `_`, `.` and `:`, beginning with a letter or a digit; `safe-copy` and names that end in `:rw` are reserved";
/// What stands for the node in advice that is for either of them.
const EITHER: &str = "--discard NODE";
/// What stands for a name in texts.
const PLACEHOLDERS: [&str; 6] = ["NODE", "VOLUME", "GROUP", "NAME", "PATH", "DIR"];

/// Lines that are kept with what they request: building the command line takes longer than all else of a view.
const KNOWN_MOST: usize = 4096;

/// What a line requests.
#[derive(Clone)]
struct Known {
    group: String,
    request: Request,
    effect: String,
}

/// The guide of real and simulated daemons.
pub(super) struct Commands {
    planned: Option<Planned>,
    known: Mutex<HashMap<String, Option<Known>>>,
}

impl Commands {
    pub(super) fn new(planned: Option<Planned>) -> Self {
        Self { planned, known: Mutex::default() }
    }

    fn known(&self, line: &str) -> Option<Known> {
        // A map is whole after every step.
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = known.get(line) {
            return found.clone();
        }
        if known.len() >= KNOWN_MOST {
            known.clear();
        }
        let found = Request::of_line(line).map(|(group, request)| {
            let effect = effect(line);
            Known { group, request, effect }
        });
        known.insert(line.to_owned(), found.clone());
        found
    }

    /// A command as an action; none if the group has no such action. `primary`: as in [`stake`].
    fn offer(
        &self,
        line: &str,
        group: &GroupStatus,
        primary: Option<&GroupStatus>,
        now: WallTime,
    ) -> Option<Offer> {
        let input = line.ends_with('@').then(|| Input {
            label: "name of the snapshot".into(),
            value: snapshot_name("web", now),
            pattern: NAME.into(),
        });
        let command = format!("{line}{}", input.as_ref().map_or("", |it| it.value.as_str()));
        // Any name requests the same but for the name.
        let sample = if input.is_some() { "x" } else { "" };
        let known = self.known(&format!("{line}{sample}"))?;
        (known.group == group.name).then(|| Offer {
            action: line.to_owned(),
            label: label(line, &group.name),
            command,
            effect: known.effect,
            stake: stake(&known.request, group, primary),
            input,
            advised: false,
            common: false,
            takes_over: line == takes_over(group),
            only_step: false,
        })
    }
}

impl Guide for Commands {
    fn offers(&self, status: &Status, group: &GroupStatus, others: &[&Status]) -> Vec<Offer> {
        let node = &group.node;
        let same = || same_group(group, others);
        let primary = same().find(|of| of.role == Role::Primary);
        let mut advised = typed::commands_for(&group.next, node);
        // A node advises its own forced promotion. The text of its peer may be older than a choice.
        let of_others = same().flat_map(|of| typed::commands_on(&of.next, node));
        advised.extend(of_others.filter(|line| !line.contains(" --force")));
        let mut advised: Vec<String> =
            advised.into_iter().filter_map(|line| for_node(line, node, group)).collect();
        let choices = choices(group, others);
        let to_choose = choices.iter().any(|choice| choice.advised);
        let steps = choices.into_iter().flat_map(|choice| choice.steps);
        let steps: Vec<String> =
            steps.filter(|step| step.node == *node).map(|step| step.action).collect();
        if to_choose {
            advised.extend_from_slice(&steps);
        }
        // What is for the worst case comes last.
        advised.sort_by_key(|line| line.contains(" --force"));
        let (common, more) = (common(group), more(group));
        let mut offers: Vec<Offer> = Vec::new();
        for line in advised.iter().chain(&common).chain(&more).chain(&steps) {
            if offers.iter().any(|offer| offer.action == *line) {
                continue;
            }
            let is_advised = advised.contains(line);
            let is_common = is_advised || common.contains(line);
            let is_step = steps.contains(line) && (to_choose || !is_advised);
            let only_step = is_step && !common.contains(line) && !more.contains(line);
            let offer = self.offer(line, group, primary, status.at_ms);
            offers.extend(offer.map(|it| Offer {
                advised: is_advised,
                common: is_common,
                only_step,
                ..it
            }));
        }
        offers
    }

    fn advised(&self, text: &str, status: &Status, group: &GroupStatus) -> Vec<Offer> {
        let lines = typed::commands_for(text, &group.node).into_iter();
        let lines = lines.filter_map(|line| for_node(line, &group.node, group));
        let offers = lines.filter_map(|line| self.offer(&line, group, None, status.at_ms));
        offers.map(|offer| Offer { advised: true, common: true, ..offer }).collect()
    }

    fn choices(&self, group: &GroupStatus, others: &[&Status]) -> Vec<Choice> {
        choices(group, others)
    }

    fn request(&self, act: &Act) -> Result<Ask, ApiError> {
        let line = match act.input.as_deref() {
            None => act.action.clone(),
            Some(name) if act.action.ends_with('@') && CopyName::new(name).is_some() => {
                format!("{}{name}", act.action)
            }
            Some(name) => {
                let text = format!("`{name}` is no name of a snapshot of group {}", act.group);
                return Err(ApiError::new(code::BAD_REQUEST, text, NAME_RULE));
            }
        };
        // Not `known`: a page can send any number of lines.
        let asked = Request::of_line(&line).filter(|(group, _)| *group == act.group);
        let Some((_, request)) = asked else {
            let text = format!("the page does not run `{line}` on group {}", act.group);
            return Err(invalid(&text));
        };
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

fn invalid(text: &str) -> ApiError {
    ApiError::new(code::BAD_REQUEST, text, "run the command in a terminal")
}

/// A command of a text as this node runs it; none if another word must be replaced, too.
fn for_node(line: &str, node: &str, group: &GroupStatus) -> Option<String> {
    let line = line.replace(EITHER, &format!("--discard {node}"));
    let is_named = |word: &str| {
        word == group.name || word == node || group.volumes.iter().any(|volume| volume.name == word)
    };
    let open = |word: &str| PLACEHOLDERS.contains(&word) && !is_named(word);
    (!line.split([' ', '/', '@']).any(open)).then_some(line)
}

/// A command without the program and its object: `promote --force`.
fn label(line: &str, group: &str) -> String {
    let is_object = |word: &&str| {
        word.strip_prefix(group).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '@']))
    };
    let mut words: Vec<&str> = line.split(' ').skip(1).collect();
    // The verb comes first, and may be the name of a group, too.
    if let Some(at) = words.iter().skip(1).position(is_object) {
        words.remove(at + 1);
    }
    words.join(" ")
}

/// While neither node follows the other: the choice of the node whose writes are kept. The other node is demoted first, because a
/// daemon discards no writes of a primary; the kept one is promoted last.
fn choices(g: &GroupStatus, others: &[&Status]) -> Vec<Choice> {
    let Some(peer) = &g.peer else { return Vec::new() };
    // The peer's own report is newer than what this node received from it.
    let own = same_group(g, others).find(|of| of.node == peer.name);
    let (here, there) = (Some(g.role), own.map(|of| of.role).or(peer.role));
    if g.is_connected() && here != there {
        return Vec::new();
    }
    // Another refused connection is no choice: its texts name what to do first, and a discard may be needless.
    let advised = once(g).chain(own).any(|of| of.verdict.word == Verdict::SplitBrain);
    let choice = |(kept, serves): (&String, Option<Role>),
                  (lost, leads): (&String, Option<Role>)| {
        let step = |node: &String, action: String| Step { node: node.clone(), action };
        let name = &g.name;
        let demote =
            (leads != Some(Role::Secondary)).then(|| step(lost, format!("helio demote {name}")));
        let discard = step(lost, format!("helio resolve {name} --discard {lost}"));
        let promote =
            (serves != Some(Role::Primary)).then(|| step(kept, format!("helio promote {name}")));
        let steps = demote.into_iter().chain([discard]).chain(promote).collect();
        Choice { keeps: kept.clone(), discards: lost.clone(), steps, advised }
    };
    let (here, there) = ((&g.node, here), (&peer.name, there));
    // A daemon refuses to discard the last complete copy, as far as it knows. An older one does not report what it knows.
    let known = |lost: Option<&GroupStatus>| {
        let copy = lost.and_then(|of| of.peer.as_ref()).map_or("", |peer| peer.copy.as_str());
        ["", "complete"].contains(&copy)
    };
    let can_keep = |kept: Option<&GroupStatus>, lost: Option<&GroupStatus>| {
        known(lost) && kept.is_none_or(|of| of.consistent)
    };
    let both = [(Some(g), own, choice(here, there)), (own, Some(g), choice(there, here))];
    let open = both.into_iter().filter(|(kept, lost, _)| can_keep(*kept, *lost));
    open.map(|(.., choice)| choice).collect()
}

/// The same group as other nodes report it.
fn same_group<'a>(
    g: &'a GroupStatus,
    others: &'a [&Status],
) -> impl Iterator<Item = &'a GroupStatus> {
    others.iter().flat_map(|other| &other.groups).filter(|of| of.name == g.name)
}

/// The command that makes this node primary without force.
fn takes_over(g: &GroupStatus) -> String {
    let name = &g.name;
    let serves = g.peer.as_ref().is_some_and(|peer| peer.role == Some(Role::Primary));
    match g.role {
        Role::Primary => String::new(),
        Role::Secondary if serves && g.is_connected() => format!("helio switch {name}"),
        Role::Secondary => format!("helio promote {name}"),
    }
}

/// The commands that are used most. A daemon refuses those of the other role.
fn common(g: &GroupStatus) -> Vec<String> {
    let name = &g.name;
    let verbs: &[&str] = match (g.role, g.peer.is_some()) {
        (Role::Primary, true) => &["switch", "resync", "verify start"],
        (Role::Secondary, true) => &["promote", "switch"],
        (Role::Primary, false) => &[],
        (Role::Secondary, false) => &["promote"],
    };
    let mut lines: Vec<String> = verbs.iter().map(|verb| format!("helio {verb} {name}")).collect();
    // The snapshot of a primary is one of both nodes.
    let here = if g.role == Role::Secondary { "--here " } else { "" };
    lines.push(format!("helio snapshot create {here}{name}@"));
    lines
}

/// The other ones. The end of a pause is advised while there is one.
fn more(g: &GroupStatus) -> Vec<String> {
    let name = &g.name;
    if g.role == Role::Secondary {
        return Vec::new();
    }
    let mut lines = Vec::new();
    if g.peer.is_some() {
        lines.push(format!("helio pause {name}"));
        if g.verify.run.is_some() {
            lines.push(format!("helio verify stop {name}"));
        }
        let others = Mode::ALL.into_iter().filter(|mode| *mode != g.mode.requested);
        lines.extend(others.map(|mode| format!("helio mode {name} {mode}")));
        lines.push(format!("helio resync {name} --full"));
    }
    lines.push(format!("helio demote {name}"));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::sample;
    use helio_api::Connection;

    fn offers(change: impl FnOnce(&mut Status)) -> Vec<Offer> {
        let mut status = sample::status();
        change(&mut status);
        Commands::new(None).offers(&status, &status.groups[0], &[])
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

        let keep = "choose the node whose writes to keep: `helio resolve db --discard NODE` on the other one, as secondary";
        let here = offers(|status| status.groups[0].next = keep.into());
        assert!(find(&here, "helio resolve db --discard paris").advised);

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
        let offers = Commands::new(None).offers(&paris, &paris.groups[0], &[&lyon]);
        assert!(find(&offers, "helio resync db --full").advised);
        assert!(!find(&offers, "helio pause db").advised);
    }

    /// The steps of both choices, of what these two nodes report.
    fn steps(change: impl FnOnce(&mut GroupStatus, &mut GroupStatus)) -> [Vec<String>; 2] {
        let (mut paris, mut lyon) = (sample::status(), sample::status());
        let (here, there) = (&mut paris.groups[0], &mut lyon.groups[0]);
        (lyon.node, there.node) = ("lyon".into(), "lyon".into());
        if let Some(peer) = &mut here.peer {
            (peer.connection, peer.role) = (Connection::Refused, Some(Role::Primary));
        }
        (here.next, there.next) = ("nothing".into(), "nothing".into());
        change(here, there);
        let choices = choices(&paris.groups[0], &[&lyon]);
        let all = Commands::new(None).offers(&paris, &paris.groups[0], &[&lyon]);
        for step in choices.iter().flat_map(|choice| &choice.steps) {
            assert!(
                step.node == "lyon"
                    || all.iter().any(|it| {
                        it.action == step.action && it.only_step == it.action.contains(" resolve ")
                    })
            );
        }
        let text = |choice: &Choice| {
            let steps = choice.steps.iter().map(|step| format!("{} on {}", step.action, step.node));
            steps.chain(choice.advised.then(|| "advised".to_owned())).collect()
        };
        [0, 1].map(|at| choices.get(at).map_or_else(Vec::new, text))
    }

    #[test]
    fn a_split_brain_is_two_choices_in_steps() {
        let two = steps(|here, _| here.verdict.word = Verdict::SplitBrain);
        let both = ["lyon", "paris"].map(|lost| {
            vec![
                format!("helio demote db on {lost}"),
                format!("helio resolve db --discard {lost} on {lost}"),
                "advised".to_owned(),
            ]
        });
        assert_eq!(two, both);
        // The peer's own report is newer than what this node received, and counts as much.
        let [keep_paris, keep_lyon] = steps(|_, there| {
            (there.role, there.verdict.word) = (Role::Secondary, Verdict::SplitBrain);
        });
        assert_eq!(keep_paris, ["helio resolve db --discard lyon on lyon", "advised"]);
        let keep_lyon: Vec<&str> = keep_lyon.iter().map(String::as_str).collect();
        assert_eq!(
            keep_lyon,
            [
                "helio demote db on paris",
                "helio resolve db --discard paris on paris",
                "helio promote db on lyon",
                "advised"
            ]
        );
    }

    #[test]
    fn no_choice_discards_the_only_complete_copy() {
        let [keep_lyon, none] = steps(|here, _| {
            (here.consistent, here.verdict.word) = (false, Verdict::SplitBrain);
        });
        let lyon =
            ["helio demote db on paris", "helio resolve db --discard paris on paris", "advised"];
        assert_eq!(keep_lyon, lyon);
        assert!(none.is_empty());
        let [keep_paris, none] = steps(|here, there| {
            (there.consistent, here.verdict.word) = (false, Verdict::SplitBrain);
        });
        assert_eq!(keep_paris[0], "helio demote db on lyon");
        assert!(none.is_empty());
        // The node that would be discarded is the one whose daemon refuses that.
        let [keep_paris, none] = steps(|here, _| {
            here.verdict.word = Verdict::SplitBrain;
            here.peer.as_mut().expect("two nodes").copy = "given-up".into();
        });
        assert_eq!(keep_paris[0], "helio demote db on lyon");
        assert!(none.is_empty());
    }

    #[test]
    fn a_refused_connection_that_is_no_split_brain_advises_no_choice() {
        let newer = "promote lyon instead: `helio demote db` on paris, then `helio promote db` on lyon; or discard the newer \
                     writes: `helio resolve db --discard lyon` on lyon";
        let [keep_paris, keep_lyon] = steps(|here, _| here.next = newer.into());
        assert!(![keep_paris, keep_lyon].concat().contains(&"advised".to_owned()));
        let here = offers(|status| {
            let group = &mut status.groups[0];
            (group.role, group.next) = (Role::Primary, newer.into());
            if let Some(peer) = &mut group.peer {
                peer.connection = Connection::Refused;
            }
        });
        let advised = here.iter().filter(|offer| offer.advised).map(|offer| offer.action.as_str());
        assert_eq!(advised.collect::<Vec<_>>(), ["helio demote db"]);
    }

    #[test]
    fn what_was_begun_can_be_ended_while_no_node_follows_the_other() {
        // After `helio demote` on lyon, both are secondary and connected; the nodes advise to promote lyon again.
        let connected = |here: &mut GroupStatus| {
            if let Some(peer) = &mut here.peer {
                peer.connection = Connection::Connected;
            }
        };
        let [keep_paris, _] = steps(|here, there| {
            (here.role, there.role) = (Role::Secondary, Role::Secondary);
            connected(here);
        });
        let left = ["helio resolve db --discard lyon on lyon", "helio promote db on paris"];
        assert_eq!(keep_paris, left);
        let follows = steps(|here, there| {
            there.role = Role::Secondary;
            connected(here);
        });
        assert_eq!(follows, [Vec::<String>::new(), Vec::new()]);
        let shown = offers(|status| {
            status.groups[0].role = Role::Secondary;
            status.groups[0].next = "nothing".into();
        });
        assert!(find(&shown, "helio resolve db --discard paris").only_step);
    }

    #[test]
    fn one_action_of_a_secondary_makes_it_primary_without_force() {
        let taking = |connection, role| {
            let all = offers(|status| {
                let group = &mut status.groups[0];
                (group.role, group.next) = (role, "nothing".into());
                if let Some(peer) = &mut group.peer {
                    (peer.connection, peer.role) = (connection, Some(Role::Primary));
                }
            });
            let taking = all.into_iter().filter(|offer| offer.takes_over);
            taking.map(|offer| offer.action).collect::<Vec<_>>()
        };
        assert_eq!(taking(Connection::Connected, Role::Secondary), ["helio switch db"]);
        assert_eq!(taking(Connection::Connecting, Role::Secondary), ["helio promote db"]);
        assert!(taking(Connection::Connected, Role::Primary).is_empty());
    }

    #[test]
    fn a_snapshot_needs_a_name() {
        let offers = offers(|_| {});
        let offer = find(&offers, "helio snapshot create db@");
        let input = offer.input.as_ref().expect("a name");
        assert_eq!(input.value, "web-20261120-213720");
        let ask = Commands::new(None)
            .request(&act(&offer.action, Some("one"), false))
            .expect("an action");
        assert_eq!(ask.path, "/v2/groups/db/snapshots/create");
        let body = String::from_utf8(ask.body.expect("a body")).expect("JSON");
        assert!(body.contains(r#""name":"one""#), "{body}");
        for name in [None, Some("x --here"), Some("")] {
            assert!(Commands::new(None).request(&act(&offer.action, name, false)).is_err());
        }
        assert!(Commands::new(None).request(&act("helio pa", Some("use db"), false)).is_err());
    }

    #[test]
    fn a_node_is_offered_what_its_daemon_can_do() {
        let actions = |change: fn(&mut GroupStatus)| -> Vec<String> {
            let offers = offers(|status| {
                let group = &mut status.groups[0];
                group.next = "nothing".into();
                change(group);
            });
            let shown = offers.into_iter().filter(|offer| !offer.only_step);
            shown.map(|offer| offer.action).collect()
        };
        let secondary = actions(|g| g.role = Role::Secondary);
        let of_secondary =
            ["helio promote db", "helio switch db", "helio snapshot create --here db@"];
        assert_eq!(secondary, of_secondary);
        let alone = actions(|g| g.peer = None);
        assert_eq!(alone, ["helio snapshot create db@", "helio demote db"]);
        let primary = actions(|_| {});
        assert!(primary.contains(&"helio pause db".to_owned()), "{primary:?}");
    }

    #[test]
    fn a_text_that_leaves_a_name_open_is_no_action() {
        let next = "`helio member accept db/VOLUME`; or `helio resolve db --discard NODE`";
        let offers = offers(|status| status.groups[0].next = next.into());
        let advised: Vec<&str> =
            offers.iter().filter(|it| it.advised).map(|it| it.action.as_str()).collect();
        assert_eq!(advised, ["helio resolve db --discard paris"]);
    }

    #[test]
    fn the_pattern_of_names_is_the_rule_of_names() {
        let classes = NAME.trim_start_matches('[').trim_end_matches("{0,62}").split("][");
        let [first, rest] = classes.collect::<Vec<_>>()[..] else { panic!("{NAME}") };
        assert_eq!(CopyName::BYTES_MAX, 63);
        let letters = |c: char| c.is_ascii_alphanumeric();
        assert_eq!((first, rest), ("A-Za-z0-9", r"A-Za-z0-9_.:\-]"));
        for c in (0..128).map(char::from) {
            assert_eq!(CopyName::new(&c.to_string()).is_some(), letters(c), "{c:?}");
            let inside = letters(c) || "_.:-".contains(c);
            assert_eq!(CopyName::new(&format!("x{c}x")).is_some(), inside, "{c:?}");
        }
        for (name, word) in [("safe-copy", CopyName::SAFE_COPY), ("x:rw", CopyName::BRANCH)] {
            assert!(CopyName::new(name).is_none() && NAME_RULE.contains(word), "{name}");
        }
    }

    #[test]
    fn a_label_keeps_words_that_are_also_the_name_of_the_group() {
        assert_eq!(label("helio mode sync sync", "sync"), "mode sync");
        assert_eq!(
            label("helio resolve paris --discard paris", "paris"),
            "resolve --discard paris"
        );
        assert_eq!(label("helio snapshot create --here db@", "db"), "snapshot create --here");
    }

    #[test]
    fn an_action_is_confirmed_to_the_daemon_after_it_was_asked_and_no_other_command_runs() {
        let body = |confirmed| {
            let asked = act("helio promote db --force", None, confirmed);
            Commands::new(None).request(&asked).expect("an action").body
        };
        assert_ne!(body(false), body(true));
        for line in ["helio release db --force", "helio pause mail", "helio daemon", "sh", ""] {
            let refused = Commands::new(None).request(&act(line, None, true)).expect_err(line);
            assert!(refused.hint.is_some(), "{refused}");
        }
    }

    #[test]
    fn the_commands_of_a_hint_are_actions() {
        let hint = "`helio switch db` exchanges the roles; `helio status db` shows more; `helio pause mail`; `helio demote db` on lyon";
        let status = sample::status();
        let offers = Commands::new(None).advised(hint, &status, &status.groups[0]);
        assert!(offers.iter().all(|offer| !offer.stake.is_empty()));
        let actions: Vec<&str> = offers.iter().map(|offer| offer.action.as_str()).collect();
        assert_eq!(actions, ["helio switch db"]);
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Does what a hint says, word by word. A step that is not known here fails the test: nobody could do it.

use super::REFUSALS;
use super::states::{GOES_ON, Stage, State, WAITS};
use helio_e2e::{PATIENCE, answer, group, number};
use helio_testkit::{Told, eventually_from};
use serde_json::Value;

/// Whether status shows it.
type Shown = fn(&Value) -> bool;
/// What status shows at the end of a wait, by the words of the hint.
const WAITS_FOR: [(&str, Shown); 4] = [
    ("shows no restore", |shown| shown["restoring"].is_null()),
    ("shows nothing to merge", |shown| number(shown, "/volumes/0/unmerged_bytes") == 0),
    ("shows another member as full", all_full),
    ("connected", |shown| shown["peer"]["connection"] == "connected"),
];

/// So many hints may lead to each other.
const HINTS: usize = 12;
/// Conditions that are not met here, and steps that are not possible then, by their beginnings.
const NOT_MET: [&str; 8] = [
    "put the metadata of this file in its place",
    "if that file is an older",
    "if /",
    "or repeat with --force",
    "or exchange it",
    "or `helio switch",
    "acknowledged writes that",
    "if the data of",
];

fn all_full(shown: &Value) -> bool {
    let members = shown["volumes"][0]["members"].as_array();
    members.is_some_and(|members| members.iter().all(|member| member["state"] == "full"))
}

/// A part of a hint.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    /// Background copies are allowed again.
    Permit,
    Run {
        node: String,
        line: String,
    },
    Wait(usize),
    /// What status shows as the next step, again and again, until it shows the copy as complete.
    Next,
    /// The disk is as it should be.
    Repair,
    /// The daemon of lyon ends.
    Stop,
    /// A member that was removed returns.
    Return,
    /// An option of the command that was refused.
    Add([String; 2]),
    /// The group is in the configuration again, and the daemon runs.
    Name,
    /// The group is in the configuration no more.
    Unname,
}

/// Does all that a hint says.
pub(super) fn follow(stage: &mut Stage, hint: &str) -> Result<(), String> {
    stage.hints += 1;
    if stage.hints > HINTS {
        return Err(format!("no end of hints: {hint}"));
    }
    let mut steps = Vec::new();
    for part in without_asides(hint).split("; ").flat_map(|part| part.split(". ")) {
        if stage.applies(part) {
            steps.extend(read(part)?);
        }
    }
    // What ends a wait comes first.
    steps.sort_by_key(|step| match step {
        Step::Permit => 0,
        Step::Wait(_) => 2,
        _ => 1,
    });
    if steps.is_empty() {
        return Err(format!("nothing to do is named: {hint}"));
    }
    steps.into_iter().try_for_each(|step| stage.act(step))
}

/// What is in parentheses explains a step.
fn without_asides(hint: &str) -> String {
    let mut depth = 0;
    let mut is_kept = |c: char| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0 && c != ')'
    };
    hint.chars().filter(|c| is_kept(*c)).collect()
}

fn read(part: &str) -> Result<Vec<Step>, String> {
    if part.contains("raise it and run `helio apply`") {
        return Ok(vec![Step::Permit]);
    }
    if let Some((_, file)) = part.split_once("finish it with --finish-restore ") {
        let file = file.trim_end_matches('.');
        return Ok(vec![Step::Add(["--finish-restore", file].map(str::to_owned))]);
    }
    if part.contains("again, start the daemon, then") {
        let mut steps = vec![Step::Name];
        steps.extend(commands(part)?);
        return Ok(steps);
    }
    if part.contains("if it was released here") {
        return Ok(vec![Step::Unname]);
    }
    if part.contains("as the next step, then wait until it shows the copy as complete") {
        return Ok(vec![Step::Next]);
    }
    // What is to follow is the command that was refused.
    if part.contains("stop the daemon on lyon, then `helio seed begin db`") {
        return Ok(vec![Step::Stop]);
    }
    if part.contains("if none is copying, `helio member add`") {
        return Ok(vec![Step::Return]);
    }
    if let Some((_, then)) = part.split_once("repair the disk on paris, ") {
        let mut steps = vec![Step::Repair];
        steps.extend(commands(then)?);
        return Ok(steps);
    }
    if part.contains("wait until") || part.contains("repeat when") {
        let known = WAITS_FOR.iter().position(|(words, _)| part.contains(words));
        let known = known.ok_or_else(|| format!("nobody knows this wait: {part}"))?;
        return Ok(vec![Step::Wait(known)]);
    }
    commands(part)
}

/// The commands of a part, in their order, each with its node.
fn commands(part: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut rest = part;
    while let Some((_, after)) = rest.split_once('`') {
        let (line, after) = after.split_once('`').ok_or_else(|| format!("no end: {part}"))?;
        let node = after
            .strip_prefix(" on ")
            .map_or("paris", |on| if on.starts_with("lyon") { "lyon" } else { "paris" });
        steps.push(Step::Run { node: node.to_owned(), line: line.to_owned() });
        rest = after;
    }
    if steps.is_empty() {
        return Err(format!("nobody knows this step: {part}"));
    }
    Ok(steps)
}

impl Stage {
    /// Whether the condition of a part is met here.
    fn applies(&self, part: &str) -> bool {
        let is_met = |words: &str| !part.to_lowercase().starts_with(words);
        // lyon lacks writes, but where it is served; nothing is put back; and nobody gives up what is named.
        let on_lyon = ["if lyon has them", "`helio promote db` on lyon"];
        let of_lyon = self.state == State::ServedFromPeer || on_lyon.iter().all(|it| is_met(it));
        of_lyon && NOT_MET.iter().all(|words| is_met(words))
    }

    fn act(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Add(option) => {
                self.more.extend(option);
                Ok(())
            }
            Step::Next => self.do_next(),
            Step::Repair => {
                self.repair();
                Ok(())
            }
            Step::Stop => {
                self.kill("lyon");
                Ok(())
            }
            Step::Return => self.return_member(),
            Step::Name => {
                std::fs::write(self.pair.config(), &self.config).expect("there is room");
                self.pair.start("paris");
                Ok(())
            }
            Step::Unname => {
                let nodes = self.config.split("[group").next().expect("a part before");
                std::fs::write(self.pair.config(), nodes).expect("there is room");
                Ok(())
            }
            Step::Permit => {
                let text = std::fs::read_to_string(self.pair.config()).expect("it is there");
                if text.contains(WAITS) {
                    self.apply(WAITS, GOES_ON);
                }
                Ok(())
            }
            Step::Wait(known) => {
                let (words, is_met) = WAITS_FOR[known];
                eventually_from(PATIENCE, words, || {
                    let shown = group(&self.pair, "paris");
                    if is_met(&shown) { Ok(()) } else { Err(shown) }
                });
                Ok(())
            }
            Step::Run { node, line } => self.run(&node, &line),
        }
    }

    fn do_next(&mut self) -> Result<(), String> {
        let mut done = Vec::new();
        loop {
            let shown =
                eventually_from(PATIENCE, "the copy as complete, or another next step", || {
                    let shown = group(&self.pair, "paris");
                    let is_new = shown["next"].as_str().is_some_and(|next| {
                        !next.is_empty() && !done.iter().any(|it: &String| it == next)
                    });
                    if shown["consistent"] == true || is_new { Ok(shown) } else { Err(shown) }
                });
            if shown["consistent"] == true {
                return Ok(());
            }
            let next = shown["next"].as_str().unwrap_or_default().to_owned();
            println!("  next: {next}");
            // Some say only what is awaited.
            if !next.starts_with("nothing") && !next.starts_with("wait: ") {
                follow(self, &next)?;
            }
            done.push(next);
        }
    }

    fn return_member(&mut self) -> Result<(), String> {
        let shown = group(&self.pair, "paris");
        let members = shown["volumes"][0]["members"].as_array().cloned().unwrap_or_default();
        let Some(removed) = members.iter().find(|member| member["state"] == "removed") else {
            return Ok(());
        };
        let path = removed["path"].as_str().unwrap_or_default().to_owned();
        self.run("paris", &format!("helio member add db/data {path}"))
    }

    /// Runs a command as it stands. The operator confirms it.
    fn run(&mut self, node: &str, line: &str) -> Result<(), String> {
        let mut refusals = 0;
        loop {
            let told = self.told(node, line);
            // 8 warns of what the peer lacks.
            match told.status.code() {
                Some(0 | 8) => break,
                _ if refusals < REFUSALS => {
                    println!("  `{line}` on {node}: {}", told.stderr);
                    let (_, hint) = told.stderr.rsplit_once("hint: ").unwrap_or_default();
                    follow(self, hint)?;
                    refusals += 1;
                }
                _ => return Err(format!("`{line}` on {node}: {told}")),
            }
        }
        self.is_made |= line.starts_with("helio metadata");
        Ok(())
    }

    fn told(&self, node: &str, line: &str) -> Told {
        let mut words: Vec<&str> = line.split(' ').skip(1).collect();
        let config = self.pair.config().display().to_string();
        if line.starts_with("helio metadata create") {
            words.extend(["--config", &config]);
        }
        let mut told = answer(&self.pair, node, &words);
        if told.status.code() == Some(4) {
            told = answer(&self.pair, node, &[&words[..], &["--yes"]].concat());
        }
        told
    }
}

// SPDX-License-Identifier: Apache-2.0
//! The commands that say or hand out something of a member.

use super::states::{Stage, State};
use helio_e2e::{BLOCK, PATIENCE, answer, connect, group, wait, wait_level};
use helio_testkit::{Group, Told, eventually, eventually_from, helio_binary};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{self, Stdio};

/// What is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Release,
    ForBackup,
    SeedBegin,
    Resolve,
    Reverse,
    MetadataCreate,
    MetadataAccept,
    Adopt,
    Inspect,
    Verify,
    Export,
    Drill,
    /// A client reads the copy of a secondary.
    ReadSecondary,
}

/// Bytes of the volume.
pub(super) struct Handed {
    what: String,
    bytes: Vec<u8>,
    /// Only what is not zero is of the volume.
    sparse: bool,
}

/// What a command gives.
pub(super) enum Given {
    Bytes(Vec<Handed>),
    Says(String),
}

/// A refusal, with what it says to do.
pub(super) struct Refusal {
    pub(super) code: String,
    pub(super) text: String,
    pub(super) hint: String,
}

pub(super) enum Got {
    Given(Given),
    Refused(Refusal),
}

impl Handed {
    fn new(what: &str, bytes: Vec<u8>) -> Self {
        Self { what: what.to_owned(), bytes, sparse: false }
    }

    fn of_file(stage: &Stage, path: &Path) -> Self {
        Self::new(&path.display().to_string(), stage.content(path))
    }

    pub(super) fn is_as(&self, expected: &[u8], written: &[bool]) -> Result<(), String> {
        let Self { what, bytes, sparse } = self;
        if bytes.len() != expected.len() {
            return Err(format!("{what} has {} bytes", bytes.len()));
        }
        let blocks = bytes.chunks(BLOCK).zip(expected.chunks(BLOCK)).zip(written);
        let blocks = blocks.filter_map(|(blocks, counts)| counts.then_some(blocks));
        let counts = |block: &[u8]| !sparse || block.iter().any(|byte| *byte != 0);
        let compared = blocks.filter(|(is, _)| counts(is)).collect::<Vec<_>>();
        let wrong = compared.iter().filter(|(is, should)| is != should).count();
        match (wrong, compared.len()) {
            (0, 1..) => Ok(()),
            (wrong, of) => Err(format!("{what}: {wrong} of {of} blocks are not what clients read")),
        }
    }
}

impl Refusal {
    /// What a command printed that failed.
    fn of(told: &Told) -> Self {
        if let Ok(error) = serde_json::from_str::<Value>(&told.stderr) {
            let word = |name: &str| error[name].as_str().unwrap_or_default().to_owned();
            return Self { code: word("code"), text: word("error"), hint: word("hint") };
        }
        Self::of_text(&told.stderr)
    }

    fn of_text(told: &str) -> Self {
        let (text, hint) = told.rsplit_once("hint: ").unwrap_or((told, ""));
        Self { code: String::new(), text: text.trim().to_owned(), hint: hint.trim().to_owned() }
    }
}

fn said(told: Told, given: impl FnOnce(&Told) -> Given) -> Got {
    match told.status.success() {
        true => Got::Given(given(&told)),
        false => Got::Refused(Refusal::of(&told)),
    }
}

fn until_complete() -> String {
    "do what `helio status db` shows as the next step, then wait until it shows the copy as complete".to_owned()
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

impl Command {
    pub(super) const ALL: [Self; 13] = [
        Self::Release,
        Self::ForBackup,
        Self::SeedBegin,
        Self::Resolve,
        Self::Reverse,
        Self::MetadataCreate,
        Self::MetadataAccept,
        Self::Adopt,
        Self::Inspect,
        Self::Verify,
        Self::Export,
        Self::Drill,
        Self::ReadSecondary,
    ];

    /// What an operator did before it comes to that command.
    #[track_caller]
    pub(super) fn prepare(self, stage: &mut Stage) {
        match self {
            Self::Release | Self::ForBackup | Self::Reverse | Self::Export => {}
            // lyon is to get the shipped disk. Where it is served, it cannot be without one.
            Self::SeedBegin if stage.state == State::ServedFromPeer => {}
            Self::SeedBegin => stage.kill("lyon"),
            // A verify waits for the end of a pause.
            Self::Verify => drop(stage.pair.helio("paris", &["resume", "db"])),
            Self::Drill | Self::ReadSecondary => stage.demote(),
            Self::Inspect => stage.kill("paris"),
            Self::Resolve => {
                // lyon took over by force, and both wrote.
                stage.demote();
                stage.kill("paris");
                wait(&stage.pair, "lyon", "the end of paris", |shown| {
                    shown["peer"]["connection"] != "connected"
                });
                stage.pair.helio("lyon", &["promote", "db", "--force", "--yes"]).expect_success();
                let mut client = connect(&stage.pair, "lyon");
                client.write(0, &[0x77; 4096], true).expect("it is written");
                client.disconnect().expect("it may go");
                stage.pair.start("paris");
                eventually_from(PATIENCE, "what only paris has", || {
                    let told = stage.pair.helio("paris", &["explain", "db", "--json"]).json();
                    let row = told["row"]["label"].as_str().unwrap_or_default();
                    if ["split-brain", "diverged"].contains(&row) { Ok(()) } else { Err(told) }
                });
            }
            Self::MetadataCreate | Self::MetadataAccept => {
                stage.kill("lyon");
                stage.kill("paris");
                match self {
                    Self::MetadataCreate => fs::remove_file(stage.metadata()),
                    _ => fs::write(stage.metadata(), &stage.older),
                }
                .expect("there is room");
            }
            Self::Adopt => {
                stage.kill("paris");
                let text = fs::read_to_string(stage.pair.config()).expect("it is there");
                stage.config.clone_from(&text);
                let nodes = text.split("[group").next().expect("a part before");
                fs::write(stage.pair.config(), nodes).expect("there is room");
            }
        }
    }

    #[track_caller]
    pub(super) fn ask(self, stage: &mut Stage) -> Got {
        let on_paris = |line: &[&str]| answer(&stage.pair, "paris", line);
        match self {
            Self::Release => {
                let told = on_paris(&["release", "db", "--yes", "--json"]);
                said(told, |told| Given::Bytes(stage.released(told)))
            }
            Self::ForBackup => {
                // Any but the one that the state is about.
                let path = stage.files.last().expect("it has one");
                let line = ["member", "remove", "db/data", &text(path), "--for-backup", "--json"];
                said(on_paris(&line), |_| Given::Bytes(vec![Handed::of_file(stage, path)]))
            }
            Self::SeedBegin => {
                let told = on_paris(&["seed", "begin", "db", "--json"]);
                said(told, |_| Given::Bytes(stage.full_members()))
            }
            Self::Resolve => {
                let told = on_paris(&["resolve", "db", "--discard", "paris", "--yes", "--json"]);
                said(told, |_| Given::Bytes(vec![stage.saved()]))
            }
            Self::Reverse => {
                let told = on_paris(&["resync", "db", "--reverse", "--yes", "--json"]);
                said(told, |_| Given::Bytes(vec![stage.saved()]))
            }
            Self::MetadataCreate | Self::MetadataAccept => stage.forced(self),
            Self::Adopt => stage.adopted(),
            Self::Inspect => {
                let told = on_paris(&["inspect", "db"]);
                said(told, |told| Given::Says(told.stdout.clone()))
            }
            Self::Verify => {
                let told = on_paris(&["verify", "start", "db", "--wait", "--json"]);
                said(told, |_| {
                    wait_level(&stage.pair, "paris");
                    Given::Bytes(vec![Handed::of_file(stage, &stage.pair.member("lyon", "data"))])
                })
            }
            Self::Export => {
                let made = on_paris(&["snapshot", "create", "db@out", "--json"]);
                if !made.status.success() && !made.stderr.contains("snapshot-exists") {
                    return Got::Refused(Refusal::of(&made));
                }
                let dir = stage.pair.scratch().join("out");
                let line = ["snapshot", "export", "db@out", &text(&dir), "--yes", "--json"];
                said(on_paris(&line), |_| {
                    Given::Bytes(vec![Handed::of_file(stage, &dir.join("data.img"))])
                })
            }
            Self::Drill => {
                stage.be_secondary();
                let file = stage.pair.scratch().join("drilled");
                let script = format!("cat $HELIO_DEVICES > {}", text(&file));
                let told = on_paris(&["drill", "db", "--run", &script, "--json"]);
                said(told, |_| Given::Bytes(vec![Handed::of_file(stage, &file)]))
            }
            Self::ReadSecondary => {
                stage.be_secondary();
                match stage.read("data:ro") {
                    Ok(bytes) => Got::Given(Given::Bytes(vec![Handed::new("a read", bytes)])),
                    Err(why) => Got::Refused(Refusal {
                        code: String::new(),
                        text: why.to_string(),
                        hint: stage.how_it_ends(),
                    }),
                }
            }
        }
    }
}

impl Stage {
    /// The members that a release gave back, and did not call incomplete.
    fn released(&self, told: &Told) -> Vec<Handed> {
        let said = format!("{}{}", told.stdout, told.stderr);
        assert!(said.contains("durable") && !said.contains("not durable"), "{said}");
        let is_stale = |path: &Path| said.contains(&format!("{} of db/data is not", text(path)));
        let given = self.files.iter().filter(|path| !is_stale(path));
        given.map(|path| Handed::of_file(self, path)).collect()
    }

    /// What status shows as full: any of them may be copied and shipped.
    fn full_members(&self) -> Vec<Handed> {
        let shown = group(&self.pair, "paris");
        let members = shown["volumes"][0]["members"].as_array().cloned().unwrap_or_default();
        if members.is_empty() {
            return vec![Handed::of_file(self, &self.files[0])];
        }
        let full = members.iter().filter(|member| member["state"] == "full");
        full.map(|it| Handed::of_file(self, Path::new(it["path"].as_str().expect("a path"))))
            .collect()
    }

    /// A step may have made it primary again.
    fn be_secondary(&self) {
        if group(&self.pair, "paris")["role"] == "primary" {
            self.demote();
        }
    }

    /// A client that cannot read gets no hint: status tells what is the matter.
    fn how_it_ends(&self) -> String {
        let wait = match self.state {
            State::RestorePending => "wait until `helio status db` shows no restore",
            State::Blank => {
                "`helio member merge db/data`; wait until `helio status db` shows nothing to merge"
            }
            State::Suspect | State::ServedFromPeer => {
                return until_complete();
            }
            _ => "wait until `helio status db` shows nothing to merge",
        };
        format!("{wait}; if `copies-at-once` is 0, raise it and run `helio apply`")
    }

    /// What was saved last. Only regions that differ are; the rest of the image is empty.
    fn saved(&self) -> Handed {
        let list = self.pair.helio("paris", &["saved", "list", "db", "--json"]).json();
        let image = list["saved"][0]["volumes"][0]["path"].as_str().expect("a path").to_owned();
        Handed { sparse: true, ..Handed::of_file(self, Path::new(&image)) }
    }

    /// Metadata that an operator made or accepted counts, and paris is primary by it.
    fn forced(&mut self, command: Command) -> Got {
        if !self.is_made {
            let config = text(self.pair.config());
            let create = ["metadata", "create", "db", "--node", "paris", "--config", &config];
            let accept = ["metadata", "accept", "db"];
            let line = if command == Command::MetadataCreate { &create[..] } else { &accept };
            let more: Vec<&str> = self.more.iter().map(String::as_str).collect();
            let told = self.pair.helio("paris", &[line, &more, &["--yes"]].concat());
            if !told.status.success() {
                return Got::Refused(Refusal::of(&told));
            }
            self.is_made = true;
        }
        if let Err(refusal) = self.begin_again() {
            self.is_made = false;
            return Got::Refused(refusal);
        }
        // lyon is not there.
        let promote = ["promote", "db", "--force", "--yes", "--json"];
        let told = eventually(PATIENCE, "a promotion", || {
            let told = self.pair.helio("paris", &promote);
            (!told.stderr.contains("\"retry\":true")).then_some(told)
        });
        if !told.status.success() {
            return Got::Refused(Refusal::of(&told));
        }
        Got::Given(Given::Bytes(vec![Handed::new("what clients read", self.clients_read())]))
    }

    /// Starts the daemon of paris, if it starts.
    fn begin_again(&mut self) -> Result<(), Refusal> {
        if self.answers() {
            return Ok(());
        }
        let log = self.pair.scratch().join("start.log");
        let mut command = process::Command::new(helio_binary());
        command.args(["daemon", "--node", "paris", "--config"]).arg(self.pair.config());
        command.env("HELIO_STATE_DIR", self.pair.state("paris"));
        let file = fs::File::create(&log).expect("there is room");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let mut daemon = Group::spawn(&mut command).expect("it can be run");
        eventually(PATIENCE, "a start, or its refusal", || {
            (daemon.ended().is_some() || self.answers()).then_some(())
        });
        if daemon.ended().is_some() {
            let stderr = fs::read_to_string(&log).expect("it is text");
            return Err(Refusal::of_text(&stderr));
        }
        daemon.kill();
        self.pair.start("paris");
        Ok(())
    }

    /// Whether the daemon of paris runs.
    pub(super) fn answers(&self) -> bool {
        self.pair.helio("paris", &["status", "--json"]).shows_status()
    }

    /// A member becomes the volume of another group.
    fn adopted(&mut self) -> Got {
        let path = self.files.last().expect("it has one");
        let other = self.pair.scratch().join("other");
        let config = text(self.pair.config());
        let (path_text, other) = (text(path), text(&other));
        let mut line = vec!["adopt", &path_text, "--group", "more", "--volume", "data"];
        line.extend(["--node", "paris", "--peer", "lyon", "--peer-path", &other]);
        line.extend(["--config", &config, "--write", "--json"]);
        said(answer(&self.pair, "paris", &line), |_| {
            Given::Bytes(vec![Handed::of_file(self, path)])
        })
    }
}

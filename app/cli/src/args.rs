// SPDX-License-Identifier: Apache-2.0
//! The command line, defined once: help, man pages and completions come from here.

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use helio_api::{Memory, Via, WhenFull};
use helio_tls::PublicKey;
use helio_units::{Bytes, Mode, Rate};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

mod adopt;
mod advise;
mod forecast;
mod lab;
mod line;
mod number;
mod plan;
mod trace;
pub use adopt::Adoption;
pub use advise::Advise;
pub use forecast::Forecast;
pub use lab::{Answer, Common, DiskOf, Link, Meeting, Primary, Record, Search, Standby, Trial};
pub use line::{Course, Line, Relay, Wan};
pub use plan::{Calculator, MarksPlan, PlanVerb, QueuePlan, Window};
pub use trace::{Trace, TraceFormat};

/// Mirrors block volumes between two hosts, synchronously or not, over any distance, without a kernel module.
#[derive(Debug, Parser)]
#[command(name = "helio", version, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub verb: Verb,
}

/// Where daemons keep their state unless told otherwise.
const STATE: &str = "/var/lib/heliograph";

/// The daemon that is asked, and how patiently.
#[derive(Clone, Debug, Args)]
pub struct At {
    /// State directory of the daemon to ask.
    #[arg(long, value_name = "DIR", default_value = STATE, global = true)]
    pub state: PathBuf,
    /// Ask a daemon elsewhere, at the `control` address of its node.
    #[arg(long, value_name = "IP:PORT", requires_all = ["key", "server_key"], conflicts_with = "state",
          global = true)]
    pub host: Option<SocketAddr>,
    /// File of the key to show it, one of the node's `operators`: see `helio key new`.
    #[arg(long, value_name = "FILE", requires = "host", global = true)]
    pub key: Option<PathBuf>,
    /// The node's own key, as the configuration has it.
    #[arg(long, value_name = "KEY", requires = "host", global = true)]
    pub server_key: Option<PublicKey>,
    /// How long the daemon may take to answer one request.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration, global = true)]
    pub timeout: Duration,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run a node until SIGTERM, which stops it cleanly.
    Daemon {
        /// Which node of the file this is.
        #[arg(long, value_name = "NAME")]
        node: String,
        /// The configuration file, the same on every node.
        #[arg(long, value_name = "FILE", default_value = "/etc/heliograph/heliograph.toml")]
        config: PathBuf,
        /// Where this daemon keeps its state.
        #[arg(long, value_name = "DIR", default_value = STATE)]
        state: PathBuf,
        /// How logs are written to standard error.
        #[arg(long, value_enum, default_value_t = LogFormat::Text)]
        log_format: LogFormat,
    },
    /// Show groups: whether they are protected, role, state, mode, queue, lag, peer.
    Status {
        /// Only this group.
        group: Option<String>,
        /// As JSON.
        #[arg(long)]
        json: bool,
        /// Show again every so many seconds.
        #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true,
              default_missing_value = "1",
              value_parser = number::whole::<u64>(1, 3600))]
        watch: Option<u64>,
        /// The daemon to ask.
        #[command(flatten)]
        at: At,
    },
    /// Read the configuration file again and change what can change while running.
    Apply {
        /// Only say what would change.
        #[arg(long)]
        dry_run: bool,
        /// As JSON.
        #[arg(long)]
        json: bool,
        /// The daemon to ask.
        #[command(flatten)]
        at: At,
    },
    /// Stop sending: keep marks only, until `update`.
    Log {
        /// Which group.
        group: String,
        /// The daemon to ask.
        #[command(flatten)]
        at: At,
    },
    /// Copy what is marked, then replicate again.
    Update {
        /// Which group.
        group: String,
        /// Return only when the copies are equal; fails if that cannot be reached.
        #[arg(long)]
        wait: bool,
        /// Even if the peer has no room to keep its last consistent image meanwhile.
        #[arg(long)]
        give_up_safe_copy: bool,
        /// The other way: take the secondary's copy over this primary's own, which is saved first.
        #[arg(long, conflicts_with = "give_up_safe_copy")]
        reverse: bool,
        /// With --reverse: below which folder what differs is saved; the daemon's state directory otherwise.
        #[arg(long, value_name = "DIR", requires = "reverse")]
        save: Option<PathBuf>,
        /// With --reverse: do not ask.
        #[arg(long, requires = "reverse")]
        yes: bool,
        /// The daemon to ask.
        #[command(flatten)]
        at: At,
    },
    /// Compare everything with the peer's copy and copy what differs, whatever is marked; then replicate again.
    Full {
        /// Which group.
        group: String,
        /// Return only when the copies are equal; fails if that cannot be reached.
        #[arg(long)]
        wait: bool,
        /// Do not ask: until it is done, the secondary's copy cannot take over.
        #[arg(long)]
        yes: bool,
        /// The other way: take the secondary's copy over this primary's own, which is saved first.
        #[arg(long)]
        reverse: bool,
        /// With --reverse: below which folder what differs is saved; the daemon's state directory otherwise.
        #[arg(long, value_name = "DIR", requires = "reverse")]
        save: Option<PathBuf>,
        /// The daemon to ask.
        #[command(flatten)]
        at: At,
    },
    /// Change when writes are answered.
    Mode {
        /// Which group.
        group: String,
        /// sync, nearsync or async.
        #[arg(value_parser = mode)]
        mode: Mode,
        /// The daemon to ask.
        #[command(flatten)]
        at: At,
    },
    /// Make this node primary.
    Promote {
        /// Which group.
        group: String,
        /// Although the peer cannot agree; says first what is at stake.
        #[arg(long)]
        force: bool,
        /// Where the copy here is not consistent, go back to the consistent image that is kept.
        #[arg(long)]
        restore: bool,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
        /// Where the peer cannot agree, run the group's fence hook, and go on where that proves the peer to be out.
        #[arg(long, conflicts_with = "force")]
        fence: bool,
        /// The daemon to ask.
        #[command(flatten)]
        at: At,
    },
    /// Make this node secondary, everything delivered where the peer is there.
    Demote {
        /// Which group.
        group: String,
        /// The daemon to ask.
        #[command(flatten)]
        at: At,
    },
    /// Change roles with the other node, without loss, asked of either; returns when the other serves.
    Switch {
        /// Which group.
        group: String,
        /// Although this node has a volume of it attached: who uses it has errors from then on.
        #[arg(long)]
        force: bool,
        /// Return only when the copies are equal again behind the new primary.
        #[arg(long)]
        wait: bool,
        /// The daemon to ask.
        #[command(flatten)]
        at: At,
    },
    /// Tell how the two nodes stand: the row of the recovery table that fired last, its facts, what comes next.
    Explain {
        /// Which group.
        group: String,
        /// As JSON.
        #[arg(long)]
        json: bool,
        /// The daemon to ask.
        #[command(flatten)]
        at: At,
    },
    /// Give up what one node alone holds, so that it follows the other; shows it first, and saves it.
    Resolve {
        /// Which group.
        group: String,
        /// The node whose side is given up; the verb runs there.
        #[arg(long, value_name = "NODE")]
        discard: String,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
        /// The folder below which its regions are saved; without it, the daemon's state directory.
        #[arg(long, value_name = "DIR")]
        save: Option<PathBuf>,
        /// The daemon to ask.
        #[command(flatten)]
        at: At,
    },
    /// Compare the two copies of a group while they are in use, and mend what differs.
    Verify {
        /// How.
        #[command(flatten)]
        wish: Comparison,
        /// The daemon to ask.
        #[command(flatten)]
        at: At,
    },
    /// A first sync by a shipped disk: only what changed since it was copied travels.
    Seed {
        /// What to do.
        #[command(subcommand)]
        verb: Seed,
    },
    /// What a volume lies on.
    Member {
        /// What to do.
        #[command(subcommand)]
        verb: Member,
    },
    /// Make a block device of this machine of a volume, and print its path; it comes back after a restart.
    #[command(group = ArgGroup::new("which").required(true).args(["volume", "list"]))]
    Attach {
        /// Which volume, as GROUP/VOLUME.
        #[arg(value_name = "GROUP/VOLUME", value_parser = volume)]
        volume: Option<(String, String)>,
        /// Only to be read; on a secondary, the copy as it stands.
        #[arg(long, conflicts_with = "list")]
        read_only: bool,
        /// How the kernel is reached.
        #[arg(long, value_enum, default_value_t = ViaWord::Auto)]
        via: ViaWord,
        /// How long it may take until the volume can be attached: until this node is primary, say.
        #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "list")]
        wait: Option<Duration>,
        /// Show what is attached, or is to be.
        #[arg(long)]
        list: bool,
        /// The list as JSON.
        #[arg(long, requires = "list")]
        json: bool,
        /// The daemon to ask.
        #[command(flatten)]
        at: At,
    },
    /// Make a device of a volume no more; refuses while it is in use, and says by whom.
    Detach {
        /// Which volume, as GROUP/VOLUME.
        #[arg(value_name = "GROUP/VOLUME", value_parser = volume)]
        volume: (String, String),
        /// Although it is in use: who uses it has errors from then on.
        #[arg(long)]
        force: bool,
        /// The daemon to ask.
        #[command(flatten)]
        at: At,
    },
    /// Put disks, partitions or files that hold data under mirroring, as they are. Not a byte of the data is changed.
    Adopt(Adoption),
    /// Give the volumes of a group back as disks of their own, as they are, and end the group on this node.
    Release {
        /// Which group; or its volume, where it has one only.
        #[arg(value_name = "GROUP[/VOLUME]")]
        what: String,
        /// Keep what the group recorded of itself, under another name.
        #[arg(long)]
        keep_metadata: bool,
        /// Although the copy here is not consistent: it is of no use then.
        #[arg(long)]
        force: bool,
        /// The daemon to ask.
        #[command(flatten)]
        at: At,
    },
    /// Show the flight recorder: the last events of a group.
    Recorder {
        /// Which group.
        group: String,
        /// As JSON.
        #[arg(long)]
        json: bool,
        /// The daemon to ask.
        #[command(flatten)]
        at: At,
    },
    /// Tell what is there, and then what changes, a line each, until interrupted.
    Events {
        /// Only this group's.
        group: Option<String>,
        /// As JSON.
        #[arg(long)]
        json: bool,
        /// Go on behind the event of that number, where it is remembered.
        #[arg(long, value_name = "NUMBER")]
        since: Option<u64>,
        /// Only tell what is there.
        #[arg(long)]
        now: bool,
        /// The daemon to ask.
        #[command(flatten)]
        at: At,
    },
    /// Look at groups for a while, and say what to change: queue, buffers, mode, link, each with its number and rule.
    Advise(Advise),
    /// Show a group's queue, or change it while it runs.
    Queue {
        /// Which group's.
        group: String,
        /// As JSON.
        #[arg(long)]
        json: bool,
        /// What to do with it; nothing shows it.
        #[command(subcommand)]
        verb: Option<Queue>,
        /// The daemon to ask.
        #[command(flatten)]
        at: At,
    },
    /// Print everything a group's metadata file says, without a daemon.
    Inspect {
        /// The group, or the path of a metadata file.
        group: String,
        /// The node's state directory.
        #[arg(long, value_name = "DIR", default_value = STATE)]
        state: PathBuf,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Check or move a group's metadata file, without a daemon.
    Metadata {
        /// What to do.
        #[command(subcommand)]
        verb: Metadata,
    },
    /// Make and show the keys by which nodes and operators know each other.
    Key {
        /// What to do.
        #[command(subcommand)]
        verb: Key,
    },
    /// Watch a volume being mirrored over an emulated WAN, cut, healed and failed over; takes about a minute.
    Quickstart {
        /// Mirror these files instead of made-up ones (needs mke2fs).
        #[arg(long, value_name = "DIR")]
        from: Option<PathBuf>,
        /// Leave everything running until Ctrl-C.
        #[arg(long)]
        keep: bool,
    },
    /// Print what makes a shell complete this command line.
    Completions {
        /// Which shell.
        shell: Shell,
    },
    /// Print the manual page, or write one page per verb.
    Man {
        /// Write all pages into this directory instead.
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Record what applications ask of volumes, and tell what a recording comes to.
    Trace {
        /// What to do.
        #[command(subcommand)]
        verb: Trace,
    },
    /// Plan a mirror: what links, disks, queues and maps come to, by the formulas of the systems it comes from.
    Plan {
        /// What to plan.
        #[command(subcommand)]
        verb: PlanVerb,
    },
    /// Tools to try links.
    Lab {
        /// Which tool.
        #[command(subcommand)]
        tool: Lab,
    },
    /// Measure a link as IBM's HADR simulator does, with its options and its output; without any, all are listed.
    #[command(disable_help_flag = true)]
    Simhadr {
        /// Its options, as in -role primary -lhost HOST -lport PORT -rhost HOST -rport PORT.
        #[arg(value_name = "OPTION", trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
}

/// The two ends of a shipment, both asked of the primary.
#[derive(Debug, Subcommand)]
pub enum Seed {
    /// Mark what changes from here on; copy the volumes behind it, and ship the copy.
    Begin {
        /// Which group.
        group: String,
        /// The daemon to ask.
        #[command(flatten)]
        at: At,
    },
    /// The copy is in place on the peer: compare samples of it, then copy what changed since.
    End {
        /// Which group.
        group: String,
        /// Return only when the copies are equal; fails if that cannot be reached.
        #[arg(long)]
        wait: bool,
        /// The daemon to ask.
        #[command(flatten)]
        at: At,
    },
}

/// What can be done with the disks of volumes.
#[derive(Debug, Subcommand)]
pub enum Member {
    /// Take the disk that the configuration file names now in the place of a lost one, and fill it from the peer.
    Replace {
        /// Which volume, as GROUP/VOLUME.
        #[arg(value_name = "GROUP/VOLUME", value_parser = volume)]
        volume: (String, String),
        /// Do not ask: whatever lies on that disk is overwritten.
        #[arg(long)]
        yes: bool,
        /// The daemon to ask.
        #[command(flatten)]
        at: At,
    },
    /// Accept a copy that a failed flush left suspect: write all of it again as it reads. Demote a primary first. Acknowledged
    /// writes that are missing from the copy are lost.
    Accept {
        /// The volume, as GROUP/VOLUME.
        #[arg(value_name = "GROUP/VOLUME", value_parser = volume)]
        volume: (String, String),
        /// Do not ask: acknowledged writes that are missing from this copy are lost.
        #[arg(long)]
        yes: bool,
        /// The daemon to ask.
        #[command(flatten)]
        at: At,
    },
}

/// What can be done with metadata files.
#[derive(Debug, Subcommand)]
pub enum Metadata {
    /// Say whether a daemon would serve from the file; exits 1 where it is damaged or lost.
    Check {
        /// The group, or the path of a metadata file.
        group: String,
        /// The node's state directory.
        #[arg(long, value_name = "DIR", default_value = STATE)]
        state: PathBuf,
    },
    /// Move what a stopped node's state directory holds of a group to another one.
    Move {
        /// The group.
        group: String,
        /// The state directory it goes to; made where it is missing.
        #[arg(long, value_name = "DIR")]
        to: PathBuf,
        /// The state directory it comes from.
        #[arg(long, value_name = "DIR", default_value = STATE)]
        state: PathBuf,
    },
    /// Create new metadata: what this stopped node holds of a group is discarded, and its peer copies everything to it.
    Create {
        /// The group.
        group: String,
        /// This node, as the configuration names it.
        #[arg(long, value_name = "NAME")]
        node: String,
        /// The configuration file.
        #[arg(long, value_name = "FILE", default_value = "/etc/heliograph/heliograph.toml")]
        config: PathBuf,
        /// The state directory.
        #[arg(long, value_name = "DIR", default_value = STATE)]
        state: PathBuf,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Take whatever disks the members lie on now for the ones they were: they hold true copies.
    Accept {
        /// The group whose node is stopped.
        group: String,
        /// The state directory.
        #[arg(long, value_name = "DIR", default_value = STATE)]
        state: PathBuf,
    },
}

/// How the copies are compared.
#[derive(Clone, Debug, Args)]
pub struct Comparison {
    /// Which group, or which volume of it.
    #[arg(value_name = "GROUP[/VOLUME]")]
    pub what: String,
    /// Copy what differs to the peer, in order with what is written; this node's copy is the one that counts.
    #[arg(long, conflicts_with_all = ["stop", "status"])]
    pub repair: bool,
    /// Most that is compared a second.
    #[arg(long, value_name = "RATE", value_parser = rate, conflicts_with_all = ["stop", "status"])]
    pub rate: Option<Rate>,
    /// Begin at the start, not where the last one stopped.
    #[arg(long, conflicts_with_all = ["stop", "status"])]
    pub anew: bool,
    /// Return only when everything is compared; fails where something differs and was not repaired.
    #[arg(long, conflicts_with_all = ["stop", "status"])]
    pub wait: bool,
    /// End the one under way; the next one goes on from there.
    #[arg(long, conflicts_with = "status")]
    pub stop: bool,
    /// Show how far it is, what differs, and when each volume was verified last.
    #[arg(long)]
    pub status: bool,
}

/// What can be done with keys.
#[derive(Debug, Subcommand)]
pub enum Key {
    /// Make a key, and print its public half as it goes into the configuration.
    New {
        /// The file to make; without it, the node's own in its state directory.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// The node's state directory; made where it is missing.
        #[arg(long, value_name = "DIR", default_value = STATE)]
        state: PathBuf,
    },
    /// Print the public half of a key.
    Show {
        /// The key's file; without it, the node's own in its state directory.
        file: Option<PathBuf>,
        /// The node's state directory.
        #[arg(long, value_name = "DIR", default_value = STATE)]
        state: PathBuf,
    },
}

/// What can be done with a queue.
#[derive(Debug, Subcommand)]
pub enum Queue {
    /// Change a queue's bound and policies while it runs; the file is not changed, and an `apply` goes back to it.
    #[command(group(ArgGroup::new("what").required(true).multiple(true)))]
    Set {
        /// Most bytes, or auto: a default, or four measured bandwidth-delay products where that is more.
        #[arg(long, value_name = "SIZE", value_parser = memory, group = "what")]
        memory: Option<Memory>,
        /// Most items.
        #[arg(long, value_name = "NUMBER", value_parser = number::whole::<u64>(1, u64::MAX), group = "what")]
        items: Option<u64>,
        /// What a write meets at the bound: block, log or fail; or two of them, CONNECTED/DISCONNECTED.
        #[arg(long, value_name = "WORD", value_parser = when_full, group = "what")]
        when_full: Option<(WhenFull, WhenFull)>,
    },
    /// Let a queue's high-water marks, the counts of what happened at its bound, and the times of answers begin anew.
    Reset,
}

/// Tools to try links.
#[derive(Debug, Subcommand)]
pub enum Lab {
    /// Carry TCP connections through a slow link; reads commands (cut, heal, rtt, rate, stats, ...) on its input.
    Relay(Relay),
    /// Lay a line between two network namespaces, below TCP, so that windows, loss and congestion show; needs root.
    /// Reads commands (cut, heal, rtt, rate, loss, stats, ...) on its input.
    Wan(Wan),
    /// Measure a link with the traffic of a mode: rate, latency, jitter, loss, congestion; start both ends, either first.
    Link {
        /// Which end.
        #[command(subcommand)]
        end: Link,
    },
    /// Find the socket buffer a link needs, by doubling it until throughput no longer improves.
    Search(Search),
    /// Measure a disk as a forecast wants it told: short reads, writes and flushes, how many of them it does at once, and
    /// its rate; through the driver daemons use.
    Disk(DiskOf),
    /// Record what a real link is like over time: round trip, jitter, loss and rate, into a file that `relay` and `wan`
    /// replay; at the other end runs `helio lab answer`.
    Record(Record),
    /// Answer `helio lab record` from another host, one recording after the other, until a signal.
    Answer(Answer),
}

/// Shells that completions are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// GNU bash.
    Bash,
    /// Z shell.
    Zsh,
    /// Friendly interactive shell.
    Fish,
}

/// How logs are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// How a volume becomes a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ViaWord {
    /// The best this machine has: `ublk`, else `fuse`.
    #[default]
    Auto,
    /// The kernel's own devices of user space: who uses one waits while the daemon is away.
    Ublk,
    /// A file in a FUSE mount, and a loop device on it.
    Fuse,
    /// The kernel's NBD client: who uses the device waits while the daemon is away.
    Nbd,
}

impl From<ViaWord> for Via {
    fn from(word: ViaWord) -> Self {
        match word {
            ViaWord::Auto => Self::Auto,
            ViaWord::Ublk => Self::Ublk,
            ViaWord::Fuse => Self::Fuse,
            ViaWord::Nbd => Self::Nbd,
        }
    }
}

fn mode(word: &str) -> Result<Mode, String> {
    Mode::from_word(word).ok_or_else(|| "one of sync, nearsync, async".to_owned())
}

fn bytes(text: &str) -> Result<Bytes, String> {
    helio_units::parse_bytes(text).map_err(|error| error.to_string())
}

fn volume(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((group, volume)) if !group.is_empty() && !volume.is_empty() => {
            Ok((group.to_owned(), volume.to_owned()))
        }
        _ => Err("write GROUP/VOLUME".to_owned()),
    }
}

fn memory(text: &str) -> Result<Memory, String> {
    match text {
        "auto" => Ok(Memory::Auto),
        size => {
            helio_units::parse_bytes(size).map(Memory::Bytes).map_err(|error| error.to_string())
        }
    }
}

fn when_full(text: &str) -> Result<(WhenFull, WhenFull), String> {
    let policy = |word: &str| WhenFull::ALL.into_iter().find(|policy| policy.word() == word);
    let (connected, disconnected) = text.split_once('/').unwrap_or((text, text));
    policy(connected)
        .zip(policy(disconnected))
        .ok_or_else(|| "block, log or fail; or two of them, as in block/log".to_owned())
}

fn duration(text: &str) -> Result<Duration, String> {
    helio_units::parse_duration(text).map_err(|error| error.to_string())
}

/// A time in which something can happen.
fn some_time(text: &str) -> Result<Duration, String> {
    duration(text).and_then(|time| match time {
        Duration::ZERO => Err("is no time in which anything could be measured".to_owned()),
        time => Ok(time),
    })
}

fn rate(text: &str) -> Result<Rate, String> {
    helio_units::parse_rate(text).map_err(|error| error.to_string())
}

/// A rate at which something passes.
fn some_rate(text: &str) -> Result<Rate, String> {
    rate(text).and_then(|rate| match rate {
        Rate(0) => Err("carries nothing; the order `cut` stops a line".to_owned()),
        rate => Ok(rate),
    })
}

fn group_name(text: &str) -> Result<String, String> {
    use helio_daemon::config::{NAME_RULE, is_name};
    if is_name(text) { Ok(text.to_owned()) } else { Err(format!("a group's name is {NAME_RULE}")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn a_policy_is_one_word_or_two() {
        assert_eq!(when_full("log"), Ok((WhenFull::Log, WhenFull::Log)));
        assert_eq!(when_full("block/fail"), Ok((WhenFull::Block, WhenFull::Fail)));
        assert!(when_full("block/").is_err());
    }

    #[test]
    fn a_group_is_followed_wherever_its_name_stands() {
        for (line, every) in [
            (["helio", "status", "db", "--watch"], 1),
            (["helio", "status", "--watch", "db"], 1),
            (["helio", "status", "--watch=5", "db"], 5),
        ] {
            let Verb::Status { group, watch, .. } = Cli::parse_from(line).verb else {
                panic!("{line:?} is a status")
            };
            assert_eq!((group.as_deref(), watch), (Some("db"), Some(every)), "{line:?}");
        }
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}

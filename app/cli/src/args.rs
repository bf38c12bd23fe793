// SPDX-License-Identifier: Apache-2.0
//! The definition of the command line. Help, man pages and completions are generated from it.

use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use helio_api::{Memory, Via, WhenFull};
use helio_tls::PublicKey;
use helio_units::{Bytes, Mode, Rate};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

mod adopt;
mod advise;
mod check;
mod forecast;
mod init;
mod lab;
mod line;
mod number;
mod plan;
mod saved;
mod trace;
pub use adopt::Adoption;
pub use advise::Advise;
pub use check::Check;
pub use forecast::Forecast;
pub use init::{Init, NodeWish, VolumeWish};
pub use lab::{Answer, Common, DiskOf, Link, Meeting, Primary, Record, Search, Standby, Trial};
pub use line::{Course, Line, Relay, Wan};
pub use plan::{Calculator, MarksPlan, PlanVerb, QueuePlan, Window};
pub use saved::Saved;
pub use trace::{Trace, TraceFormat};

/// Mirror block volumes between two Linux hosts, synchronously or asynchronously.
///
/// Heliograph works over any distance and needs no kernel module.
#[derive(Debug, Parser)]
#[command(name = "helio", version, max_term_width = 100)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub verb: Verb,
}

/// Default state directory of a daemon.
pub(crate) const STATE: &str = "/var/lib/heliograph";

/// How to reach the daemon.
#[derive(Clone, Debug, Args)]
pub struct At {
    /// State directory of the daemon.
    #[arg(long, value_name = "DIR", default_value = STATE, global = true)]
    pub state: PathBuf,
    /// Connect to a remote daemon, at the `control` address of its node.
    #[arg(long, value_name = "IP:PORT", requires_all = ["key", "server_key"], conflicts_with = "state",
          global = true)]
    pub host: Option<SocketAddr>,
    /// File of your operator key; its public key is one of the node's `operators`.
    #[arg(long, value_name = "FILE", requires = "host", global = true)]
    pub key: Option<PathBuf>,
    /// Public key of the node, as in the configuration file.
    #[arg(long, value_name = "KEY", requires = "host", global = true)]
    pub server_key: Option<PublicKey>,
    /// Maximum time to wait for the daemon's response to one request.
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration, global = true)]
    pub timeout: Duration,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Write a configuration file and keys for two nodes.
    ///
    /// Without options: two nodes on this host to try, with files as members. Prints the next commands. Replaces no file.
    Init(Init),
    /// Check this node before its daemon starts.
    ///
    /// Checks configuration, state directory, key, addresses, members, metadata, free space, peers, clock and limits. Changes
    /// nothing. Exits with 1 if the daemon would refuse to start or would not serve a group.
    Check(Check),
    /// Run the daemon of a node.
    ///
    /// SIGTERM or SIGINT stops it cleanly.
    Daemon {
        /// Name of this node in the configuration file.
        #[arg(long, value_name = "NAME")]
        node: String,
        /// Configuration file, the same on every node.
        #[arg(long, value_name = "FILE", default_value = "/etc/heliograph/heliograph.toml")]
        config: PathBuf,
        /// State directory of this daemon.
        #[arg(long, value_name = "DIR", default_value = STATE)]
        state: PathBuf,
        /// Format of log messages on standard error.
        #[arg(long, value_enum, default_value_t = LogFormat::Text)]
        log_format: LogFormat,
    },
    /// Show whether the data of each group is protected, and what to do if it is not.
    ///
    /// Without GROUP, prints one line per group, the worst first. `*` is a primary, `=>` in sync, `->` connected, `-x-`
    /// not connected, `|` refused.
    Status {
        /// Show this group in a few lines.
        group: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Show everything: state, mode, queue, latency, link, volumes.
        #[arg(long, short)]
        verbose: bool,
        /// Exit with 0 (ok), 1 (at risk), 2 (down, or to be repaired) or 3 (unknown), by the worst group.
        #[arg(long, conflicts_with = "watch")]
        check: bool,
        /// Repeat every SECONDS, 1 to 3600; --watch alone repeats every second.
        #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true,
              default_missing_value = "1",
              value_parser = number::whole::<u64>(1, 3600))]
        watch: Option<u64>,
        /// How to reach the daemon.
        #[command(flatten)]
        at: At,
    },
    /// Reload the configuration file and apply changes that need no restart.
    Apply {
        /// Show the changes without applying them.
        #[arg(long)]
        dry_run: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// How to reach the daemon.
        #[command(flatten)]
        at: At,
    },
    /// Stop replication and record dirty regions only, until `helio update`.
    Log {
        /// Group name.
        group: String,
        /// How to reach the daemon.
        #[command(flatten)]
        at: At,
    },
    /// Resync dirty regions, then replicate again.
    Update {
        /// Group name.
        group: String,
        /// Return when the copies are in sync; fail if they cannot get in sync.
        #[arg(long)]
        wait: bool,
        /// Resync even if the peer has no space to preserve its last consistent image.
        #[arg(long)]
        give_up_safe_copy: bool,
        /// Resync from the secondary to this primary; saves overwritten regions first.
        #[arg(long, conflicts_with = "give_up_safe_copy")]
        reverse: bool,
        /// Directory for the saved regions of --reverse; default: the state directory.
        #[arg(long, value_name = "DIR", requires = "reverse")]
        save: Option<PathBuf>,
        /// Do not ask for confirmation (with --reverse).
        #[arg(long, requires = "reverse")]
        yes: bool,
        /// How to reach the daemon.
        #[command(flatten)]
        at: At,
    },
    /// Compare all data with the peer, copy differences, then replicate again.
    ///
    /// Ignores the bitmap of dirty regions. The secondary's copy is inconsistent until the resync ends.
    Full {
        /// Group name.
        group: String,
        /// Return when the copies are in sync; fail if they cannot get in sync.
        #[arg(long)]
        wait: bool,
        /// Do not ask for confirmation; the secondary cannot be promoted during the resync.
        #[arg(long)]
        yes: bool,
        /// Resync from the secondary to this primary; saves overwritten regions first.
        #[arg(long)]
        reverse: bool,
        /// Directory for the saved regions of --reverse; default: the state directory.
        #[arg(long, value_name = "DIR", requires = "reverse")]
        save: Option<PathBuf>,
        /// How to reach the daemon.
        #[command(flatten)]
        at: At,
    },
    /// Change the replication mode of a group.
    ///
    /// The mode defines when a write is acknowledged.
    Mode {
        /// Group name.
        group: String,
        /// Replication mode: sync, nearsync or async.
        #[arg(value_parser = mode)]
        mode: Mode,
        /// How to reach the daemon.
        #[command(flatten)]
        at: At,
    },
    /// Make this node the primary of a group.
    Promote {
        /// Group name.
        group: String,
        /// Promote without the peer's consent (data may be lost); shows the risk first.
        #[arg(long)]
        force: bool,
        /// Restore the preserved consistent image if this copy is inconsistent.
        #[arg(long)]
        restore: bool,
        /// Do not ask for confirmation.
        #[arg(long)]
        yes: bool,
        /// Promote without the peer's consent if the group's fence hook fences the peer.
        #[arg(long, conflicts_with = "force")]
        fence: bool,
        /// How to reach the daemon.
        #[command(flatten)]
        at: At,
    },
    /// Make this node a secondary of a group.
    ///
    /// If the peer is connected, delivers the queue first.
    Demote {
        /// Group name.
        group: String,
        /// How to reach the daemon.
        #[command(flatten)]
        at: At,
    },
    /// Exchange the roles of primary and secondary without data loss.
    ///
    /// Runs on either node. Returns when the new primary serves clients.
    Switch {
        /// Group name.
        group: String,
        /// Switch even if a volume is attached here; processes that use it get I/O errors.
        #[arg(long)]
        force: bool,
        /// Return when the copies are in sync again after the switch.
        #[arg(long)]
        wait: bool,
        /// How to reach the daemon.
        #[command(flatten)]
        at: At,
    },
    /// Explain the last recovery decision of a group.
    ///
    /// Prints the row of the recovery table that applied last, the facts it used and the next step.
    Explain {
        /// Group name.
        group: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// How to reach the daemon.
        #[command(flatten)]
        at: At,
    },
    /// Discard the writes that exist only on this node, so that it follows its peer.
    ///
    /// Shows the affected regions, asks for confirmation and saves the regions before it discards the writes.
    Resolve {
        /// Group name.
        group: String,
        /// Node whose writes are discarded; run the command on this node.
        #[arg(long, value_name = "NODE")]
        discard: String,
        /// Do not ask for confirmation.
        #[arg(long)]
        yes: bool,
        /// Directory for the saved regions; default: the state directory.
        #[arg(long, value_name = "DIR")]
        save: Option<PathBuf>,
        /// How to reach the daemon.
        #[command(flatten)]
        at: At,
    },
    /// Compare the two copies of a group online.
    ///
    /// Reports differences. With --repair, copies them from the primary to its peer.
    Verify {
        /// What to compare, and how.
        #[command(flatten)]
        wish: Comparison,
        /// How to reach the daemon.
        #[command(flatten)]
        at: At,
    },
    /// Run the initial sync with a shipped disk.
    ///
    /// After `helio seed end`, only regions that changed since `helio seed begin` are sent over the link.
    Seed {
        /// The command.
        #[command(subcommand)]
        verb: Seed,
    },
    /// List or delete data that was saved before it was discarded.
    Saved {
        /// The command.
        #[command(subcommand)]
        verb: Saved,
    },
    /// Replace or accept the member (local disk or file) of a volume.
    Member {
        /// The command.
        #[command(subcommand)]
        verb: Member,
    },
    /// Attach a volume as a block device and print the path of the device.
    ///
    /// The daemon attaches the volume again after a restart, until `helio detach`.
    #[command(group = ArgGroup::new("which").required(true).args(["volume", "list"]))]
    Attach {
        /// Volume, for example db/data.
        #[arg(value_name = "GROUP/VOLUME", value_parser = volume)]
        volume: Option<(String, String)>,
        /// Attach read-only; on a secondary, shows the current content of its copy.
        #[arg(long, conflicts_with = "list")]
        read_only: bool,
        /// Kernel interface of the block device.
        #[arg(long, value_enum, default_value_t = ViaWord::Auto)]
        via: ViaWord,
        /// Maximum time to wait until the volume can be attached, for example 30s.
        #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "list")]
        wait: Option<Duration>,
        /// List attached volumes, and volumes that wait to be attached.
        #[arg(long)]
        list: bool,
        /// Print the list as JSON.
        #[arg(long, requires = "list")]
        json: bool,
        /// How to reach the daemon.
        #[command(flatten)]
        at: At,
    },
    /// Detach a volume's block device. Fails if it is in use and lists the users.
    Detach {
        /// Volume, for example db/data.
        #[arg(value_name = "GROUP/VOLUME", value_parser = volume)]
        volume: (String, String),
        /// Detach even if the device is in use; processes that use it get I/O errors.
        #[arg(long)]
        force: bool,
        /// How to reach the daemon.
        #[command(flatten)]
        at: At,
    },
    /// Mirror disks, partitions or files that already hold data.
    ///
    /// The data on them is not changed.
    Adopt(Adoption),
    /// Remove a group from this node and keep the data of its members.
    Release {
        /// Group name; or GROUP/VOLUME if the group has only one volume.
        #[arg(value_name = "GROUP[/VOLUME]")]
        what: String,
        /// Keep the group's metadata file under another name, for `helio inspect`.
        #[arg(long)]
        keep_metadata: bool,
        /// Release even if this copy is inconsistent (its data is then unusable).
        #[arg(long)]
        force: bool,
        /// How to reach the daemon.
        #[command(flatten)]
        at: At,
    },
    /// Show the last 4096 recorded events of a group.
    Recorder {
        /// Group name.
        group: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// How to reach the daemon.
        #[command(flatten)]
        at: At,
    },
    /// Print the existing objects, then each change as it happens.
    ///
    /// Prints one event per row, until it is interrupted or the daemon stops.
    Events {
        /// Print only the events of this group.
        group: Option<String>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// Continue after the event with this number, if the daemon still stores it.
        #[arg(long, value_name = "NUMBER")]
        since: Option<u64>,
        /// Print the existing objects and exit.
        #[arg(long)]
        now: bool,
        /// How to reach the daemon.
        #[command(flatten)]
        at: At,
    },
    /// Measure groups and recommend changes to queue, buffers, mode and link.
    ///
    /// Each recommendation gives the measured value and the rule. Exits with 6 if it recommends a change.
    Advise(Advise),
    /// Show or change the queue of a group.
    Queue {
        /// Group name.
        group: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
        /// The command; the default shows the queue.
        #[command(subcommand)]
        verb: Option<Queue>,
        /// How to reach the daemon.
        #[command(flatten)]
        at: At,
    },
    /// Show the content of a group's metadata file, without a daemon.
    Inspect {
        /// Group name, or the path of a metadata file.
        group: String,
        /// State directory of the node.
        #[arg(long, value_name = "DIR", default_value = STATE)]
        state: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Check, move, create or accept a group's metadata, without a daemon.
    Metadata {
        /// The command.
        #[command(subcommand)]
        verb: Metadata,
    },
    /// Create and show the keys of nodes and operators.
    Key {
        /// The command.
        #[command(subcommand)]
        verb: Key,
    },
    /// Demonstrate a mirrored volume over an emulated WAN.
    ///
    /// Takes about one minute. Shows a link failure, the resync and a failover.
    Quickstart {
        /// Mirror the files in this directory instead of generated data (needs mke2fs).
        #[arg(long, value_name = "DIR")]
        from: Option<PathBuf>,
        /// Keep the demonstration running until Ctrl-C.
        #[arg(long)]
        keep: bool,
    },
    /// Print the completion script for a shell.
    Completions {
        /// Shell.
        shell: Shell,
    },
    /// Print the manual page, or write one page per command.
    Man {
        /// Write all pages into this directory.
        #[arg(long, value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Record and analyse the requests of applications.
    Trace {
        /// The command.
        #[command(subcommand)]
        verb: Trace,
    },
    /// Calculate and forecast links, disks, queues and bitmaps of a mirror.
    Plan {
        /// The calculation.
        #[command(subcommand)]
        verb: PlanVerb,
    },
    /// Emulate and measure links and disks.
    Lab {
        /// The tool.
        #[command(subcommand)]
        tool: Lab,
    },
    /// Measure a link with the options and the output of IBM's HADR simulator.
    ///
    /// Without options, lists all options.
    #[command(disable_help_flag = true)]
    Simhadr {
        /// Options of simhadr, for example -role primary -lhost HOST -lport PORT.
        #[arg(value_name = "OPTION", trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
}

/// The two steps of an initial sync with a shipped disk. Both run on the primary.
#[derive(Debug, Subcommand)]
pub enum Seed {
    /// Start recording dirty regions before you copy the volumes to a disk.
    ///
    /// Run it on the primary. Then copy each volume, ship the disk and install it on the peer.
    Begin {
        /// Group name.
        group: String,
        /// How to reach the daemon.
        #[command(flatten)]
        at: At,
    },
    /// Check samples of the shipped copy, then resync the dirty regions.
    ///
    /// Run it on the primary when the copy is installed on the peer.
    End {
        /// Group name.
        group: String,
        /// Return when the copies are in sync; fail if they cannot get in sync.
        #[arg(long)]
        wait: bool,
        /// How to reach the daemon.
        #[command(flatten)]
        at: At,
    },
}

/// Commands for the members of volumes.
#[derive(Debug, Subcommand)]
pub enum Member {
    /// Replace a failed member with the configured disk and rebuild it from the peer.
    Replace {
        /// Volume, for example db/data.
        #[arg(value_name = "GROUP/VOLUME", value_parser = volume)]
        volume: (String, String),
        /// Do not ask for confirmation; all data on the configured disk is overwritten.
        #[arg(long)]
        yes: bool,
        /// How to reach the daemon.
        #[command(flatten)]
        at: At,
    },
    /// Accept a copy that is suspect after a failed flush.
    ///
    /// Reads all of the copy and writes it again. Demote a primary first. Acknowledged writes that are missing from
    /// the copy are lost.
    Accept {
        /// Volume, for example db/data.
        #[arg(value_name = "GROUP/VOLUME", value_parser = volume)]
        volume: (String, String),
        /// Do not ask for confirmation; acknowledged writes missing from this copy are lost.
        #[arg(long)]
        yes: bool,
        /// How to reach the daemon.
        #[command(flatten)]
        at: At,
    },
}

/// Commands for metadata files. The daemon of the node is stopped.
#[derive(Debug, Subcommand)]
pub enum Metadata {
    /// Check whether a daemon can use a group's metadata file.
    ///
    /// Exits with 1 if the file is damaged or missing.
    Check {
        /// Group name, or the path of a metadata file.
        group: String,
        /// State directory of the node.
        #[arg(long, value_name = "DIR", default_value = STATE)]
        state: PathBuf,
    },
    /// Move a group's metadata of a stopped node to another state directory.
    Move {
        /// Group name.
        group: String,
        /// Target state directory; created if missing.
        #[arg(long, value_name = "DIR")]
        to: PathBuf,
        /// Current state directory.
        #[arg(long, value_name = "DIR", default_value = STATE)]
        state: PathBuf,
    },
    /// Create new metadata for a group and discard this stopped node's copy.
    ///
    /// The node joins the group as a new node. Its peer then compares all data and copies what differs.
    Create {
        /// Group name.
        group: String,
        /// Name of this node in the configuration file.
        #[arg(long, value_name = "NAME")]
        node: String,
        /// Configuration file.
        #[arg(long, value_name = "FILE", default_value = "/etc/heliograph/heliograph.toml")]
        config: PathBuf,
        /// State directory of the node.
        #[arg(long, value_name = "DIR", default_value = STATE)]
        state: PathBuf,
        /// Do not ask for confirmation.
        #[arg(long)]
        yes: bool,
    },
    /// Accept the current disks as exact copies of the recorded ones.
    ///
    /// Run it on a stopped node. If a disk holds older data, acknowledged writes are lost.
    Accept {
        /// Group name.
        group: String,
        /// State directory of the node.
        #[arg(long, value_name = "DIR", default_value = STATE)]
        state: PathBuf,
    },
}

/// Options of a verify.
#[derive(Clone, Debug, Args)]
pub struct Comparison {
    /// Group name, or one of its volumes.
    #[arg(value_name = "GROUP[/VOLUME]")]
    pub what: String,
    /// Copy differences to the peer; the data of this primary is kept.
    #[arg(long, conflicts_with_all = ["stop", "status"])]
    pub repair: bool,
    /// Maximum verify rate, for example 50MiB/s.
    #[arg(long, value_name = "RATE", value_parser = rate, conflicts_with_all = ["stop", "status"])]
    pub rate: Option<Rate>,
    /// Start at the beginning, not at the position of the last verify.
    #[arg(long, conflicts_with_all = ["stop", "status"])]
    pub anew: bool,
    /// Return when the verify ends; fail if differences remain.
    #[arg(long, conflicts_with_all = ["stop", "status"])]
    pub wait: bool,
    /// Stop the running verify; the next verify continues at its position.
    #[arg(long, conflicts_with = "status")]
    pub stop: bool,
    /// Show progress, differences and the last verify time of each volume.
    #[arg(long)]
    pub status: bool,
}

/// Commands for keys.
#[derive(Debug, Subcommand)]
pub enum Key {
    /// Create a key and print its public key for the configuration file.
    New {
        /// New key file; default: node.key in the state directory.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// State directory of the node; created if missing.
        #[arg(long, value_name = "DIR", default_value = STATE)]
        state: PathBuf,
    },
    /// Print the public key of a key file.
    Show {
        /// Key file; default: node.key in the state directory.
        file: Option<PathBuf>,
        /// State directory of the node.
        #[arg(long, value_name = "DIR", default_value = STATE)]
        state: PathBuf,
    },
}

/// Commands for a queue.
#[derive(Debug, Subcommand)]
pub enum Queue {
    /// Change the limits and policies of a queue online.
    ///
    /// The configuration file is not changed. The next `helio apply` restores its values.
    #[command(group(ArgGroup::new("what").required(true).multiple(true)))]
    Set {
        /// Maximum size, at least 512B, or auto (8 MiB to 256 MiB); for example 64MiB.
        ///
        /// auto is the larger of 8 MiB and four measured bandwidth-delay products, at most 256 MiB.
        #[arg(long, value_name = "SIZE", value_parser = memory, group = "what")]
        memory: Option<Memory>,
        /// Maximum number of items, at least 1.
        #[arg(long, value_name = "NUMBER", value_parser = number::whole::<u64>(1, u64::MAX), group = "what")]
        items: Option<u64>,
        /// Policy when the queue is full: block, log or fail.
        ///
        /// Two policies CONNECTED/DISCONNECTED, for example block/log, apply while the peer is connected and while it
        /// is not.
        #[arg(long, value_name = "POLICY", value_parser = when_full, group = "what")]
        when_full: Option<(WhenFull, WhenFull)>,
    },
    /// Reset high-water marks, counters and latency histograms.
    Reset,
}

/// Emulate and measure links and disks.
#[derive(Debug, Subcommand)]
pub enum Lab {
    /// Relay TCP connections over an emulated link.
    ///
    /// Reads commands (cut, heal, rtt, rate, stats, ...) from standard input.
    Relay(Relay),
    /// Emulate a link between two network namespaces (needs root).
    ///
    /// Works on IP packets, so TCP windows, loss and congestion have their real effect. Reads commands (cut, heal,
    /// rtt, rate, loss, stats, ...) from standard input.
    Wan(Wan),
    /// Measure the rate, latency, jitter, loss and congestion of a link.
    ///
    /// Sends the traffic of a replication mode. Start one end on each host, in any order.
    Link {
        /// The end of the link.
        #[command(subcommand)]
        end: Link,
    },
    /// Find the socket buffer size for a link.
    ///
    /// Doubles the size until throughput no longer improves. The other host runs `helio lab link standby`.
    Search(Search),
    /// Measure a disk for a forecast.
    ///
    /// Measures the latency of small reads, writes and flushes, their concurrency, and the rate. Uses the same I/O
    /// driver as the daemon.
    Disk(DiskOf),
    /// Record the round trip, jitter, loss and rate of a link over time.
    ///
    /// `helio lab relay`, `helio lab wan` and `helio plan forecast` replay the recording. The other host runs `helio
    /// lab answer`.
    Record(Record),
    /// Serve `helio lab record` on another host, one recording at a time.
    ///
    /// Runs until a signal stops it.
    Answer(Answer),
}

/// Shells with completion scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// GNU bash.
    Bash,
    /// Z shell.
    Zsh,
    /// Friendly interactive shell.
    Fish,
}

/// Log formats.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Plain text.
    #[default]
    Text,
    /// One JSON object per row.
    Json,
}

/// Kernel interfaces of block devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ViaWord {
    /// `ublk` if the kernel has it, otherwise `fuse`.
    #[default]
    Auto,
    /// Userspace block device; I/O waits while the daemon is stopped.
    Ublk,
    /// Loop device on a file in a FUSE mount; I/O fails if the daemon stops.
    Fuse,
    /// Kernel NBD client; I/O waits while the daemon is stopped.
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
    Mode::from_word(word).ok_or_else(|| "expected one of sync, nearsync, async".to_owned())
}

fn bytes(text: &str) -> Result<Bytes, String> {
    helio_units::parse_bytes(text).map_err(|error| error.to_string())
}

fn volume(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((group, volume)) if !group.is_empty() && !volume.is_empty() => {
            Ok((group.to_owned(), volume.to_owned()))
        }
        _ => Err("expected GROUP/VOLUME, for example db/data".to_owned()),
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
    policy(connected).zip(policy(disconnected)).ok_or_else(|| {
        "expected block, log or fail, or two of them, for example block/log".to_owned()
    })
}

fn duration(text: &str) -> Result<Duration, String> {
    helio_units::parse_duration(text).map_err(|error| error.to_string())
}

/// A time greater than zero.
fn some_time(text: &str) -> Result<Duration, String> {
    duration(text).and_then(|time| match time {
        Duration::ZERO => Err("must be greater than zero, for example 10s".to_owned()),
        time => Ok(time),
    })
}

fn rate(text: &str) -> Result<Rate, String> {
    helio_units::parse_rate(text).map_err(|error| error.to_string())
}

/// A rate greater than zero.
fn some_rate(text: &str) -> Result<Rate, String> {
    rate(text).and_then(|rate| match rate {
        Rate(0) => {
            Err("must be greater than zero; use the command `cut` to stop the link".to_owned())
        }
        rate => Ok(rate),
    })
}

fn group_name(text: &str) -> Result<String, String> {
    use helio_daemon::config::{NAME_RULE, is_name};
    if is_name(text) {
        Ok(text.to_owned())
    } else {
        Err(format!("expected a group name: {NAME_RULE}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn a_policy_has_one_or_two_words() {
        assert_eq!(when_full("log"), Ok((WhenFull::Log, WhenFull::Log)));
        assert_eq!(when_full("block/fail"), Ok((WhenFull::Block, WhenFull::Fail)));
        assert!(when_full("block/").is_err());
    }

    #[test]
    fn watch_does_not_take_the_group_name_as_its_value() {
        for (line, every) in [
            (["helio", "status", "db", "--watch"], 1),
            (["helio", "status", "--watch", "db"], 1),
            (["helio", "status", "--watch=5", "db"], 5),
        ] {
            let Verb::Status { group, watch, .. } = Cli::parse_from(line).verb else {
                panic!("{line:?} is not parsed as status")
            };
            assert_eq!((group.as_deref(), watch), (Some("db"), Some(every)), "{line:?}");
        }
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }
}

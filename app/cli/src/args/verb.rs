// SPDX-License-Identifier: Apache-2.0
//! The commands. Commands with commands of their own are in [`super::nouns`].

use super::nouns::{Debug, Key, Lab, Member, Metadata, Queue, Rename, Seed, Verify};
use super::{
    Adoption, Advise, Check, Clients, Dashboard, Drill, Init, Named, OfGroup, PlanVerb, Resyncing,
    Saved, Snapshot, Trace, interval, mode, named, number,
};
use clap::{Args, Subcommand, ValueEnum};
use helio_api::Via;
use helio_units::Mode;
use std::path::PathBuf;
use std::time::Duration;

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
    /// nothing. Exits with 1 if the daemon would refuse to start or would not serve a group; beside the
    /// running daemon, also if the connection of a group is refused.
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
        /// Format of log messages on standard error.
        #[arg(long, value_enum, default_value_t = LogFormat::Text)]
        log_format: LogFormat,
    },
    /// Show whether the data of each group is protected, and what to do if it is not.
    ///
    /// Without GROUP, prints one line per group, the worst first. `*` is a primary, `=>` in sync, `->` connected, `-x-`
    /// not connected, `|` refused (split brain, wrong key), `--` connected without a primary.
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
    },
    /// Show groups live in the terminal, with actions by key.
    ///
    /// Shows state, verdict, peers, links, queues, lag, volumes, members, snapshots and resyncs. Each action runs the command of
    /// the same name: it shows what the command does and what is at stake, and asks for confirmation. `?` lists the keys, `q`
    /// quits. Colours are omitted if NO_COLOR is set.
    Top {
        /// Open the details of this group.
        group: Option<String>,
        /// Time between two requests of the status, 100ms to 1h.
        #[arg(long, value_name = "TIME", default_value = "1s", value_parser = interval)]
        interval: Duration,
    },
    /// Show groups live in a browser, with plots and actions.
    ///
    /// Serves a page on loopback and prints its address. Ctrl-C ends the command. Each action of the page runs the command of the same name;
    /// before that, the page shows what the command does and what is at stake. The address contains a random token; anyone who has the
    /// address can run the actions.
    Dashboard(Dashboard),
    /// Reload the configuration file and apply changes that need no restart.
    Apply {
        /// Show the changes without applying them.
        #[arg(short = 'n', long)]
        dry_run: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Stop replication and record dirty regions only, until resume, resync or a restart.
    Pause(OfGroup),
    /// End a pause: resync dirty regions, then replicate again.
    Resume(Resyncing),
    /// Resync dirty regions, then replicate again.
    ///
    /// With --full, compares all data with the peer and ignores the bitmap of dirty regions. The secondary's copy is
    /// then inconsistent until the resync ends.
    Resync(Resync),
    /// Change the replication mode of a group.
    ///
    /// The mode defines when a write is acknowledged. In mode periodic the secondary gets the changes at intervals.
    #[command(allow_missing_positional = true)]
    Mode {
        /// Group name; may be omitted if the daemon has only one group.
        group: Option<String>,
        /// Replication mode: sync, nearsync, async or periodic.
        #[arg(value_parser = mode)]
        mode: Mode,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Make this node the primary of a group.
    ///
    /// Needs the peer's consent. If the peer is down, fence it first, then use --force.
    Promote(Promote),
    /// Make this node a secondary of a group.
    ///
    /// If the peer is connected, delivers the queue first. Dirty regions are not sent. Exits with 8 if the peer may not have
    /// all writes. Fails if clients are connected.
    Demote(OfGroup),
    /// Exchange the roles of primary and secondary without data loss.
    ///
    /// Runs on either node. Returns when the new primary serves clients.
    Switch {
        /// Group, output and wait.
        #[command(flatten)]
        of: Resyncing,
        /// Switch even if a volume is attached here; processes that use it get I/O errors.
        #[arg(short, long)]
        force: bool,
        /// Do not ask for confirmation (with --force).
        #[arg(short, long)]
        yes: bool,
    },
    /// Prove on the secondary that its copy can be used, while replication continues.
    ///
    /// Creates the snapshot `drill` on this node alone, attaches its volumes as block devices that can be written, runs COMMAND on them, then
    /// detaches the devices and deletes the snapshot with everything that was written. Neither the volumes nor the primary are affected. Without
    /// --run, reads the beginning and the end of each device. helio status shows the last drill. Exits with 1 if the drill failed.
    ///
    /// COMMAND runs in `sh -c` as the user who runs helio, with these variables in its environment: HELIO_GROUP, HELIO_NODE,
    /// HELIO_SNAPSHOT, HELIO_DEVICES (the paths of all devices, separated by spaces, in the order of the names of the volumes), and for each volume HELIO_DEVICE_NAME:
    /// its name in upper case, with _ for everything but letters and digits. At --limit, or if helio is interrupted, helio sends SIGTERM to the process
    /// group of COMMAND, and waits up to 10 s until everything that COMMAND started has ended. Then, and also after COMMAND has ended by
    /// itself, helio kills what still runs.
    Drill(Drill),
    /// Explain why the nodes copied, or refused to copy, data.
    ///
    /// Prints the row of the recovery table that applied last, the facts it used and the next step.
    Explain(OfGroup),
    /// Discard the writes that exist only on this node, so that it follows its peer.
    ///
    /// Shows the affected regions, asks for confirmation and saves the regions before it discards the writes.
    Resolve {
        /// Group and output.
        #[command(flatten)]
        of: OfGroup,
        /// Node whose writes are discarded. Run the command there; the node must be secondary.
        #[arg(long, value_name = "NODE")]
        discard: String,
        /// Do not ask for confirmation.
        #[arg(short, long)]
        yes: bool,
        /// Directory for the saved regions; default: the state directory.
        #[arg(long, value_name = "DIR")]
        save: Option<PathBuf>,
        /// Discard the copy of NODE although it may be the last complete one. Must name the same node as --discard.
        #[arg(long, value_name = "NODE")]
        last_copy: Option<String>,
    },
    /// Compare the two copies of a group online.
    Verify {
        /// The command.
        #[command(subcommand)]
        verb: Verify,
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
    /// Create, list and delete snapshots of a group.
    Snapshot {
        /// The command.
        #[command(subcommand)]
        verb: Snapshot,
    },
    /// Add, remove, merge, replace or accept members (local disks or files).
    Member {
        /// The command.
        #[command(subcommand)]
        verb: Member,
    },
    /// List NBD clients, or disconnect them.
    Client {
        /// The command.
        #[command(subcommand)]
        verb: Clients,
    },
    /// Attach a volume as a block device and print the path of the device.
    ///
    /// The daemon attaches the volume again after a restart, until `helio detach`. A volume in a snapshot, such as db/data@daily, can be
    /// written on either node: neither the snapshot nor the volume changes, and what is written is deleted with the snapshot.
    Attach {
        /// Volume, for example db/data; may be omitted if there is only one.
        #[arg(value_name = "GROUP[/VOLUME]", value_parser = named, conflicts_with = "list")]
        volume: Option<Named>,
        /// Attach read-only: the current copy of a secondary, or a snapshot as it was created.
        #[arg(long, conflicts_with = "list")]
        read_only: bool,
        /// Kernel interface of the block device.
        #[arg(long, value_enum, default_value_t = ViaWord::Auto)]
        via: ViaWord,
        /// Wait until the volume can be attached, at most --timeout.
        #[arg(long, conflicts_with = "list")]
        wait: bool,
        /// List attached volumes, and volumes that wait to be attached.
        #[arg(long)]
        list: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Detach a volume's block device. If a program uses it, list the users and fail.
    Detach {
        /// Volume, for example db/data; may be omitted if there is only one.
        #[arg(value_name = "GROUP[/VOLUME]", value_parser = named)]
        volume: Option<Named>,
        /// Detach even if the device is in use; processes that use it get I/O errors.
        #[arg(short, long)]
        force: bool,
        /// Do not ask for confirmation (with --force).
        #[arg(short, long)]
        yes: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Mirror disks, partitions or files that already hold data.
    ///
    /// The data on them is not changed.
    Adopt(Adoption),
    /// Remove a group from this node and keep the data of its members.
    Release {
        /// Group name; or GROUP/VOLUME if the group has only one volume.
        #[arg(value_name = "GROUP[/VOLUME]", value_parser = named)]
        what: Option<Named>,
        /// Keep the group's metadata files under other names, for `helio inspect`.
        #[arg(long)]
        keep_metadata: bool,
        /// Release even if this copy is inconsistent (its data is then unusable), or may be the only complete one (acknowledged writes may be lost).
        #[arg(short, long)]
        force: bool,
        /// Do not ask for confirmation.
        #[arg(short, long)]
        yes: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
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
    },
    /// Measure groups and recommend changes to queue, buffers, mode and link.
    ///
    /// Each recommendation gives the measured value and the rule. Exits with 6 if it recommends a change.
    Advise(Advise),
    /// Show or change the queue of a group.
    Queue {
        /// The command.
        #[command(subcommand)]
        verb: Queue,
    },
    /// Show what the daemon recorded, for a report of a defect.
    Debug {
        /// The command.
        #[command(subcommand)]
        verb: Debug,
    },
    /// Show the content of a group's metadata file, without a daemon.
    Inspect {
        /// Group name, or the path of a metadata file.
        group: String,
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
    /// Record a new name of a group, a volume or a node, without a daemon.
    Rename {
        /// The command.
        #[command(subcommand)]
        verb: Rename,
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
    /// Print the names that complete the last word of a command line.
    #[command(hide = true)]
    CompleteNames {
        /// Words after `helio`; the last one is incomplete.
        #[arg(value_name = "WORD", trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Open the manual page of helio or of a command.
    ///
    /// Prints the source of the page if standard output is not a terminal.
    Man {
        /// Command, for example resync or queue set.
        #[arg(value_name = "COMMAND", conflicts_with = "dir")]
        command: Vec<String>,
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

/// What is copied, and how.
#[derive(Clone, Debug, Args)]
pub struct Resync {
    /// Group, output and wait.
    #[command(flatten)]
    pub of: Resyncing,
    /// Compare all data and copy differences; ignores the bitmap of dirty regions.
    #[arg(long)]
    pub full: bool,
    /// Resync from the secondary to this primary; newer writes here are saved, then overwritten.
    #[arg(long, conflicts_with = "give_up_safe_copy")]
    pub reverse: bool,
    /// Directory for the saved regions of --reverse; default: the state directory.
    #[arg(long, value_name = "DIR", requires = "reverse")]
    pub save: Option<PathBuf>,
    /// Overwrite the copy of NODE with --reverse although it may be the last complete one. Must name the primary.
    #[arg(long, value_name = "NODE", requires = "reverse")]
    pub last_copy: Option<String>,
    /// Resync even if the peer has no space to preserve its last consistent copy.
    #[arg(long, conflicts_with = "full")]
    pub give_up_safe_copy: bool,
    /// Do not ask for confirmation (with --full or --reverse).
    #[arg(short, long)]
    pub yes: bool,
}

/// How a node becomes primary.
#[derive(Clone, Debug, Args)]
pub struct Promote {
    /// Group, output and wait.
    #[command(flatten)]
    pub of: Resyncing,
    /// Promote without the peer's consent (data may be lost); shows the risk first.
    #[arg(short, long)]
    pub force: bool,
    /// If this copy is inconsistent, go back to the safe copy; later writes are discarded.
    #[arg(long)]
    pub restore: bool,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    pub yes: bool,
    /// Run the group's fence hook, and promote without the peer's consent if it succeeds.
    #[arg(long, conflicts_with = "force")]
    pub fence: bool,
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

// SPDX-License-Identifier: Apache-2.0
//! Commands with commands of their own: `helio NOUN VERB [OBJECT]`.

use super::{
    Answer, CopyOf, DiskOf, Link, Named, OfGroup, Record, Relay, Resyncing, Search, Wan, memory,
    named, number, rate, read_cost, when_full,
};
use clap::{ArgGroup, Args, Subcommand};
use helio_api::{Memory, ReadCost, WhenFull};
use helio_units::Rate;
use std::path::PathBuf;

/// Commands for a verify.
#[derive(Debug, Subcommand)]
pub enum Verify {
    /// Start to compare the two copies of a group, or of one volume.
    ///
    /// Reports differences. With --repair, asks, then copies them from the primary to its peer.
    Start(Comparison),
    /// Stop the running verify; the next verify continues at its position.
    Stop(OfGroup),
    /// Show progress, differences and the last verify time of each volume.
    Show(OfGroup),
}

/// Options of a verify.
#[derive(Clone, Debug, Args)]
pub struct Comparison {
    /// Group name, or one of its volumes; may be omitted if the daemon has only one group.
    #[arg(value_name = "GROUP[/VOLUME]", value_parser = named)]
    pub what: Option<Named>,
    /// Copy differences to the peer; the data of this primary is kept.
    #[arg(long)]
    pub repair: bool,
    /// Do not ask for confirmation (with --repair).
    #[arg(short, long)]
    pub yes: bool,
    /// Maximum verify rate, for example 50MiB/s.
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub rate: Option<Rate>,
    /// Start at the beginning, not at the position of the last verify.
    #[arg(long)]
    pub restart: bool,
    /// Return when the verify ends; fail if differences remain.
    #[arg(long)]
    pub wait: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// The two steps of an initial sync with a shipped disk. Both run on the primary.
#[derive(Debug, Subcommand)]
pub enum Seed {
    /// Start recording dirty regions before you copy the volumes to a disk.
    ///
    /// Run it on the primary. Then copy each volume, ship the disk and install it on the peer.
    Begin(OfGroup),
    /// Check samples of the shipped copy, then resync the dirty regions.
    ///
    /// Run it on the primary when the copy is installed on the peer.
    End(Resyncing),
}

/// Commands for the members of volumes.
#[derive(Clone, Debug, Subcommand)]
pub enum Member {
    /// Replace a failed member with the configured disk and rebuild it from the peer.
    ///
    /// All data on the configured disk is overwritten.
    Replace(OfMember),
    /// Accept a copy that is suspect after a failed flush.
    ///
    /// Reads all of the copy and writes it again. Demote a primary first. Acknowledged writes that are missing from
    /// the copy are lost.
    Accept(OfMember),
    /// Add a local member to a volume, or return a removed one.
    ///
    /// The configuration file must name PATH. helio copies the dirty regions of the member from a full member; `helio status
    /// GROUP` shows the progress. Data on the member is overwritten where it differs.
    #[command(allow_missing_positional = true)]
    Add {
        /// The member.
        #[command(flatten)]
        at: MemberAt,
        /// Fail if the metadata has no bitmap of the member. Without this option helio then compares or copies all of it.
        #[arg(long)]
        require_minicopy: bool,
    },
    /// Remove a local member of a volume and record later writes in a bitmap.
    ///
    /// Fails if no other member is full. `helio member add` returns the member.
    #[command(allow_missing_positional = true)]
    Remove {
        /// The member.
        #[command(flatten)]
        at: MemberAt,
        /// Fail if the member is not a complete and consistent copy; flush and close its disk for reading.
        #[arg(long, conflicts_with = "force")]
        for_backup: bool,
        /// Remove the member even if its disk does not complete its operations.
        #[arg(short, long)]
        force: bool,
        /// Do not ask for confirmation (with --force).
        #[arg(short, long)]
        yes: bool,
    },
    /// Change the read cost of a local member.
    ///
    /// A read goes to the full member for which read cost + operations in progress is least. The next `helio apply`, or
    /// start, restores the setting of the configuration file.
    #[command(allow_missing_positional = true)]
    Set {
        /// The member.
        #[command(flatten)]
        at: MemberAt,
        /// Read cost, 1 to 65535, or auto for the measured latency in units of that of the fastest member.
        #[arg(long, value_name = "NUMBER|auto", value_parser = read_cost)]
        read_cost: ReadCost,
    },
    /// Compare the full local members of a volume and make them equal.
    ///
    /// Where they differ, helio keeps the content of the first full member. Returns when the metadata has a record
    /// of the merge: a restart does not end it.
    Merge {
        /// Volume, for example db/data; may be omitted if there is only one.
        #[arg(value_name = "GROUP[/VOLUME]", value_parser = named)]
        volume: Option<Named>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// A member of a volume by its path.
#[derive(Clone, Debug, Args)]
pub struct MemberAt {
    /// Volume, for example db/data; may be omitted if there is only one.
    #[arg(value_name = "GROUP[/VOLUME]", value_parser = named)]
    pub volume: Option<Named>,
    /// File or device of the member.
    pub path: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// The member of a volume.
#[derive(Clone, Debug, Args)]
pub struct OfMember {
    /// Volume, for example db/data; may be omitted if there is only one.
    #[arg(value_name = "GROUP[/VOLUME]", value_parser = named)]
    pub volume: Option<Named>,
    /// Do not ask for confirmation.
    #[arg(short, long)]
    pub yes: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Commands for a queue.
#[derive(Debug, Subcommand)]
pub enum Queue {
    /// Show the fill level, limits, policies and waits of a queue.
    Show(OfGroup),
    /// Change the limits and policies of a queue online.
    ///
    /// The configuration file is not changed. The next `helio apply` restores its values.
    #[command(group(ArgGroup::new("what").required(true).multiple(true)))]
    Set {
        /// Group and output.
        #[command(flatten)]
        of: OfGroup,
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
    Reset(OfGroup),
}

/// Records of the daemon, for a report of a defect.
#[derive(Debug, Subcommand)]
pub enum Debug {
    /// Show the last 4096 recorded events of a group.
    Events(OfGroup),
}

/// Commands for metadata files. The daemon of the node is stopped.
#[derive(Debug, Subcommand)]
pub enum Metadata {
    /// Check whether a daemon can use a group's metadata file.
    ///
    /// Exits with 1 if the file is damaged, stale or missing.
    Check {
        /// Group name, or the path of a metadata file.
        group: String,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Move a group's metadata of a stopped node to another state directory.
    Move {
        /// Group name.
        group: String,
        /// Target state directory; created if missing.
        #[arg(long, value_name = "DIR")]
        to: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
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
        /// Finish the restore that this before-image file contains.
        #[arg(long, value_name = "FILE")]
        finish_restore: Option<PathBuf>,
        /// Do not ask for confirmation.
        #[arg(short, long)]
        yes: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Accept the current disks as exact copies, or one of two metadata files.
    ///
    /// Run it on a stopped node, after members were moved to other disks, or if one of two metadata files is lost. Of two files, name
    /// the one to accept. The node is a secondary then: promote the node that has the newest data. If a disk that is promoted holds older data,
    /// or the other metadata file is newer, acknowledged writes are lost.
    Accept {
        /// Group name, or the path of a metadata file.
        group: String,
        /// Finish the restore that this before-image file contains.
        #[arg(long, value_name = "FILE")]
        finish_restore: Option<PathBuf>,
        /// Do not ask for confirmation.
        #[arg(short, long)]
        yes: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Commands for names. The daemon of the node is stopped, and the configuration file has the new name.
#[derive(Debug, Subcommand)]
pub enum Rename {
    /// Record the new name of a group on this stopped node.
    ///
    /// Run it on each node of the group, after the group has its new name in the configuration file. May be interrupted and repeated.
    Group(NewName),
    /// Record the new name of a volume on this stopped node.
    ///
    /// OLD is GROUP/VOLUME, NEW is the new name of the volume alone. Run it on each node of the group, after the volume has its new name in
    /// the configuration file. The new name must have the same place as the old one in the alphabetical order of the group's volumes.
    Volume(NewName),
    /// Record the new name of this stopped node.
    ///
    /// Run it on this node alone, after the node has its new name in the configuration file of both nodes. May be interrupted and
    /// repeated.
    Node {
        /// Name until now.
        old: String,
        /// New name.
        new: String,
        /// Configuration file.
        #[arg(long, value_name = "FILE", default_value = "/etc/heliograph/heliograph.toml")]
        config: PathBuf,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

/// A name in place of another one.
#[derive(Clone, Debug, Args)]
pub struct NewName {
    /// Name until now.
    pub old: String,
    /// New name.
    pub new: String,
    /// Name of this node in the configuration file.
    #[arg(long, value_name = "NAME")]
    pub node: String,
    /// Configuration file.
    #[arg(long, value_name = "FILE", default_value = "/etc/heliograph/heliograph.toml")]
    pub config: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Commands for keys.
#[derive(Debug, Subcommand)]
pub enum Key {
    /// Create a key and print its public key for the configuration file.
    New {
        /// New key file; default: node.key in the state directory, which is created if missing.
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the public key of a key file.
    Show {
        /// Key file; default: node.key in the state directory.
        file: Option<PathBuf>,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
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
    /// driver as the daemon. With --mirror, measures what a mirror on a local and a remote disk costs.
    Disk(DiskOf),
    /// Measure copies from one member of a volume to another.
    ///
    /// The copy experiment of OpenVMS volume shadowing: identical and different data, several transfer sizes, slow and
    /// fast disks, with and without the page cache. Uses the same copy algorithm and I/O driver as the daemon.
    Copy(CopyOf),
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

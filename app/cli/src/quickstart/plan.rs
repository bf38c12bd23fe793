// SPDX-License-Identifier: Apache-2.0
//! The stage as data: names, sizes, the link, and the text of the one configuration file.

use helio_api::Io;
use helio_units::{Bytes, Rate};
use std::fmt::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The group of both volumes.
pub(super) const GROUP: &str = "db";
/// The node applications write on at first.
pub(super) const PARIS: &str = "paris";
/// The node that follows. Its name sorts first, so it is the one that dials.
pub(super) const LYON: &str = "lyon";
/// The volume that holds the file system.
pub(super) const FILES: Volume = Volume { name: "files", size: Bytes::mib(128) };
/// The volume that is written record by record.
pub(super) const JOURNAL: Volume = Volume { name: "journal", size: Bytes::mib(16) };
/// The configuration file, in the stage's folder.
pub(super) const CONFIG: &str = "heliograph.toml";
/// The line between the nodes: Sun's test had the same.
pub(super) const ROUND_TRIP: Duration = Duration::from_millis(50);
/// What that line carries.
pub(super) const LINE_RATE: Rate = Rate::mbit(100);

/// A volume of the group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Volume {
    pub(super) name: &'static str,
    pub(super) size: Bytes,
}

impl Volume {
    /// The file under the volume on a node, in the stage's folder.
    pub(super) fn member(self, folder: &Path, node: &str) -> PathBuf {
        folder.join(format!("{node}-{}.img", self.name))
    }

    /// The name NBD clients know it by.
    pub(super) fn export(self) -> String {
        format!("{GROUP}/{}", self.name)
    }
}

/// What differs from run to run.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    /// The stage's folder.
    pub(super) folder: &'a Path,
    /// Where lyon listens.
    pub(super) lyon: SocketAddr,
    /// Where paris listens.
    pub(super) paris: SocketAddr,
    /// Where lyon reaches paris: the near end of the long link.
    pub(super) line: SocketAddr,
    /// How members are read and written.
    pub(super) io: Io,
}

impl Plan<'_> {
    /// The text of the configuration file.
    pub(super) fn config(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> std::fmt::Result {
        let Self { lyon, paris, line, .. } = self;
        writeln!(text, "[node.{LYON}]\naddress = \"{lyon}\"\n")?;
        writeln!(text, "[node.{PARIS}]")?;
        writeln!(text, "address = \"{line}\"   # the near end of the long link")?;
        writeln!(text, "listen = \"{paris}\"\n")?;
        writeln!(text, "[group.{GROUP}]\nnodes = [\"{PARIS}\", \"{LYON}\"]\nmode = \"async\"")?;
        writeln!(text, "queue = {{ memory = \"64MiB\" }}\npeer-timeout = \"2s\"")?;
        for volume in [FILES, JOURNAL] {
            let Volume { name, size } = volume;
            writeln!(text, "\n[group.{GROUP}.volume.{name}]\nsize = \"{}MiB\"", size.0 >> 20)?;
            if self.io == Io::Buffered {
                writeln!(text, "io = \"{}\"", self.io)?;
            }
            for node in [PARIS, LYON] {
                let member = volume.member(self.folder, node);
                writeln!(text, "members.{node} = [{:?}]", member.display().to_string())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(io: Io) -> String {
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let folder = Path::new("/tmp/stage");
        Plan { folder, lyon: at(7001), paris: at(7002), line: at(7003), io }.config()
    }

    #[test]
    fn the_file_puts_the_line_before_paris() {
        let expected = r#"[node.lyon]
address = "127.0.0.1:7001"

[node.paris]
address = "127.0.0.1:7003"   # the near end of the long link
listen = "127.0.0.1:7002"

[group.db]
nodes = ["paris", "lyon"]
mode = "async"
queue = { memory = "64MiB" }
peer-timeout = "2s"

[group.db.volume.files]
size = "128MiB"
members.paris = ["/tmp/stage/paris-files.img"]
members.lyon = ["/tmp/stage/lyon-files.img"]

[group.db.volume.journal]
size = "16MiB"
members.paris = ["/tmp/stage/paris-journal.img"]
members.lyon = ["/tmp/stage/lyon-journal.img"]
"#;
        assert_eq!(text(Io::Direct), expected);
    }

    #[test]
    fn a_file_system_without_direct_io_is_named_in_each_volume() {
        assert_eq!(text(Io::Buffered).matches("io = \"buffered\"\n").count(), 2);
    }
}

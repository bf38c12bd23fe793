// SPDX-License-Identifier: Apache-2.0
//! Who else on this machine uses a store: mounts, loop devices, device mapper and the like.

use crate::identity::{DeviceNumber, MemberIdentity, parse_device};
use helio_driver::Host;
use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Where a block device, a partition of it or the disk around it is mounted.
pub(crate) fn mounted_at(host: &Host, member: &MemberIdentity) -> Option<PathBuf> {
    let table = host.read(Path::new("/proc/self/mountinfo")).ok()?;
    table.split(|&byte| byte == b'\n').find_map(|line| {
        let mount = Mount::parse(line)?;
        mount.uses(host, member).then_some(mount.point)
    })
}

struct Mount {
    device: DeviceNumber,
    point: PathBuf,
    source: PathBuf,
}

impl Mount {
    /// One line of mountinfo: fields by blanks, some of them optional, a lone dash, then type and source.
    fn parse(line: &[u8]) -> Option<Self> {
        let fields: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
        let dash = fields.iter().position(|field| *field == b"-")?;
        Some(Self {
            device: parse_device(std::str::from_utf8(fields.get(2)?).ok()?)?,
            point: unescaped(fields.get(4)?),
            source: unescaped(fields.get(dash + 2)?),
        })
    }

    fn uses(&self, host: &Host, member: &MemberIdentity) -> bool {
        // Some file systems (btrfs) show a number that is no device; their source names it. Sources outside
        // /dev are not touched: a dead network file system would hang the look.
        let by_source = || {
            self.source.starts_with("/dev") && {
                let source = MemberIdentity::of_path(host, &self.source);
                source.is_ok_and(|source| source.overlaps(member))
            }
        };
        let by_number =
            self.device.major != 0 && MemberIdentity::of_device(host, self.device).overlaps(member);
        by_number || by_source()
    }
}

/// mountinfo writes blanks and backslashes as three octal digits.
fn unescaped(field: &[u8]) -> PathBuf {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        let code = tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match code.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(code) if byte == b'\\' => {
                plain.push(code);
                rest = &tail[3..];
            }
            _ => {
                plain.push(byte);
                rest = tail;
            }
        }
    }
    OsString::from_vec(plain).into()
}

/// The file that a loop device shows; its place in sysfs is given.
pub(crate) fn loop_file(host: &Host, sysfs: &Path) -> Option<LoopFile> {
    let backing = host.read(&sysfs.join("loop/backing_file")).ok()?;
    let path = OsString::from_vec(backing.trim_ascii_end().to_vec()).into();
    let offset = host.read_text(&sysfs.join("loop/offset")).ok()?.trim().parse().ok()?;
    Some(LoopFile { path, offset })
}

/// The file that a loop device shows.
pub(crate) fn file_of_loop(host: &Host, device: DeviceNumber) -> Option<MemberIdentity> {
    let file = loop_file(host, &device.sysfs())?;
    MemberIdentity::of_path(host, &file.path).ok()
}

/// What a loop device shows: a file from that byte on.
#[derive(Debug)]
pub(crate) struct LoopFile {
    pub(crate) path: PathBuf,
    pub(crate) offset: u64,
}

/// Who else uses files of a host: loop devices, and other processes that write them. Looked up once, at the first question.
#[derive(Debug)]
pub struct OtherUsers {
    pub(crate) host: Host,
    loops: OnceLock<Vec<(MemberIdentity, PathBuf)>>,
    writers: OnceLock<HashMap<u64, Vec<PathBuf>>>,
}

impl OtherUsers {
    /// Those of that host.
    #[must_use]
    pub fn of(host: &Host) -> Self {
        Self { host: Arc::clone(host), loops: OnceLock::new(), writers: OnceLock::new() }
    }

    /// The host.
    #[must_use]
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// The loop device whose backing file this is.
    pub(crate) fn loop_device_on(&self, member: &MemberIdentity) -> Option<PathBuf> {
        let loops = self.loops.get_or_init(|| loops(&self.host));
        loops.iter().find(|(file, _)| file.overlaps(member)).map(|(_, device)| device.clone())
    }

    /// Another process that has a file open for writing, as far as this user may see: its name and number.
    pub(crate) fn written_by(&self, member: &MemberIdentity) -> Option<String> {
        let MemberIdentity::File { inode, .. } = member else { return None };
        // The file itself is asked only where its number is the right one: a dead network file would hang the look.
        let is_it = |at: &&PathBuf| {
            MemberIdentity::of_path(&self.host, at).is_ok_and(|it| it.overlaps(member))
        };
        let writers = self.writers.get_or_init(|| writers(&self.host));
        let at = writers.get(inode)?.iter().find(is_it)?;
        let process = at.parent()?.parent()?;
        let name = self.host.read_text(&process.join("comm")).unwrap_or_default();
        Some(format!("process {} ({})", process.file_name()?.display(), name.trim_end()))
    }
}

/// The backing file of every loop device, and its node.
fn loops(host: &Host) -> Vec<(MemberIdentity, PathBuf)> {
    let devices = Path::new("/sys/block");
    let shown = |name: OsString| {
        let file = loop_file(host, &devices.join(&name))?;
        let backing = MemberIdentity::of_path(host, &file.path).ok()?;
        Some((backing, Path::new("/dev").join(name)))
    };
    host.list(devices).into_iter().flatten().filter_map(shown).collect()
}

/// What other processes have open for writing, by its inode: `/proc/NUMBER/fd/FD`.
fn writers(host: &Host) -> HashMap<u64, Vec<PathBuf>> {
    let (own, processes) = (std::process::id(), Path::new("/proc"));
    let mut found: HashMap<u64, Vec<PathBuf>> = HashMap::new();
    for name in host.list(processes).into_iter().flatten() {
        let number = name.to_str().and_then(|name| name.parse::<u32>().ok());
        if number.is_none_or(|number| number == own) {
            continue;
        }
        let process = processes.join(name);
        let open = process.join("fdinfo");
        for fd in host.list(&open).into_iter().flatten() {
            let facts = host.read_text(&open.join(&fd)).unwrap_or_default();
            if let Some(inode) = written(&facts) {
                found.entry(inode).or_default().push(process.join("fd").join(fd));
            }
        }
    }
    found
}

/// The inode of a file that is open for writing. fdinfo has its flags in octal digits, of which the last two bits tell reading from
/// writing, and (since Linux 5.14) its inode.
fn written(facts: &str) -> Option<u64> {
    let field = |name: &str| facts.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let flags = field("flags:").and_then(|digits| u64::from_str_radix(digits, 8).ok())?;
    field("ino:").and_then(|digits| digits.parse().ok()).filter(|_| flags & 3 != 0)
}

/// Devices built on top of a block device: `dm-0`, `md127`.
pub(crate) fn holders(host: &Host, device: DeviceNumber) -> Vec<String> {
    let names = host.list(&device.sysfs().join("holders")).unwrap_or_default();
    names.iter().map(|name| name.to_string_lossy().into_owned()).collect()
}

/// Whether the kernel refuses writes to a block device.
pub(crate) fn is_read_only(host: &Host, device: DeviceNumber) -> bool {
    host.read_text(&device.sysfs().join("ro")).is_ok_and(|text| text.trim() == "1")
}

/// Whether a block device can give space back such that it reads as zero: it must know both commands. One
/// that only discards promises nothing about what is read, one that only writes zeroes would write them all.
pub(crate) fn unmaps_to_zero(host: &Host, device: DeviceNumber) -> bool {
    let disk = if device.is_partition(host) { "../queue" } else { "queue" };
    let queue = device.sysfs().join(disk);
    ["discard_max_bytes", "write_zeroes_max_bytes"].iter().all(|name| {
        let text = host.read_text(&queue.join(name)).unwrap_or_default();
        text.trim().parse::<u64>().is_ok_and(|most| most > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo_is_read_with_its_optional_fields_and_escapes() {
        let line = br"36 35 98:1 /mnt1 /mnt\040two\134x rw,noatime master:1 - ext3 /dev/root rw";
        let mount = Mount::parse(line).expect("a mount");
        assert_eq!(mount.device, DeviceNumber { major: 98, minor: 1 });
        assert_eq!(mount.point, PathBuf::from(r"/mnt two\x"));
        assert_eq!(mount.source, PathBuf::from("/dev/root"));
        assert!(Mount::parse(b"").is_none());
    }

    #[test]
    fn an_open_file_is_known_by_its_number_and_its_flags() {
        let facts = |flags: &str| format!("pos:\t0\nflags:\t{flags}\nmnt_id:\t29\nino:\t4711\n");
        assert_eq!([written(&facts("0100002")), written(&facts("0100001"))], [Some(4711); 2]);
        assert_eq!(written(&facts("0100000")), None, "it is only read");
        assert_eq!(written(""), None);
    }
}

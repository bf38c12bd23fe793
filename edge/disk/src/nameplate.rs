// SPDX-License-Identifier: Apache-2.0
//! Which disk a member is, whatever its path and whatever lies on it: so that another one in its place is noticed.
//!
//! A block device has what its maker, or who built it, gave it. A file gets a random name, kept with it in the extended
//! attribute `user.heliograph`: a copy made without attributes (`cp`) is another file, one made with them (`cp -a`) is
//! not. Where the file system keeps no such attributes, its inode and when that was made tell it; the number of the
//! device does not, for that may change with every start of the machine.
//!
//! Beside its name a file can have a stamp, bytes that tell when it was last used as a member: an attribute of its own,
//! so that a copy made with attributes has an old one.

use crate::identity::DeviceNumber;
use crate::surroundings::{LoopFile, loop_file};
use helio_driver::{Errno, Facts, File, FileType, Host, Mode, OFlags};
use std::path::Path;

/// Where a file's name is kept.
const ATTRIBUTE: &str = "user.heliograph";
/// The extended attribute of a file that has its stamp.
pub const STAMP: &str = "user.heliograph.set";
/// The longest stamp that is read.
const STAMP_BYTES: usize = 64;
/// A name's random bytes.
const NAME_BYTES: usize = 16;

/// What tells a file from every other one. A name that it gets is durable once the file is flushed: what is recorded of it
/// elsewhere must not outlive it.
///
/// # Errors
/// A name cannot be read or stored now. To take the inode then would make it another file once that succeeds.
pub(crate) fn of_file(host: &Host, file: &File) -> Result<String, Errno> {
    match attribute(host, file) {
        // The file system or the permissions exclude attributes: a later attempt fails, too.
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM | Errno::ACCESS) => {
            Ok(inode(&file.body().facts()?))
        }
        named => named,
    }
}

fn attribute(host: &Host, file: &File) -> Result<String, Errno> {
    let mut name = [0; NAME_BYTES];
    match file.body().attribute(ATTRIBUTE, &mut name) {
        Ok(NAME_BYTES) => return Ok(shown(&name)),
        // Nobody of ours wrote that, or there is nothing.
        Ok(_) | Err(Errno::NODATA | Errno::RANGE) => {}
        Err(errno) => return Err(errno),
    }
    // A stamp says something of what had the name before.
    match file.body().remove_attribute(STAMP) {
        Ok(()) | Err(Errno::NODATA) => {}
        Err(errno) => return Err(errno),
    }
    let no_random = |error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    host.random(&mut name).map_err(no_random)?;
    file.body().set_attribute(ATTRIBUTE, &name)?;
    Ok(shown(&name))
}

/// The stamp of a file, where it has one; what is too long is none of ours.
pub(crate) fn stamp_of(file: &File) -> Option<Vec<u8>> {
    let mut stamp = [0; STAMP_BYTES];
    file.body().attribute(STAMP, &mut stamp).ok().map(|length| stamp[..length].to_vec())
}

/// Gives a file a stamp, durably.
pub(crate) fn set_stamp(file: &File, stamp: &[u8]) -> Result<(), Errno> {
    file.body().set_attribute(STAMP, stamp)?;
    file.body().sync_all()
}

/// The identity of the file or disk at a path, as a [`Member`](crate::Member) reports it; none if it has none, or is a file without a name
/// of ours. Changes nothing.
#[must_use]
pub fn nameplate_at(host: &Host, path: &Path) -> Option<String> {
    let facts = host.facts(path, true).ok()?;
    match facts.kind {
        FileType::BlockDevice => of_device(host, &facts),
        FileType::RegularFile => {
            let file = host.open(path, OFlags::RDONLY, Mode::empty()).ok()?;
            let mut name = [0; NAME_BYTES];
            match file.body().attribute(ATTRIBUTE, &mut name) {
                Ok(NAME_BYTES) => Some(shown(&name)),
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::PERM | Errno::ACCESS) => {
                    Some(inode(&facts))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

/// What is at a path, if it is a file with a name of ours.
fn named(host: &Host, path: &Path) -> Result<Option<File>, Errno> {
    // Opening anything else may wait, or change something.
    match host.facts(path, true).map(|facts| facts.kind) {
        Ok(FileType::RegularFile) => {}
        Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        Err(errno) => return Err(errno),
    }
    let file = host.open(path, OFlags::RDONLY, Mode::empty())?;
    match file.body().attribute(ATTRIBUTE, &mut [0; NAME_BYTES]) {
        Err(Errno::TIMEDOUT) => Err(Errno::TIMEDOUT),
        found => Ok((found == Ok(NAME_BYTES)).then_some(file)),
    }
}

/// Whether a file has a name of ours; a device never does.
///
/// # Errors
/// It cannot be examined, so that it may have one.
pub fn is_named(host: &Host, path: &Path) -> Result<bool, Errno> {
    Ok(named(host, path)?.is_some())
}

/// Whether a file has a stamp. One that cannot be opened has none that is known.
#[must_use]
pub fn is_stamped(host: &Host, path: &Path) -> bool {
    named(host, path).is_ok_and(|file| file.is_some_and(|file| stamp_of(&file).is_some()))
}

/// Takes the name of ours off a file, where it has one, and its stamp.
///
/// # Errors
/// It is there and cannot be removed.
pub fn forget_name(host: &Host, path: &Path) -> std::io::Result<()> {
    let Some(file) = named(host, path)? else { return Ok(()) };
    match file.body().remove_attribute(STAMP) {
        Ok(()) | Err(Errno::NODATA) => Ok(file.body().remove_attribute(ATTRIBUTE)?),
        Err(errno) => Err(errno.into()),
    }
}

/// How the identity of a file begins that has a name in its attributes.
const NAMED: &str = "file ";

fn shown(name: &[u8]) -> String {
    let digits: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{NAMED}{digits}")
}

/// Whether what has this identity keeps attributes, and so a stamp.
pub(crate) fn keeps_stamp(nameplate: &str) -> bool {
    nameplate.starts_with(NAMED)
}

/// The inode of a file and when it was made, zero if the file system does not know.
pub(crate) fn inode(facts: &Facts) -> String {
    let (seconds, nanoseconds) = facts.born.unwrap_or_default();
    format!("inode {} made at {seconds}.{nanoseconds:09}", facts.inode)
}

/// What tells a block device from every other one, where the kernel knows anything that lasts.
pub(crate) fn of_device(host: &Host, facts: &Facts) -> Option<String> {
    let number = DeviceNumber::of(facts.represents);
    let sysfs = number.sysfs();
    if number.is_partition(host) {
        let start = told(host, &sysfs, "start")?;
        let disk = of_disk(host, &host.real_path(&sysfs).ok()?.join(".."))?;
        return Some(format!("{disk}, partition at sector {start}"));
    }
    of_disk(host, &sysfs)
}

fn of_disk(host: &Host, sysfs: &Path) -> Option<String> {
    let sources = ["dm/uuid", "md/uuid", "wwid", "device/wwid", "nguid", "serial", "device/serial"];
    let known = sources.iter().find_map(|source| Some((source, told(host, sysfs, source)?)));
    if let Some((source, identity)) = known {
        return Some(format!("{} {identity}", source.replace('/', " ")));
    }
    of_loop(host, loop_file(host, sysfs)?)
}

/// The file below a loop device, and from which byte on. Inodes of two file systems can be equal, so where nothing says when the file was
/// made, its path is part of it.
fn of_loop(host: &Host, LoopFile { path, offset }: LoopFile) -> Option<String> {
    let facts = host.facts(&path, true).ok()?;
    let (name, path) = (inode(&facts), path.to_str()?);
    let place = if facts.born.is_some() { String::new() } else { format!(" at {path}") };
    let from = if offset == 0 { String::new() } else { format!(", from byte {offset}") };
    Some(format!("loop on {name}{place}{from}"))
}

/// One of the things that tell a disk wherever it is reached from, also by another path or from another host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// What tells it.
    pub identity: String,
    /// The member is all of what has this identity.
    pub whole: bool,
}

/// What tells a file: its inode and when that was made, which a loop device on it has, too. Where the file system does not say that, its name
/// and its inode: a copy may have the name, and another file the inode.
pub(crate) fn claims_of_file(name: &str, facts: &Facts) -> Option<Claim> {
    let identity = match facts.born {
        Some(_) => inode(facts),
        None if keeps_stamp(name) => format!("{name}, inode {}", facts.inode),
        None => return None,
    };
    Some(Claim { identity, whole: true })
}

/// What tells a block device: its own identity, and that of the disk or file that it is a part of; of these what no other disk has.
pub(crate) fn claims_of_device(host: &Host, facts: &Facts) -> Vec<Claim> {
    let number = DeviceNumber::of(facts.represents);
    let Some(own) = of_device(host, facts) else { return Vec::new() };
    if let Some(LoopFile { path, .. }) = loop_file(host, &number.sysfs()) {
        let Ok(facts) = host.facts(&path, true) else { return Vec::new() };
        let of_file = facts.born.map(|_| inode(&facts));
        // All of a file that a loop device shows is the file.
        let whole = shows_all(host, number);
        let part = of_file.map(|identity| Claim { identity, whole });
        let own = part.as_ref().filter(|_| !whole).map(|_| Claim { identity: own, whole: true });
        return own.into_iter().chain(part).collect();
    }
    let disk = around(host, number, &own).map(|identity| Claim { identity, whole: false });
    let own = Claim { identity: own, whole: true };
    let told = |claim: Claim| Some(Claim { identity: registered(&claim.identity)?, ..claim });
    std::iter::once(own).chain(disk).filter_map(told).collect()
}

/// The number in an identity that no other disk has, since its maker has a company number from a registry; with the place of a partition. A
/// serial number, and the identity of a logical volume or an array, stand on a copied disk as well, and virtual disks often have equal ones.
fn registered(identity: &str) -> Option<String> {
    let end = identity.find(", partition").unwrap_or(identity.len());
    let (disk, partition) = identity.split_at(end);
    let plain = |from: &str| disk.strip_prefix(from).map(str::to_owned);
    // The kinds of numbers as udev writes them.
    let number = match disk.strip_prefix("dm uuid mpath-").map(|of| (of, of.split_at_checked(1))) {
        Some((_, Some(("3", digits)))) => format!("naa.{digits}"),
        Some((_, Some(("2", digits)))) => format!("eui.{digits}"),
        Some((other, _)) => other.to_owned(),
        None => plain("wwid ").or_else(|| plain("device wwid ")).or_else(|| plain(""))?,
    };
    let (kind, digits) = number.split_once(['.', ' '])?;
    let company = match (kind, digits.as_bytes().first()?) {
        ("naa", b'2') => digits.get(4..10)?,
        ("naa", b'5' | b'6') => digits.get(1..7)?,
        ("eui", _) if digits.len() == 32 => digits.get(16..22)?,
        ("eui", _) => digits.get(..6)?,
        ("uuid" | "nguid", _) => return Some(format!("{number}{partition}")),
        _ => return None,
    };
    // No maker has the number zero. If the second bit of the first byte is set, the number is not from the registry.
    let company = u32::from_str_radix(company, 16).ok()?;
    (company != 0 && company & 0x02_0000 == 0).then(|| format!("{number}{partition}"))
}

/// The disk that a partition is a part of.
fn around(host: &Host, number: DeviceNumber, own: &str) -> Option<String> {
    let parent = number.sysfs();
    let disk = host.real_path(&parent).ok().filter(|_| number.is_partition(host))?;
    of_disk(host, &disk.join("..")).filter(|disk| disk != own)
}

/// Whether a loop device shows all of its file.
fn shows_all(host: &Host, number: DeviceNumber) -> bool {
    let sysfs = number.sysfs();
    ["loop/offset", "loop/sizelimit"]
        .iter()
        .all(|source| host.read_text(&sysfs.join(source)).is_ok_and(|text| text.trim() == "0"))
}

fn told(host: &Host, sysfs: &Path, source: &str) -> Option<String> {
    let text = host.read_text(&sysfs.join(source)).ok()?;
    let text = text.trim().trim_matches('\0');
    let says_something = text.bytes().any(|byte| byte.is_ascii_alphanumeric() && byte != b'0');
    says_something.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_driver::Linux;
    use std::fs;

    #[test]
    fn what_copied_and_virtual_disks_have_in_common_tells_no_disk_of_another_host() {
        let lun = Some("naa.600140512345678");
        for (identity, told) in [
            ("wwid naa.600140512345678", lun),
            ("device wwid naa.600140512345678", lun),
            ("dm uuid mpath-3600140512345678", lun),
            ("wwid naa.5000c500a1b2c3d4", Some("naa.5000c500a1b2c3d4")),
            ("wwid eui.0025388b710128d8", Some("eui.0025388b710128d8")),
            (
                "wwid eui.36334630529002140025384100000001",
                Some("eui.36334630529002140025384100000001"),
            ),
            ("nguid 1b2c, partition at sector 2048", Some("nguid 1b2c, partition at sector 2048")),
            ("dm uuid mpath-eui.0025388b710128d8", Some("eui.0025388b710128d8")),
            ("dm uuid mpath-20025388b710128d8", Some("eui.0025388b710128d8")),
            ("wwid naa.60000000000000000e00000000010001", None),
            ("wwid eui.5254000000000001", None),
            ("wwid naa.3333333000001388", None),
            ("wwid eui.0000000000000001", None),
            ("device wwid t10.ATA     QEMU HARDDISK   QM00001", None),
            ("device wwid 0QEMU    QEMU HARDDISK   drive-scsi1", None),
            ("wwid nvme.1b36-6465616462656566-51454d55-00000001", None),
            ("dm uuid LVM-Zk2mJ0", None),
            ("dm uuid part1-mpath-3600140512345678", None),
            ("md uuid 6a1c:3f2b", None),
            ("serial data-1", None),
        ] {
            assert_eq!(registered(identity).as_deref(), told, "{identity}");
        }
    }

    #[test]
    fn a_file_keeps_its_name_and_a_copy_of_its_bytes_has_another() {
        let folder = tempfile::tempdir().expect("a folder");
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        fs::write(&one, b"bytes").expect("a file");
        let host = Linux::host();
        let open = |path: &Path| host.open(path, OFlags::RDWR, Mode::empty()).expect("it opens");
        let name = |path: &Path| of_file(&host, &open(path)).expect("it has a name");
        let first = name(&one);
        assert_eq!(name(&one), first);
        fs::write(&two, b"bytes").expect("a copy");
        assert_ne!(name(&two), first);
        fs::rename(&two, &one).expect("the copy takes its place");
        assert_ne!(name(&one), first);
        let file = open(&one);
        assert_eq!(stamp_of(&file), None);
        set_stamp(&file, &[7; 28]).expect("it has a name, so it can have a stamp");
        assert_eq!(stamp_of(&file), Some(vec![7; 28]));
        forget_name(&host, &one).expect("its owner may");
        assert!(is_named(&host, &one) == Ok(false) && stamp_of(&file).is_none());
    }
}

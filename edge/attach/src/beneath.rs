// SPDX-License-Identifier: Apache-2.0
//! What a folder lies on: the device of its file system, and what is beneath that, down to the last: partitions, device
//! mapper and md, files of loop devices. What has no device of this machine (ZFS, overlays, other hosts) is not seen
//! through.

use crate::mount::Line;
use rustix::fs::{major, minor, stat};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// A device or file that may be beneath something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ground {
    /// What operators know it as.
    pub name: String,
    /// The device's numbers, as the mount table writes them.
    pub numbers: Option<String>,
    /// The file below the device, where there is one.
    pub file: Option<PathBuf>,
}

/// Which of these a folder lies on, if any.
///
/// # Errors
/// The folder is not there.
pub fn beneath<'a>(folder: &Path, grounds: &'a [Ground]) -> io::Result<Option<&'a Ground>> {
    let number = |raw| format!("{}:{}", major(raw), minor(raw));
    let facts = |path: &Path| stat(path).map(|facts| [number(facts.st_dev), number(facts.st_rdev)]);
    let [device, _] = facts(folder)?;
    let view = View {
        sys: Path::new("/sys"),
        mounts: fs::read_to_string("/proc/self/mountinfo").unwrap_or_default(),
        facts: &|path| facts(path).ok(),
    };
    Ok(view.walk(device, grounds))
}

/// The machine as it is told.
struct View<'a> {
    sys: &'a Path,
    /// The mount table.
    mounts: String,
    /// The numbers of the device a file is on, and of the one it is.
    facts: &'a dyn Fn(&Path) -> Option<[String; 2]>,
}

impl View<'_> {
    fn walk<'a>(&self, device: String, grounds: &'a [Ground]) -> Option<&'a Ground> {
        let (mut seen, mut next) = (BTreeSet::new(), vec![device]);
        while let Some(device) = next.pop() {
            let ours = grounds.iter().find(|ground| ground.numbers.as_ref() == Some(&device));
            if ours.is_some() {
                return ours;
            }
            if seen.contains(&device) {
                continue;
            }
            if let Some(file) = self.file(&device) {
                // Ours are known by name: to ask for their numbers is to ask whoever serves them.
                let ours = grounds.iter().find(|ground| ground.file.as_ref() == Some(&file));
                if ours.is_some() {
                    return ours;
                }
                next.extend((self.facts)(&file).map(|[on, _]| on));
            }
            next.extend(self.below(&device));
            seen.insert(device);
        }
        None
    }

    fn folder(&self, device: &str) -> PathBuf {
        self.sys.join("dev/block").join(device)
    }

    /// The file of a loop device.
    fn file(&self, device: &str) -> Option<PathBuf> {
        let text = fs::read_to_string(self.folder(device).join("loop/backing_file")).ok()?;
        Some(PathBuf::from(text.trim_end_matches('\n')))
    }

    /// The devices right below one.
    fn below(&self, device: &str) -> Vec<String> {
        if device.starts_with("0:") {
            return self.of_file_system(device);
        }
        let folder = self.folder(device);
        let disk = folder.join("partition").exists().then(|| told(&folder.join("../dev")));
        let slaves = entries(&folder.join("slaves")).map(|slave| told(&slave.join("dev")));
        slaves.chain(disk).flatten().collect()
    }

    /// A file system with a number of its own, as btrfs has: its source tells a device, and btrfs all of them.
    fn of_file_system(&self, number: &str) -> Vec<String> {
        let mut lines = self.mounts.lines().filter_map(Line::read);
        // Sources elsewhere are not touched: a dead network file system would hang the look.
        let source = lines.find(|line| line.device == number && line.source.starts_with("/dev"));
        let Some(source) = source.and_then(|line| (self.facts)(&line.source)) else {
            return Vec::new();
        };
        let [_, device] = source;
        let sets = entries(&self.sys.join("fs/btrfs")).map(|set| {
            let devices = entries(&set.join("devices"));
            devices.filter_map(|device| told(&device.join("dev"))).collect::<Vec<_>>()
        });
        let set = sets.into_iter().find(|set| set.contains(&device));
        set.unwrap_or_else(|| vec![device])
    }
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// A device's numbers, as sysfs tells them.
fn told(file: &Path) -> Option<String> {
    fs::read_to_string(file).ok().map(|text| text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    /// A sysfs of a few devices.
    struct Sys(TempDir);

    impl Sys {
        fn new() -> Self {
            let sys = Self(tempfile::tempdir().expect("a folder"));
            fs::create_dir_all(sys.0.path().join("dev/block")).expect("made");
            sys
        }

        fn write(&self, path: &str, text: &str) {
            let file = self.0.path().join(path);
            fs::create_dir_all(file.parent().expect("it has one")).expect("made");
            fs::write(file, text).expect("written");
        }

        /// A device of these numbers, on others.
        fn device(&self, at: &str, numbers: &str, on: &[&str]) -> &Self {
            self.write(&format!("devices/{at}/dev"), &format!("{numbers}\n"));
            for (n, below) in on.iter().enumerate() {
                self.write(&format!("devices/{at}/slaves/{n}/dev"), &format!("{below}\n"));
            }
            let link = self.0.path().join("dev/block").join(numbers);
            symlink(self.0.path().join("devices").join(at), link).expect("linked");
            self
        }

        fn find(&self, device: &str, mounts: &str) -> Option<String> {
            let grounds = [Ground {
                name: "db/data".into(),
                numbers: Some("7:3".into()),
                file: Some("/state/attach/db/data".into()),
            }];
            let facts = |path: &Path| match path.to_str() {
                Some("/images/a.img") => Some(["253:1".to_owned(), "0:0".to_owned()]),
                Some("/dev/sdb") => Some(["0:6".to_owned(), "8:16".to_owned()]),
                Some("/state/attach/db/data") => panic!("who serves it was asked"),
                _ => None,
            };
            let view = View { sys: self.0.path(), mounts: mounts.into(), facts: &facts };
            view.walk(device.to_owned(), &grounds).map(|ground| ground.name.clone())
        }
    }

    const OURS: Option<&str> = Some("db/data");

    #[test]
    fn ours_is_found_below_partitions_mappings_and_loops() {
        let sys = Sys::new();
        sys.device("loop3", "7:3", &[]).device("dm-1", "253:1", &["7:3"]);
        sys.device("loop3/loop3p1", "259:0", &[]).write("devices/loop3/loop3p1/partition", "1\n");
        sys.device("dm-2", "253:2", &["8:0", "259:0"]).device("sda", "8:0", &[]);
        sys.device("loop4", "7:4", &[]).write("devices/loop4/loop/backing_file", "/images/a.img\n");
        for above in ["7:3", "253:1", "259:0", "253:2", "7:4"] {
            assert_eq!(sys.find(above, "").as_deref(), OURS, "{above}");
        }
        assert_eq!(sys.find("8:0", ""), None);
        assert_eq!(sys.find("0:99", ""), None);
    }

    #[test]
    fn a_loop_device_of_somebody_on_the_file_of_ours_is_known_by_its_name() {
        let sys = Sys::new();
        sys.device("loop5", "7:5", &[]);
        sys.write("devices/loop5/loop/backing_file", "/state/attach/db/data\n");
        assert_eq!(sys.find("7:5", "").as_deref(), OURS);
    }

    #[test]
    fn a_file_system_without_a_device_number_is_looked_up_by_its_source() {
        let sys = Sys::new();
        sys.device("sdb", "8:16", &[]).device("loop3", "7:3", &[]);
        let mounts = "36 1 0:50 / /data rw shared:1 - btrfs /dev/sdb rw\n37 1 0:51 / /far rw - nfs host:/x rw\n";
        assert_eq!(sys.find("0:50", mounts), None);
        assert_eq!(sys.find("0:51", mounts), None);
        // The same set has ours in it, too.
        sys.write("fs/btrfs/1234/devices/sdb/dev", "8:16\n");
        sys.write("fs/btrfs/1234/devices/loop3/dev", "7:3\n");
        assert_eq!(sys.find("0:50", mounts).as_deref(), OURS);
    }

    #[test]
    fn devices_that_name_each_other_are_looked_at_once() {
        let sys = Sys::new();
        sys.device("dm-7", "253:7", &["253:8"]).device("dm-8", "253:8", &["253:7"]);
        assert_eq!(sys.find("253:7", ""), None);
    }

    #[test]
    fn this_machines_own_folders_lie_on_nobody_of_ours() {
        let folder = tempfile::tempdir().expect("a folder");
        let ground = Ground { name: "db/data".into(), numbers: Some("9999:1".into()), file: None };
        assert_eq!(beneath(folder.path(), &[ground]).ok(), Some(None));
        assert!(beneath(Path::new("/no/such/folder"), &[]).is_err());
    }
}

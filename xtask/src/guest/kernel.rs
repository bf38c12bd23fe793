// SPDX-License-Identifier: Apache-2.0
//! A kernel with ublk: Debian's, from the sources this machine's apt has, or from the backports of the same mirror.
//! What apt needs to know for that lies in a folder of its own.

use super::told_by;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package that names the newest kernel.
const NEWEST: &str = "linux-image-amd64";
/// The first version whose ublk has what is used.
const ENOUGH: (u32, u32) = (6, 5);

/// An unpacked kernel and its modules.
pub(super) struct Kernel {
    pub(super) image: PathBuf,
    /// What has `lib/modules/VERSION` in it.
    pub(super) root: PathBuf,
    pub(super) version: String,
}

/// The one in the folder, or a new one.
pub(super) fn get(folder: &Path) -> Result<Kernel, String> {
    let root = folder.join("kernel");
    if let Some(kernel) = find(&root) {
        return Ok(kernel);
    }
    let apt = folder.join("apt");
    std::fs::create_dir_all(apt.join("lists/partial")).map_err(|why| format!("{apt:?}: {why}"))?;
    let list = apt.join("sources.list");
    std::fs::write(&list, backports()?).map_err(|why| format!("{list:?}: {why}"))?;
    println!("fetching Debian's kernel with ublk");
    told_by(Command::new("apt-get").args(own(&apt)).args(["-q", "update"]))?;
    let told = told_by(Command::new("apt-cache").args(own(&apt)).args(["depends", NEWEST]))?;
    let package = told.lines().find_map(|line| line.trim().strip_prefix("Depends: "));
    let package = package.ok_or(format!("{NEWEST} names no kernel"))?;
    if number(package).is_none_or(|found| found < ENOUGH) {
        return Err(format!("the newest kernel to be had is {package}; ublk needs 6.5"));
    }
    let fetch = ["-q", "download", package];
    told_by(Command::new("apt-get").current_dir(&apt).args(own(&apt)).args(fetch))?;
    let mut archive =
        std::fs::read_dir(&apt).into_iter().flatten().flatten().map(|entry| entry.path());
    let archive = archive.find(|path| path.extension().is_some_and(|end| end == "deb"));
    let archive = archive.ok_or("apt-get said it downloaded a kernel, and there is none")?;
    told_by(Command::new("dpkg-deb").arg("-x").arg(&archive).arg(&root))?;
    let _only_its_contents_matter = std::fs::remove_file(&archive);
    find(&root).ok_or(format!("no kernel in {}", archive.display()))
}

fn find(root: &Path) -> Option<Kernel> {
    let images = std::fs::read_dir(root.join("boot")).ok()?.flatten();
    let mut found = images.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let version = name.strip_prefix("vmlinuz-")?.to_owned();
        Some(Kernel { image: entry.path(), root: root.to_owned(), version })
    });
    found.next()
}

/// Options that make apt look nowhere but below a folder.
fn own(apt: &Path) -> Vec<String> {
    let at = |key: &str, place: &Path| format!("-o{key}={}", place.display());
    vec![
        at("Dir::Etc::SourceList", &apt.join("sources.list")),
        "-oDir::Etc::SourceParts=/dev/null".to_owned(),
        at("Dir::State::lists", &apt.join("lists")),
        "-oDir::Cache::pkgcache=".to_owned(),
        "-oDir::Cache::srcpkgcache=".to_owned(),
        "-oAPT::Sandbox::User=".to_owned(),
    ]
}

/// The backports of the mirror and release this machine has, as a line of sources.
fn backports() -> Result<String, String> {
    let format = "$(ORIGIN)|$(LABEL)|$(REPO_URI)|$(CODENAME)|$(SIGNED_BY)";
    let told = told_by(Command::new("apt-get").args([
        "indextargets",
        "--format",
        format,
        "Created-By: Packages",
    ]))?;
    line(&told).ok_or_else(|| "apt has no Debian mirror among its sources".to_owned())
}

fn line(targets: &str) -> Option<String> {
    targets.lines().find_map(|target| {
        let parts: Vec<&str> = target.split('|').collect();
        let ["Debian", "Debian", mirror, release, signed] = parts[..] else { return None };
        let release = release.split('-').next()?;
        let by =
            if signed.starts_with('/') { format!("[signed-by={signed}] ") } else { String::new() };
        Some(format!("deb {by}{mirror} {release}-backports main\n"))
    })
}

/// The version in a package's name.
fn number(package: &str) -> Option<(u32, u32)> {
    let mut parts = package.strip_prefix("linux-image-")?.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mirror_is_the_machines_own() {
        let told = "|cloud|https://somewhere|x|\n\
                    Debian|Debian|http://mirror/debian/|bookworm|/usr/share/keyrings/some.gpg\n";
        let wanted = "deb [signed-by=/usr/share/keyrings/some.gpg] http://mirror/debian/ bookworm-backports main\n";
        assert_eq!(line(told).as_deref(), Some(wanted));
        assert_eq!(line("Ubuntu|Ubuntu|http://mirror/|noble|"), None);
    }

    #[test]
    fn a_kernels_version_is_read_off_its_name() {
        assert_eq!(number("linux-image-6.12.95+deb12-amd64"), Some((6, 12)));
        assert_eq!(number("linux-image-amd64"), None);
    }
}

// SPDX-License-Identifier: Apache-2.0
//! The file system a guest begins with: a shell, the modules it needs to find this machine's files, and the rest of
//! what the tests need of the kernel. Then the tests' script runs with this machine's root as its own.

use super::kernel::Kernel;
use super::told_by;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What is loaded, with all it needs.
const MODULES: [&str; 12] = [
    "virtio_pci",
    "virtio_blk",
    "9pnet_virtio",
    "9p",
    "overlay",
    "crc32c_generic",
    "ext4",
    "xfs",
    "btrfs",
    "loop",
    "fuse",
    "ublk_drv",
];

const TOOLS: [&str; 10] =
    ["sh", "mount", "mkdir", "modprobe", "cat", "chroot", "poweroff", "uname", "ln", "sed"];

/// Makes it, where there is none of this version and with this content yet.
pub(super) fn make(kernel: &Kernel, folder: &Path) -> Result<PathBuf, String> {
    let tree = folder.join("initrd");
    let image = folder.join("initrd.cpio");
    let failed = |why: std::io::Error| format!("{}: {why}", tree.display());
    let _there_was_none = fs::remove_dir_all(&tree);
    for name in ["bin", "proc", "sys", "dev", "low", "up", "all"] {
        fs::create_dir_all(tree.join(name)).map_err(failed)?;
    }
    fs::copy("/bin/busybox", tree.join("bin/busybox")).map_err(failed)?;
    for tool in TOOLS {
        symlink("busybox", tree.join("bin").join(tool)).map_err(failed)?;
    }
    modules(kernel, &tree)?;
    fs::write(tree.join("init"), INIT.replace("MODULES", &MODULES.join(" "))).map_err(failed)?;
    told_by(Command::new("chmod").arg("755").arg(tree.join("init")))?;
    pack(&tree, &image)?;
    Ok(image)
}

/// Copies the modules and what they depend on, unpacked.
fn modules(kernel: &Kernel, tree: &Path) -> Result<(), String> {
    let (root, version) = (&kernel.root, &kernel.version);
    told_by(Command::new("depmod").arg("-b").arg(root).arg(version))?;
    let place = tree.join("lib/modules").join(version);
    let failed = |why: std::io::Error| format!("{}: {why}", place.display());
    fs::create_dir_all(&place).map_err(failed)?;
    for module in MODULES {
        let mut asked = Command::new("modprobe");
        asked.arg("-d").arg(root).args(["-S", version, "--show-depends", module]);
        // What is built in has no file; what is missing altogether the tests will miss.
        let told = told_by(&mut asked).unwrap_or_default();
        for from in told.lines().filter_map(|line| line.strip_prefix("insmod ")) {
            let from = Path::new(from.trim());
            let Some(name) = from.file_name() else { continue };
            let to = place.join(name);
            fs::copy(from, &to).map_err(failed)?;
            if to.extension().is_some_and(|end| end == "xz") {
                told_by(Command::new("xz").args(["-d", "-f"]).arg(&to))?;
            }
        }
    }
    for list in ["modules.order", "modules.builtin", "modules.builtin.modinfo"] {
        fs::copy(root.join("lib/modules").join(version).join(list), place.join(list))
            .map_err(failed)?;
    }
    told_by(Command::new("depmod").arg("-b").arg(tree).arg(version)).map(drop)
}

fn pack(tree: &Path, image: &Path) -> Result<(), String> {
    let failed = |why: std::io::Error| format!("{}: {why}", image.display());
    let mut find = Command::new("find");
    let mut find =
        find.current_dir(tree).arg(".").stdout(Stdio::piped()).spawn().map_err(failed)?;
    let listing = find.stdout.take().ok_or("find prints nowhere")?;
    let mut cpio = Command::new("cpio");
    cpio.current_dir(tree).args(["--quiet", "-o", "-H", "newc"]).stdin(listing);
    let packed = cpio.stdout(fs::File::create(image).map_err(failed)?).status().map_err(failed)?;
    find.wait().map_err(failed)?;
    if packed.success() { Ok(()) } else { Err("cpio failed".to_owned()) }
}

/// The guest's first program.
const INIT: &str = "#!/bin/sh
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in MODULES; do modprobe $module || echo \"no module $module\"; done
mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=524288,cache=loose host /low
mount -t tmpfs up /up
mkdir /up/upper /up/work
mount -t overlay root -o lowerdir=/low,upperdir=/up/upper,workdir=/up/work /all
for place in proc sys dev; do mount --bind /$place /all/$place; done
mount -t tmpfs run /all/run
mount -t tmpfs mnt /all/mnt
mkdir -p /all/dev/shm /all/dev/pts
mount -t tmpfs shm /all/dev/shm
ln -s /proc/self/fd /all/dev/fd
echo \"the guest runs $(uname -r)\"
script=$(sed 's/.*script=\\([^ ]*\\).*/\\1/' /proc/cmdline)
SCRATCH=/dev/vda chroot /all /bin/bash $script
poweroff -f
";

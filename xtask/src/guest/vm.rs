// SPDX-License-Identifier: Apache-2.0
//! A virtual machine with Debian's newest kernel, emulated: it needs no rights to hardware, and takes its time.

use super::{Run, initrd, kernel, require};
use std::process::Command;

const NEEDED: [(&str, &str); 8] = [
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("busybox", "busybox-static"),
    ("cpio", "cpio"),
    ("depmod", "kmod"),
    ("xz", "xz-utils"),
    ("mke2fs", "e2fsprogs"),
    ("fio", "fio"),
    ("apt-get", "apt"),
];

pub(super) fn command(run: &Run<'_>) -> Result<Command, String> {
    if cfg!(not(target_arch = "x86_64")) {
        return Err(
            "the virtual machine is an x86-64 one, and runs this machine's programs".to_owned()
        );
    }
    require(&NEEDED)?;
    let kernel = kernel::get(&run.folder)?;
    let initrd = initrd::make(&kernel, &run.folder)?;
    let mut qemu = Command::new("qemu-system-x86_64");
    qemu.args(["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2"]);
    qemu.args([
        "-m",
        &run.errand.memory_mib.to_string(),
        "-nographic",
        "-no-reboot",
        "-nic",
        "none",
    ]);
    qemu.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(initrd);
    let script = run.script.display();
    // What the kernel warns of is seen, and one that has made a mistake goes no further.
    let speech = "console=ttyS0 loglevel=5 oops=panic panic=-1 mitigations=off";
    qemu.arg("-append").arg(format!("{speech} script={script}"));
    let host = "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap";
    qemu.args(["-virtfs", host]);
    let disk = format!("file={},if=virtio,format=raw,cache=unsafe", run.disk.display());
    qemu.args(["-drive", &disk]);
    Ok(qemu)
}

// SPDX-License-Identifier: Apache-2.0
//! Debian's User-Mode Linux: a kernel that is a program of this machine, and quick.

use super::{Run, Task, require, told_by, udev, units};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

const NEEDED: [(&str, &str); 4] =
    [("linux.uml", "user-mode-linux"), ("gcc", "gcc"), ("mke2fs", "e2fsprogs"), ("fio", "fio")];

/// What a guest with systemd needs besides.
const UNITS: [(&str, &str); 3] =
    [("systemctl", "systemd"), ("apt-get", "apt"), ("dpkg-deb", "dpkg")];

pub(super) fn command(run: &Run<'_>) -> Result<Command, String> {
    require(&NEEDED)?;
    let failed = |why: std::io::Error| format!("{}: {why}", run.folder.display());
    let (source, shim) = (run.folder.join("wide.c"), run.folder.join("wide.so"));
    fs::write(&source, WIDE).map_err(failed)?;
    told_by(Command::new("gcc").args(["-O2", "-shared", "-fPIC", "-o"]).arg(&shim).arg(&source))?;
    let init = run.folder.join("uml-init.sh");
    fs::write(&init, INIT).map_err(failed)?;
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755)).map_err(failed)?;
    let mut uml = Command::new("linux.uml");
    // The guest's memory is a file there.
    uml.env("LD_PRELOAD", shim).env("TMPDIR", "/dev/shm");
    uml.arg(format!("mem={}M", run.errand.memory_mib));
    uml.args(["rootfstype=hostfs", "rootflags=/", "ro", "quiet"]);
    uml.args(["con=null", "con0=null,fd:1", "con1=null"]);
    uml.arg(format!("ubdb={}", run.disk.display()));
    match run.errand.task {
        Task::Tests { .. } => {
            uml.arg(format!("init={}", init.display()));
            uml.arg(format!("script={}", run.script.display()));
        }
        Task::Units => {
            require(&UNITS)?;
            udev::get(&run.folder)?;
            // What the kernel does not know becomes the first process's environment.
            uml.arg(format!("init={}", units().display()));
            uml.args(["SCRATCH=/dev/ubdb", &format!("GUEST={}", run.folder.display())]);
        }
    }
    Ok(uml)
}

/// The guest's first program.
const INIT: &str = "#!/bin/bash
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/pts
for place in /run /mnt /dev/shm; do mount -t tmpfs tmpfs $place; done
[ -e /dev/fd ] || ln -s /proc/self/fd /dev/fd
modules=/usr/lib/uml/modules/$(uname -r)/kernel
for module in lib/libcrc32c fs/fuse/fuse drivers/block/loop drivers/block/nbd fs/xfs/xfs; do
  insmod $modules/$module.ko || echo \"no module $module\"
done
echo \"the guest runs $(uname -r)\"
for word in $(cat /proc/cmdline); do case $word in script=*) script=${word#script=};; esac; done
SCRATCH=/dev/ubdb bash $script
echo o > /proc/sysrq-trigger
read -t 5 < <(:)
halt -f
";

/// Processors with wide registers save more of a process than this User-Mode Linux has room for, and the kernel of the
/// machine refuses to take back less than it gave. So what is given back is filled up with what the process has.
const WIDE: &str = r#"
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { MASK = 512, LEGACY = 0x2ff };
static char whole[1 << 16] __attribute__((aligned(64)));

static long plain(long what, long whom, void *where, void *data) {
  return syscall(SYS_ptrace, what, whom, where, data);
}

long ptrace(enum __ptrace_request what, ...) {
  va_list rest;
  va_start(rest, what);
  long whom = va_arg(rest, int);
  void *where = va_arg(rest, void *), *data = va_arg(rest, void *);
  va_end(rest);
  if (what >= PTRACE_PEEKTEXT && what <= PTRACE_PEEKUSER) {
    long word, failed = plain(what, whom, where, &word);
    if (failed < 0) return failed;
    errno = 0;
    return word;
  }
  if (what == PTRACE_SETREGSET && (long)where == NT_X86_XSTATE) {
    struct iovec *given = data, room = {whole, sizeof whole};
    if (plain(PTRACE_GETREGSET, whom, where, &room) == 0 && room.iov_len > given->iov_len) {
      unsigned long had, has;
      memcpy(&had, whole + MASK, sizeof had);
      memcpy(whole, given->iov_base, given->iov_len);
      memcpy(&has, whole + MASK, sizeof has);
      has = (has & LEGACY) | (had & ~(unsigned long)LEGACY);
      memcpy(whole + MASK, &has, sizeof has);
      return plain(what, whom, where, &room);
    }
  }
  return plain(what, whom, where, data);
}
"#;

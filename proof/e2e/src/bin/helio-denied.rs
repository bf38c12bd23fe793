// SPDX-License-Identifier: Apache-2.0
//! `helio-denied CALL PROGRAM ARGUMENT…` runs a program to which the kernel denies one system call, as the seccomp profile of a container
//! may: the call fails with EPERM.
#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

/// Offset of the number of the call in `struct seccomp_data`, in bytes.
const NUMBER: u32 = 0;

const fn step(code: u32, k: u32, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf, k }
}

/// From here on that call is denied to this process and to what it becomes.
fn deny(call: libc::c_long) -> io::Result<()> {
    let mut program = [
        step(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, NUMBER, 0),
        step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, call as u32, 1),
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32, 0),
        step(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0),
    ];
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: plain integers, and a program that outlives the call, which its length comes with and the kernel checks.
    let denied = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const filter)
                == 0
    };
    if denied { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn main() -> ExitCode {
    let mut words = std::env::args_os().skip(1);
    let call = match words.next().as_ref().and_then(|word| word.to_str()) {
        Some("io_uring_setup") => libc::SYS_io_uring_setup,
        Some("io_uring_enter") => libc::SYS_io_uring_enter,
        Some("io_uring_register") => libc::SYS_io_uring_register,
        other => panic!("no call to deny: {other:?}"),
    };
    let program = words.next().expect("a program");
    let why = match deny(call) {
        Ok(()) => Command::new(program).args(words).exec(),
        Err(why) => why,
    };
    eprintln!("helio-denied: {why}");
    ExitCode::FAILURE
}

// SPDX-License-Identifier: Apache-2.0
//! A cage around this process: from then on it can compute, and write to standard output and standard error. A system call for a
//! descriptor, a clock, a thread or a file ends it, and so does reading a clock without a system call.
//!
//! It shows that a simulated daemon does not reach the real machine. Two gaps remain. While the runtime of a control plane runs its tasks,
//! the counter can be read, since the runtime measures its own load with it. And the library of TLS draws its keys from the kernel: random
//! bytes can be read at any time.
#![allow(unsafe_code)]

use helio_driver::Host;
use helio_tls::{NodeKey, PeerTls, Purpose};
use helio_world::{MachineOptions, World};
use std::io;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// What memory, locks and the end of a process need, and the random bytes of TLS.
const ALLOWED: [libc::c_long; 18] = [
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_getpid,
    libc::SYS_prctl,
    libc::SYS_gettid,
    libc::SYS_tgkill,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_getrandom,
];

/// Offsets of `struct seccomp_data`, in bytes: the number of the call, and the lower half of its first argument.
const NUMBER: u32 = 0;
const FIRST_ARGUMENT: u32 = 16;

const fn load(offset: u32) -> libc::sock_filter {
    let code = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    libc::sock_filter { code, jt: 0, jf: 0, k: offset }
}

/// Skips so many instructions if the value is that one, and so many others if it is not.
const fn skip(value: u32, if_so: u8, if_not: u8) -> libc::sock_filter {
    let code = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    libc::sock_filter { code, jt: if_so, jf: if_not, k: value }
}

const fn end(with: u32) -> libc::sock_filter {
    let code = (libc::BPF_RET | libc::BPF_K) as u16;
    libc::sock_filter { code, jt: 0, jf: 0, k: with }
}

/// Goes into the cage, for good.
///
/// # Errors
/// The kernel has no filters of system calls, or forbids them to this process.
pub fn enter() -> io::Result<()> {
    let write = [
        skip(libc::SYS_write as u32, 1, 0),
        end(libc::SECCOMP_RET_KILL_PROCESS),
        load(FIRST_ARGUMENT),
        skip(1, 1, 0),
        skip(2, 0, 1),
        end(libc::SECCOMP_RET_ALLOW),
        end(libc::SECCOMP_RET_KILL_PROCESS),
    ];
    let allow = write.len() - 2;
    let call = |(n, call): (usize, &libc::c_long)| {
        skip(*call as u32, (ALLOWED.len() - n - 1 + allow) as u8, 0)
    };
    let calls = ALLOWED.iter().enumerate().map(call);
    let mut program: Vec<_> = [load(NUMBER)].into_iter().chain(calls).chain(write).collect();
    // The keys of maps are drawn by the kernel, once for each thread; and the library of TLS measures time to begin its generator.
    drop(std::collections::HashMap::<u8, u8>::new());
    begin_tls();
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: plain integers; the call reads and writes no memory of ours.
    let alone = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 };
    let prepared = alone && permit_counter(false);
    if !prepared {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the program outlives the call, its length comes with it, and the kernel checks it.
    let entered = unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const filter)
    };
    if entered != 0 {
        return Err(io::Error::last_os_error());
    }
    ENTERED.store(true, Relaxed);
    Ok(())
}

/// Makes the library of TLS begin its generator of random bytes in this thread.
fn begin_tls() {
    let machine = World::new(0, false).machine(MachineOptions {
        name: String::new(),
        address: IpAddr::from([127, 0, 0, 1]),
        disk: 1 << 20,
        calendar: Duration::ZERO,
    });
    let host: Host = Arc::new(machine);
    if let Ok(key) = NodeKey::create(&host, Path::new("/key")) {
        drop(PeerTls::new(key).dial(&[], Purpose::Peer));
    }
}

/// Whether this process is in the cage.
static ENTERED: AtomicBool = AtomicBool::new(false);

/// Does something that may read the processor's counter: a runtime measures with it how busy it is.
pub(crate) fn with_counter<R>(act: impl FnOnce() -> R) -> R {
    if !ENTERED.load(Relaxed) {
        return act();
    }
    let permitted = permit_counter(true);
    assert!(permitted, "the counter cannot be permitted");
    let done = act();
    let forbidden = permit_counter(false);
    assert!(forbidden, "the counter cannot be forbidden");
    done
}

/// Clocks are read without a system call, from the processor's counter: an access to it is a fault while it is not permitted.
fn permit_counter(permitted: bool) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let how = if permitted { libc::PR_TSC_ENABLE } else { libc::PR_TSC_SIGSEGV };
        // SAFETY: plain integers; the call reads and writes no memory of ours.
        unsafe { libc::prctl(libc::PR_SET_TSC, how, 0, 0, 0) == 0 }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _there_is_no_such_switch = permitted;
        true
    }
}

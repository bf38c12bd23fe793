// SPDX-License-Identifier: Apache-2.0
//! How a connection ends whose other host vanished, or whose other end takes nothing. Without that, one on which nothing is sent stays for
//! ever.

use rustix::io::Errno;
use rustix::net::sockopt;
use std::os::fd::AsFd;
use std::time::Duration;

/// Where nothing arrived for so long, the kernel asks whether the other end is there.
const ASKED_AFTER: Duration = Duration::from_secs(30);
/// It asks again so often while there is no answer.
const ASKED_EVERY: Duration = Duration::from_secs(10);
/// So long after the last answer the connection ends; also if bytes on their way were not taken for so long.
const GONE_AFTER: Duration = Duration::from_secs(120);

/// Every connection that a TCP listener accepts from now on ends two minutes after its other end answered last, or last took what was
/// sent to it. A peer is not for this: how long it may be silent is a setting of its group.
///
/// # Errors
/// It is no TCP socket.
pub fn end_the_vanished(listener: impl AsFd) -> Result<(), Errno> {
    let listener = listener.as_fd();
    sockopt::set_tcp_keepidle(listener, ASKED_AFTER)?;
    sockopt::set_tcp_keepintvl(listener, ASKED_EVERY)?;
    // It takes the place of a number of questions.
    sockopt::set_tcp_user_timeout(listener, GONE_AFTER.as_millis() as u32)?;
    sockopt::set_socket_keepalive(listener, true)
}

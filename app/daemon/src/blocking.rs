// SPDX-License-Identifier: Apache-2.0
//! Work of the control plane that may block. A machine may take it, and do it at a time of its own; otherwise threads do it.

use helio_driver::{Blocking, Host};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;
use tokio::sync::oneshot;

/// Does it on a thread of the runtime, which waits for it when it ends. Returns the result.
///
/// # Errors
/// The payload of a panic of the work.
pub(crate) async fn blocking<T: Send + 'static>(
    host: &Host,
    work: impl FnOnce() -> T + Send + 'static,
) -> thread::Result<T> {
    let (done, ended) = oneshot::channel();
    let work = move || {
        // The caller may have been cancelled.
        let _nobody_waits = done.send(catch_unwind(AssertUnwindSafe(work)));
    };
    if let Some(work) = host.take_work("control", Box::new(work)) {
        drop(tokio::task::spawn_blocking(work));
    }
    ended.await.unwrap_or_else(|_| Err(Box::new("the machine dropped the work")))
}

/// Does it on a thread of its own, for work that lasts.
///
/// # Errors
/// No thread can be started.
pub(crate) fn on_own_thread(host: &Host, name: &str, work: Blocking) -> io::Result<()> {
    match host.take_work(name, work) {
        None => Ok(()),
        Some(work) => thread::Builder::new().name(name.to_owned()).spawn(work).map(drop),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failed;
    use helio_driver::Linux;

    #[test]
    fn a_panic_of_the_work_is_an_error_with_its_text() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let host = Linux::host();
        let done = runtime.block_on(blocking(&host, || 7));
        assert_eq!(done.expect("it ends"), 7);
        let panicked: thread::Result<()> =
            runtime.block_on(blocking(&host, || panic!("on purpose")));
        let payload = panicked.expect_err("it panicked");
        assert!(failed::words(&*payload).contains("on purpose"));
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Work of the control plane that may block: the machine does it beside the caller, who waits for it without blocking.

use helio_driver::Host;
use std::io;
use tokio::sync::oneshot;

/// Does it, and returns what came of it.
///
/// # Errors
/// The machine begins no further work, or the work panicked.
pub(crate) async fn blocking<T: Send + 'static>(
    host: &Host,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (done, ended) = oneshot::channel();
    host.aside("control", Box::new(move || drop(done.send(work()))))?;
    ended.await.map_err(|_panicked| io::Error::other("a thread of the control plane panicked"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_driver::Linux;

    #[test]
    fn what_panics_is_an_error_of_whoever_waits() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let host = Linux::host();
        let done = runtime.block_on(blocking(&host, || 7));
        assert_eq!(done.expect("it ends"), 7);
        let panicked: io::Result<()> = runtime.block_on(blocking(&host, || panic!("on purpose")));
        assert!(panicked.expect_err("it panicked").to_string().contains("panicked"));
    }
}

// SPDX-License-Identifier: Apache-2.0
//! `helio` in which a thread panics when the FIFO that `HELIO_PANIC_AT` names is opened for writing: for the test of what
//! becomes of the terminal.

fn main() -> std::process::ExitCode {
    if let Some(path) = std::env::var_os("HELIO_PANIC_AT") {
        std::thread::spawn(move || {
            // Waits for a writer.
            let opened = std::fs::File::open(path);
            panic!("planted: {opened:?}");
        });
    }
    helio::main()
}

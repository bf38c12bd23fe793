// SPDX-License-Identifier: Apache-2.0
//! `helio` whose engines panic when a client discards: for the tests of what becomes of the other groups.

fn main() -> std::process::ExitCode {
    helio_plant::plant(Some(helio_plant::Plant::PanicAtDiscard));
    helio::main()
}

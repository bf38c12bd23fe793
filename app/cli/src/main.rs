// SPDX-License-Identifier: Apache-2.0
//! The `helio` binary.

fn main() -> std::process::ExitCode {
    helio::main()
}

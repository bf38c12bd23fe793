// SPDX-License-Identifier: Apache-2.0
//! The two copies compared while they are written, and the programs an operator has run at such times.

mod compare;
mod hooks;

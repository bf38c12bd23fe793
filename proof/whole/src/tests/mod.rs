// SPDX-License-Identifier: Apache-2.0
//! Stories of clients and a server in memory, and of the lies that the model finds.

mod heir;
mod lies;
mod memory;
mod mischief;
mod model;
mod script;
mod traffic;

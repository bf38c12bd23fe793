// SPDX-License-Identifier: Apache-2.0
//! What fails in one group, or in its files, and what the other groups of the daemon notice of it: nothing.

mod doors;
mod groups;
mod hung;
mod room;
mod slow;
mod state;
mod writer;

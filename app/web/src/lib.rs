// SPDX-License-Identifier: Apache-2.0
//! The dashboard: one page on loopback, with what some daemons report and the actions that they can be asked for.
//!
//! It is a client of the control API as every command is, and adds no way into a daemon. Who may use it is decided in `door`, for
//! every request. `live` asks the daemons while a page is open; `server` answers the page. What the page offers, and what an
//! action requests, is decided by the command that starts it ([`Guide`]); daemons can be simulated ones ([`Simulation`]).
//!
//! The page is written in TypeScript (`app/web/page`), and its built form is part of the program (`app/web/dist`).

mod daemon;
mod door;
mod guest;
mod live;
mod page;
mod server;
mod view;

pub use daemon::{Answer, Ask, Changed, Daemon, Following, Guide, Looks, Shown, Simulation};
pub use door::Token;
pub use live::Live;
pub use server::serve;
pub use view::{
    Act, Advice, Choice, Forecast, GroupView, Input, NodeView, Offer, SnapshotView, Step, View,
};

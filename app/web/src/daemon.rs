// SPDX-License-Identifier: Apache-2.0
//! What the dashboard needs of those who start it.

use crate::view::{Act, Choice, Forecast, Offer};
use helio_api::event::Event;
use helio_api::{ApiError, GroupStatus, Status};
use std::future::Future;
use std::pin::Pin;
use tokio::sync::mpsc;

/// A request of the control API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Its path and query.
    pub path: String,
    /// The body of a POST; a GET has none.
    pub body: Option<Vec<u8>>,
}

impl Ask {
    /// A request that changes nothing.
    pub fn get(path: impl Into<String>) -> Self {
        Self { path: path.into(), body: None }
    }
}

/// HTTP status and body, or why there is no response.
pub type Answer<'a> = Pin<Box<dyn Future<Output = Result<(u16, Vec<u8>), ApiError>> + Send + 'a>>;
/// Ends when the stream of events ends.
pub type Following<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// The controls of a simulation, as JSON.
pub type Shown<'a> = Pin<Box<dyn Future<Output = Option<serde_json::Value>> + Send + 'a>>;
/// Ends when a change of a simulation was carried out, with a message that may be empty, or refused.
pub type Changed<'a> = Pin<Box<dyn Future<Output = Result<String, ApiError>> + Send + 'a>>;

/// A daemon, real or simulated.
pub trait Daemon: Send + Sync + 'static {
    /// What it is called until its status has arrived.
    fn label(&self) -> String;

    /// A command as it is typed in a terminal to reach this daemon; empty if no terminal reaches it.
    fn command(&self, line: &str) -> String;

    /// Sends a request.
    fn ask(&self, ask: Ask) -> Answer<'_>;

    /// Follows the stream of events, behind an event of that number if there is one.
    fn follow(&self, since: Option<u64>, into: mpsc::Sender<Event>) -> Following<'_>;
}

/// The last statuses of a node, the newest last.
pub type Looks = [Status];

/// Which actions there are, what they request, and what is to be expected.
pub trait Guide: Send + Sync + 'static {
    /// The actions on a group, for the node of `status`. `others`: the statuses of other nodes, whose advice may be for this one.
    fn offers(&self, status: &Status, group: &GroupStatus, others: &[&Status]) -> Vec<Offer>;

    /// The actions that a text recommends for a group on the node of `status`, such as the hint of a refusal.
    fn advised(&self, text: &str, status: &Status, group: &GroupStatus) -> Vec<Offer>;

    /// The choices of which an operator selects one, as the node of this group reports them; none if there is nothing to choose.
    fn choices(&self, group: &GroupStatus, others: &[&Status]) -> Vec<Choice>;

    /// The request of an action.
    ///
    /// # Errors
    /// There is no such action on this group.
    fn request(&self, act: &Act) -> Result<Ask, ApiError>;

    /// What is to be expected of a group.
    fn forecast(&self, looks: &Looks, group: &GroupStatus) -> Option<Forecast>;
}

/// The controls of a simulated pair.
pub trait Simulation: Send + Sync + 'static {
    /// How they stand; none if the simulation does not respond.
    fn show(&self) -> Shown<'_>;

    /// Changes them by what the page sent, or says why not.
    fn change(&self, change: Vec<u8>) -> Changed<'_>;

    /// Whether a page is open.
    fn watched(&self, watched: bool);
}

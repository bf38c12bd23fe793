// SPDX-License-Identifier: Apache-2.0
//! What is shown of the simulation, and what can be changed in it.

use helio_api::ApiError;
use helio_api::code::BAD_REQUEST;
use helio_units::Mode;
use serde::{Deserialize, Serialize};

/// The state of the simulation, apart from what its daemons report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Simulation {
    /// Virtual time since the start, in milliseconds.
    pub time_ms: u64,
    /// Virtual seconds per second; 0: paused.
    pub speed: f64,
    /// Virtual seconds per second that this machine reaches; null while time is paused.
    pub reached: Option<f64>,
    /// The settings of link, load and group.
    pub settings: Settings,
    /// Whether the link carries data.
    pub link_up: bool,
    /// The nodes, in the order of [`crate::NODES`].
    pub nodes: Vec<SimulatedNode>,
    /// What the clients of the volume experience now, in a sentence.
    pub clients: String,
    /// The seed of all chance.
    pub seed: u64,
}

/// What can be set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Settings {
    /// Round trip of the link, in milliseconds.
    pub rtt_ms: f64,
    /// Rate of each direction of the link, in Mbit/s.
    pub rate_mbit: f64,
    /// Share of the packets that the link loses, in percent.
    pub loss_percent: f64,
    /// Writes that the clients make per second.
    pub writes_per_second: f64,
    /// The requested mode of the group.
    pub mode: Mode,
}

/// A simulated node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SimulatedNode {
    /// Its name.
    pub name: &'static str,
    /// Whether its daemon runs.
    pub running: bool,
    /// Its disk.
    pub disk: DiskState,
    /// Whether the next flush of its disk succeeds.
    pub flushes: FlushState,
    /// Whether its daemon is primary.
    pub serves: bool,
}

/// A simulated disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DiskState {
    /// Every operation succeeds.
    Sound,
    /// Every operation fails.
    Failed,
    /// It took the place of a failed one: it is empty, and no daemon uses it yet.
    New,
    /// A daemon uses the new one, and has not reported a complete copy of the data on it.
    Incomplete,
}

/// The next flush of a simulated disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FlushState {
    /// It succeeds.
    Succeed,
    /// It fails.
    Fail,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Request")]
pub enum Change {
    /// Other settings; those that are none stay.
    Set(NewSettings),
    /// Virtual seconds per second; 0 pauses.
    Speed(f64),
    /// A button.
    Press(Button),
}

/// New values of some settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NewSettings {
    /// See [`Settings::rtt_ms`]; from 0 to 2000.
    pub rtt_ms: Option<f64>,
    /// See [`Settings::rate_mbit`]; from 0.1 to 10000.
    pub rate_mbit: Option<f64>,
    /// See [`Settings::loss_percent`]; from 0 to 50.
    pub loss_percent: Option<f64>,
    /// See [`Settings::writes_per_second`]; from 0 to 2000.
    pub writes_per_second: Option<f64>,
    /// See [`Settings::mode`].
    pub mode: Option<Mode>,
}

/// A button, with the number of its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Button {
    /// Cut the link in both directions.
    Cut,
    /// Let the link carry data again.
    Restore,
    /// Kill the daemon, as `kill -9` does.
    Kill(usize),
    /// Start the daemon.
    Start(usize),
    /// Every operation on the disk fails from now on.
    FailDisk(usize),
    /// Put a new, empty disk in the place of a failed one.
    ReplaceDisk(usize),
    /// The next flush of the disk fails.
    FailFlush(usize),
    /// Begin again with a new pair.
    Restart,
}

/// The JSON of a [`Change`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    set: Option<NewSettings>,
    speed: Option<f64>,
    press: Option<Press>,
    node: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Press {
    Cut,
    Restore,
    Kill,
    Start,
    FailDisk,
    ReplaceDisk,
    FailFlush,
    Restart,
}

impl TryFrom<Request> for Change {
    type Error = String;

    fn try_from(request: Request) -> Result<Self, String> {
        match request {
            Request { set: Some(set), speed: None, press: None, node: None } => Ok(Self::Set(set)),
            Request { set: None, speed: Some(speed), press: None, node: None } => {
                Ok(Self::Speed(speed))
            }
            Request { set: None, speed: None, press: Some(press), node } => {
                button(press, node).map(Self::Press)
            }
            _ => Err("one of `set`, `speed` and `press` is required".to_owned()),
        }
    }
}

fn button(press: Press, node: Option<String>) -> Result<Button, String> {
    let of_pair = |button| match &node {
        None => Ok(button),
        Some(_) => Err("this button has no `node`".to_owned()),
    };
    let named = || match node.as_deref().map(|name| (name, number(name))) {
        Some((_, Some(number))) => Ok(number),
        Some((name, None)) => Err(format!("there is no node {name:?}")),
        None => Err("this button needs a `node`".to_owned()),
    };
    match press {
        Press::Cut => of_pair(Button::Cut),
        Press::Restore => of_pair(Button::Restore),
        Press::Restart => of_pair(Button::Restart),
        Press::Kill => named().map(Button::Kill),
        Press::Start => named().map(Button::Start),
        Press::FailDisk => named().map(Button::FailDisk),
        Press::ReplaceDisk => named().map(Button::ReplaceDisk),
        Press::FailFlush => named().map(Button::FailFlush),
    }
}

fn number(name: &str) -> Option<usize> {
    crate::NODES.iter().position(|node| *node == name)
}

impl Change {
    /// Reads the body of a request.
    ///
    /// # Errors
    /// It is no change, or a value is out of range.
    pub fn read(body: &[u8]) -> Result<Self, ApiError> {
        let change: Self = serde_json::from_slice(body).map_err(|error| {
            let text = format!("the change of the simulation is invalid: {error}");
            let hint = "send {\"set\": {\"rtt_ms\": 50}}, {\"speed\": 1} or {\"press\": \"cut\"}";
            ApiError::new(BAD_REQUEST, text, hint)
        })?;
        change.check()?;
        Ok(change)
    }

    /// Refuses values that are out of range, and nodes that do not exist.
    ///
    /// # Errors
    /// There is one.
    pub fn check(&self) -> Result<(), ApiError> {
        match self {
            Self::Speed(speed) => {
                within("the speed", *speed, (0.0, 60.0), "virtual seconds per second")
            }
            Self::Set(set) => {
                let ranges = [
                    ("the round trip", set.rtt_ms, (0.0, 2000.0), "ms"),
                    ("the rate of the link", set.rate_mbit, (0.1, 10_000.0), "Mbit/s"),
                    ("the loss", set.loss_percent, (0.0, 50.0), "%"),
                    ("the write rate", set.writes_per_second, (0.0, 2000.0), "writes per second"),
                ];
                let mut given = ranges.iter().filter_map(|(what, value, range, unit)| {
                    value.map(|value| within(what, value, *range, unit))
                });
                given.try_for_each(|checked| checked)
            }
            Self::Press(
                Button::Kill(node)
                | Button::Start(node)
                | Button::FailDisk(node)
                | Button::ReplaceDisk(node)
                | Button::FailFlush(node),
            ) if *node >= crate::NODES.len() => {
                let text = format!("there is no node number {node}");
                Err(ApiError::new(BAD_REQUEST, text, "the nodes are 0 and 1"))
            }
            Self::Press(_) => Ok(()),
        }
    }
}

fn within(what: &str, value: f64, (least, most): (f64, f64), unit: &str) -> Result<(), ApiError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    let hint = format!("use a value from {least} to {most} {unit}");
    Err(ApiError::new(BAD_REQUEST, format!("{what} of {value} {unit} is out of range"), hint))
}

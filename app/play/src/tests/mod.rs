// SPDX-License-Identifier: Apache-2.0
//! Stories of the simulated pair, with real daemons.

mod buttons;
mod changes;
mod cuts;
mod paced;
mod stories;
mod trouble;

use crate::NODES;
use crate::pair::{Answer, Asked, GROUP, Pair};
use crate::simulation::{Button, Change, DiskState, NewSettings, Simulation};
use helio_api::{ApiError, GroupStatus, Status, paths};
use helio_units::{Role, State, Verdict};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::sync::oneshot;

const PARIS: usize = 0;
const LYON: usize = 1;
/// So long, in virtual time, may anything take that is waited for.
const WITHIN: u32 = 600;

/// A pair whose time only the test lets pass.
fn pair(seed: u64) -> Pair {
    Pair::new(seed, 1.0).expect("a pair")
}

impl Pair {
    fn wait<T>(&mut self, what: &str, mut done: impl FnMut(&mut Self) -> Option<T>) -> T {
        for _ in 0..WITHIN * 20 {
            if let Some(done) = done(self) {
                return done;
            }
            self.pass(Duration::from_millis(50), || true);
        }
        panic!(
            "{what}: {:#?}\n{:#?}\n{:#?}",
            self.look_now(),
            self.try_status(PARIS),
            self.try_status(LYON)
        );
    }

    fn call(&mut self, node: usize, method: &str, path: &str, body: &Value) -> Answer {
        let (reply, mut answer) = oneshot::channel();
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        self.ask(Asked::call(node, (method.to_owned(), path.to_owned(), body), reply));
        self.wait(path, |_| answer.try_recv().ok())
    }

    /// Sends a request as an operator does: with force and confirmation once they are asked for.
    fn post(&mut self, node: usize, template: &str, body: &Value) -> Result<(), ApiError> {
        let (status, body) = self.call(node, "POST", &paths::of_group(template, GROUP), body)?;
        if status < 400 {
            return Ok(());
        }
        Err(serde_json::from_slice(&body).expect("an error of the API"))
    }

    fn try_status(&mut self, node: usize) -> Option<GroupStatus> {
        let (status, body) = self.call(node, "GET", paths::STATUS, &Value::Null).ok()?;
        assert_eq!(status, 200);
        let status: Status = serde_json::from_slice(&body).expect("a status");
        status.groups.into_iter().next()
    }

    fn status(&mut self, node: usize) -> GroupStatus {
        self.try_status(node).expect("the group is served")
    }

    fn make(&mut self, change: Change) -> Result<String, ApiError> {
        change.check()?;
        let (done, mut answer) = oneshot::channel();
        self.change(&change, done);
        self.wait("a change", |_| answer.try_recv().ok())
    }

    fn button(&mut self, button: Button) -> Result<String, ApiError> {
        self.make(Change::Press(button))
    }

    fn look_now(&mut self) -> Simulation {
        let (reply, mut answer) = oneshot::channel();
        self.look(reply);
        self.wait("a look", |_| answer.try_recv().ok())
    }

    fn wait_for_state(&mut self, node: usize, state: State) {
        self.wait(&format!("{} in state {state}", NODES[node]), |pair| {
            pair.try_status(node).filter(|it| it.state == state).map(drop)
        });
    }

    fn wait_for_disk(&mut self, node: usize, disk: DiskState) {
        self.wait(&format!("disk {disk:?} of {}", NODES[node]), |pair| {
            (pair.look_now().nodes[node].disk == disk).then_some(())
        });
    }

    /// Waits until a node is primary, and the other has every write, but for those under way.
    fn wait_in_sync(&mut self, primary: usize) {
        self.wait(&format!("in sync, {} primary", NODES[primary]), |pair| {
            let level =
                |it: &GroupStatus| it.verdict.word == Verdict::Ok && it.role == Role::Primary;
            pair.try_status(primary).filter(level).map(drop)
        });
    }

    /// Waits until the clients' requests are acknowledged by this node.
    fn wait_served(&mut self, node: usize) {
        let text = format!("{} acknowledges", NODES[node]);
        self.wait(&text, |pair| pair.look_now().clients.starts_with(&text).then_some(()));
    }
}

fn set(new: NewSettings) -> Change {
    Change::Set(new)
}

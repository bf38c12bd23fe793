// SPDX-License-Identifier: Apache-2.0
//! What is promised at the end of the steps: users can leave, the node responds and serves or says why not, nothing is left attached,
//! and a stop ends.

use super::{GROUP, Single, serves};
use crate::client::{Ending, Habits};
use crate::model::{Promise, Violation};
use helio_api::{Attachments, GroupStatus, Status};
use helio_units::Role;
use helio_world::Response;
use serde_json::json;
use std::time::Duration;

/// What is under way ends within that time, also if a peer is lost on the way.
const ENDS: Duration = Duration::from_secs(60);
/// A control plane responds within that time.
const RESPONDS: Duration = Duration::from_secs(5);
/// The slot of the client that comes last.
const LAST: usize = usize::MAX;

impl Single {
    /// Everything that goes wrong ends, and the daemon is stopped. The caller looks at the last responses once every request has one.
    ///
    /// # Errors
    /// The promise that was broken.
    pub fn finish(
        mut self,
        look: impl FnOnce(&mut Self) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        self.end_faults()?;
        self.retire();
        if !self.wait(ENDS, |it| !it.are_there() && it.waiting() == 0)? {
            let detail = format!("clients or {} requests of an operator wait", self.waiting());
            return Err(Violation::new(Promise::Ends, detail));
        }
        look(&mut self)?;
        self.is_served()?;
        self.detach_all()?;
        self.stop();
        if !self.wait(ENDS, |it| it.node.daemon.is_none())? {
            return Err(Violation::new(Promise::Ends, "a stop does not end".to_owned()));
        }
        self.judge_member()
    }

    /// Nothing goes wrong any more, and the daemon runs.
    fn end_faults(&mut self) -> Result<(), Violation> {
        self.node.machine.clear_faults();
        self.node.machine.refuse_nothing();
        self.resume();
        let stops = self.node.daemon.as_ref().is_some_and(|daemon| daemon.is_stopping());
        if stops {
            self.retire();
            if !self.wait(ENDS, |it| it.node.daemon.is_none())? {
                return Err(Violation::new(Promise::Ends, "a stop does not end".to_owned()));
            }
        }
        self.start()?;
        if self.node.daemon.is_some() {
            return Ok(());
        }
        Err(Violation::starts(self.node.why.clone().unwrap_or_default()))
    }

    /// The group is served. If calls on the member failed, or contents are not judged, its status may say why not.
    fn is_served(&mut self) -> Result<(), Violation> {
        let until = self.world.now() + ENDS;
        loop {
            let habits = Habits::plain("db/data", 0);
            let all = self.acknowledged() + habits.requests as usize;
            self.connect(LAST, habits);
            self.wait(ENDS, |it| it.ending(LAST).is_some())?;
            let ending = self.ending(LAST);
            self.give_up(LAST);
            if ending == Some(Ending::Left) && self.acknowledged() == all {
                return Ok(());
            }
            let status = serde_json::from_slice::<Status>(&self.ask("/v2/status")?);
            let status = status.map_err(|why| serves(format!("the status: {why}")))?;
            let group = status.groups.into_iter().find(|it| it.name == GROUP);
            // Whether contents are judged is known once the daemon has started again.
            if (self.failed || !self.judged) && says_why(group.as_ref()) {
                return Ok(());
            }
            if self.world.now() >= until {
                let told = group.map(|it| format!("{} {} {:?}", it.role, it.state, it.next));
                return Err(serves(format!("a client was {ending:?}, and the group is {told:?}")));
            }
            self.pass(Duration::from_secs(1))?;
        }
    }

    /// Detaches every volume. Nothing of a device is left then.
    fn detach_all(&mut self) -> Result<(), Violation> {
        let until = self.world.now() + ENDS;
        loop {
            let list = serde_json::from_slice::<Attachments>(&self.ask("/v2/attachments")?);
            let list = list.map_err(|why| serves(format!("the list of devices: {why}")))?;
            if list.attachments.is_empty() {
                break;
            }
            if self.world.now() >= until {
                let detail = format!("volumes cannot be detached: {:?}", list.attachments);
                return Err(Violation::new(Promise::Attached, detail));
            }
            for one in list.attachments {
                let body = json!({ "volume": one.volume, "force": true }).to_string();
                self.order("POST", format!("/v2/groups/{}/detach", one.group), body.into());
            }
            self.wait(RESPONDS, |it| it.waiting() == 0)?;
        }
        match self.node.machine.left_over(&[]) {
            Some(other) => {
                let detail = format!("{} is left, and not attached", other.display());
                Err(Violation::new(Promise::Attached, detail))
            }
            None => Ok(()),
        }
    }

    /// Sends a request that must be responded to.
    fn ask(&mut self, path: &str) -> Result<Vec<u8>, Violation> {
        let number = self.order("GET", path.to_owned(), Vec::new());
        self.responses.clear();
        let is_ours = |it: &Response| Some(it.request()) == number;
        self.wait(RESPONDS, |it| it.responses.iter().any(is_ours))?;
        match self.responses.iter().find(|it| is_ours(it)) {
            Some(found) if found.status() == 200 => Ok(found.body().to_vec()),
            found => Err(serves(format!("{path} has the response {found:?}"))),
        }
    }

    /// What the member holds is what clients may find.
    fn judge_member(&mut self) -> Result<(), Violation> {
        if !self.judged {
            return Ok(());
        }
        let content = self.node.machine.content(&self.member());
        let content = content.map_err(|errno| serves(format!("the member: {errno}")))?;
        self.model.read_image(&[&content])
    }
}

/// Whether the status of a group gives a reason why it does not serve its clients. `next` is none: a primary that serves without its peer
/// has one, too.
fn says_why(group: Option<&GroupStatus>) -> bool {
    group.is_none_or(|it| {
        let waits = it.throttle.waiting.0 > 0;
        it.role != Role::Primary || it.fault.is_some() || !it.consistent || waits
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shape;

    fn reason(single: &mut Single) -> bool {
        let status = single.ask("/v2/status").expect("a response");
        let status = serde_json::from_slice::<Status>(&status).expect("a status");
        says_why(status.groups.iter().find(|it| it.name == GROUP))
    }

    #[test]
    fn a_primary_has_no_reason_not_to_serve_and_a_secondary_has_one() {
        for shape in [Shape::Alone, Shape::Dials, Shape::Both] {
            let mut single = Single::new(shape).expect("a primary");
            assert!(!reason(&mut single), "{shape:?}");
            single.order("POST", format!("/v2/groups/{GROUP}/demote"), Vec::new());
            single.wait(RESPONDS, |it| it.waiting() == 0).expect("kept");
            assert!(reason(&mut single), "{shape:?}");
        }
    }

    #[test]
    fn a_group_that_is_released_while_its_node_connects_leaves_no_socket_open() {
        // One for clients, one for peers.
        const LISTENERS: usize = 2;
        let sockets = |single: &Single| single.census().expect("it serves").sockets;
        let mut single = Single::new(Shape::Dials).expect("a primary");
        single.world.cut(&single.node.machine, &single.peer);
        let connects = single.wait(ENDS, |it| sockets(it) > LISTENERS).expect("kept");
        assert!(connects, "its peer does not respond");
        let body = br#"{"force":false,"keep_metadata":false}"#.to_vec();
        single.order("POST", format!("/v2/groups/{GROUP}/release"), body);
        single.wait(RESPONDS, |it| it.waiting() == 0).expect("kept");
        let statuses: Vec<u16> = single.responses().iter().map(|it| it.status()).collect();
        assert_eq!(statuses, [200]);
        single.world.heal(&single.node.machine, &single.peer);
        let listener = single.listen().expect("it does not listen yet");
        single.pass(ENDS).expect("kept");
        let held = single.node.daemon.as_ref().expect("it runs").process().held();
        assert_eq!((sockets(&single), held.sockets), (LISTENERS, LISTENERS));
        drop(listener);
    }
}

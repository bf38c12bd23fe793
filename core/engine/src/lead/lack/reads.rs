// SPDX-License-Identifier: Apache-2.0
//! Regions that only the peer has: reads of them, and writes to them.

use crate::effect::{Answer, ReadAs};
use crate::event::StoreOutcome;
use crate::lead::Primary;
use crate::lead::lack::Lack;
use crate::lead::lack::Parting;
use crate::lead::lack::Stage;
use crate::lead::lack::pulling::Fetched;
use crate::lead::lack::questions::{Ask, For};
use crate::local::Local;
use crate::local::failure::Failed;
use crate::peer::permit::Permit;
use crate::purpose::PrimaryIo;
use crate::purpose::Purpose;
use crate::purpose::Reader;
use crate::refusal::Denial;
use crate::stream::ack::{Here, Leg};
use crate::turn::Turn;
use alloc::format;
use alloc::string::String;
use helio_format::message::Item;
use helio_format::reading::Told;
use helio_plant::{Plant, planted};
use helio_stack::{StoreFault, StoreOp};
use helio_units::{Extent, Moment, RequestId, VolumeIndex};

impl Primary {
    /// A client reads: here, or where it is lacking here, at the peer.
    pub(crate) fn read(
        &mut self,
        id: RequestId,
        volume: VolumeIndex,
        extent: Extent,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        match &mut self.lack {
            Some(lack) if self.marks.any_dirty(volume, extent) => {
                let (goal, after) = (For::Client(id), self.line.head());
                lack.questions.wait(Ask { goal, volume, extent, after });
            }
            _ => {
                let purpose = Purpose::Read(Reader { id, volume, extent });
                local.read((volume, extent), ReadAs::Bytes, purpose, turn);
            }
        }
    }

    /// How an item counts on this node for its answer.
    pub(crate) fn local_leg(&self, item: &Item, leg: Leg, local: &Local) -> Here {
        let as_it_is = match leg {
            Leg::Pending => Here::Pending,
            Leg::Done => Here::Done,
            Leg::Failed => Here::Failed,
        };
        let Some(lack) = &self.lack else {
            let waits = Self::awaits_suspect_record(item, leg, local);
            return if waits { Here::Unrecorded } else { as_it_is };
        };
        // The peer's image is the only one there is: while it is out of order, nothing is promised of it.
        if self.target.owed().marker().is_some() {
            return Here::Unrecorded;
        }
        let failed = leg == Leg::Failed && lack.absolves(item);
        match leg {
            Leg::Pending => Here::Pending,
            _ if failed || lack.has_lost(item.volume) => match (lack.is_recorded(), leg) {
                (false, _) => Here::Unrecorded,
                (true, Leg::Failed) => Here::OnPeer,
                (true, _) => Here::Done,
            },
            _ => as_it_is,
        }
    }

    /// Whether a failed item needs no denial, because the peer has its bytes.
    pub(crate) fn absolves(&self, item: &Item) -> bool {
        self.lack.as_ref().is_some_and(|lack| lack.absolves(item))
    }

    /// Asks the peer, pulls, and ends where nothing is lacking any more. `pulls`: this node stays primary.
    pub(crate) fn lack_step(&mut self, pulls: bool, local: &mut Local, turn: &mut Turn) {
        let streams = self.target.streams();
        let Some(lack) = &mut self.lack else { return };
        if !streams {
            lack.part(turn.now());
            if lack.is_denying(turn) {
                self.deny_lacking(local, turn);
            }
            return;
        }
        lack.parting = Parting::Streams;
        while let Some(ask) = lack.questions.next_read() {
            turn.send(lack.questions.ask(ask));
        }
        if pulls {
            self.pull_step(turn);
        }
        self.end_step(local, turn);
    }

    fn end_step(&mut self, local: &mut Local, turn: &mut Turn) {
        let Some(lack) = &mut self.lack else { return };
        let whole = self.marks.none_dirty();
        match lack.stage {
            Stage::Serving if whole && lack.is_idle() => {
                let volumes = turn.config().volumes.len() as u16;
                let round = lack.flushes.begin(volumes);
                lack.stage = Stage::Flushing(volumes, false);
                for volume in (0..volumes).map(VolumeIndex) {
                    local.store(volume, StoreOp::Flush, PrimaryIo::Pulled(volume, round), turn);
                }
            }
            Stage::Flushed if !whole => lack.stage = Stage::Serving,
            _ => {}
        }
    }

    /// One of the flushes behind the last region that was pulled has ended.
    pub(crate) fn pulled_flushed(
        &mut self,
        (volume, round): (VolumeIndex, u32),
        outcome: StoreOutcome,
        local: &mut Local,
        turn: &mut Turn,
    ) {
        if let StoreOutcome::Failed(fault) = outcome
            && !self.store_failed(volume, Failed::Flush, fault, local, turn)
        {
            // What the store holds of it is unknown from here on.
            let size = turn.config().volumes[usize::from(volume.0)];
            self.marks.set(volume, Extent::new(0, size.0));
            self.own.distrust(volume);
            local.hot_mut().bitmap_changed();
        }
        let failed = matches!(outcome, StoreOutcome::Failed(_));
        let Some(lack) = &mut self.lack else {
            panic!("a copy from the peer ended that was not started")
        };
        lack.flushed(round, failed);
    }

    /// The peer tells what it holds. `pulls`: this node stays primary, and writes what it lacks.
    ///
    /// # Errors
    /// Nobody asked that; the connection must end.
    pub(crate) fn read_told(
        &mut self,
        (ticket, what): (u64, Told),
        pulls: bool,
        local: &mut Local,
        permit: &Permit,
        turn: &mut Turn,
    ) -> Result<(), String> {
        let Some(ask) = self.lack.as_mut().and_then(|lack| lack.questions.answered(ticket)) else {
            return Err(String::from("it sent the result of a read without a request"));
        };
        let Ask { volume, extent, .. } = ask;
        let fits = match what {
            Told::Bytes(payload) => u64::from(payload.length) == ask.extent.length,
            Told::Zeros => matches!(ask.goal, For::Pull(_)),
            Told::Failed => true,
        };
        match (ask.goal, what) {
            _ if !fits => {
                self.take_back(ask);
                return Err(format!(
                    "it sent the result of a read that is not {} long",
                    ask.extent
                ));
            }
            (For::Client(id), Told::Bytes(payload)) => turn.reply(id, Answer::Read(payload)),
            (For::Client(id), _) => turn.reply(id, Answer::Denied(Denial::Store(StoreFault::Io))),
            (For::Pull(claim), what) if !pulls => {
                self.unclaim(claim);
                if let Told::Bytes(payload) = what {
                    turn.release(payload.id);
                }
            }
            (For::Pull(claim), Told::Bytes(payload)) => {
                self.fetched(
                    ticket,
                    Fetched { claim, volume, extent, payload: Some(payload) },
                    local,
                    permit,
                    turn,
                );
            }
            (For::Pull(claim), Told::Zeros) => {
                self.fetched(
                    ticket,
                    Fetched { claim, volume, extent, payload: None },
                    local,
                    permit,
                    turn,
                );
            }
            (For::Pull(claim), Told::Failed) => self.pull_failed(claim, ask, turn),
        }
        Ok(())
    }

    /// A question that got no answer: a client's is asked again, the puller's when its turn comes.
    fn take_back(&mut self, ask: Ask) {
        let Some(lack) = &mut self.lack else { return };
        match ask.goal {
            For::Client(_) => lack.questions.wait_again(ask),
            For::Pull(claim) => self.unclaim(claim),
        }
    }

    /// The connection is gone, and with it every question.
    pub(crate) fn unask(&mut self) {
        let Some(lack) = &mut self.lack else { return };
        lack.pulling.unask();
        for ask in lack.questions.take_asked().rev() {
            self.take_back(ask);
        }
        if let Some(lack) = &mut self.lack {
            lack.pulling.unclaim_all(&mut self.marks);
        }
    }

    /// The peer stays away: what waits for it fails, once a record tells of every flush that failed here.
    fn deny_lacking(&mut self, local: &Local, turn: &mut Turn) {
        // The record being saved may end a suspicion, and a flush may have failed since that record was made.
        let ending = self.lack.as_ref().is_some_and(|lack| lack.stage == Stage::Ending);
        let recording = local.suspect().any_unrecorded() && !planted(Plant::SuspectUnrecorded);
        if (ending || recording) && !local.metadata_failed() {
            return;
        }
        let Some(lack) = &mut self.lack else { return };
        let mut any = false;
        for id in lack.questions.take_waiting() {
            any = true;
            turn.reply(id, Answer::Denied(Denial::Store(StoreFault::Io)));
        }
        any |= self.deny_all(turn);
        let Some(lack) = &mut self.lack else { return };
        if any && !lack.deny() {
            let (group, peer) = (&turn.config().group, &turn.config().peer);
            turn.warn(format!(
                "{group}: some regions exist only on {peer}, and {peer} is not connected: requests \
                 fail with EIO. Connect {peer}; or demote this node and promote {peer}"
            ));
        }
        self.release_front(turn);
    }

    /// The peer stays away, and what waits for it fails.
    pub(crate) fn is_denying(&self, turn: &Turn) -> bool {
        self.lack.as_ref().is_some_and(|lack| lack.is_denying(turn))
    }

    /// Every page of marks is to be kept at once: a record waits for them.
    pub(crate) fn is_recording_lack(&self) -> bool {
        self.lack.as_ref().is_some_and(Lack::is_recording)
    }

    /// When what waits for a peer that is away fails.
    pub(crate) fn lack_deadline(&self, turn: &Turn) -> Moment {
        let Some(lack) = &self.lack else { return Moment::NEVER };
        let later = |at: &Moment| *at > turn.now();
        let pulls = self.target.streams() && lack.stage == Stage::Serving;
        let pace = match lack.pulling.rests_until().filter(|_| pulls) {
            Some(rest) => {
                let rest = Some(rest).filter(later).unwrap_or(Moment::NEVER);
                self.copier.pace().next_at(turn.now(), &turn.config().resync).min(rest)
            }
            None => Moment::NEVER,
        };
        pace.min(lack.denies_at(turn).filter(later).unwrap_or(Moment::NEVER))
    }
}

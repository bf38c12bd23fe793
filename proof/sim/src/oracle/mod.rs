// SPDX-License-Identifier: Apache-2.0
//! The oracle: it knows what every client was told, and judges what the nodes hold.
//!
//! It sees nothing but the journal, the images on the disks, and what the engines say in public; it never asks an
//! engine whether the engine is right. Each room judges some of the promises:
//! `answers` what an answer means, `secondary` what a secondary's image may be, `marks` what a primary must remember,
//! `roles` who may become primary with what. `history` is the truth they judge by, one per generation, so that two
//! primaries at once are two truths and not a contradiction.

mod answers;
mod before;
mod copies;
mod dropped;
mod durable;
mod faults;
mod history;
mod lag;
mod lied;
mod marks;
mod restored;
mod reversed;
mod roles;
mod secondary;
mod stake;
mod succeeded;
mod verify;
mod weak;

use crate::promise::{Promise, Violation, hold};
use helio_engine::{CommandId, Operation};
use helio_format::superblock::Superblock;
use helio_twin::{Cluster, Died, Happening, Place, Side, Stamp};
use helio_units::{Generation, Mode, Moment, RequestId, Sequence, State, VolumeIndex};
use history::{History, Image, Serial};
use std::collections::{BTreeMap, BTreeSet};

type Key = (u64, u64);

fn key(generation: Generation) -> Key {
    (generation.number, generation.tag)
}

/// A request that was put to a node and not answered.
#[derive(Clone, Debug)]
struct Asked {
    side: Side,
    volume: VolumeIndex,
    operation: Operation,
    submitted: Serial,
    /// Its write in the history of the generation it was issued in.
    issued: Option<(Key, u32)>,
    /// The last item of its node's line then: it is a later one.
    behind: Sequence,
    /// Its node's store was asked for it.
    at_store: bool,
    /// It was sent to the peer.
    sent: bool,
    /// The peer completed it, and lost it or its memory of it since.
    peer_lost: bool,
}

/// What is known of one node's copy.
#[derive(Debug, Default)]
struct Copy {
    generation: Key,
    /// Its record says consistent.
    consistent: bool,
    /// Its record says that it did not stop cleanly.
    unclean: bool,
    /// Since when its record says that its peer's metadata tells nothing.
    doubts_peer: Generation,
    /// It serves as primary, or did so when it died.
    serving: bool,
    /// Its files are older ones, and the two have not come to terms since.
    restored: bool,
    /// Its disk is another one, and it has not begun to follow with that.
    foreign: bool,
    /// Its image is judged now, as a secondary's.
    watched: bool,
    /// The power went, and nothing was adopted since.
    tainted: bool,
    /// When the latest write visible in it was submitted.
    latest: Serial,
    /// How many answered writes of its history were looked for in it.
    checked: usize,
    lost_power_at: Serial,
    died_at: Serial,
    /// Its metadata was lost then, and no operator decided since what its copy counts for.
    lost_at: Option<Serial>,
    connected_at: Serial,
    promoted_at: Serial,
    /// When its image last changed by what it put on the line as primary.
    led_at: Serial,
}

/// What an engine says of itself between two steps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct View {
    state: Option<State>,
    effective: Option<Mode>,
}

impl View {
    fn of(cluster: &Cluster, side: Side) -> Self {
        let engine = cluster.node(side).engine.as_ref();
        Self {
            state: engine.map(|engine| engine.view().state()),
            effective: engine.and_then(|engine| engine.view().effective()),
        }
    }

    fn promises(&self, mode: Mode) -> bool {
        self.state == Some(State::Replicating) && self.effective == Some(mode)
    }
}

/// The oracle of one story.
#[derive(Debug)]
pub(crate) struct Oracle {
    serial: Serial,
    asked: BTreeMap<RequestId, Asked>,
    /// Zeros that were answered before they were sent, each with the last item of its node's line then.
    unsent: Vec<(Sequence, Asked)>,
    /// Writes that were denied and stand on their node's line all the same.
    denied: Vec<Asked>,
    histories: BTreeMap<Key, History>,
    /// A primary that goes on in another generation goes on in the same history.
    same_history: BTreeMap<Key, Key>,
    copies: [Copy; 2],
    images: [Image; 2],
    /// By volume and region: how many blocks differ between the images.
    differing: Vec<Vec<u32>>,
    differing_blocks: u32,
    /// Blocks one mark covers.
    grain: usize,
    before: [View; 2],
    /// What each node's keeping must give back.
    expected: [Option<before::Expected>; 2],
    /// Keepings were given up.
    waived: bool,
    /// The next update may keep nothing, though the copy became consistent since that was said.
    waives_next: bool,
    /// The image restored last was one that a power cut had left.
    restored_tainted: [bool; 2],
    /// No record tells what the image was that was restored last.
    restored_unknown: [bool; 2],
    /// Images restored.
    pub(crate) restores: u64,
    /// Primaries that took their peer's copy.
    pub(crate) reversals: u64,
    /// Promotions that were commanded and have not ended; with force or without, and when. One by force may take the place of
    /// another.
    promoting: [Vec<(CommandId, bool, Serial)>; 2],
    /// The before-image file was lost since the node ended.
    before_lost: [bool; 2],
    /// In which life of the node.
    promoting_in: [u64; 2],
    /// Blocks that silently turned into something else, and nobody wrote since.
    pub(crate) rotten: BTreeSet<Place>,
    /// Since when a node that leads was succeeded without being told.
    succeeded: [Option<Moment>; 2],
    /// The lag that is reported is judged in this step.
    lag_due: bool,
    /// What each node told the other of its lag.
    pings: [lag::Pings; 2],
    /// A disk lied.
    weak: bool,
    /// Volumes were restored from a copy.
    rewritten: bool,
    /// What each node received and has not reported as durable.
    received: [durable::Received; 2],
    /// Where a change was denied.
    denied_at: BTreeSet<Place>,
    /// The point-in-time copies of each node.
    named: [copies::Copies; 2],
    /// How many were seen.
    pub(crate) copies_seen: u64,
    /// What failed flushes left of each node's copy.
    left: [dropped::Left; 2],
    /// Blocks that a disk lied about.
    lied_about: lied::LiedAbout,
    /// What each node had on record last.
    records: [Option<Superblock>; 2],
}

/// A refusal must have its form.
fn explains(happening: &Happening) -> Result<(), Violation> {
    let Happening::Commanded { side, result: Err(refusal), .. } = happening else { return Ok(()) };
    let flaw = refusal.flaw().map(|flaw| format!("{side}: {flaw}"));
    flaw.map_or(Ok(()), |flaw| Err(Violation::new(Promise::Explains, flaw)))
}

/// What no story may bring about.
fn never(happening: &Happening) -> Violation {
    match happening {
        Happening::Accused { side, words } => {
            Violation::new(Promise::Civil, format!("{side}: {words}"))
        }
        Happening::Spins { side } => {
            Violation::new(Promise::Rests, format!("{side} asks for a moment that has passed"))
        }
        other => panic!("{other:?} may happen"),
    }
}

impl Oracle {
    pub(crate) fn new(cluster: &Cluster, volumes: usize) -> Self {
        let image = |side: Side| -> Image {
            let volumes = (0..volumes as u16).map(VolumeIndex);
            volumes.map(|v| cluster.node(side).disk.live(v).to_vec()).collect()
        };
        let config = &cluster.node(Side::Paris).config;
        let grain = (config.granularity.0 / helio_twin::BLOCK.0) as usize;
        let images = [image(Side::Paris), image(Side::Lyon)];
        let mut oracle = Self {
            serial: 0,
            asked: BTreeMap::new(),
            unsent: Vec::new(),
            denied: Vec::new(),
            histories: BTreeMap::new(),
            same_history: BTreeMap::new(),
            copies: [Copy::default(), Copy::default()],
            differing: marks::regions(&images[0], grain),
            grain,
            differing_blocks: 0,
            images,
            before: [View::default(); 2],
            expected: [None, None],
            waived: false,
            waives_next: false,
            restored_tainted: [false; 2],
            restored_unknown: [false; 2],
            restores: 0,
            reversals: 0,
            promoting: Default::default(),
            before_lost: [false; 2],
            promoting_in: [0; 2],
            rotten: BTreeSet::new(),
            succeeded: [None; 2],
            lag_due: false,
            pings: Default::default(),
            weak: false,
            rewritten: false,
            received: Default::default(),
            denied_at: BTreeSet::new(),
            named: Default::default(),
            copies_seen: 0,
            left: Default::default(),
            lied_about: lied::LiedAbout::default(),
            records: [None, None],
        };
        oracle.count_differences();
        oracle
    }

    /// Which history a generation belongs to.
    fn history_of(&self, generation: Generation) -> Key {
        let own = key(generation);
        self.same_history.get(&own).copied().unwrap_or(own)
    }

    /// A client is about to ask.
    pub(crate) fn ask(
        &mut self,
        cluster: &Cluster,
        side: Side,
        id: RequestId,
        volume: VolumeIndex,
        operation: Operation,
    ) {
        let engine = cluster.node(side).engine.as_ref();
        let behind = engine.map_or(Sequence::ZERO, |e| e.view().status(Moment::ZERO).cursors.head);
        self.serial += 1;
        let submitted = self.serial;
        let asked = Asked {
            side,
            volume,
            operation,
            submitted,
            issued: None,
            behind,
            at_store: false,
            sent: false,
            peer_lost: false,
        };
        self.asked.insert(id, asked);
    }

    /// The operator is about to command a promotion.
    pub(crate) fn promotion_commanded(
        &mut self,
        cluster: &Cluster,
        side: Side,
        id: CommandId,
        force: bool,
    ) {
        let life = cluster.node(side).life();
        // What an earlier process was commanded, whose end was not looked at yet, died with it.
        if core::mem::replace(&mut self.promoting_in[side.index()], life) != life {
            self.promoting[side.index()].clear();
        }
        self.promoting[side.index()].push((id, force, self.serial));
    }

    /// Requests that wait for an answer.
    pub(crate) fn waiting(&self) -> usize {
        self.asked.len()
    }

    /// The state a node showed when it was last looked at.
    pub(crate) fn state(&self, side: Side) -> Option<State> {
        self.before[side.index()].state
    }

    /// Whether the two images hold the same.
    pub(crate) fn images_equal(&self) -> bool {
        self.differing_blocks == 0
    }

    /// Judges what happened in one step.
    pub(crate) fn observe(
        &mut self,
        cluster: &Cluster,
        journal: &[Happening],
    ) -> Result<(), Violation> {
        judge_bounds(cluster)?;
        faults::judge(cluster)?;
        if self.weak || self.rewritten {
            return self.observe_weakly(cluster, journal);
        }
        let after = Side::BOTH.map(|side| View::of(cluster, side));
        for happening in journal {
            self.serial += 1;
            explains(happening)?;
            match happening {
                Happening::Issued { side, volume, first, stamps, leading: true } => {
                    self.issued(*side, *volume, *first, stamps, None)?;
                }
                Happening::Issued { side, volume, first, stamps, leading: false } => {
                    self.judge_overwrite(cluster, *side, (*volume, *first, stamps))?;
                }
                Happening::Sent { side, at, volume, first, stamps } => {
                    self.issued(*side, *volume, *first, stamps, Some(*at))?;
                }
                Happening::Changed { side, place, stamp, leading } => {
                    self.changed(*side, *place, *stamp, *leading)?;
                }
                Happening::Replied { side, request, answer } => {
                    let views = (self.before[side.index()], after[side.index()]);
                    self.replied(cluster, *side, *request, answer, views)?;
                }
                Happening::Saved { side } => self.saved(cluster, *side)?,
                Happening::Commanded { side, id, result } if is_promotion(*id) => {
                    self.promotion_ended(cluster, *side, *id, result)?;
                }
                Happening::Connected { side } => self.connected(*side),
                Happening::Differs { side, place } => self.judge_difference(*side, *place)?,
                Happening::Started { side } => self.started(cluster, *side)?,
                Happening::Died { side, how } => self.died(cluster, *side, *how),
                Happening::Restored { side, .. } => self.restored(*side),
                Happening::Swapped { side } => self.swapped(*side),
                Happening::Accused { .. } | Happening::Spins { .. } => {
                    return Err(never(happening));
                }
                Happening::Pinged { side, token } => self.pinged(cluster, *side, *token),
                Happening::Lied { places, .. } => self.lied(places),
                Happening::DialFailed { side, began } => self.dial_failed(*side, *began),
                Happening::Received { side, at, volume, first, blocks, stamps } => {
                    self.received(*side, *at, (*volume, *first, *blocks), stamps);
                }
                Happening::StreamBegins { side } => self.stream_begins(*side),
                Happening::Reported { side, durable } => self.reported(cluster, *side, *durable)?,
                Happening::Dropped { side, volumes, visible, .. } => {
                    self.dropped(*side, *volumes, !visible.is_empty());
                }
                other => self.files_moved(cluster, other),
            }
        }
        self.judge_ends(cluster, journal)?;
        // At an answer, of which a report must tell.
        self.lag_due = journal.iter().any(|h| matches!(h, Happening::Replied { .. }));
        self.note_pings(cluster);
        self.judge_marks(cluster)?;
        self.judge_stakes(cluster)?;
        self.judge_heard(cluster)?;
        self.judge_state(cluster, &after)?;
        self.judge_level(&after)?;
        self.judge_passes(cluster)?;
        self.before = after;
        Ok(())
    }

    fn stream_begins(&mut self, side: Side) {
        self.received[side.index()].stream_begins();
    }

    /// A node loses some of what it completed, or its memory of it: older items are written there again before newer ones.
    fn peer_loses(&mut self, side: Side) {
        let image = &self.images[side.index()];
        for asked in self.asked.values_mut().filter(|asked| asked.side != side) {
            let Some((at, index)) = asked.issued else { continue };
            let Some(history) = self.histories.get(&at) else { continue };
            let write = &history.writes[index as usize];
            asked.peer_lost |= history.lacks(write, image).is_none();
        }
    }

    /// The copy of a node loses some of what it holds, or may have lost it.
    fn copy_loses(&mut self, side: Side) {
        self.peer_loses(side);
        let copy = &mut self.copies[side.index()];
        copy.lost_power_at = self.serial;
        copy.tainted = true;
        copy.watched = false;
    }

    fn connected(&mut self, side: Side) {
        self.copies[side.index()].connected_at = self.serial;
    }

    /// What a step left where a block changed in it, a flush failed or a node died. A node that dies and gets other files in
    /// one step is judged by those, as far as anything is expected of them.
    fn judge_ends(&mut self, cluster: &Cluster, journal: &[Happening]) -> Result<(), Violation> {
        for happening in journal {
            self.judge_copies(cluster, happening)?;
            if let Happening::Dropped { side, visible, .. } = happening {
                self.left[side.index()].went_back(visible);
            }
            if let Happening::Changed { side, place, .. } = happening {
                self.judge_kept_block(cluster, *side, *place)?;
            }
            if let Happening::Died { side, .. } = happening {
                self.judge_whole(*side)?;
                self.judge_records(cluster)?;
                self.judge_keeping(cluster, *side)?;
            }
        }
        Ok(())
    }

    /// Another disk: what was said of the image, or kept of it, is about the one before.
    fn swapped(&mut self, side: Side) {
        let copy = &mut self.copies[side.index()];
        copy.foreign = true;
        copy.watched = false;
        self.expected[side.index()] = None;
        self.named[side.index()].forget();
        // It will never be seen to take up a reversal to what it held.
        let taken_over = self.histories.values_mut().filter(|history| history.leader != side);
        taken_over.for_each(|history| history.unsettled = false);
    }

    fn died(&mut self, cluster: &Cluster, side: Side, how: Died) {
        self.leads_no_more();
        self.received[side.index()].forget();
        self.pings[side.index()].forget();
        self.left[side.index()].ended();
        self.copies[side.index()].died_at = self.serial;
        match how {
            Died::Power => self.copy_loses(side),
            _ => self.peer_loses(side),
        }
        // One that was started and commanded since, before its end was looked at, is in another life.
        if self.promoting_in[side.index()] != cluster.node(side).life() {
            self.promoting[side.index()].clear();
        }
        self.asked.retain(|_, asked| asked.side != side);
        self.unsent.retain(|(_, asked)| asked.side != side);
    }

    /// Whether an item of zeros is of a request that was answered before it was sent, and not of one alike that waits.
    fn was_answered(
        &mut self,
        side: Side,
        (volume, first, stamps): (VolumeIndex, u32, &[Stamp]),
        sent_as: Option<Sequence>,
    ) -> bool {
        let Some(at) = sent_as.filter(|_| stamps.first() == Some(&Stamp::ZEROS)) else {
            return false;
        };
        let is_it = |(head, asked): &(Sequence, Asked)| {
            at > asked.behind && at <= *head && asked.is_zero(side, volume, first, stamps.len())
        };
        let found = self.unsent.iter().position(is_it);
        found.is_some_and(|n| {
            self.unsent.remove(n);
            true
        })
    }

    /// A primary sends a change, or issues it to its own store, whichever comes first: that is the order of the bytes.
    fn issued(
        &mut self,
        side: Side,
        volume: VolumeIndex,
        first: u32,
        stamps: &[Stamp],
        sent_as: Option<Sequence>,
    ) -> Result<(), Violation> {
        let at_store = sent_as.is_none();
        if self.was_answered(side, (volume, first, stamps), sent_as) {
            return Ok(());
        }
        let at = self.copies[side.index()].generation;
        let stamp = stamps.first().copied().unwrap_or_default();
        let asked = if stamp == Stamp::ZEROS {
            zero_asked_for(&mut self.asked, (side, volume, first, stamps.len()), sent_as)
        } else {
            self.asked.get_mut(&RequestId(stamp.0))
        };
        let (Some(asked), Some(history)) = (asked, self.histories.get_mut(&at)) else {
            // What is sent again, or late, was asked for and answered long ago.
            return hold(!at_store, Promise::KnownBytes, || {
                format!("{side} writes {stamp:?} at block {first} that nobody asked for")
            });
        };
        hold(!(asked.at_store && at_store), Promise::AnsweredOnce, || {
            format!("{side} issues the write {stamp:?} twice")
        })?;
        asked.at_store |= at_store;
        asked.sent |= !at_store;
        if asked.issued.is_none() {
            let since = (asked.submitted, asked.behind);
            asked.issued = Some((at, history.issue(since, volume, first, stamps, sent_as)));
        }
        Ok(())
    }

    fn changed(
        &mut self,
        side: Side,
        place: Place,
        stamp: Stamp,
        leading: bool,
    ) -> Result<(), Violation> {
        self.left[side.index()].changed(place, stamp);
        self.note_difference(side, place, stamp);
        if leading {
            self.copies[side.index()].led_at = self.serial;
            return Ok(());
        }
        self.judge_block(side, place, stamp)
    }
}

/// What a node holds as a follower is bounded in items.
fn judge_bounds(cluster: &Cluster) -> Result<(), Violation> {
    for side in Side::BOTH {
        let node = cluster.node(side);
        let (Some(bound), Some(engine)) = (node.receive_items, &node.engine) else { continue };
        let holds = engine.view().items_received();
        hold(holds <= bound + 1, Promise::Bounded, || {
            format!("{side} holds {holds} items, of {bound} at most")
        })?;
    }
    Ok(())
}

impl Asked {
    fn is_zero(&self, side: Side, volume: VolumeIndex, first: u32, blocks: usize) -> bool {
        let (Operation::Zero { extent, .. } | Operation::Discard { extent, .. }) = self.operation
        else {
            return false;
        };
        let mut places = helio_twin::places(volume, extent);
        let same =
            places.clone().count() == blocks && places.next().map(|p| p.block) == Some(first);
        self.side == side && self.volume == volume && same
    }
}

/// Zeros have no name. Of those asked for alike, the one that was sent is issued, and the one that was issued is
/// sent, before another one is. An item that was on the line before something was asked for is something else.
fn zero_asked_for(
    asked: &mut BTreeMap<RequestId, Asked>,
    (side, volume, first, blocks): (Side, VolumeIndex, u32, usize),
    sent_as: Option<Sequence>,
) -> Option<&mut Asked> {
    let alike = |a: &&mut Asked| a.is_zero(side, volume, first, blocks);
    let open = |a: &Asked| sent_as.map_or(!a.at_store, |at| !a.sent && at > a.behind);
    let alike = asked.values_mut().filter(alike).filter(|a| open(a));
    alike.min_by_key(|a| a.issued.is_none())
}

/// Promotions have odd names, so that their ends are told from others'.
pub(crate) fn is_promotion(id: helio_engine::CommandId) -> bool {
    id.0 % 2 == 1
}

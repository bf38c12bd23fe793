// SPDX-License-Identifier: Apache-2.0
//! One sector: the writes that may be in it, and which of them a read may return.

use super::stamp::{Content, Place, SECTOR};
use super::story::{Promise, Violation};
use super::{Fate, Model, Serial};
use helio_units::Extent;

/// A write as one sector sees it. Write 0 is the zeros that the volume began with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Version {
    pub(super) write: u64,
    /// When the write began.
    begun: Serial,
    content: Content,
    /// Since when a read has returned it.
    pub(super) shown: Option<Serial>,
    /// A FLUSH began after a read had returned it, and was acknowledged.
    pub(super) kept: bool,
    /// Since when no read returns it any more.
    pub(super) gone: Option<Serial>,
}

impl Version {
    const fn new(write: u64, begun: Serial, content: Content) -> Self {
        Self { write, begun, content, shown: None, kept: false, gone: None }
    }
}

/// What changed all copies or the copy that serves, so that what reads showed before counts no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Upheaval {
    PowerCut(Serial),
    FailedOver(Serial),
}

/// What may be in a volume.
#[derive(Clone, Debug)]
pub(super) struct Volume {
    /// The versions of each sector, in the order in which their writes began.
    pub(super) sectors: Vec<Vec<Version>>,
    /// Versions that are shown and not kept: their sectors, and their places there.
    pub(super) unkept: Vec<(usize, usize)>,
    /// Writes that were acknowledged and are not known to be durable, in the order of their answers.
    pub(super) volatile: Vec<u64>,
    /// A flush failed, and the node went on with that copy.
    pub(super) suspect: bool,
    pub(super) upheaval: Option<Upheaval>,
}

impl Volume {
    pub(super) fn new(sectors: u64) -> Self {
        Self {
            sectors: vec![vec![Version::new(0, 0, Content::Zeros)]; sectors as usize],
            unkept: Vec::new(),
            volatile: Vec::new(),
            suspect: false,
            upheaval: None,
        }
    }

    pub(super) fn issue(&mut self, write: u64, begun: Serial, extent: Extent, zeros: bool) {
        let size = SECTOR as u64;
        let content = if zeros { Content::Zeros } else { Content::Write(write) };
        for sector in extent.offset / size..extent.end() / size {
            self.sectors[sector as usize].push(Version::new(write, begun, content));
        }
    }

    pub(super) const fn upheaval_at(&self) -> Serial {
        match self.upheaval {
            Some(Upheaval::PowerCut(at) | Upheaval::FailedOver(at)) => at,
            None => 0,
        }
    }
}

impl Model {
    pub(super) fn versions(&self, place: Place) -> &[Version] {
        &self.volumes[usize::from(place.volume)].sectors[place.sector as usize]
    }

    pub(super) fn begun(&self, write: u64) -> Serial {
        if write == 0 { 0 } else { self.record(write).begun }
    }

    pub(super) fn ended(&self, write: u64) -> Option<Serial> {
        if write == 0 { Some(0) } else { self.record(write).ended() }
    }

    fn ended_before(&self, write: u64, serial: Serial) -> bool {
        self.ended(write).is_some_and(|at| at < serial)
    }

    /// Rule 2.
    pub(super) fn is_behind(&self, later: u64, earlier: u64) -> bool {
        self.ended_before(earlier, self.begun(later))
    }

    fn is_failed(&self, write: u64) -> bool {
        write > 0 && matches!(self.record(write).fate, Fate::Failed { .. })
    }

    /// Rule 3: whether the sector certainly held it, ended, before `serial`.
    fn is_certain(&self, version: &Version, serial: Serial) -> bool {
        if version.write == 0 {
            return true;
        }
        let record = self.record(version.write);
        let acknowledged = record.acknowledged().is_some() && record.void.is_none();
        let shown = version.shown.is_some_and(|at| at < serial);
        self.ended_before(version.write, serial)
            && (acknowledged || shown && !self.is_failed(version.write))
    }

    /// The certain write that began last of those that had ended before `serial`.
    fn newest_certain(&self, place: Place, serial: Serial) -> Option<&Version> {
        self.versions(place).iter().rev().find(|version| self.is_certain(version, serial))
    }

    /// Whether the certain write `newest` is behind `version`. If it is not, no older one is.
    fn is_replaced(&self, version: &Version, newest: Option<&Version>) -> bool {
        let ended = self.ended(version.write);
        ended.zip(newest).is_some_and(|(ended, newest)| ended < newest.begun)
    }

    /// A read that began with `ticket`, or the image read now, shows that content there.
    pub(super) fn shows(
        &mut self,
        ticket: Option<u64>,
        place: Place,
        content: Content,
    ) -> Result<(), Violation> {
        let begun = ticket.map_or(self.serial, |ticket| self.begun(ticket));
        let possible: Vec<usize> = self.possible(place, content, begun).collect();
        if possible.is_empty() {
            return Err(self.impossible(ticket, place, content, begun));
        }
        self.learn(place, &possible, content, begun);
        self.judge_cut(ticket, place, &possible)
    }

    /// Whether a read that begins now may show that content there.
    pub(super) fn may_show(&self, place: Place, content: Content) -> Result<(), Violation> {
        if self.possible(place, content, self.serial).next().is_some() {
            return Ok(());
        }
        Err(self.impossible(None, place, content, self.serial))
    }

    /// The versions with that content. They lie in the order of their numbers.
    pub(super) fn holding(
        &self,
        place: Place,
        content: Content,
    ) -> impl Iterator<Item = usize> + '_ {
        let versions = self.versions(place);
        let range = match content {
            Content::Zeros => 0..versions.len(),
            Content::Write(number) => {
                let at = versions.partition_point(|version| version.write < number);
                at..versions.len().min(at + 1)
            }
        };
        range.filter(move |at| versions[*at].content == content)
    }

    /// Rules 4, 5 and 9: the versions with that content that a read which began then may show.
    fn possible(
        &self,
        place: Place,
        content: Content,
        begun: Serial,
    ) -> impl Iterator<Item = usize> + '_ {
        let (versions, newest) = (self.versions(place), self.newest_certain(place, begun));
        self.holding(place, content).filter(move |at| {
            let version = &versions[*at];
            version.gone.is_none_or(|gone| gone >= begun)
                && (version.write == 0 || self.record(version.write).fate != Fate::Withdrawn)
                && !self.is_replaced(version, newest)
        })
    }

    /// Rule 5.
    fn learn(&mut self, place: Place, possible: &[usize], content: Content, begun: Serial) {
        let volume = &self.volumes[usize::from(place.volume)];
        if volume.suspect || begun <= volume.upheaval_at() {
            return;
        }
        let now = self.serial;
        let (index, number) = (usize::from(place.volume), place.sector as usize);
        let mut sector = std::mem::take(&mut self.volumes[index].sectors[number]);
        let rests = |write| self.ended_before(write, begun) && !self.is_failed(write);
        if possible.iter().all(|at| rests(sector[*at].write)) {
            let others = sector.iter_mut().filter(|it| it.gone.is_none() && it.content != content);
            for version in others.filter(|it| rests(it.write)) {
                version.gone = Some(now);
            }
        }
        let volume = &mut self.volumes[index];
        if let [at] = possible
            && sector[*at].shown.is_none()
        {
            sector[*at].shown = Some(now);
            volume.unkept.push((number, *at));
        }
        volume.sectors[number] = sector;
    }

    /// Whether the write was promised to outlive what happened at `upheaval`.
    fn outlives(&self, write: u64, place: Place, upheaval: Serial) -> bool {
        if write == 0 {
            return false;
        }
        let record = self.record(write);
        let kept =
            |v: &Version| v.write == write && v.kept && v.shown.is_some_and(|at| at < upheaval);
        let promised = record.acknowledged().is_some_and(|at| at < upheaval)
            || record.durable && record.begun < upheaval;
        record.void.is_none() && promised || self.versions(place).iter().any(kept)
    }

    /// The story of a content that no rule allows.
    fn impossible(
        &self,
        ticket: Option<u64>,
        place: Place,
        content: Content,
        begun: Serial,
    ) -> Violation {
        let by = ticket.map_or("the image".to_owned(), |ticket| self.tell(ticket));
        let head = format!("{by} shows in {place} {content}");
        let versions = self.versions(place);
        let mut promise = Promise::ReadsBack;
        let Some(version) = self.holding(place, content).last().map(|at| &versions[at]) else {
            let detail = format!("{head}, which no client wrote there");
            return Violation::new(Promise::KnownBytes, detail);
        };
        let seen = self.tell(version.write);
        let newest = self.newest_certain(place, begun);
        let why = if let Some(behind) = newest.filter(|_| self.is_replaced(version, newest)) {
            let behind = behind.write;
            match self.volumes[usize::from(place.volume)].upheaval {
                Some(Upheaval::PowerCut(at)) if self.outlives(behind, place, at) => {
                    promise = Promise::DurableHere;
                }
                Some(Upheaval::FailedOver(at)) if self.outlives(behind, place, at) => {
                    promise = Promise::AtPeer;
                }
                _ => {}
            }
            format!("behind it is: {}", self.tell(behind))
        } else if let Some(gone) = version.gone {
            format!("a read showed at #{gone} that another write had replaced it")
        } else {
            promise = Promise::KnownBytes;
            "that one was never sent whole".to_owned()
        };
        Violation::new(promise, format!("{head} ({seen}); {why}"))
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Chapter 3: a file system image through an ordinary NBD client, and the proof that both nodes hold it.

use super::digest::{self, Checksum};
use super::image::{self, Image, Source};
use super::node::PATIENCE;
use super::plan::{FILES, LYON, PARIS};
use super::story::{Mirrored, Story, pulse, rate, span};
use super::traffic::{Request, Tally, send_all};
use anyhow::Result;
use helio_units::{Bytes, State};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

/// One write of the copy, in bytes.
const PIECE: usize = 64 << 10;
/// Writes in flight: what copying tools keep.
const DEPTH: usize = 16;
/// Most zeros asked for at once.
const MOST_ZEROES: u32 = 16 << 20;
/// Between two lines about how far it is.
const BETWEEN_LINES: Duration = Duration::from_millis(500);

/// Makes the image, writes it to the primary, and waits until the secondary has it.
pub(super) fn play(story: &Story<'_>, source: &Source) -> Result<Mirrored> {
    let Story { screen, stage, paris, .. } = story;
    screen.chapter(3, "A file system, mirrored")?;
    let image = source.make(stage, screen)?;
    let checksum = digest::of_file(&image.path, image.length)?;
    screen.say(&format!(
        "The image, {}, is written to the volume {} as any NBD client would, {DEPTH} writes of {} in \
         flight. In mode async a write is acknowledged when it is complete here and queued for {LYON}.",
        image.length,
        FILES.export(),
        Bytes(PIECE as u64),
    ))?;
    let (began, mut most_behind) = (Instant::now(), Bytes::ZERO);
    let data = write(story, &image, &mut most_behind)?;
    let answered = began.elapsed();
    screen.say(&format!(
        "All of it is acknowledged after {}: {data} of data at {}, the rest zeros, which are sent as zeros. The queue \
         is now sent at the rate of the link.",
        span(answered),
        rate(data, answered)
    ))?;
    let mut last = Instant::now();
    paris.watch(PATIENCE, "the other node to have it all", |group| {
        let done = group.lag.bytes == Bytes::ZERO && group.state == State::Replicating;
        most_behind = most_behind.max(group.lag.bytes);
        if done || last.elapsed() >= BETWEEN_LINES {
            screen.line(&pulse(group))?;
            last = Instant::now();
        }
        Ok(done)
    })?;
    let arrived = began.elapsed();
    screen.say(&format!(
        "{LYON} has all of it {} after the first write: {} from end to end.",
        span(arrived),
        rate(data, arrived)
    ))?;
    compare(story, checksum, image.length)?;
    Ok(Mirrored { image, checksum, data, answered, arrived, most_behind })
}

/// Writes the image while telling how it goes; returns how much of it was not zero.
fn write(story: &Story<'_>, image: &Image, most_behind: &mut Bytes) -> Result<Bytes> {
    let Story { screen, paris, .. } = story;
    let client = paris.open(FILES)?;
    let (data, tally) = (AtomicU64::new(0), Tally::default());
    let pieces = image::pieces(image, PIECE)?.inspect(|piece| {
        if let Ok(piece) = piece
            && !is_zero(piece)
        {
            data.fetch_add(piece.len() as u64, Ordering::Relaxed);
        }
    });
    let (done, writing) = sync_channel(1);
    thread::scope(|scope| {
        let requests = requests(pieces);
        let tally = &tally;
        scope.spawn(move || done.send(send_all(client, DEPTH, requests, tally)));
        loop {
            match writing.recv_timeout(BETWEEN_LINES) {
                Ok(result) => return result,
                Err(RecvTimeoutError::Timeout) => {
                    let group = paris.status()?;
                    *most_behind = group.lag.bytes.max(*most_behind);
                    let answered = tally.answered();
                    screen
                        .line(&format!("{}   {answered} requests acknowledged", pulse(&group)))?;
                }
                // The writer panicked, which leaving the scope passes on.
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
        }
    })?;
    Ok(Bytes(data.into_inner()))
}

/// Compares what both nodes hold with what was written.
fn compare(story: &Story<'_>, written: Checksum, length: Bytes) -> Result<()> {
    let Story { screen, stage, .. } = story;
    let sums = |length| -> Result<[Checksum; 2]> {
        let sum = |node| digest::of_file(&FILES.member(stage.folder(), node), length);
        Ok([sum(PARIS)?, sum(LYON)?])
    };
    let [here, there] = sums(length)?;
    screen.promise(
        "both nodes hold the image as it was written",
        here == written && there == written,
        &format!("CRC-64 {here} on {PARIS} and {there} on {LYON}, over {length}"),
    )?;
    if length == FILES.size {
        return Ok(());
    }
    let [here, there] = sums(FILES.size)?;
    screen.promise(
        &format!("the volumes {} are equal to the last byte", FILES.export()),
        here == there,
        &format!("CRC-64 {here} on {PARIS} and {there} on {LYON}"),
    )
}

/// Turns pieces into requests; neighbouring pieces of zeros become one.
fn requests(
    mut pieces: impl Iterator<Item = Result<Vec<u8>>>,
) -> impl Iterator<Item = Result<Request>> {
    let (mut at, mut zeros, mut held) = (0_u64, 0_u32, None);
    std::iter::from_fn(move || {
        loop {
            if let Some(request) = held.take() {
                return Some(Ok(request));
            }
            let piece = match pieces.next() {
                Some(Ok(piece)) => piece,
                Some(Err(why)) => return Some(Err(why)),
                None if zeros == 0 => return None,
                None => Vec::new(),
            };
            let zero = !piece.is_empty() && is_zero(&piece);
            let from = at;
            at += piece.len() as u64;
            if zero {
                // Pieces are far smaller than 4 GiB, and so is the bound on the sum.
                zeros += piece.len() as u32;
                if zeros < MOST_ZEROES {
                    continue;
                }
                return Some(Ok(Request::Zeroes(
                    at - u64::from(std::mem::take(&mut zeros)),
                    MOST_ZEROES,
                )));
            }
            if !piece.is_empty() {
                held = Some(Request::Write(from, piece));
            }
            let run = std::mem::take(&mut zeros);
            if run > 0 {
                return Some(Ok(Request::Zeroes(from - u64::from(run), run)));
            }
        }
    })
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_zeros_become_one_request() {
        let pieces = [vec![0; 4], vec![0; 4], vec![1; 4], vec![2; 4], vec![0; 2]];
        let got: Vec<_> =
            requests(pieces.into_iter().map(Ok)).collect::<Result<_>>().expect("fine");
        let expected = [
            Request::Zeroes(0, 8),
            Request::Write(8, vec![1; 4]),
            Request::Write(12, vec![2; 4]),
            Request::Zeroes(16, 2),
        ];
        assert_eq!(got, expected);
        assert_eq!(requests(std::iter::empty()).count(), 0);
    }

    #[test]
    fn long_runs_of_zeros_are_cut() {
        let piece = MOST_ZEROES as usize / 2;
        let pieces = (0..5).map(|_| Ok(vec![0; piece]));
        let got: Vec<_> = requests(pieces).collect::<Result<_>>().expect("fine");
        let most = u64::from(MOST_ZEROES);
        let expected = [
            Request::Zeroes(0, MOST_ZEROES),
            Request::Zeroes(most, MOST_ZEROES),
            Request::Zeroes(2 * most, MOST_ZEROES / 2),
        ];
        assert_eq!(got, expected);
    }
}

// SPDX-License-Identifier: Apache-2.0
//! What a member file holds, as the numbers of the writes its blocks come from.

use crate::stamp::{self, BLOCK};
use helio_testkit::Pair;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// The number of the write that each block comes from; 0 for blocks never written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image(Vec<u64>);

impl Image {
    /// Reads a member. Its daemon must be at rest, or the blocks are of different moments.
    ///
    /// # Panics
    /// Where it cannot be read, or a block comes from no write of this run.
    #[track_caller]
    #[must_use]
    pub fn read(run: u64, member: &Path) -> Self {
        let bytes = std::fs::read(member)
            .unwrap_or_else(|why| panic!("cannot read {}: {why}", member.display()));
        let numbers = (0..).zip(bytes.chunks(BLOCK)).map(|(place, block)| {
            stamp::read(run, place, block)
                .unwrap_or_else(|why| panic!("in {}: {why}", member.display()))
        });
        Self(numbers.collect())
    }

    /// An image of these numbers.
    #[must_use]
    pub fn of_numbers(numbers: Vec<u64>) -> Self {
        Self(numbers)
    }

    /// An image of the same length to which nothing was written.
    pub(crate) fn emptied(&self) -> Self {
        Self(vec![0; self.0.len()])
    }

    /// What a block shows.
    #[must_use]
    pub fn at(&self, place: u64) -> u64 {
        self.0[place as usize]
    }

    /// Each block's place and what it shows here and in the other image.
    pub fn beside<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = (u64, u64, u64)> + 'a {
        (0..).zip(self.0.iter().zip(&other.0)).map(|(place, (one, two))| (place, *one, *two))
    }
}

/// Says that the first members of a volume on both nodes hold the same bytes. Both daemons must be at rest.
///
/// # Panics
/// Where they do not, with the first byte that differs.
#[track_caller]
pub fn assert_members_equal(pair: &Pair, volume: &str) {
    assert_same_bytes(&pair.member("lyon", volume), &pair.member("paris", volume));
}

/// Says that two files hold the same bytes.
///
/// # Panics
/// As `assert_members_equal`.
#[track_caller]
pub fn assert_same_bytes(one: &Path, other: &Path) {
    let [mut first, mut second] = [one, other].map(|member| {
        File::open(member).unwrap_or_else(|why| panic!("cannot open {}: {why}", member.display()))
    });
    let [mut left, mut right] = [vec![0; 1 << 20], vec![0; 1 << 20]];
    let mut at = 0;
    loop {
        let [here, there] = [fill(&mut first, &mut left), fill(&mut second, &mut right)];
        assert_eq!(here, there, "the files have different lengths");
        if let Some(byte) = left[..here].iter().zip(&right[..here]).position(|(a, b)| a != b) {
            let (one, other) = (one.display(), other.display());
            panic!("{one} and {other} differ at byte {}", at + byte);
        }
        if here == 0 {
            return;
        }
        at += here;
    }
}

/// Reads until the buffer is full or the file ends.
fn fill(file: &mut File, buffer: &mut [u8]) -> usize {
    let mut length = 0;
    while length < buffer.len() {
        match file.read(&mut buffer[length..]) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(why) => panic!("cannot read a member: {why}"),
        }
    }
    length
}

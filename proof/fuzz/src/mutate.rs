// SPDX-License-Identifier: Apache-2.0
//! Small damage to inputs, by dice: what the stable tests have in place of a fuzzer that sees coverage.

use helio_testkit::Dice;

/// Longest input that is made, in bytes.
const LONGEST: usize = 16 << 10;
/// Bytes and words at which counters, lengths and signs turn over.
const EDGES: [u64; 10] =
    [0, 1, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, u64::MAX];

/// One of the inputs, damaged in up to six places; now and then with a piece of another in it.
pub fn mutate(inputs: &[Vec<u8>], dice: &mut Dice) -> Vec<u8> {
    let mut data = if inputs.is_empty() { Vec::new() } else { dice.pick(inputs).clone() };
    for _ in 0..=dice.below(6) {
        match dice.below(8) {
            0 if !data.is_empty() => {
                let at = place(&data, dice);
                data[at] ^= 1 << dice.below(8);
            }
            1 if !data.is_empty() => {
                let at = place(&data, dice);
                data[at] = dice.roll() as u8;
            }
            2 => edge(&mut data, dice),
            3 => {
                let run = run(&data, dice);
                data.drain(run);
            }
            4 => {
                let copy = data[run(&data, dice)].to_vec();
                insert(&mut data, &copy, dice);
            }
            5 if !inputs.is_empty() => {
                let other = dice.pick(inputs);
                insert(&mut data, &other[run(other, dice)], dice);
            }
            6 => {
                let mut noise = vec![0; dice.below(9) as usize];
                dice.fill(&mut noise);
                insert(&mut data, &noise, dice);
            }
            _ => data.truncate(dice.below(data.len() as u64 + 1) as usize),
        }
    }
    data.truncate(LONGEST);
    data
}

fn place(data: &[u8], dice: &mut Dice) -> usize {
    dice.below(data.len() as u64) as usize
}

/// A run of bytes, sometimes empty, mostly short.
fn run(data: &[u8], dice: &mut Dice) -> std::ops::Range<usize> {
    let from = dice.below(data.len() as u64 + 1) as usize;
    let most = if dice.chance(80) { 40 } else { data.len() as u64 };
    let length = dice.below(most + 1) as usize;
    from..(from + length).min(data.len())
}

fn insert(data: &mut Vec<u8>, piece: &[u8], dice: &mut Dice) {
    let at = dice.below(data.len() as u64 + 1) as usize;
    data.splice(at..at, piece.iter().copied());
}

/// Puts a number at which something turns over, in one of eight widths and orders.
fn edge(data: &mut [u8], dice: &mut Dice) {
    let number = *dice.pick(&EDGES);
    let width = 1 << dice.below(4);
    let bytes = if dice.chance(50) {
        number.to_le_bytes()[..width].to_vec()
    } else {
        number.to_be_bytes()[8 - width..].to_vec()
    };
    if let Some(last) = data.len().checked_sub(width) {
        let at = dice.below(last as u64 + 1) as usize;
        data[at..at + width].copy_from_slice(&bytes);
    }
}

// SPDX-License-Identifier: Apache-2.0
//! Which inputs are worth keeping, by what libFuzzer says each of them reaches.
//!
//! Its control file has a count of files, a count that means nothing here, a name a line, and then for each file, by
//! its number, `STARTED number bytes` and `FT number feature feature …`.

use std::collections::BTreeSet;
use std::path::PathBuf;

/// An input and what it reaches.
struct Input {
    path: PathBuf,
    bytes: u64,
    reaches: BTreeSet<u32>,
}

/// The inputs to keep, the one that adds most first, until none adds anything or there is no room for one more.
pub(super) fn choose(control: &str, files_most: usize, bytes_most: u64) -> Option<Vec<PathBuf>> {
    let mut inputs = read(control)?;
    let (mut chosen, mut room) = (Vec::new(), bytes_most);
    while chosen.len() < files_most {
        inputs.retain(|input| !input.reaches.is_empty() && input.bytes <= room);
        let worth = |input: &Input| (input.reaches.len(), u64::MAX - input.bytes);
        let Some(best) = (0..inputs.len()).max_by_key(|at| worth(&inputs[*at])) else { break };
        let best = inputs.swap_remove(best);
        for other in &mut inputs {
            other.reaches.retain(|feature| !best.reaches.contains(feature));
        }
        room -= best.bytes;
        chosen.push(best.path);
    }
    Some(chosen)
}

/// The inputs in a control file; nothing where it is none.
fn read(control: &str) -> Option<Vec<Input>> {
    let mut lines = control.lines();
    let count = lines.next()?.parse().ok()?;
    lines.next()?;
    let empty = |name| Input { path: PathBuf::from(name), bytes: 0, reaches: BTreeSet::new() };
    let mut inputs: Vec<Input> = lines.by_ref().take(count).map(empty).collect();
    for line in lines {
        let mut words = line.split(' ');
        let (what, number) = (words.next()?, words.next()?.parse::<usize>().ok()?);
        let input = inputs.get_mut(number)?;
        match what {
            "STARTED" => input.bytes = words.next()?.parse().ok()?,
            "FT" => input.reaches = words.map(str::parse).collect::<Result<_, _>>().ok()?,
            _ => {}
        }
    }
    Some(inputs)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTROL: &str = "4\n0\na\nb\nc\nd\nSTARTED 0 9\nFT 0 1 2 3\nCOV 0 1\nSTARTED 1 5\nFT 1 1 2 3\n\
                           STARTED 2 1\nFT 2 3 4\nSTARTED 3 1\nFT 3 1 4";

    fn chosen(files: usize, bytes: u64) -> Vec<PathBuf> {
        choose(CONTROL, files, bytes).expect("it is one")
    }

    #[test]
    fn what_adds_most_is_kept_first_and_what_adds_nothing_is_not() {
        let all = chosen(9, 100);
        assert_eq!(all.len(), 2);
        assert_eq!(all[0], PathBuf::from("b"));
        assert_eq!(chosen(1, 100), [PathBuf::from("b")]);
    }

    #[test]
    fn there_is_no_more_than_there_is_room_for() {
        assert_eq!(chosen(9, 4).len(), 2);
        assert!(!chosen(9, 4).contains(&PathBuf::from("b")));
        assert!(choose("a merge that failed", 1, 1).is_none());
    }
}

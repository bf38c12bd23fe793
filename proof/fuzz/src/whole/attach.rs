// SPDX-License-Identifier: Apache-2.0
//! Attached volumes: programs on a device, strange requests of the kernel, and what administrators do beside the daemon.

use super::schedule::Schedule;
use super::{CHOICES, Judged, Stage, follow};
use helio_whole::{Manner, Shape, Single, Trouble};
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// Programs that may use the device at once.
const PROGRAMS: u8 = 3;
const TROUBLES: [Trouble; 6] = [
    Trouble::Strange,
    Trouble::Abort,
    Trouble::Unmount,
    Trouble::UnmountByForce,
    Trouble::Detach,
    Trouble::Refusals,
];

pub(super) struct Attached;

impl Stage for Attached {
    fn begin(&mut self, single: &mut Single) -> Judged {
        attach(single, true, false);
        attach(single, false, false);
        single.pass(Duration::from_millis(10))
    }

    fn act(&mut self, what: u8, schedule: &mut Schedule<'_>, single: &mut Single) -> Judged {
        let slot = usize::from(schedule.below(PROGRAMS));
        match what % 9 {
            0 => {
                let how = schedule.next().unwrap_or_default();
                let mounted = (how & 4 != 0).then(|| PathBuf::from("/srv/data"));
                let manner = Manner { writes: how & 1 == 0, mounted, hidden: how & 8 != 0 };
                single.open_device(slot, how & 2 != 0, manner);
            }
            1 => {
                let count = schedule.below(8) + 1;
                single.request_device(slot, count.into(), schedule.take(CHOICES));
                return single.pass(Duration::ZERO);
            }
            2 => single.interrupt(slot),
            3 => single.close_device(slot),
            4 => single.kill_program(slot),
            5 => {
                let trouble = TROUBLES[usize::from(schedule.below(6))];
                single.trouble(trouble, schedule.word().into());
            }
            6 => {
                let opcode = u32::from(schedule.below(64));
                single.message(opcode, schedule.bytes());
            }
            7 => attach(single, schedule.below(2) == 0, slot == 2),
            _ => {
                let volume = if schedule.below(2) == 0 { "data" } else { "junk" };
                let body = json!({ "volume": volume, "force": slot == 2 }).to_string();
                single.order("POST", "/v2/groups/db/detach".to_owned(), body.into());
            }
        }
        Ok(())
    }
}

fn attach(single: &mut Single, judged: bool, read_only: bool) {
    let volume = if judged { "data" } else { "junk" };
    let body = json!({ "volume": volume, "read_only": read_only, "via": "fuse" }).to_string();
    single.order("POST", "/v2/groups/db/attach".to_owned(), body.into());
}

pub(crate) fn run(data: &[u8]) {
    follow(Shape::Alone, data, &mut Attached);
}

pub(crate) fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let open = [10, 0, 0, 0, 50];
    let with = |steps: &[u8]| [&open[..], steps].concat();
    let work: [&[u8]; 3] = [&[11, 0, 7, 12, 3, 0, 9, 1, 3, 0, 9], &[0, 50], &[11, 0, 3]];
    let write = b"\x10\x08";
    vec![
        ("job", with(&work.concat())),
        ("by-file", [&[10, 1, 2, 0, 50, 11, 1, 3][..], &[12; 8], &[0, 50, 13, 1]].concat()),
        ("interrupted", with(&[11, 0, 0, 12, 3, 0, 9, 1, 3, 0, 9, 12, 0, 0, 50, 14, 0])),
        ("strange", with(&[15, 0, 0, 7, 7, 0, 50, 15, 0, 0, 9, 1, 0, 50])),
        ("raw", [&[16, 0][..], write, &[1; 8], &[16, 0, 3, 16], &[0; 16], &[0, 50]].concat()),
        ("abort", with(&[11, 0, 0, 12, 3, 0, 9, 1, 3, 0, 9, 15, 0, 1, 0, 0, 1, 100])),
        ("unmounted", with(&[15, 0, 2, 0, 0, 1, 100, 15, 0, 3, 1, 0, 1, 100])),
        ("released", with(&[15, 0, 4, 1, 0, 1, 100, 13, 0, 1, 100])),
        ("refused", [15, 0, 5, 3, 0, 18, 0, 0, 1, 20, 17, 0, 0, 1, 20, 18, 2, 1, 1, 20].to_vec()),
        ("killed", with(&[11, 0, 0, 12, 3, 0, 9, 1, 3, 0, 9, 7, 30, 1, 100, 10, 1, 0, 1, 9])),
    ]
}

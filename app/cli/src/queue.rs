// SPDX-License-Identifier: Apache-2.0
//! `helio queue`: a group's queue shown by itself, and changed while it runs.

use crate::args::{At, OfGroup, Queue};
use crate::client::Client;
use crate::render::{line, seconds};
use crate::verbs::{accepted, plain, print, printed};
use crate::which;
use anyhow::Result;
use helio_api::{Memory, QueueReply, QueueRequest, WhenFull, paths};
use helio_units::Items;
use std::process::ExitCode;

pub(crate) fn run(at: &At, verb: Queue) -> Result<ExitCode> {
    match verb {
        Queue::Show(of) => show(at, of),
        Queue::Set { of, memory, items, when_full } => set(at, of, memory, items, when_full),
        Queue::Reset(of) => plain(at, paths::QUEUE_RESET, of),
    }
}

fn show(at: &At, of: OfGroup) -> Result<ExitCode> {
    let client = Client::new(at)?;
    let group = which::group(&client, of.group)?;
    let reply: QueueReply = client.get(&paths::of_group(paths::QUEUE, &group))?;
    if of.json {
        return printed(&reply);
    }
    print(&text(&reply))?;
    Ok(ExitCode::SUCCESS)
}

fn set(
    at: &At,
    of: OfGroup,
    memory: Option<Memory>,
    items: Option<u64>,
    when_full: Option<(WhenFull, WhenFull)>,
) -> Result<ExitCode> {
    let wish = QueueRequest {
        memory,
        items: items.map(Items),
        when_full_connected: when_full.map(|(connected, _)| connected),
        when_full_disconnected: when_full.map(|(_, disconnected)| disconnected),
    };
    let client = Client::new(at)?;
    let group = which::group(&client, of.group)?;
    accepted(&client.post(&paths::of_group(paths::QUEUE_SET, &group), &wish)?, of.json)
}

/// One fact a line, what is full first.
fn text(reply: &QueueReply) -> String {
    let mut out = format!("{}  queue: none, because this node is {}\n", reply.group, reply.role);
    if let Some(q) = &reply.queue {
        let (bytes, bound, items, most) = (q.bytes, q.bound_bytes, q.items, q.bound_items);
        out = format!("{}  queue: {bytes} of {bound}, {items} of {most} items\n", reply.group);
        line(&mut out, "bound", &format!("{bound}, {}", q.bound_reason));
        let high = format!(
            "{} at {}, {} items at {}, since {}",
            q.bytes_high_water,
            q.bytes_high_water_at_ms,
            q.items_high_water,
            q.items_high_water_at_ms,
            q.high_water_since_ms
        );
        line(&mut out, "high water", &high);
    }
    line(&mut out, "settings", &reply.settings.to_string());
    if let Some(file) = &reply.file_settings {
        line(&mut out, "file", &format!("{file}; `helio apply` restores it"));
    }
    let t = &reply.throttle;
    let waits = format!(
        "{} writes waited {} in all, {} wait now; {} refused; queue dropped {} times",
        t.count,
        seconds(t.total_seconds),
        t.waiting,
        t.refused,
        t.dropped
    );
    line(&mut out, "when full", &waits);
    let lag = &reply.lag;
    let lag = format!("{} in {} writes, {} behind", lag.bytes, lag.writes, seconds(lag.seconds));
    line(&mut out, "lag", &lag);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use helio_api::{QueueSettings, Status};
    use helio_units::{Bytes, Role};

    #[test]
    fn the_first_line_says_how_full_it_is_and_the_file_stands_beside_what_runs() {
        let sample: Status = serde_json::from_str(include_str!("render_sample.json"))
            .expect("the sample is a status");
        let group = sample.groups.into_iter().next().expect("the sample has a group");
        let settings = QueueSettings {
            memory: Memory::Bytes(Bytes::mib(64)),
            items: Items(4_194_304),
            when_full_connected: WhenFull::Block,
            when_full_disconnected: WhenFull::Log,
        };
        let mut reply = QueueReply {
            group: group.name,
            at_ms: sample.at_ms,
            role: group.role,
            settings,
            file_settings: Some(QueueSettings { memory: Memory::Auto, ..settings }),
            queue: group.queue,
            throttle: group.throttle,
            lag: group.lag,
        };
        let shown = text(&reply);
        assert!(
            shown.starts_with("db  queue: 12 MiB of 64 MiB, 1536 of 4194304 items\n"),
            "{shown}"
        );
        assert!(
            shown.contains("  high water 20 MiB at 2026-11-20 21:36:00Z, 2560 items at"),
            "{shown}"
        );
        assert!(
            shown.contains("  settings   64 MiB and 4194304 items, block/log when full\n"),
            "{shown}"
        );
        assert!(shown.contains("  file       auto and 4194304 items"), "{shown}");
        assert!(shown.contains("3 writes waited 250 ms in all, 0 wait now; 0 refused"), "{shown}");
        (reply.queue, reply.role) = (None, Role::Secondary);
        assert!(text(&reply).starts_with("db  queue: none, because this node is secondary\n"));
    }
}

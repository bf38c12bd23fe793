// SPDX-License-Identifier: Apache-2.0
//! Memory: what the buffers of a node may take, and whether this process may have as much.

use crate::config::{BUFFER_MEMORY_LEAST, NodeConfig};
use anyhow::{Result, bail};
use helio_driver::Host;
use helio_units::Bytes;

/// What a daemon takes beside its buffers: the program, its threads, and what few groups hold. Measured at an idle daemon of one group:
/// 5 MiB of its own, and 33 MiB of the program, which was not optimised.
const REST: Bytes = Bytes::mib(64);

/// What the buffers of a node may take: what its configuration says, or a quarter of what this process may have.
pub(crate) fn of_buffers(host: &Host, node: &NodeConfig) -> Bytes {
    of(host.memory(), node.buffer_memory)
}

fn of(memory: Bytes, chosen: Option<Bytes>) -> Bytes {
    chosen.unwrap_or_else(|| Bytes(memory.0 / 4).max(BUFFER_MEMORY_LEAST))
}

/// Says what the buffers may take, if this process may have that, and the rest of the daemon, too.
///
/// # Errors
/// It may not; with the numbers and a hint.
pub(crate) fn allowed(host: &Host, node: &NodeConfig) -> Result<Bytes> {
    within(host.memory(), node.buffer_memory)
}

fn within(memory: Bytes, chosen: Option<Bytes>) -> Result<Bytes> {
    let buffers = of(memory, chosen);
    let needed = Bytes(buffers.0.saturating_add(REST.0));
    if needed <= memory {
        return Ok(buffers);
    }
    let lower = match memory.0.checked_sub(REST.0).map(Bytes) {
        Some(room) if room >= BUFFER_MEMORY_LEAST => {
            format!("set `buffer-memory` of the node to {room} or less, or ")
        }
        _ => String::new(),
    };
    bail!(
        "the daemon may need {buffers} for buffers and {REST} for everything else, and the memory limit of this process is \
         {memory}\n  hint: {lower}give it {needed}: raise the limit (`MemoryMax=` in the unit, the container, or `ulimit`), \
         or use a larger host"
    )
}

/// Whether this process may have what a daemon needs at least.
pub(crate) fn is_enough(host: &Host) -> bool {
    within(host.memory(), Some(BUFFER_MEMORY_LEAST)).is_ok()
}

/// Sees to it that a daemon does not start with less than it needs at least. Buffers that a file chose too large are taken only when they
/// are needed, so that is a warning.
///
/// # Errors
/// As [`allowed`], if no other choice would do.
pub(crate) fn provide(host: &Host, node: &NodeConfig) -> Result<()> {
    match allowed(host, node) {
        Ok(_) => {}
        Err(error) if is_enough(host) => tracing::warn!("{error:#}"),
        Err(error) => return Err(error),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_a_quarter_of_the_memory_unless_that_is_too_little() {
        let auto = |memory| within(memory, None).ok();
        assert_eq!(auto(Bytes::gib(8)), Some(Bytes::gib(2)));
        assert_eq!(auto(Bytes::gib(1)), Some(Bytes::mib(256)));
        assert_eq!(auto(Bytes::mib(256)), Some(BUFFER_MEMORY_LEAST));
        assert_eq!(auto(Bytes::mib(255)), None);
    }

    #[test]
    fn the_hint_names_what_would_do() {
        let said = |memory, chosen| within(memory, chosen).expect_err("too little").to_string();
        let low = said(Bytes::mib(128), None);
        assert!(low.contains("hint: give it 256 MiB"), "{low}");
        let chosen = said(Bytes::gib(1), Some(Bytes::gib(2)));
        assert!(chosen.contains("set `buffer-memory` of the node to 960 MiB or less"), "{chosen}");
    }
}

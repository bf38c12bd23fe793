// SPDX-License-Identifier: Apache-2.0
//! What the kernel keeps with a device to know it by.

use super::Name;
use super::device::Places;
use twox_hash::XxHash3_128;

/// Bits that name the tenure; those above name the volume.
const TENURE_BITS: u32 = 24;

/// The volume a device was made of, and in which tenure of this node as its primary. The volume's part is the same as
/// long as the state directory is there, and another one for whoever else runs on this kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark(pub(super) u64);

impl Mark {
    pub(super) fn new(places: &Places, (group, volume): &Name, tenure: u64) -> Self {
        let folder = places.files.parent().unwrap_or(&places.files);
        let found = places.platform.host.facts(folder, true);
        let place = found.map(|found| (found.device, found.inode));
        let place = place.unwrap_or_else(|error| {
            tracing::warn!(folder = %folder.display(), %error, "cannot be examined");
            (0, 0)
        });
        let volume = XxHash3_128::oneshot(format!("{place:?} {group}/{volume}").as_bytes()) as u64;
        let tenure = XxHash3_128::oneshot(&tenure.to_le_bytes()) as u64;
        Self(volume << TENURE_BITS | (tenure & ((1 << TENURE_BITS) - 1)))
    }

    /// Whether a device is of the same volume, of whatever tenure.
    pub(super) const fn is_of_volume(self, other: u64) -> bool {
        self.0 >> TENURE_BITS == other >> TENURE_BITS
    }

    /// As the NBD client keeps it.
    pub(super) fn backend(self) -> String {
        format!("helio-{:016x}", self.0)
    }

    /// What the NBD client kept, if it is one of ours.
    pub(super) fn of_backend(text: &str) -> Option<u64> {
        let digits = text.strip_prefix("helio-").filter(|digits| digits.len() == 16)?;
        u64::from_str_radix(digits, 16).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_tells_volumes_and_tenures_apart() {
        let folder = tempfile::tempdir().expect("a folder");
        let (files, links) = (folder.path().join("attach"), folder.path().into());
        let places = Places { files, links, platform: crate::Platform::this() };
        let of = |volume: &str, tenure| Mark::new(&places, &("db".into(), volume.into()), tenure);
        let first = of("data", 1);
        assert_eq!(first, of("data", 1), "the next daemon finds it");
        assert_ne!(first, of("data", 2));
        assert!(first.is_of_volume(of("data", 2).0) && !first.is_of_volume(of("log", 1).0));
        assert_eq!(Mark::of_backend(&first.backend()), Some(first.0));
        for other in
            ["", "helio-", "helio-12", "nbdfuse-0123456789abcdef", "helio-0123456789abcdeg"]
        {
            assert_eq!(Mark::of_backend(other), None, "{other}");
        }
    }
}

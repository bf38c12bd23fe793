// SPDX-License-Identifier: Apache-2.0
//! Metadata contexts: what a client may ask about stretches of an export.

/// A metadata context this protocol's two ends know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Context {
    /// What is allocated and what reads as zero. Flags: [`status::HOLE`], [`status::ZERO`].
    Allocation,
    /// What may differ from the peer's copy. Flags: [`status::MARKED`].
    Marks,
    /// Where a volume may have changed since a snapshot. Flags: [`status::CHANGED`].
    Changed,
}

/// Flags of a stretch. Each context counts its bits from 0.
pub mod status {
    /// Of `base:allocation`: nothing is allocated there, so that a write may find no space.
    pub const HOLE: u32 = 1 << 0;
    /// Of `base:allocation`: it reads as zero.
    pub const ZERO: u32 = 1 << 1;
    /// Of `heliograph:marks`: it is marked, and so may differ from the peer's copy.
    pub const MARKED: u32 = 1 << 0;
    /// Of `heliograph:changed`: the volume may hold something else there than the snapshot.
    pub const CHANGED: u32 = 1 << 0;
}

impl Context {
    /// Every context.
    pub const ALL: [Self; 3] = [Self::Allocation, Self::Marks, Self::Changed];

    /// The name clients choose it by: namespace, colon, leaf.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Allocation => "base:allocation",
            Self::Marks => "heliograph:marks",
            Self::Changed => "heliograph:changed",
        }
    }

    /// The namespace with its colon, which in a query for a list stands for all of it.
    #[must_use]
    pub const fn namespace(self) -> &'static str {
        match self {
            Self::Allocation => "base:",
            Self::Marks | Self::Changed => "heliograph:",
        }
    }

    /// The context of that name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|context| context.name() == name)
    }

    /// Flags that are always correct for an extent that was not examined: allocated with unknown content,
    /// perhaps different from the peer's, or perhaps changed.
    #[must_use]
    pub const fn unknown(self) -> u32 {
        match self {
            Self::Allocation => 0,
            Self::Marks => status::MARKED,
            Self::Changed => status::CHANGED,
        }
    }

    const fn bit(self) -> u8 {
        match self {
            Self::Allocation => 1 << 0,
            Self::Marks => 1 << 1,
            Self::Changed => 1 << 2,
        }
    }
}

/// A set of contexts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Contexts(u8);

impl Contexts {
    /// None of them.
    pub const NONE: Self = Self(0);
    /// All of them.
    pub const ALL: Self =
        Self::NONE.with(Context::Allocation).with(Context::Marks).with(Context::Changed);

    /// This set and `context`.
    #[must_use]
    pub const fn with(self, context: Context) -> Self {
        Self(self.0 | context.bit())
    }

    /// Whether `context` is in it.
    #[must_use]
    pub const fn has(self, context: Context) -> bool {
        self.0 & context.bit() != 0
    }

    /// Whether nothing is in it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether everything in it is in `other` too.
    #[must_use]
    pub const fn within(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// How many there are.
    #[must_use]
    pub const fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// What is in it, in the order of [`Context::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Context> {
        Context::ALL.into_iter().filter(move |context| self.has(*context))
    }
}

/// What a context says of one stretch. Where it begins, the stretch before it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StatusExtent {
    /// Bytes it covers.
    pub length: u64,
    /// See [`status`].
    pub flags: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_in() {
        assert!(Contexts::NONE.is_empty());
        let marks = Contexts::NONE.with(Context::Marks);
        assert!(marks.has(Context::Marks) && !marks.has(Context::Allocation));
        assert!(marks.within(Contexts::ALL) && !Contexts::ALL.within(marks));
        assert_eq!((marks.count(), Contexts::ALL.count()), (1, 3));
        assert_eq!(Contexts::ALL.iter().collect::<Vec<_>>(), Context::ALL);
    }

    #[test]
    fn names_begin_with_their_namespace_and_lead_back() {
        for context in Context::ALL {
            assert!(context.name().starts_with(context.namespace()));
            assert_eq!(Context::of_name(context.name()), Some(context));
            assert_eq!(Context::of_name(context.namespace()), None);
        }
    }
}

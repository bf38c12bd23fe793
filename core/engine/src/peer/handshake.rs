// SPDX-License-Identifier: Apache-2.0
//! The process that this node follows, by its hello.

use helio_format::message::Hello;
use helio_units::Generation;

/// A process that led, as this node followed it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leader {
    incarnation: u64,
    generation: Generation,
}

impl Leader {
    /// The sender of that hello, which leads `generation`.
    pub(crate) const fn new(hello: &Hello, generation: Generation) -> Self {
        Self { incarnation: hello.incarnation, generation }
    }

    pub(crate) const fn incarnation(&self) -> u64 {
        self.incarnation
    }

    pub(crate) const fn generation(&self) -> Generation {
        self.generation
    }
}

// SPDX-License-Identifier: Apache-2.0
//! The layer that hands on each operation as it is: what every layer costs at least, and the proof that one more changes
//! nothing.

use crate::layer::{Io, Layer, Tag};
use alloc::boxed::Box;

/// Hands on each operation as it is.
#[derive(Clone, Debug, Default)]
pub struct Pass(());

impl Layer for Pass {
    /// It wants to see everything: it is there to be passed.
    fn issued(&mut self, tag: Tag) -> Option<Io> {
        Some(Io::new(tag.0))
    }

    fn rests(&self) -> bool {
        false
    }

    fn boxed(&self) -> Box<dyn Layer> {
        Box::new(self.clone())
    }
}

// SPDX-License-Identifier: Apache-2.0
//! The layer that hands on each operation as it is: what every layer costs at least, and the proof that one more changes
//! nothing.

use crate::contract::Outcome;
use crate::layer::{Io, Layer, Operation, Port, Tag};
use alloc::boxed::Box;

/// Hands on each operation as it is.
#[derive(Clone, Debug, Default)]
pub struct Pass(());

impl Layer for Pass {
    fn begin(&mut self, operation: Operation, port: &mut Port<'_>) {
        port.issue(operation.leg, operation.op, Tag(operation.io.number()));
    }

    fn ended(&mut self, tag: Tag, outcome: Outcome, port: &mut Port<'_>) {
        port.end(Io::new(tag.0), outcome);
    }

    /// It wants to see everything: it is there to be passed.
    fn rests(&self) -> bool {
        false
    }

    fn boxed(&self) -> Box<dyn Layer> {
        Box::new(self.clone())
    }
}

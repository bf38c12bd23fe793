// SPDX-License-Identifier: Apache-2.0
//! Who waits at the gate of a node that leads.

use crate::purpose::Check;
use crate::purpose::JobId;
use crate::purpose::Pulled;
use crate::purpose::StretchId;
use crate::stream::slots::Part;

/// Who asks for the gate.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ticket {
    /// A part of a client's request.
    Part(Part),
    /// The copier.
    Copy(JobId),
    /// The copier's survey.
    Survey(StretchId),
    /// A verify.
    Verify(Check),
    /// The puller.
    Pull(Pulled),
}

// SPDX-License-Identifier: Apache-2.0
//! Leaving: a primary becomes secondary or stops, a secondary stops. Everything accepted is answered, what can be
//! delivered is, and the record says how the copies stand before the line is laid down.

use core::time::Duration;

/// A clean stop of a primary waits this long for its queue to drain; what is left then is marks at the next start.
pub(crate) const STOP_PATIENCE: Duration = Duration::from_secs(10);

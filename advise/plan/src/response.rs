// SPDX-License-Identifier: Apache-2.0
//! Response times compared.

use std::time::Duration;

/// How much longer `slow` is than `fast`, in percent of `fast`: Sun's "improvement percent" (TABLE 4).
#[must_use]
pub fn longer_percent(slow: Duration, fast: Duration) -> f64 {
    100.0 * (slow.as_secs_f64() - fast.as_secs_f64()) / fast.as_secs_f64()
}

/// How many times as long `slow` is as `fast`.
#[must_use]
pub fn times(slow: Duration, fast: Duration) -> f64 {
    slow.as_secs_f64() / fast.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenth_more_is_ten_percent() {
        let ms = Duration::from_millis;
        assert!((longer_percent(ms(110), ms(100)) - 10.0).abs() < 1e-9);
        assert!((times(ms(110), ms(100)) - 1.1).abs() < 1e-9);
    }
}

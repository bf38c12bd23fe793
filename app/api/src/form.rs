// SPDX-License-Identifier: Apache-2.0
//! The form of an error that is printed ([`helio_units::form`]). The test programs check it for every command that they run.

use crate::error::ApiError;

/// What is wrong with the form of an error; empty for a good one.
#[must_use]
pub fn faults(error: &ApiError) -> Vec<String> {
    // A command line that is invalid names no object.
    let named = error.code != "usage";
    helio_units::form::faults(&error.error, error.hint.as_deref(), named)
}

#[cfg(test)]
mod tests {
    use crate::code;

    #[test]
    fn the_meaning_of_every_code_reads_as_a_text() {
        for (code, meaning) in code::ALL {
            assert_eq!(helio_units::form::of_text(code, meaning), Vec::<String>::new());
        }
    }
}

// SPDX-License-Identifier: Apache-2.0
//! What the pages tell a reader to type is typed here, and what they say comes out is what comes out.

mod forecast;
mod pages;
mod plan;
mod shell;
mod situations;
mod words;

use helio_testkit::require;

#[test]
fn the_tour_of_the_readme_goes_as_it_is_told() {
    require!("nbdcopy", "nbdinfo");
    shell::walk("README.md");
}

#[test]
fn the_operators_page_goes_as_it_is_told() {
    require!("nbdcopy", "nbdinfo");
    shell::walk("docs/operate.md");
}

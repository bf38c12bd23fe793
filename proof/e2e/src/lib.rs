// SPDX-License-Identifier: Apache-2.0
//! What the stories of the end-to-end tests share: blocks that say which write they come from, an application that
//! writes them, the book of its writes and the judge who holds an image against it, and what is done to a pair
//! again and again.

mod book;
mod image;
mod load;
mod marks;
mod members;
mod stage;
mod stamp;

pub use book::{Book, Promise, Verdict};
pub use image::{Image, assert_members_equal, assert_same_bytes};
pub use load::{Load, Writers, connect, connect_to};
pub use marks::{Covered, Regions, covered, differing, marks_of};
pub use members::{Trouble, add_member, wait_members};
pub use stage::{
    PATIENCE, answer, begin, begin_periodic, copies_begun, exported, forget, group, halt, image,
    member_bytes, number, other, pass, relayed, take_over, wait, wait_level, wait_state,
};
pub use stamp::BLOCK;

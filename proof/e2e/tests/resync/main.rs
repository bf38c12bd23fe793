// SPDX-License-Identifier: Apache-2.0
//! Marks only for a while, then an update: however it is disturbed, it ends with equal copies.

mod disturbed;
mod full;
mod plain;
mod seeded;
mod stage;

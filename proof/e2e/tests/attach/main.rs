// SPDX-License-Identifier: Apache-2.0
//! Volumes as devices of this machine: what `helio attach` makes is a disk, for file systems and for fio, over restarts
//! and kills. Needs root, FUSE and loop devices, and says so where they are not.

mod adopt;
mod blocks;
mod claims;
mod common;
mod databases;
mod drill;
mod ends;
mod filesystems;
mod hardships;
mod images;
mod lacking;
mod load;
mod powercut;
mod pressure;
mod recorder;
mod recording;
mod secondary;
mod systemd;
mod waits;
mod workload;

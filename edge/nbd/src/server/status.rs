// SPDX-License-Identifier: Apache-2.0
//! Answers to a block status: one chunk per context, the last of them marked as such.

use crate::codec::{Context, Form, StatusExtent, chunk, chunk_flag};
use crate::server::limits::MAX_STATUS_EXTENTS;
use crate::server::{Request, answers, meta};

/// Longest stretch a 32-bit length is cut to, in bytes: a multiple of every minimum block.
const LONGEST_SHORT: u64 = 0xffff_0000;

/// The whole answer. Contexts that nothing is said of are answered with what is always safe.
pub(super) fn answer(
    form: Form,
    request: &Request,
    told: &[(Context, &[StatusExtent])],
    out: &mut Vec<u8>,
) {
    let mut left = request.contexts.count();
    for context in request.contexts.iter() {
        left -= 1;
        let said = told.iter().find(|(about, _)| *about == context).map_or(&[][..], |(_, e)| e);
        let unknown = [StatusExtent { length: request.extent.length, flags: context.unknown() }];
        let said = if said.iter().any(|extent| extent.length > 0) { said } else { &unknown };
        let flags = if left == 0 { chunk_flag::DONE } else { 0 };
        one_chunk(form, request, context, flags, said, out);
    }
}

fn one_chunk(
    form: Form,
    request: &Request,
    context: Context,
    flags: u16,
    said: &[StatusExtent],
    out: &mut Vec<u8>,
) {
    let count = Runs::new(form, request, said).count() as u32;
    let id = meta::id(context).to_be_bytes();
    if form == Form::Extended {
        let length = 8 + 16 * count;
        answers::chunk_header(form, request.into(), flags, chunk::BLOCK_STATUS_EXT, length, out);
        out.extend_from_slice(&id);
        out.extend_from_slice(&count.to_be_bytes());
        for run in Runs::new(form, request, said) {
            out.extend_from_slice(&run.length.to_be_bytes());
            out.extend_from_slice(&u64::from(run.flags).to_be_bytes());
        }
    } else {
        let length = 4 + 8 * count;
        answers::chunk_header(form, request.into(), flags, chunk::BLOCK_STATUS, length, out);
        out.extend_from_slice(&id);
        for run in Runs::new(form, request, said) {
            // `Runs` keeps lengths to 32 bits in this form.
            out.extend_from_slice(&(run.length as u32).to_be_bytes());
            out.extend_from_slice(&run.flags.to_be_bytes());
        }
    }
}

/// The stretches that are sent: neighbours of the same flags joined, empty ones left out, nothing behind
/// the one that reaches the request's end, one only and no longer than asked where one is asked for, and
/// lengths that fit the form.
struct Runs<'a> {
    said: &'a [StatusExtent],
    /// Bytes of the request not covered yet.
    wanted: u64,
    one: bool,
    short: bool,
    sent: usize,
}

impl<'a> Runs<'a> {
    const fn new(form: Form, request: &Request, said: &'a [StatusExtent]) -> Self {
        let short = !matches!(form, Form::Extended);
        Self { said, wanted: request.extent.length, one: request.one, short, sent: 0 }
    }
}

impl Iterator for Runs<'_> {
    type Item = StatusExtent;

    fn next(&mut self) -> Option<StatusExtent> {
        if self.wanted == 0 || self.sent == MAX_STATUS_EXTENTS {
            return None;
        }
        let mut run: Option<StatusExtent> = None;
        while let Some((first, rest)) = self.said.split_first() {
            match &mut run {
                _ if first.length == 0 => {}
                None => run = Some(*first),
                Some(run) if run.flags == first.flags && run.length < self.wanted => {
                    run.length = run.length.saturating_add(first.length);
                }
                Some(_) => break,
            }
            self.said = rest;
        }
        let mut run = run?;
        self.sent += 1;
        let whole = run.length;
        if self.one {
            run.length = run.length.min(self.wanted);
        }
        if self.short && run.length > u64::from(u32::MAX) {
            run.length = LONGEST_SHORT;
        }
        // Behind a stretch that was cut there would be a gap.
        let over = self.one || run.length < whole;
        self.wanted = if over { 0 } else { self.wanted.saturating_sub(run.length) };
        Some(run)
    }
}

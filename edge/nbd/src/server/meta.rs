// SPDX-License-Identifier: Apache-2.0
//! The options that list and choose metadata contexts.
//!
//! A query is a context's name, or in a list also a namespace with its colon, which stands for all in it.
//! Whatever else has a colon finds nothing and is no error.

use crate::codec::{Context, Contexts, Cursor, Form, MAX_STRING, option, reply};
use crate::server::Exports;
use crate::server::limits::MAX_QUERIES;
use crate::server::options::{Refusal, name, open, put};

/// The number a session knows a context by. It means nothing outside the session.
pub(super) const fn id(context: Context) -> u32 {
    match context {
        Context::Allocation => 1,
        Context::Marks => 2,
        Context::Changed => 3,
    }
}

/// The context of a number.
pub(super) fn of_id(number: u32) -> Option<Context> {
    Context::ALL.into_iter().find(|context| id(*context) == number)
}

/// What a client chose, and for which export: in use only where it then enters that one.
#[derive(Debug, Default)]
pub(super) struct Choice {
    /// As the client spelled it. Empty where nothing was chosen.
    export: String,
    contexts: Contexts,
}

impl Choice {
    /// What is in use if the client enters the export of this name.
    pub(super) fn for_export(&self, name: &str) -> Contexts {
        if self.export == name { self.contexts } else { Contexts::NONE }
    }

    pub(super) fn held(&self) -> usize {
        self.export.capacity()
    }
}

/// Lists the contexts an export offers, those that match where anything is asked in particular.
pub(super) fn list(
    form: Form,
    data: &[u8],
    exports: &dyn Exports,
    out: &mut Vec<u8>,
) -> Result<(), Refusal> {
    let wish = Wish::read(form, data)?;
    let offered = open(wish.export, exports)?.contexts;
    let found = if wish.count == 0 {
        offered
    } else {
        wish.find(offered, |context, query| {
            query == context.name() || query == context.namespace()
        })?
    };
    tell(option::LIST_META_CONTEXT, found, |_| 0, out);
    Ok(())
}

/// Chooses contexts, in place of all chosen before. The caller forgets those first, as a choice that
/// fails chooses nothing.
pub(super) fn set(
    form: Form,
    data: &[u8],
    exports: &dyn Exports,
    out: &mut Vec<u8>,
) -> Result<Choice, Refusal> {
    let wish = Wish::read(form, data)?;
    let export = wish.export;
    let offered = open(export, exports)?.contexts;
    let contexts = wish.find(offered, |context, query| query == context.name())?;
    tell(option::SET_META_CONTEXT, contexts, id, out);
    // Nothing chosen is nothing to remember.
    let export = if contexts.is_empty() { String::new() } else { export.into() };
    Ok(Choice { export, contexts })
}

fn tell(option: u32, found: Contexts, number: impl Fn(Context) -> u32, out: &mut Vec<u8>) {
    for context in found.iter() {
        let number = number(context).to_be_bytes();
        put(option, reply::META_CONTEXT, &[&number, context.name().as_bytes()], out);
    }
    put(option, reply::ACK, &[], out);
}

/// The data of either option.
struct Wish<'a> {
    export: &'a str,
    count: u32,
    /// As they came; read one by one, so that nothing is gathered.
    queries: Cursor<'a>,
}

impl<'a> Wish<'a> {
    fn read(form: Form, data: &'a [u8]) -> Result<Self, Refusal> {
        if form == Form::Simple {
            let message = "negotiate structured replies or extended headers first";
            return Err(Refusal::new(reply::ERR_INVALID, message));
        }
        let mut cursor = Cursor::new(data);
        let length = cursor.u32().ok_or_else(broken)?;
        let export = cursor.take(length as usize).ok_or_else(broken)?;
        let count = cursor.u32().ok_or_else(broken)?;
        if count > MAX_QUERIES {
            let message = format!("{count} queries, of at most {MAX_QUERIES}");
            return Err(Refusal::new(reply::ERR_TOO_BIG, message));
        }
        if count == 0 && !cursor.rest().is_empty() {
            return Err(broken());
        }
        Ok(Self { export: name(export)?, count, queries: cursor })
    }

    /// The contexts among `offered` that match a query. All queries are looked at, also where one finds
    /// nothing, since what is broken must be refused.
    fn find(
        mut self,
        offered: Contexts,
        matches: impl Fn(Context, &str) -> bool,
    ) -> Result<Contexts, Refusal> {
        let mut found = Contexts::NONE;
        for _ in 0..self.count {
            let length = self.queries.u32().ok_or_else(broken)?;
            let query = query(self.queries.take(length as usize).ok_or_else(broken)?)?;
            for context in offered.iter().filter(|context| matches(*context, query)) {
                found = found.with(context);
            }
        }
        if self.queries.rest().is_empty() { Ok(found) } else { Err(broken()) }
    }
}

fn query(bytes: &[u8]) -> Result<&str, Refusal> {
    if bytes.len() > MAX_STRING {
        return Err(Refusal::new(reply::ERR_TOO_BIG, "a query is longer than 4096 bytes"));
    }
    match std::str::from_utf8(bytes) {
        Ok(query) if !query.contains('\0') && query.contains(':') => Ok(query),
        Ok(_) => Err(Refusal::new(reply::ERR_INVALID, "a query without a namespace and a colon")),
        Err(_) => Err(Refusal::new(reply::ERR_INVALID, "a query is not text")),
    }
}

fn broken() -> Refusal {
    Refusal::new(reply::ERR_INVALID, "its lengths do not add up")
}

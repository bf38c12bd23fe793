// SPDX-License-Identifier: Apache-2.0
//! One table of the file, read key by key. Written by hand over the parsed document, because a refusal must
//! point at the right line and name its culprit by what it is, which derived readers do not know.

use super::error::{ConfigError, Source};
use helio_units::{Bytes, parse_bytes, parse_duration};
use std::ops::RangeInclusive;
use std::time::Duration;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Something read, and the byte of the file where it stands.
#[derive(Clone, Debug)]
pub(super) struct At<T> {
    pub(super) at: usize,
    pub(super) value: T,
}

/// A table whose keys the operator chose, with those keys and where they stand.
pub(super) type Named<'a> = (Table<'a>, Vec<At<&'a str>>);

/// An item of a list.
#[derive(Clone, Debug)]
pub(super) enum Item<'a> {
    Text(&'a str),
    Table(Table<'a>),
}

/// A table whose keys are all known.
#[derive(Clone, Debug)]
pub(super) struct Table<'a> {
    pub(super) source: &'a Source<'a>,
    /// What it describes, for messages: `group db, volume data`. Empty for the file itself.
    pub(super) what: String,
    /// Where it begins.
    pub(super) at: usize,
    entries: &'a DeTable<'a>,
}

impl<'a> Table<'a> {
    /// Opens a table and refuses keys it cannot have: a misspelt setting must not pass as its default.
    pub(super) fn open(
        source: &'a Source<'a>,
        what: String,
        at: usize,
        entries: &'a DeTable<'a>,
        known: &[&str],
    ) -> Result<Self, ConfigError> {
        let table = Self { source, what, at, entries };
        for key in entries.keys() {
            let name: &str = key.get_ref();
            if !known.contains(&name) {
                let message = table.about(format!("unknown key `{name}`"));
                let hint = format!("known here: {}", known.join(", "));
                return Err(source.refuse(key.span().start, message, hint));
            }
        }
        Ok(table)
    }

    /// Prefixes a message with what the table describes.
    fn about(&self, message: String) -> String {
        if self.what.is_empty() { message } else { format!("{}: {message}", self.what) }
    }

    /// A refusal that points at byte `at` and names this table.
    pub(super) fn refuse(
        &self,
        at: usize,
        message: impl Into<String>,
        hint: impl Into<String>,
    ) -> ConfigError {
        self.source.refuse(at, self.about(message.into()), hint)
    }

    /// A refusal for a key that must be there.
    pub(super) fn lacks(&self, key: &str, hint: &str) -> ConfigError {
        self.refuse(self.at, format!("`{key}` is missing"), hint)
    }

    fn value(&self, key: &str) -> Option<&'a Spanned<DeValue<'a>>> {
        self.entries.get(key)
    }

    fn wrong_kind(&self, key: &str, value: &Spanned<DeValue<'_>>, wanted: &str) -> ConfigError {
        let found = match value.get_ref() {
            DeValue::Integer(number) => number.to_string(),
            other => format!("of type {}", other.type_str()),
        };
        let message = format!("`{key}` must be {wanted}, and is {found}");
        self.refuse(value.span().start, message, format!("write {wanted}"))
    }

    /// A string.
    pub(super) fn text(&self, key: &str) -> Result<Option<At<&'a str>>, ConfigError> {
        let Some(value) = self.value(key) else { return Ok(None) };
        match value.get_ref().as_str() {
            Some(text) => Ok(Some(At { at: value.span().start, value: text })),
            None => Err(self.wrong_kind(key, value, "a text in quotes")),
        }
    }

    /// A list of strings.
    pub(super) fn texts(&self, key: &str) -> Result<Option<At<Vec<At<&'a str>>>>, ConfigError> {
        const WANTED: &str = "a list of texts in quotes, as in [\"a\", \"b\"]";
        let Some(value) = self.value(key) else { return Ok(None) };
        let Some(list) = value.get_ref().as_array() else {
            return Err(self.wrong_kind(key, value, WANTED));
        };
        let mut texts = Vec::new();
        for item in list.iter() {
            match item.get_ref().as_str() {
                Some(text) => texts.push(At { at: item.span().start, value: text }),
                None => return Err(self.wrong_kind(key, item, WANTED)),
            }
        }
        Ok(Some(At { at: value.span().start, value: texts }))
    }

    /// A list whose items are texts, or tables with these keys.
    pub(super) fn items(
        &self,
        key: &str,
        known: &[&str],
    ) -> Result<Option<At<Vec<At<Item<'a>>>>>, ConfigError> {
        const WANTED: &str =
            "a list of texts in quotes, or tables, as in [\"a\", { path = \"b\" }]";
        let Some(value) = self.value(key) else { return Ok(None) };
        let Some(list) = value.get_ref().as_array() else {
            return Err(self.wrong_kind(key, value, WANTED));
        };
        let mut items = Vec::new();
        for item in list.iter() {
            let at = item.span().start;
            let value = match item.get_ref() {
                DeValue::String(text) => Item::Text(text),
                DeValue::Table(entries) => {
                    let what = format!("{}, an item of {key}", self.what);
                    Item::Table(Table::open(self.source, what, at, entries, known)?)
                }
                _ => return Err(self.wrong_kind(key, item, WANTED)),
            };
            items.push(At { at, value });
        }
        Ok(Some(At { at: value.span().start, value: items }))
    }

    /// A switch.
    pub(super) fn flag(&self, key: &str) -> Result<Option<bool>, ConfigError> {
        let Some(value) = self.value(key) else { return Ok(None) };
        match value.get_ref().as_bool() {
            Some(flag) => Ok(Some(flag)),
            None => Err(self.wrong_kind(key, value, "true or false")),
        }
    }

    /// A whole number of at least one.
    pub(super) fn count(&self, key: &str) -> Result<Option<At<u64>>, ConfigError> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let number = value.get_ref().as_integer();
        match number.and_then(|n| u64::from_str_radix(n.as_str(), n.radix()).ok()) {
            Some(count) if count > 0 => Ok(Some(At { at: value.span().start, value: count })),
            _ => Err(self.wrong_kind(key, value, "a whole number of at least 1")),
        }
    }

    /// A whole number within bounds.
    pub(super) fn within(
        &self,
        key: &str,
        bounds: RangeInclusive<u32>,
    ) -> Result<Option<u32>, ConfigError> {
        let Some(value) = self.value(key) else { return Ok(None) };
        let number = value.get_ref().as_integer();
        match number.and_then(|n| u32::from_str_radix(n.as_str(), n.radix()).ok()) {
            Some(number) if bounds.contains(&number) => Ok(Some(number)),
            _ => {
                let wanted = format!("a whole number from {} to {}", bounds.start(), bounds.end());
                Err(self.wrong_kind(key, value, &wanted))
            }
        }
    }

    /// A size, `64MiB`.
    pub(super) fn bytes(&self, key: &str) -> Result<Option<At<Bytes>>, ConfigError> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        let value = parse_bytes(text.value).map_err(|why| {
            let message = format!("`{key}` = \"{}\" {why}", text.value);
            self.refuse(text.at, message, "write a size with its unit, such as \"64MiB\"")
        })?;
        Ok(Some(At { at: text.at, value }))
    }

    /// A size, or none for the word `auto`.
    pub(super) fn bytes_or_auto(&self, key: &str) -> Result<Option<At<Bytes>>, ConfigError> {
        match self.text(key)? {
            Some(text) if text.value != "auto" => self.bytes(key),
            _ => Ok(None),
        }
    }

    /// A span, `6s`.
    pub(super) fn span(&self, key: &str) -> Result<Option<At<Duration>>, ConfigError> {
        let Some(text) = self.text(key)? else { return Ok(None) };
        let value = parse_duration(text.value).map_err(|why| {
            let message = format!("`{key}` = \"{}\" {why}", text.value);
            self.refuse(text.at, message, "write a time with its unit, such as \"6s\"")
        })?;
        Ok(Some(At { at: text.at, value }))
    }

    /// A span, or none within for the word `off`.
    pub(super) fn span_or_off(
        &self,
        key: &str,
    ) -> Result<Option<Option<At<Duration>>>, ConfigError> {
        if self.text(key)?.is_some_and(|word| word.value == "off") {
            return Ok(Some(None));
        }
        Ok(self.span(key)?.map(Some))
    }

    /// Where the value of the key stands, if it has one.
    pub(super) fn place(&self, key: &str) -> Option<usize> {
        self.value(key).map(|value| value.span().start)
    }

    /// Whether the key holds a table rather than a plain value.
    pub(super) fn is_table(&self, key: &str) -> bool {
        self.value(key).is_some_and(|value| value.get_ref().is_table())
    }

    /// A table under a key of fixed name.
    pub(super) fn table(
        &self,
        key: &str,
        known: &[&str],
    ) -> Result<Option<Table<'a>>, ConfigError> {
        let Some((at, entries)) = self.entries(key)? else { return Ok(None) };
        let what =
            if self.what.is_empty() { key.to_owned() } else { format!("{}, {key}", self.what) };
        Table::open(self.source, what, at, entries, known).map(Some)
    }

    /// The tables under a key, each with a name the operator chose.
    pub(super) fn named(
        &self,
        key: &str,
        known: &[&str],
    ) -> Result<Vec<(&'a str, Table<'a>)>, ConfigError> {
        let mut found = Vec::new();
        let Some((_, entries)) = self.entries(key)? else { return Ok(found) };
        for (name_key, value) in entries {
            let name: &str = name_key.get_ref();
            let (at, what) = (name_key.span().start, self.about_named(key, name));
            self.check_name(key, name, at)?;
            let DeValue::Table(inner) = value.get_ref() else {
                return Err(self.wrong_kind(key, value, &format!("a table, [{key}.NAME]")));
            };
            found.push((name, Table::open(self.source, what, at, inner, known)?));
        }
        Ok(found)
    }

    /// The keys the operator chose under a key, and where they stand; the table itself answers for values.
    pub(super) fn open_names(&self, key: &str) -> Result<Option<Named<'a>>, ConfigError> {
        let Some((at, entries)) = self.entries(key)? else { return Ok(None) };
        let names = entries
            .keys()
            .map(|k| At { at: k.span().start, value: k.get_ref().as_ref() })
            .collect();
        Ok(Some((Table { source: self.source, what: self.what.clone(), at, entries }, names)))
    }

    fn entries(&self, key: &str) -> Result<Option<(usize, &'a DeTable<'a>)>, ConfigError> {
        let Some((found, value)) = self.entries.get_key_value(key) else { return Ok(None) };
        match value.get_ref() {
            DeValue::Table(entries) => Ok(Some((found.span().start, entries))),
            _ => Err(self.wrong_kind(key, value, "a table")),
        }
    }

    fn about_named(&self, key: &str, name: &str) -> String {
        if self.what.is_empty() {
            format!("{key} {name}")
        } else {
            format!("{}, {key} {name}", self.what)
        }
    }

    /// Names become export names, words of the command line and words in messages.
    fn check_name(&self, kind: &str, name: &str, at: usize) -> Result<(), ConfigError> {
        if !is_name(name) {
            let hint = format!("use {NAME_RULE}");
            return Err(self.refuse(
                at,
                format!("{kind} name `{}` is not allowed", name.escape_debug()),
                hint,
            ));
        }
        Ok(())
    }
}

/// What names of nodes, groups and volumes may be.
pub const NAME_RULE: &str =
    "up to 63 letters, digits, `-`, `_` and `.`, beginning with neither `-` nor `.`";

/// Whether it is such a name.
#[must_use]
pub fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (1..=63).contains(&name.len()) && name.chars().all(plain) && !name.starts_with(['-', '.'])
}

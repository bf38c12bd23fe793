// SPDX-License-Identifier: Apache-2.0
//! What happens to groups, peers and volumes, as a stream of small facts.

use crate::wire;
use helio_units::WallTime;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// The object exists, with these fields. Without an object: end of the existing objects.
    Exists,
    /// The object was created.
    Create,
    /// A field of the object changed.
    Change,
    /// The object was removed. Without an object: the daemon stopped cleanly, and nothing follows.
    Destroy,
    /// The reader was too slow and missed events; the existing objects follow.
    Lagged,
    /// Nothing happened for 10 s; the connection works.
    Alive,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Exists => "exists",
            Self::Create => "create",
            Self::Change => "change",
            Self::Destroy => "destroy",
            Self::Lagged => "lagged",
            Self::Alive => "alive",
        })
    }
}

/// What an event is about.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Object {
    /// A group, as this node sees it.
    Group,
    /// The other node of a group.
    Peer,
    /// A volume of a group.
    Volume,
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Group => "group",
            Self::Peer => "peer",
            Self::Volume => "volume",
        })
    }
}

/// The value of a field: a word, a number, a flag, or null if there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Value {
    /// Yes or no.
    Flag(bool),
    /// In the unit of the field's name.
    Number(u64),
    /// A word or a name.
    Word(String),
    /// Nothing.
    None,
}

impl<T: fmt::Display> From<Option<T>> for Value {
    fn from(word: Option<T>) -> Self {
        word.map_or(Self::None, |word| Self::Word(word.to_string()))
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(true) => f.write_str("yes"),
            Self::Flag(false) => f.write_str("no"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Word(word) => f.write_str(word),
            Self::None => f.write_str("none"),
        }
    }
}

/// An object's fields by name.
pub type Fields = BTreeMap<String, Value>;

/// A field that changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FieldChange {
    /// What it was.
    pub old: Value,
    /// What it is.
    pub new: Value,
}

/// One event: a line of the stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Number of the event; always grows, also over a restart of the daemon. `exists`, `lagged` and `alive` have the
    /// number of the last change, so `since` works with any number.
    pub sequence: u64,
    /// When, by the node's calendar clock, in milliseconds since 1970-01-01 UTC.
    #[serde(with = "wire::number")]
    #[schemars(with = "u64")]
    pub at_ms: WallTime,
    /// The message.
    pub event: What,
    /// What it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<Object>,
    /// The group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The object's name: the group's, the peer's node or the volume's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// With `exists` and `create`: every field of the object.
    #[serde(default, skip_serializing_if = "Fields::is_empty")]
    pub fields: Fields,
    /// With `change`: the fields that changed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub changed: BTreeMap<String, FieldChange>,
    /// The reason, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// With `lagged`: how many events were missed, of all groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub missed: Option<u64>,
}

impl Event {
    /// An event about nothing in particular.
    #[must_use]
    pub fn bare(sequence: u64, at_ms: WallTime, event: What) -> Self {
        Self {
            sequence,
            at_ms,
            event,
            object: None,
            group: None,
            name: None,
            fields: Fields::new(),
            changed: BTreeMap::new(),
            why: None,
            missed: None,
        }
    }

    /// Whether it ends what it began: the dump of what is there, or the whole stream.
    #[must_use]
    pub fn ends(&self, what: What) -> bool {
        self.event == what && self.object.is_none()
    }
}

/// One line for people and simple tools: `change group name:db state:replicating->queuing`. A text with a space
/// stands in quotes.
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let second = self.at_ms.to_string().replace(' ', "T");
        let (second, ms) = (second.trim_end_matches('Z'), self.at_ms.0 % 1000);
        write!(f, "{second}.{ms:03}Z {} ", self.event)?;
        match self.object {
            None => f.write_str("-")?,
            Some(Object::Group) => write!(f, "group name:{}", shown(&self.name))?,
            Some(object) => {
                write!(f, "{object} group:{} name:{}", shown(&self.group), shown(&self.name))?;
            }
        }
        for (name, value) in &self.fields {
            write!(f, " {name}:{}", quoted(value))?;
        }
        for (name, FieldChange { old, new }) in &self.changed {
            write!(f, " {name}:{}->{}", quoted(old), quoted(new))?;
        }
        if let Some(missed) = self.missed {
            write!(f, " missed:{missed}")?;
        }
        if let Some(why) = &self.why {
            write!(f, " why:{why:?}")?;
        }
        write!(f, " seq:{}", self.sequence)
    }
}

fn shown(name: &Option<String>) -> &str {
    name.as_deref().unwrap_or("-")
}

fn quoted(value: &Value) -> String {
    match value {
        Value::Word(word) if word.contains([' ', '"']) => format!("{word:?}"),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_a_line_with_the_old_and_the_new() {
        let change = |old: &str, new: &str| FieldChange {
            old: Value::Word(old.into()),
            new: Value::Word(new.into()),
        };
        let event = Event {
            object: Some(Object::Group),
            group: Some("db".into()),
            name: Some("db".into()),
            changed: [
                ("state".to_owned(), change("replicating", "queuing")),
                ("changing".to_owned(), change("none", "asking the peer")),
            ]
            .into(),
            why: Some("the link is down".into()),
            ..Event::bare(7, WallTime(1_795_210_565_054), What::Change)
        };
        assert_eq!(
            event.to_string(),
            "2026-11-20T21:36:05.054Z change group name:db changing:none->\"asking the peer\" \
             state:replicating->queuing why:\"the link is down\" seq:7"
        );
    }

    #[test]
    fn values_travel_as_plain_json() {
        let fields: Fields = [
            ("clients".to_owned(), Value::Number(2)),
            ("fault".to_owned(), Value::None),
            ("verdict".to_owned(), Some("ok").into()),
            ("state".to_owned(), Value::Word("logging".into())),
        ]
        .into();
        let text = serde_json::to_string(&fields).expect("is JSON");
        assert_eq!(text, r#"{"clients":2,"fault":null,"state":"logging","verdict":"ok"}"#);
        assert_eq!(serde_json::from_str::<Fields>(&text).expect("reads back"), fields);
    }
}

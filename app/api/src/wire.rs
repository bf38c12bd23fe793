// SPDX-License-Identifier: Apache-2.0
//! How the house's units travel as JSON numbers. The field's name carries the unit there; the type carries it here.

use helio_units::{
    Bytes, Items, MemberState, Mode, Rate, Role, Sequence, State, Verdict, WallTime,
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::borrow::Cow;
use std::time::Duration;

/// A unit that is one unsigned number.
pub(crate) trait Number: Copy {
    /// The number, in the unit's own measure.
    fn number(self) -> u64;
    /// The unit of that number.
    fn of(number: u64) -> Self;
}

macro_rules! number {
    ($($unit:ident),+) => {
        $(impl Number for $unit {
            fn number(self) -> u64 {
                self.0
            }
            fn of(number: u64) -> Self {
                Self(number)
            }
        })+
    };
}
number!(Bytes, Items, Rate, Sequence, WallTime);

/// One unit as a number.
pub(crate) mod number {
    use super::{Deserialize, Deserializer, Number, Serialize, Serializer};

    pub(crate) fn serialize<T: Number, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
        value.number().serialize(to)
    }

    pub(crate) fn deserialize<'de, T: Number, D: Deserializer<'de>>(
        from: D,
    ) -> Result<T, D::Error> {
        u64::deserialize(from).map(T::of)
    }
}

/// One unit as a number, or null where it is not known.
pub(crate) mod number_or_null {
    use super::{Deserialize, Deserializer, Number, Serialize, Serializer};

    pub(crate) fn serialize<T: Number, S: Serializer>(
        value: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        value.map(T::number).serialize(to)
    }

    pub(crate) fn deserialize<'de, T: Number, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(T::of))
    }
}

/// A span as seconds; whole microseconds survive the way there and back.
pub(crate) mod seconds {
    use super::{Deserialize, Deserializer, Duration, Serialize, Serializer, to_span};

    pub(crate) fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        value.as_secs_f64().serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        to_span(f64::deserialize(from)?)
    }
}

/// A span as seconds, or null where it is not known.
pub(crate) mod seconds_or_null {
    use super::{Deserialize, Deserializer, Duration, Serialize, Serializer, to_span};

    pub(crate) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        value.map(|span| span.as_secs_f64()).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        Option::<f64>::deserialize(from)?.map(to_span).transpose()
    }
}

/// A span as whole microseconds.
pub(crate) mod micros {
    use super::{Deserialize, Deserializer, Duration, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        u64::try_from(value.as_micros()).unwrap_or(u64::MAX).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        u64::deserialize(from).map(Duration::from_micros)
    }
}

/// A span as whole microseconds, or null where it is not known.
pub(crate) mod micros_or_null {
    use super::{Deserialize, Deserializer, Duration, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        value.map(|span| u64::try_from(span.as_micros()).unwrap_or(u64::MAX)).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(from)?.map(Duration::from_micros))
    }
}

/// Seconds with a fraction as a span; refuses what no clock can show.
fn to_span<E: de::Error>(seconds: f64) -> Result<Duration, E> {
    Duration::try_from_secs_f64(seconds).map_err(E::custom)
}

/// The words of an enumeration of `helio-units`, described from the enumeration itself.
macro_rules! word {
    ($($name:ident, $word:literal, $all:expr;)+) => {
        $(pub(crate) enum $name {}

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                $word.into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "enum": $all.map(|one| one.word()) })
            }
        })+
    };
}
word! {
    ModeWord, "Mode", Mode::ALL;
    RoleWord, "Role", [Role::Primary, Role::Secondary];
    StateWord, "State", State::ALL;
    MemberWord, "MemberState", MemberState::ALL;
    VerdictWord, "Verdict", Verdict::ALL;
}

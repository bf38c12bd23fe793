// SPDX-License-Identifier: Apache-2.0
//! Texts of a daemon on their way to the terminal. What a terminal obeys, or what changes the order of characters on it,
//! is replaced, so that no name or reason can act on the terminal or look like another one.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Stands for a character that is not shown.
const REPLACED: char = '\u{fffd}';

/// A text without control and formatting characters.
pub(crate) fn text(text: &str) -> String {
    text.chars().map(|c| if is_shown(c) { c } else { REPLACED }).collect()
}

/// An object of the API in which every text is clean.
///
/// # Errors
/// The object has no JSON form, or another one than it is read in.
pub(crate) fn object<T: Serialize + DeserializeOwned>(object: &T) -> Result<T, serde_json::Error> {
    let mut value = serde_json::to_value(object)?;
    scrub(&mut value);
    serde_json::from_value(value)
}

fn scrub(value: &mut Value) {
    match value {
        Value::String(found) if !found.chars().all(is_shown) => *found = text(found),
        Value::Array(items) => items.iter_mut().for_each(scrub),
        Value::Object(fields) => fields.values_mut().for_each(scrub),
        _ => {}
    }
}

fn is_shown(c: char) -> bool {
    let formats = matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    !c.is_control() && !formats
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_obeys_is_replaced_and_letters_stay() {
        assert_eq!(text("db\x1b[2J\u{9b}1m\r\n\u{202e}x"), "db�[2J�1m���x");
        assert_eq!(text("größe-数据"), "größe-数据");
    }

    #[test]
    fn every_text_of_an_object_is_clean() {
        let value = serde_json::json!({ "a": ["\x07", { "b": "\x1b]0;x\x07", "c": 1 }] });
        let expected = serde_json::json!({ "a": ["�", { "b": "�]0;x�", "c": 1 }] });
        assert_eq!(object(&value).expect("it is JSON"), expected);
    }
}

//! The check that an agent's arguments are JSON that every reader reads alike.
//!
//! The bytes that pass are kept and hashed as they are; nothing here rewrites them.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use thiserror::Error;

use crate::text::Untrusted;

/// Levels of objects and arrays, the outermost included.
const MAX_DEPTH: usize = 64;

/// Why some bytes are not the arguments of a call. `inside` is a JSON pointer (RFC 6901), empty for the whole.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ArgsError {
    /// The bytes are no text.
    #[error("the arguments are not UTF-8 from byte {at}")]
    NotUtf8 {
        /// Offset of the first wrong byte.
        at: usize,
    },
    /// The text is no JSON, or holds a number beyond what any reader keeps (1e999).
    #[error("the arguments are not JSON: {what}")]
    NotJson {
        /// What was expected, with its line and column.
        what: String,
    },
    /// The text is JSON, but names no arguments.
    #[error("the arguments must be a JSON object")]
    NotAnObject,
    /// Readers disagree which of the two counts.
    #[error("the key '{}' stands twice in the object at '{}'", key.line(), inside.line())]
    DuplicateKey {
        /// The key, unescaped.
        key: Untrusted,
        /// Where the object is.
        inside: Untrusted,
    },
    /// Deep enough to trouble a reader that recurses.
    #[error("the arguments are nested deeper than {MAX_DEPTH} levels at '{}'", inside.line())]
    TooDeep {
        /// Where the first value too deep is.
        inside: Untrusted,
    },
}

/// Whether the bytes are one JSON object, at most 64 levels deep, in which no key stands twice.
pub fn check_args(bytes: &[u8]) -> Result<(), ArgsError> {
    let text = std::str::from_utf8(bytes).map_err(|error| ArgsError::NotUtf8 {
        at: error.valid_up_to(),
    })?;
    let mut json = serde_json::Deserializer::from_str(text);
    let mut walk = Walk::default();
    let read = walk.deserialize(&mut json).and_then(|()| json.end());
    match (walk.fault, read) {
        (Some(fault), _) => Err(fault),
        (None, Err(error)) => Err(ArgsError::NotJson {
            what: error.to_string(),
        }),
        (None, Ok(())) => Ok(()),
    }
}

/// Reads one value and keeps its keys only.
///
/// What is wrong is left in `fault`: the reader's own error carries no more than a message.
#[derive(Default)]
struct Walk {
    pointer: String,
    depth: usize,
    fault: Option<ArgsError>,
}

impl Walk {
    fn stop<E: Error>(&mut self, fault: ArgsError) -> E {
        let error = E::custom(&fault);
        self.fault = Some(fault);
        error
    }

    fn scalar<E: Error>(&mut self) -> Result<(), E> {
        if self.depth == 0 {
            Err(self.stop(ArgsError::NotAnObject))
        } else {
            Ok(())
        }
    }

    fn enter<E: Error>(&mut self) -> Result<(), E> {
        if self.depth == MAX_DEPTH {
            let inside = Untrusted::from(self.pointer.as_str());
            return Err(self.stop(ArgsError::TooDeep { inside }));
        }
        self.depth += 1;
        Ok(())
    }

    fn step_into(&mut self, step: &str) -> usize {
        let here = self.pointer.len();
        self.pointer.push('/');
        self.pointer
            .push_str(&step.replace('~', "~0").replace('/', "~1"));
        here
    }

    fn step_back(&mut self, here: usize) {
        self.pointer.truncate(here);
    }
}

impl<'de> DeserializeSeed<'de> for &mut Walk {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, value: D) -> Result<(), D::Error> {
        value.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for &mut Walk {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        self.enter()?;
        let mut keys = HashSet::new();
        while let Some(key) = object.next_key::<String>()? {
            if keys.contains(&key) {
                let inside = Untrusted::from(self.pointer.as_str());
                return Err(self.stop(ArgsError::DuplicateKey {
                    key: key.into(),
                    inside,
                }));
            }
            let here = self.step_into(&key);
            object.next_value_seed(&mut *self)?;
            self.step_back(here);
            keys.insert(key);
        }
        self.depth -= 1;
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<(), A::Error> {
        self.scalar()?;
        self.enter()?;
        for index in 0_usize.. {
            let here = self.step_into(&index.to_string());
            let read = array.next_element_seed(&mut *self)?;
            self.step_back(here);
            if read.is_none() {
                break;
            }
        }
        self.depth -= 1;
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        self.scalar()
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        self.scalar()
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        self.scalar()
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        self.scalar()
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        self.scalar()
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        self.scalar()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;

    fn said(bytes: &[u8]) -> String {
        check_args(bytes).map_or_else(|error| error.to_string(), |()| "ok".to_owned())
    }

    #[test]
    fn arguments_are_one_object_that_every_reader_reads_alike() {
        let rows: &[(&[u8], &str)] = &[
            (b"{}", "ok"),
            (
                b" { \"a\" : [ 1, 2.5, -3e7, true, null, \"x\", {} ] }\n",
                "ok",
            ),
            (
                b"{\"n\":9007199254740993,\"m\":123456789012345678901234567890.10}",
                "ok",
            ),
            (b"{\"a\":{\"k\":1},\"b\":{\"k\":1}}", "ok"),
            (b"[]", "the arguments must be a JSON object"),
            (b"null", "the arguments must be a JSON object"),
            (b"1", "the arguments must be a JSON object"),
            (b"\"{}\"", "the arguments must be a JSON object"),
            (
                b"{\"a\":1,\"a\":2}",
                "the key 'a' stands twice in the object at ''",
            ),
            (
                b"{\"a\":1,\"\\u0061\":2}",
                "the key 'a' stands twice in the object at ''",
            ),
            (
                b"{\"x/~y\":[0,{\"\\u001b\":1,\"\\u001b\":1}]}",
                "the key '␛' stands twice in the object at '/x~1~0y/1'",
            ),
            (
                b"{\"a\":\"\xff\"}",
                "the arguments are not UTF-8 from byte 6",
            ),
            (
                b"",
                "the arguments are not JSON: EOF while parsing a value at line 1 column 0",
            ),
            (
                b"{} {}",
                "the arguments are not JSON: trailing characters at line 1 column 4",
            ),
            (
                b"{\"a\":NaN}",
                "the arguments are not JSON: expected value at line 1 column 6",
            ),
            (
                b"{\"a\":1e999}",
                "the arguments are not JSON: number out of range at line 1 column 10",
            ),
            (
                b"{\"a\":1,}",
                "the arguments are not JSON: trailing comma at line 1 column 8",
            ),
        ];
        for (bytes, expected) in rows {
            assert_eq!(said(bytes), *expected, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn sixty_four_levels_are_the_deepest() {
        let nested = |levels: usize| {
            format!(
                "{{\"a\":{}{}}}",
                "[".repeat(levels - 1),
                "]".repeat(levels - 1)
            )
        };
        assert_eq!(said(nested(64).as_bytes()), "ok");
        for levels in [65, 200, 100_000] {
            assert!(
                matches!(
                    check_args(nested(levels).as_bytes()),
                    Err(ArgsError::TooDeep { .. })
                ),
                "{levels}"
            );
        }
    }
}

//! What an event says, made once for log, journal and recordings.

use std::collections::BTreeMap;

use serde_json::{Map, json};

use crate::declaration::{Declaration, Declared};
use crate::field::{Names, Value};
use crate::list::declarations;

/// An event in words, at its time.
#[derive(Clone, Debug)]
pub struct Note {
    /// On the machine's monotonic clock.
    pub at_ns: u64,
    pub declaration: &'static Declaration,
    pub text: String,
    pub fields: Vec<(&'static str, Value)>,
}

impl Note {
    pub fn new(event: &impl Declared, at_ns: u64, names: &dyn Names) -> Self {
        Self {
            at_ns,
            declaration: event.declaration(),
            text: event.text(names),
            fields: event.fields(names),
        }
    }

    /// The message of a recording: `at_ns`, `event`, `level`, `text`, and each field by its name.
    #[must_use]
    pub fn to_json(&self) -> String {
        let level = self.declaration.level.as_str().to_ascii_lowercase();
        let mut message = Map::new();
        message.insert("at_ns".into(), self.at_ns.into());
        message.insert("event".into(), self.declaration.name.into());
        message.insert("level".into(), level.into());
        message.insert("text".into(), self.text.as_str().into());
        let fields = self.fields.iter();
        message.extend(fields.map(|(name, value)| ((*name).into(), value.into())));
        serde_json::Value::Object(message).to_string()
    }
}

/// The units that a name may end in.
const UNITS: &[(&str, &str)] = &[
    ("_ns", "ns"),
    ("_us", "us"),
    ("_ms", "ms"),
    ("_s", "s"),
    ("seconds", "s"),
    ("bytes", "bytes"),
];

/// The unit of a field, by the end of its name.
fn unit(name: &str) -> Option<&'static str> {
    let found = UNITS.iter().find(|(end, _)| name.ends_with(end));
    found.map(|(_, unit)| *unit)
}

/// The JSON Schema of all [messages](Note::to_json).
#[must_use]
pub fn schema() -> String {
    let mut events_of: BTreeMap<&str, (&str, Vec<&str>)> = BTreeMap::new();
    for declaration in declarations() {
        for field in declaration.fields {
            for (name, kind) in field.kind.fields(field.name) {
                let (_, events) = events_of.entry(name).or_insert((kind.json_type(), vec![]));
                events.push(declaration.name);
            }
        }
    }
    let names: Vec<&str> = declarations().map(|declaration| declaration.name).collect();
    let mut properties = Map::new();
    let clock = "ns of the machine's monotonic clock";
    properties.insert(
        "at_ns".into(),
        json!({"type": "integer", "description": clock}),
    );
    properties.insert("event".into(), json!({"type": "string", "enum": names}));
    let levels = ["error", "warn", "info", "debug"];
    properties.insert("level".into(), json!({"type": "string", "enum": levels}));
    properties.insert("text".into(), json!({"type": "string"}));
    for (name, (json_type, events)) in events_of {
        let unit = unit(name).map_or(String::new(), |unit| format!("{unit}; "));
        let description = format!("{unit}of {}", events.join(", "));
        properties.insert(
            name.into(),
            json!({"type": json_type, "description": description}),
        );
    }
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "punctual.note",
        "type": "object",
        "properties": properties,
        "required": ["at_ns", "event", "level", "text"],
    });
    schema.to_string()
}

#[cfg(test)]
mod tests {
    use punctual_core::ModelId;

    use super::*;
    use crate::{DaemonEvent, RtEvent};

    #[test]
    fn a_message_has_its_fields_and_the_schema_knows_them() {
        let event = DaemonEvent::RecordingWritten {
            path: "a \"b\"".into(),
            reason: "stuck",
            seconds: 12,
            bytes: u64::MAX,
        };
        let note = Note::new(&event, 5, &());
        let message: serde_json::Value = serde_json::from_str(&note.to_json()).unwrap();
        let expected = json!({
            "at_ns": 5, "event": "recording-written", "level": "info", "path": "a \"b\"",
            "text": "recorded: a \"b\" (12 s in 9223372036854775807 bytes; reason: stuck)",
            "reason": "stuck", "seconds": 12, "bytes": i64::MAX,
        });
        assert_eq!(message, expected);
        let schema: serde_json::Value = serde_json::from_str(&schema()).unwrap();
        for (name, value) in message.as_object().unwrap() {
            let of_schema = &schema["properties"][name]["type"];
            let is_right = match value {
                serde_json::Value::String(_) => of_schema == "string",
                _ => of_schema == "integer",
            };
            assert!(is_right, "{name}: {value} is no {of_schema}");
        }
        let count = schema["properties"]["event"]["enum"]
            .as_array()
            .map(Vec::len);
        assert_eq!(count, Some(declarations().count()));
    }

    #[test]
    fn the_schema_says_the_units() {
        let schema: serde_json::Value = serde_json::from_str(&schema()).unwrap();
        let description = schema["properties"]["took_us"]["description"].as_str();
        assert_eq!(description, Some("us; of weights-loaded"));
        let loaded = RtEvent::WeightsLoaded {
            model: ModelId(4),
            took_us: 7,
        };
        let note = Note::new(&loaded, 1, &());
        assert_eq!(note.text, "model \"4\": its weights were loaded in 7 us");
    }
}

//! The fields of events: their types, and how each shows itself in a sentence, the journal and JSON.

use std::fmt;

use punctual_core::{ActionId, ClientId, ModelId, PartitionId};

/// The names behind ids, from the plan and the clients of the moment. `()` knows none.
pub trait Names {
    fn partition(&self, _: PartitionId) -> Option<&str> {
        None
    }

    fn model(&self, _: ModelId) -> Option<&str> {
        None
    }

    /// The task that a client feeds.
    fn task_of(&self, _: ClientId) -> Option<&str> {
        None
    }

    /// The process of a client.
    fn pid_of(&self, _: ClientId) -> Option<i32> {
        None
    }
}

impl Names for () {}

/// The value of a field, for people and programs.
#[derive(Clone, PartialEq)]
pub enum Value {
    Whole(i64),
    Ratio(f64),
    Text(String),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(number) => number.fmt(f),
            Self::Ratio(number) => write!(f, "{number:.3}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// `{field:?}` in a sentence is a text in quotes.
impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{text:?}"),
            number => number.fmt(f),
        }
    }
}

impl From<&Value> for serde_json::Value {
    fn from(value: &Value) -> Self {
        match value {
            Value::Whole(number) => Self::from(*number),
            Value::Ratio(number) => Self::from(*number),
            Value::Text(text) => Self::from(text.as_str()),
        }
    }
}

impl log::kv::ToValue for Value {
    fn to_value(&self) -> log::kv::Value<'_> {
        match self {
            Self::Whole(number) => (*number).into(),
            Self::Ratio(number) => (*number).into(),
            Self::Text(text) => text.as_str().into(),
        }
    }
}

/// What a field's values are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Whole,
    Ratio,
    Text,
    /// A client's place; its task and its process are fields as well.
    Client,
}

impl Kind {
    /// The type of its values, as JSON Schema names it.
    #[must_use]
    pub const fn json_type(self) -> &'static str {
        match self {
            Self::Whole | Self::Client => "integer",
            Self::Ratio => "number",
            Self::Text => "string",
        }
    }

    /// The fields that a field of this kind becomes.
    #[must_use]
    pub fn fields(self, name: &'static str) -> Vec<(&'static str, Self)> {
        let whose = [(TASK, Self::Text), (CLIENT_PID, Self::Whole)];
        let more = whose.into_iter().filter(|_| self == Self::Client);
        std::iter::once((name, self)).chain(more).collect()
    }
}

const TASK: &str = "task";
const CLIENT_PID: &str = "client_pid";

/// A type that fields may have.
pub trait Field {
    const KIND: Kind;

    fn value(&self, names: &dyn Names) -> Value;

    /// The field in a sentence.
    fn words(&self, names: &dyn Names) -> Value {
        self.value(names)
    }

    /// Adds the fields that it is for programs.
    fn add(&self, name: &'static str, names: &dyn Names, to: &mut Vec<(&'static str, Value)>) {
        to.push((name, self.value(names)));
    }
}

/// In thousandths: 1,050 is 1.05.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thousandths(pub u32);

macro_rules! field {
    ($kind:ident: $($type:ty = |$value:ident, $names:ident| $made:expr;)*) => {$(
        impl Field for $type {
            const KIND: Kind = Kind::$kind;

            fn value(&self, $names: &dyn Names) -> Value {
                let $value = self;
                Value::$kind($made)
            }
        }
    )*};
}

field! { Whole:
    u8 = |value, _names| i64::from(*value);
    u16 = |value, _names| i64::from(*value);
    u32 = |value, _names| i64::from(*value);
    i32 = |value, _names| i64::from(*value);
    u64 = |value, _names| i64::try_from(*value).unwrap_or(i64::MAX);
    ActionId = |value, names| match value.0.value(names) { Value::Whole(id) => id, _ => i64::MAX };
}

field! { Ratio:
    Thousandths = |value, _names| f64::from(value.0) / 1_000.0;
}

field! { Text:
    String = |value, _names| value.clone();
    &'static str = |value, _names| (*value).to_owned();
    ModelId = |value, names| named(names.model(*value), value.0);
    PartitionId = |value, names| named(names.partition(*value), value.0);
}

/// The name, or the position in the plan of which no name is known.
fn named(name: Option<&str>, position: u16) -> String {
    name.map_or_else(|| position.to_string(), str::to_owned)
}

impl Field for ClientId {
    const KIND: Kind = Kind::Client;

    fn value(&self, _: &dyn Names) -> Value {
        Value::Whole(self.0.into())
    }

    /// Its task first: it is what an operator looks for.
    fn words(&self, names: &dyn Names) -> Value {
        let task = names.task_of(*self).map(|task| format!("task {task}, "));
        let pid = names.pid_of(*self).map(|pid| format!(" (pid {pid})"));
        let [task, pid] = [task, pid].map(Option::unwrap_or_default);
        Value::Text(format!("{task}client {}{pid}", self.0))
    }

    fn add(&self, name: &'static str, names: &dyn Names, to: &mut Vec<(&'static str, Value)>) {
        to.push((name, self.value(names)));
        to.extend(
            names
                .task_of(*self)
                .map(|task| (TASK, Value::Text(task.into()))),
        );
        to.extend(
            names
                .pid_of(*self)
                .map(|pid| (CLIENT_PID, Value::Whole(pid.into()))),
        );
    }
}

//! What is declared of an event, and the macro that reads it.

use log::Level;

use crate::field::{Kind, Names, Value};

/// An event as `list.rs` has it.
#[derive(Debug)]
pub struct Declaration {
    /// In kebab-case: `PUNCTUAL_EVENT` in the journal. Others search for it.
    pub name: &'static str,
    pub level: Level,
    pub writer: Writer,
    /// The figure of the report that counts it, as a path: `tasks[].demotions`.
    pub counted_in: Option<&'static str>,
    /// `MESSAGE_ID` in the journal: for ever, as others search for it. `systemd/catalog` explains it.
    pub message_id: Option<&'static str>,
    pub fields: &'static [FieldDeclaration],
    /// With the fields' names in braces.
    pub sentence: &'static str,
    /// The declaration's comment: whatever the sentence does not say.
    pub about: &'static str,
}

#[derive(Debug)]
pub struct FieldDeclaration {
    /// With its unit as the last part, if it has one.
    pub name: &'static str,
    pub kind: Kind,
}

/// The thread that an event comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    Scheduler,
    Port,
    Intake,
    Housekeeping,
    /// The thread that starts the daemon, and becomes housekeeping.
    Startup,
    /// The ordinary thread that writes recordings.
    Recorder,
}

impl Writer {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scheduler => "scheduler",
            Self::Port => "port",
            Self::Intake => "intake",
            Self::Housekeeping => "housekeeping",
            Self::Startup => "startup",
            Self::Recorder => "recorder",
        }
    }

    /// The name by which `--log` has a level for its events: `PUNCTUAL_TARGET` in the journal.
    #[must_use]
    pub const fn target(self) -> &'static str {
        match self {
            Self::Scheduler => "punctual_daemon::scheduler",
            Self::Port => "punctual_daemon::port",
            Self::Intake => "punctual_daemon::intake",
            Self::Housekeeping => "punctual_daemon::housekeeping",
            Self::Startup => "punctual_daemon::startup",
            Self::Recorder => "punctual_daemon::recorder",
        }
    }
}

/// An event of the list.
pub trait Declared {
    fn declaration(&self) -> &'static Declaration;

    /// The sentence, with names in the place of ids. Words are made on the heap: on an ordinary thread only.
    fn text(&self, names: &dyn Names) -> String;

    /// The fields' values by name, in the order of their declaration.
    fn fields(&self, names: &dyn Names) -> Vec<(&'static str, Value)>;
}

/// Makes an enum of declarations such as
/// ```text
///     /// Why it happens, if the sentence does not say it.
///     Demoted { model: ModelId, overran: u8 }
///         is "demoted", Error from Scheduler, counted in "tasks[].demotions", id "1d1b...",
///         says "model {model:?} demoted: overran {overran} times";
/// ```
/// `counted in` and `id` are optional. A field whose value is in the sentence by its name is there in its
/// [words](crate::field::Field::words).
macro_rules! events {
    (
        $(#[$of_enum:meta])*
        pub enum $Enum:ident {$(
            $(#[doc = $about:literal])*
            $Variant:ident $({ $($field:ident: $type:ty),* $(,)? })?
                is $name:literal, $level:ident from $writer:ident
                $(, counted in $counted_in:literal)? $(, id $id:literal)?,
                says $sentence:literal;
        )*}
    ) => {
        $(#[$of_enum])*
        pub enum $Enum {$(
            $(#[doc = $about])*
            $Variant $({ $($field: $type),* })?,
        )*}

        impl $Enum {
            pub const DECLARATIONS: &[Declaration] = &[$(
                Declaration {
                    name: $name,
                    level: Level::$level,
                    writer: Writer::$writer,
                    counted_in: events!(@optional $($counted_in)?),
                    message_id: events!(@optional $($id)?),
                    fields: &[$($(FieldDeclaration {
                        name: stringify!($field),
                        kind: <$type as Field>::KIND,
                    }),*)?],
                    sentence: $sentence,
                    about: concat!("", $($about),*),
                },
            )*];
        }

        impl Declared for $Enum {
            fn declaration(&self) -> &'static Declaration {
                enum Position { $($Variant),* }
                let position = match self {
                    $(Self::$Variant { .. } => Position::$Variant,)*
                };
                &Self::DECLARATIONS[position as usize]
            }

            fn text(&self, #[allow(unused_variables)] names: &dyn Names) -> String {
                match self {$(
                    // A sentence need not have all fields.
                    #[allow(unused_variables)]
                    Self::$Variant { $($($field),*)? } => {
                        $($(let $field = $field.words(names);)*)?
                        format!($sentence)
                    }
                )*}
            }

            fn fields(&self, names: &dyn Names) -> Vec<(&'static str, Value)> {
                #[allow(unused_mut)]
                let mut found = Vec::new();
                match self {$(
                    Self::$Variant { $($($field),*)? } => {
                        $($($field.add(stringify!($field), names, &mut found);)*)?
                    }
                )*}
                found
            }
        }
    };
    (@optional) => { None::<&'static str> };
    (@optional $value:expr) => { Some($value) };
}
pub(crate) use events;

//! How parameters are declared: once, for both sides. The macros make of a declaration what Rust has of it, and what C++ has
//! (`header.rs` writes that). A field is a number, an [`Address`], an array of these, or a structure that is declared.

/// A device address; 0 where something is not there.
pub type Address = u64;

/// What is done to every structure of parameters.
pub(crate) trait Structure {
    /// How many images a launch computes, if it has to do with a batch.
    fn images(&self) -> Option<u32>;

    fn images_mut(&mut self) -> Option<&mut u32>;

    /// Calls `change` with every address.
    fn for_each_address(&mut self, change: &mut dyn FnMut(&mut u64));
}

/// Structures, laid out as C lays them out.
macro_rules! structures {
    ($(
        $(#[$about:meta])*
        struct $name:ident { $($(#[$of:meta])* $field:ident: $kind:tt,)* }
    )*) => {
        $(
            $(#[$about])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug, Default, PartialEq)]
            pub struct $name { $($(#[$of])* pub $field: $kind,)* }

            const _: () = assert!(
                size_of::<$name>() == 0 $(+ size_of::<$kind>())*,
                "a gap that is no field: addresses come first, then 32-bit numbers"
            );

            impl $crate::declaration::Structure for $name {
                fn images(&self) -> Option<u32> {
                    [$(images!($field, self.$field)),*].into_iter().flatten().next()
                }

                fn images_mut(&mut self) -> Option<&mut u32> {
                    [$(images!($field, &mut self.$field)),*].into_iter().flatten().next()
                }

                #[allow(unused_variables, reason = "a structure may have no address")]
                fn for_each_address(&mut self, change: &mut dyn FnMut(&mut u64)) {
                    $(for_each_address!($kind, self.$field, change);)*
                }
            }
        )*

        /// Their text in C++.
        #[cfg(test)]
        pub(crate) const STRUCTURES: &[$crate::header::Struct] = &[$(
            $crate::header::Struct {
                name: stringify!($name),
                fields: &[$(field_of_c!($kind, $field)),*],
                bytes: size_of::<$name>(),
            }
        ),*];
    };
}

/// Structures that a kernel takes behind its guard; the first token stands for `$` in the macro that is declared for them.
macro_rules! parameters {
    (($d:tt) $($(#[$about:meta])* struct $name:ident $fields:tt)*) => {
        /// Evaluates an expression with the structure of a launch's arguments. Other crates use it to call a trait of their own,
        /// which they implement for each structure.
        #[macro_export]
        macro_rules! with_arguments {
            ($d arguments:expr, $d launch:ident => $d body:expr) => {
                match $d arguments {
                    $($d crate::Arguments::$name($d launch) => $d body,)*
                }
            };
        }

        structures! { $($(#[$about])* struct $name $fields)* }

        /// What a kernel takes behind its [`Guard`].
        #[derive(Clone, Copy, Debug, PartialEq)]
        #[allow(
            clippy::large_enum_variant,
            reason = "copied whole into a launch, never moved about"
        )]
        pub enum Arguments { $($name($name),)* }

        $(impl From<$name> for Arguments {
            fn from(of: $name) -> Self {
                Self::$name(of)
            }
        })*

        impl Arguments {
            pub(crate) fn structure(&self) -> &dyn $crate::declaration::Structure {
                match self { $(Self::$name(structure) => structure,)* }
            }

            pub(crate) fn structure_mut(&mut self) -> &mut dyn $crate::declaration::Structure {
                match self { $(Self::$name(structure) => structure,)* }
            }
        }

        /// How many blocks a launch has: a function of what its kernel takes.
        #[derive(Clone, Copy, Debug)]
        pub enum Grid { $($name(fn(&$name) -> $crate::table::Blocks),)* }

        impl Grid {
            /// `None`: the arguments are another kernel's, or the launcher chooses.
            pub(crate) fn blocks(self, arguments: &Arguments) -> $crate::table::Blocks {
                match (self, arguments) {
                    $((Self::$name(blocks), Arguments::$name(of)) => blocks(of),)*
                    _ => None,
                }
            }

            /// Name of what the kernel takes.
            pub(crate) const fn parameters(self) -> &'static str {
                match self { $(Self::$name(_) => stringify!($name),)* }
            }
        }
    };
}

/// Enumerations whose codes are fields of structures.
macro_rules! codes {
    ($(
        $(#[$about:meta])*
        enum $name:ident { $($(#[$of:meta])* $variant:ident = $code:literal,)* }
    )*) => {
        $(
            $(#[$about])*
            #[repr(u32)]
            #[derive(Clone, Copy, Debug, PartialEq, Eq)]
            pub enum $name { $($(#[$of])* $variant = $code,)* }
        )*

        /// Their text in C++.
        #[cfg(test)]
        pub(crate) const CODES: &[$crate::header::Enum] = &[$(
            $crate::header::Enum {
                name: stringify!($name),
                codes: &[$((stringify!($variant), $code)),*],
            }
        ),*];
    };
}

/// The value of the field `images`.
macro_rules! images {
    (images, $value:expr) => {
        Some($value)
    };
    ($other:ident, $value:expr) => {
        None
    };
}

/// Calls `$change` with the addresses in a field. An address for each image is there for those that the launch computes.
macro_rules! for_each_address {
    (Address, $this:ident.$field:ident, $change:ident) => {
        $change(&mut $this.$field)
    };
    ([Address; IMAGES_MAX], $this:ident.$field:ident, $change:ident) => {{
        let images = $this.images as usize;
        $this.$field.iter_mut().take(images).for_each($change)
    }};
    ([Address; $count:tt], $this:ident.$field:ident, $change:ident) => {
        $this.$field.iter_mut().for_each(&mut *$change)
    };
    (u32, $($number:tt)*) => {};
    (u64, $($number:tt)*) => {};
    (f32, $($number:tt)*) => {};
    ([u32; $count:tt], $($numbers:tt)*) => {};
    ([f32; $count:tt], $($numbers:tt)*) => {};
    ($structure:ident, $this:ident.$field:ident, $change:ident) => {
        $crate::declaration::Structure::for_each_address(&mut $this.$field, $change)
    };
}

/// A field as C++ has it.
#[cfg(test)]
macro_rules! field_of_c {
    ([$kind:ident; $count:tt], $name:ident) => {
        concat!(field_of_c!($kind, $name), "[", stringify!($count), "]")
    };
    (Address, $name:ident) => {
        concat!("u64 ", stringify!($name))
    };
    ($kind:ident, $name:ident) => {
        concat!(stringify!($kind), " ", stringify!($name))
    };
}

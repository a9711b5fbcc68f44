//! `params.cuh`: what is declared in Rust, as the kernels are compiled with it. For a wanted change, run with
//! `PUNCTUAL_REWRITE=1` and read the difference; then `build.py` compiles what includes it.

use crate::IMAGES_MAX;
use crate::params::{self, DIGITS_MAX, SOURCES_MAX, codes, parts};

/// What [`declaration`](crate::declaration) gives for a structure.
pub(crate) struct Struct {
    pub(crate) name: &'static str,
    /// Types and names.
    pub(crate) fields: &'static [&'static str],
    pub(crate) bytes: usize,
}

/// What it gives for an enumeration.
pub(crate) struct Enum {
    pub(crate) name: &'static str,
    pub(crate) codes: &'static [(&'static str, u32)],
}

const HEAD: &str = "\
// Parameters of kernels, written by a test (header.rs) from what params.rs and its modules declare. What each field
// means is said there.
#pragma once

using u8 = unsigned char;
using u16 = unsigned short;
using u32 = unsigned int;
using u64 = unsigned long long;
using f32 = float;

";

/// `CellCode` as constants are written: `CELL_CODE`.
fn upper(name: &str) -> String {
    let words = name.char_indices().map(|(at, letter)| match letter {
        'A'..='Z' if at > 0 => format!("_{letter}"),
        _ => letter.to_ascii_uppercase().to_string(),
    });
    words.collect()
}

fn text_of_enum(of: &Enum) -> String {
    let prefix = upper(of.name);
    let code = |(name, code): &(&str, u32)| format!("    {prefix}_{} = {code},\n", upper(name));
    let codes: String = of.codes.iter().map(code).collect();
    format!("\nenum {} : u32 {{\n{codes}}};\n", of.name)
}

fn text_of_struct(of: &Struct) -> String {
    let (name, bytes) = (of.name, of.bytes);
    let fields: String = of.fields.iter().map(|f| format!("    {f};\n")).collect();
    let check = format!("static_assert(sizeof({name}) == {bytes}, \"as in Rust\");");
    format!("\nstruct {name} {{\n{fields}}};\n{check}\n")
}

fn text() -> String {
    let constants = [
        ("IMAGES_MAX", IMAGES_MAX),
        ("SOURCES_MAX", SOURCES_MAX),
        ("DIGITS_MAX", DIGITS_MAX),
    ];
    let constants = constants.map(|(name, value)| format!("constexpr u32 {name} = {value};\n"));
    let enums = codes::CODES.iter().map(text_of_enum);
    let structs = parts::STRUCTURES.iter().chain(params::STRUCTURES);
    let declared = constants.into_iter().chain(enums);
    let all = declared.chain(structs.map(text_of_struct));
    HEAD.to_owned() + &all.collect::<String>()
}

#[test]
fn the_header_is_what_is_declared() {
    let found = text();
    if std::env::var_os("PUNCTUAL_REWRITE").is_some() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/params.cuh");
        return std::fs::write(file, found).expect("the header is written");
    }
    assert_eq!(found, include_str!("params.cuh"), "see PUNCTUAL_REWRITE");
}

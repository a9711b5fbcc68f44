//! Why a module is not interpreted.

use thiserror::Error;

/// Each names the line of the PTX.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParseError {
    #[error("line {line}: expected {what}, found {found}")]
    Expected {
        line: u32,
        what: &'static str,
        found: String,
    },
    #[error("line {line}: {name} is not declared")]
    Unknown { line: u32, name: String },
    #[error(
        "line {line}: `{text}` is not interpreted: its opcode or the kinds of its operands are not among those that the interpreter has"
    )]
    NotInterpreted { line: u32, text: String },
    #[error("kernel {kernel} has more than 65,536 registers of a kind")]
    Registers { kernel: String },
}

//! Memory that the cores of a partition share without a lock: the only `unsafe` of this crate.
//!
//! - **Operators run on it** ([`team`]; the workspace of a partition, and request buffers whose
//!   claims the leader lends). Within an operator each worker writes its own part of the output
//!   and the inputs lie elsewhere: [`Operands`] cannot be made otherwise, and the parts of every
//!   step are checked when the team is made. Between operators the workers meet at a barrier.
//! - **Weights come and go in it** ([`weights`]): a leader that reads them holds a claim.
#![allow(unsafe_code)]

mod barrier;
mod operands;
pub(crate) mod team;
pub(crate) mod weights;

pub(crate) use operands::{Operand, Operands, Space, Span};

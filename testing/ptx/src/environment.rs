//! What a warp's instructions work on besides its registers.

use crate::float::Arithmetic;
use crate::global::Launched;
use crate::module::Kernel;
use crate::shared::Shared;

/// Where generic addresses of shared memory begin: no address of a process is there.
pub(crate) const SHARED_WINDOW: u64 = 1 << 56;

/// All that a warp's instructions touch besides its registers.
pub(crate) struct Environment<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) parameters: &'a [u8],
    pub(crate) shared: &'a mut Shared,
    pub(crate) memory: &'a mut Launched,
    pub(crate) arithmetic: Arithmetic,
    /// Called before each look at a word that the host writes, with what was done so far; false: the launch is to end.
    pub(crate) look: &'a mut dyn FnMut(&Counts) -> bool,
    pub(crate) clock: fn() -> u64,
    pub(crate) counts: &'a mut Counts,
}

/// What a launch did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Instructions of warps.
    pub instructions: u64,
    /// Products of fragments.
    pub matrix_products: u64,
    /// Rows of `ldmatrix` that had to wait for another of the same banks.
    pub bank_conflicts: u64,
    /// Looks at words that the host writes.
    pub looks: u64,
}

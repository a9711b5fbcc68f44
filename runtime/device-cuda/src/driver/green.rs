//! Green contexts: streams that the driver itself keeps to groups of multiprocessors.
//!
//! The manual's chapter is "Green Contexts" (`group__CUDA__GREEN__CONTEXTS`). A device is split once,
//! as finely as the driver does it; any groups of that split can be joined into a context. What is
//! relied on and wants confirming on hardware: that a function of the primary context may be launched into
//! such a stream, and that groups keep their multiprocessors from one context to the next.

use std::sync::Arc;

use cudarc::driver::sys::{CUdevResource, CUdevResourceType};

use super::context::Context;
use super::error::{CallError, Code};
use super::library::Gpu;
use super::stream::{GreenContext, Stream};
use super::symbols::GreenSymbols;

/// Why there are no green contexts, or not this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GreenError {
    #[error("the driver has no `{0}`: green contexts need one of CUDA 12.5 or later")]
    MissingSymbol(&'static str),
    #[error(transparent)]
    Call(#[from] CallError),
    /// No groups, or one that is not there.
    #[error(
        "group {group} of {groups}: name groups that the device was split into, and at least one"
    )]
    NoSuchGroup {
        /// The first that is not there.
        group: usize,
        groups: usize,
    },
}

/// The groups of multiprocessors that a device is split into.
pub struct Groups {
    symbols: Arc<GreenSymbols>,
    gpu: Gpu,
    /// Outputs of one split, as joining demands.
    groups: Box<[CUdevResource]>,
}

// SAFETY: descriptions of parts of a device, plain data; the table is of functions.
unsafe impl Send for Groups {}
// SAFETY: as above.
unsafe impl Sync for Groups {}

/// Most groups that are made of a device: as many as masks have bits.
const GROUPS_MAX: u32 = 128;

/// `CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING`: groups as small as two multiprocessors also where
/// clusters of blocks would need more. Our kernels have no clusters.
const FINE: u32 = 1;

impl Groups {
    /// Splits a device as finely as the driver does (`cuDeviceGetDevResource`, `cuDevSmResourceSplitByCount`).
    pub fn split(gpu: Gpu) -> Result<Self, GreenError> {
        let symbols = GreenSymbols::of(gpu.driver().symbols).map_err(GreenError::MissingSymbol)?;
        let mut whole = nothing();
        let sms = CUdevResourceType::CU_DEV_RESOURCE_TYPE_SM;
        // SAFETY: a valid place for the result, and a device that exists.
        let code = unsafe { (symbols.get_resource)(gpu.as_raw(), &raw mut whole, sms) };
        CallError::check("cuDeviceGetDevResource", code)?;
        // One multiprocessor is less than any driver makes, so it takes its least.
        let groups = split(&symbols, &whole, FINE).or_else(|error| match error.code {
            Code::INVALID_VALUE | Code::NOT_SUPPORTED => split(&symbols, &whole, 0),
            _ => Err(error),
        })?;
        Ok(Self {
            symbols: Arc::new(symbols),
            gpu,
            groups,
        })
    }

    #[must_use]
    pub fn count(&self) -> usize {
        self.groups.len()
    }

    /// Multiprocessors of all groups together: a remainder belongs to none.
    #[must_use]
    pub fn multiprocessors(&self) -> u32 {
        self.groups.iter().map(multiprocessors).sum()
    }

    /// A stream that is kept to some groups (`cuDevResourceGenerateDesc`, `cuGreenCtxCreate`,
    /// `cuGreenCtxStreamCreate`), in a context of its own. `context` is the primary one.
    pub fn stream(
        &self,
        context: &Arc<Context>,
        groups: impl IntoIterator<Item = usize>,
        priority: i32,
    ) -> Result<Stream, GreenError> {
        /// `CU_STREAM_NON_BLOCKING`, which must be said.
        const FLAGS: u32 = 1;
        context.bind()?;
        let green = self.context(context, groups)?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: a valid place for the result, and a context that was just made.
        let code =
            unsafe { (self.symbols.create_stream)(&raw mut raw, green.raw, FLAGS, priority) };
        CallError::check("cuGreenCtxStreamCreate", code)?;
        // SAFETY: the stream was just made in `green`, which is of the device of the groups; the
        // driver refuses contexts of other devices.
        Ok(unsafe { Stream::of_green(context, raw, green) })
    }

    fn context(
        &self,
        context: &Arc<Context>,
        groups: impl IntoIterator<Item = usize>,
    ) -> Result<GreenContext, GreenError> {
        /// `CU_GREEN_CTX_DEFAULT_STREAM`: had to be said until CUDA 13.
        const FLAGS: u32 = 1;
        let no_such = |group| GreenError::NoSuchGroup {
            group,
            groups: self.groups.len(),
        };
        let find = |group| self.groups.get(group).copied().ok_or(no_such(group));
        let joined: Result<Vec<CUdevResource>, GreenError> = groups.into_iter().map(find).collect();
        let mut joined = joined?;
        if joined.is_empty() {
            return Err(no_such(0));
        }
        let mut description = std::ptr::null_mut();
        let (first, count) = (joined.as_mut_ptr(), joined.len() as u32);
        // SAFETY: a valid place for the result, and as many resources of one split as said.
        let code = unsafe { (self.symbols.describe)(&raw mut description, first, count) };
        CallError::check("cuDevResourceGenerateDesc", code)?;
        let mut raw = std::ptr::null_mut();
        let create = self.symbols.create;
        // SAFETY: a valid place for the result, a description that was just made, its device.
        let code = unsafe { create(&raw mut raw, description, self.gpu.as_raw(), FLAGS) };
        CallError::check("cuGreenCtxCreate", code)?;
        Ok(GreenContext {
            context: context.clone(),
            symbols: self.symbols.clone(),
            raw,
        })
    }
}

fn split(
    symbols: &GreenSymbols,
    whole: &CUdevResource,
    flags: u32,
) -> Result<Box<[CUdevResource]>, CallError> {
    let mut count = GROUPS_MAX.min(multiprocessors(whole));
    let mut groups = vec![nothing(); count as usize];
    let mut rest = nothing();
    let (to, rest) = (groups.as_mut_ptr(), &raw mut rest);
    // SAFETY: there is room for as many groups as said, and for the rest.
    let code = unsafe { (symbols.split)(to, &raw mut count, whole, rest, flags, 1) };
    CallError::check("cuDevSmResourceSplitByCount", code)?;
    groups.truncate(count as usize);
    Ok(groups.into())
}

/// A resource that the driver will fill in. Its size has been the same in every version so far.
fn nothing() -> CUdevResource {
    // SAFETY: numbers and bytes, of which zeros are values; the type's 0 is "invalid".
    unsafe { std::mem::zeroed() }
}

fn multiprocessors(resource: &CUdevResource) -> u32 {
    // SAFETY: the driver said that it is of this type, or it is all zeros.
    unsafe { resource.__bindgen_anon_1.sm.smCount }
}

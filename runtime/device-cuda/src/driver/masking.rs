//! Streams that are kept to TPCs by masks: of the stream, or of each of its launches.

use std::ffi::OsStr;

use libsmctrl_sys::launch_mask::{self, Generation, InstallError, LaunchMasks};
use libsmctrl_sys::raw::{Library, RawError};
use libsmctrl_sys::stream_mask::{self, LayoutError, Place};
use libsmctrl_sys::{DriverKey, NoDrivers, TpcMask};

use super::error::CallError;
use super::library::Gpu;
use super::stream::Stream;
use super::symbols::export_table;

/// A way to mask streams that works with this process's driver.
#[derive(Debug)]
pub struct Masking(Way);

#[derive(Debug)]
enum Way {
    /// We write the mask where the driver keeps it.
    Native(Place),
    Library(Library),
    /// Our callback writes it into each launch's descriptor.
    Launches(LaunchMasks),
}

/// Why a stream was not masked.
#[derive(Debug, thiserror::Error)]
pub enum MaskError {
    /// The driver's masks are too small.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    #[error(transparent)]
    Library(#[from] RawError),
    /// Our table does not know the driver.
    #[error(transparent)]
    Unknown(#[from] stream_mask::UnknownDriver),
    /// There is no driver for this processor.
    #[error(transparent)]
    NoDrivers(#[from] NoDrivers),
    /// The driver does not call back for launches.
    #[error(transparent)]
    Launches(#[from] InstallError),
    #[error("the driver has no cuGetExportTable: masks of launches need it")]
    NoExportTable,
    #[error(transparent)]
    Call(#[from] CallError),
    /// Its multiprocessors are given by its context.
    #[error("a stream of a green context has no mask: make one with cuStreamCreateWithPriority")]
    Green,
}

impl Masking {
    /// Masks written by ourselves at `place` in the objects of streams.
    ///
    /// # Safety
    /// Either the place was confirmed on this device and this process's driver, or this process is there to find out
    /// and may die of it.
    #[must_use]
    pub const unsafe fn native(place: Place) -> Self {
        Self(Way::Native(place))
    }

    /// Masks written by libsmctrl, which must have been tried.
    ///
    /// # Safety
    /// `library` was opened for this process's driver.
    #[must_use]
    pub unsafe fn by(library: Library) -> Self {
        Self(Way::Library(library))
    }

    /// libsmctrl without a trial in a child process, as another process has calibrated with it.
    ///
    /// # Safety
    /// As of [`native`](Self::native), of libsmctrl in `file`.
    pub unsafe fn by_known(file: &OsStr, key: DriverKey) -> Result<Self, RawError> {
        // SAFETY: by the caller's promise, another process has called it on this driver and came back.
        let library = unsafe { Library::open_tried(file, key) }?;
        Ok(Self(Way::Library(library)))
    }

    /// Masks of launches, for streams of this device, whose descriptors hold masks as `found` says or, without, as is
    /// published.
    ///
    /// # Safety
    /// Either the callback and `found` or the published layouts were confirmed on this device and driver, or this process is there to
    /// find out and may die of it.
    pub unsafe fn of_launches(
        gpu: Gpu,
        found: Option<launch_mask::Layout>,
    ) -> Result<Self, MaskError> {
        let get = export_table(gpu.driver().symbols).ok_or(MaskError::NoExportTable)?;
        let generation = Generation::of_compute_capability(gpu.compute_capability()?.0);
        // SAFETY: the driver's own function, of a library that is never unloaded; the rest is the caller's promise.
        let masks = unsafe { LaunchMasks::install(get, generation, found) }?;
        Ok(Self(Way::Launches(masks)))
    }

    /// Bits of its masks, and so TPCs at most.
    #[must_use]
    pub fn bits(&self) -> u32 {
        match &self.0 {
            Way::Native(place) => place.layout.bits(),
            Way::Library(library) => library.bits(),
            Way::Launches(masks) => masks.bits(),
        }
    }

    /// Keeps all later launches of a stream to the TPCs of `mask`. The stream is idle.
    pub fn mask(&self, stream: &mut Stream, mask: TpcMask) -> Result<(), MaskError> {
        if stream.is_green() {
            return Err(MaskError::Green);
        }
        let raw = stream.as_raw().cast();
        // SAFETY: the stream exists, is one that `cuStreamCreateWithPriority` made, and belongs to the
        // driver that this was made for, as a process has one driver. It is borrowed mutably: no other
        // thread launches into it now.
        unsafe {
            match &self.0 {
                Way::Native(place) => stream_mask::write(raw, *place, mask)?,
                Way::Library(library) => library.set_stream_mask(raw, mask)?,
                Way::Launches(masks) => stream.mask_launches(*masks, mask),
            }
        }
        Ok(())
    }
}

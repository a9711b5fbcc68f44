//! Request buffers as intake threads see them: the place for a request's prepared input.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use punctual_core::ModelId;
use punctual_model::VECTORS_MAX;
use thiserror::Error;

use crate::regions::{BufferGuard, ClaimedRegions};

/// Where a model's input lies: planar `f32`, plane after plane, with zeros around each plane as
/// wide as the first convolution wants them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputLayout {
    /// Planes (of a picture 3: red, green, blue).
    pub channels: usize,
    /// Rows of a plane, without the zeros.
    pub height: usize,
    /// Pixels a row, without the zeros.
    pub width: usize,
    /// Floats from a row to the next.
    pub row_stride: usize,
    /// Floats from a plane to the next.
    pub plane_stride: usize,
    /// Floats from the start of the request buffer to the first pixel of the first plane.
    pub offset: usize,
    /// Where the vectors lie that come with the input; those behind the network's last one have no length.
    pub vectors: [VectorPlace; VECTORS_MAX],
}

/// Floats of a request buffer that hold a vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VectorPlace {
    pub offset: usize,
    pub length: usize,
}

impl InputLayout {
    /// Floats from the first pixel of the first plane to the last of the last, both included.
    #[must_use]
    pub fn span(&self) -> usize {
        (self.channels - 1) * self.plane_stride + (self.height - 1) * self.row_stride + self.width
    }
}

/// Hands out the input areas of the request buffers; one clone for each intake thread.
///
/// The protocol: after `Action::Prepare` for request buffer `b` an intake thread claims `b`,
/// writes the input, drops the writer, and only then lets `Event::Prepared` be seen. The device
/// claims `b` while it runs a stage for it. Each claim sees what the one before it wrote.
/// Claiming never waits and never allocates.
#[derive(Clone)]
pub struct InputBuffers {
    shared: Arc<Shared>,
}

struct Shared {
    regions: Arc<ClaimedRegions>,
    /// The model whose layout a buffer's zeros are in, plus one; 0 before the first use.
    owner: Box<[AtomicU32]>,
    layouts: Box<[InputLayout]>,
}

/// Why an input area is unavailable: the caller broke the protocol, or the device hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ClaimError {
    /// A writer or a running stage holds it.
    #[error("request buffer {0} is in use: prepare it only after Action::Prepare, and once")]
    InUse(u16),
    /// What was to prepare a frame into it has not ended.
    #[error(
        "the device may still write to request buffer {0}: use it when the device was restarted"
    )]
    Withheld(u16),
    #[error("request buffer {buffer} does not exist: there are {buffers}")]
    UnknownBuffer {
        buffer: u16,
        /// How many there are.
        buffers: usize,
    },
    #[error("model {} is not loaded", .0.0)]
    UnknownModel(ModelId),
}

impl InputBuffers {
    /// `count` buffers of `floats`, for models with these input layouts.
    ///
    /// # Panics
    /// If an input does not fit a buffer.
    #[must_use]
    pub fn new(count: u16, floats: usize, layouts: Box<[InputLayout]>) -> Self {
        let buffers = Self::awaited(count, floats, layouts);
        let regions = buffers.regions();
        (0..regions.count()).for_each(|index| regions.bring(index));
        buffers
    }

    /// The same, whose memory is still to be [brought](ClaimedRegions::bring) before anything is prepared in it.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    #[must_use]
    pub fn awaited(count: u16, floats: usize, layouts: Box<[InputLayout]>) -> Self {
        let count = usize::from(count);
        assert!(
            layouts
                .iter()
                .all(|layout| layout.offset + layout.span() <= floats
                    && layout.vectors.iter().all(|v| v.offset + v.length <= floats)),
            "an input does not fit into request buffers of {floats} floats"
        );
        Self {
            shared: Arc::new(Shared {
                regions: Arc::new(ClaimedRegions::awaited(count, floats)),
                owner: (0..count).map(|_| AtomicU32::new(0)).collect(),
                layouts,
            }),
        }
    }

    pub fn regions(&self) -> &Arc<ClaimedRegions> {
        &self.shared.regions
    }

    /// Where the buffers lie in this process, in the order of their indices, for as long as a clone of
    /// this exists: for devices that read inputs in place. Read one only while it is claimed.
    pub fn places(&self) -> impl Iterator<Item = NonNull<[f32]>> {
        self.shared.regions.places()
    }

    /// Where `model`'s input lies; none if there is no such model.
    #[must_use]
    pub fn layout(&self, model: ModelId) -> Option<InputLayout> {
        self.shared.layouts.get(model.index()).copied()
    }

    /// The input area of request buffer `buffer`, laid out for `model`, until the writer is dropped.
    ///
    /// # Errors
    /// [`ClaimError`], when the buffer is in use or withheld, or something does not exist.
    pub fn claim(&self, buffer: u16, model: ModelId) -> Result<InputWriter<'_>, ClaimError> {
        let shared = &*self.shared;
        let layout = self.layout(model).ok_or(ClaimError::UnknownModel(model))?;
        let index = usize::from(buffer);
        if index >= shared.regions.count() {
            return Err(ClaimError::UnknownBuffer {
                buffer,
                buffers: shared.regions.count(),
            });
        }
        let refused = || {
            if shared.regions.is_withheld(index) {
                ClaimError::Withheld(buffer)
            } else {
                ClaimError::InUse(buffer)
            }
        };
        let mut claim = shared.regions.claim(index).ok_or_else(refused)?;
        // Models put their zeros in different places: the first use by another model clears the
        // buffer. Relaxed: only the holder of the claim reads or writes this.
        let owner = u32::from(model.0) + 1;
        if shared.owner[index].swap(owner, Ordering::Relaxed) != owner {
            claim.floats().fill(0.0);
        }
        Ok(InputWriter { claim, layout })
    }
}

/// The right to write one request's input. Dropping it makes the input visible to the device.
pub struct InputWriter<'a> {
    claim: BufferGuard<'a>,
    layout: InputLayout,
}

impl InputWriter<'_> {
    /// Where things lie; `offset` has been applied to [`pixels`](Self::pixels) already.
    #[must_use]
    pub fn layout(&self) -> InputLayout {
        self.layout
    }

    /// Which request buffer it is.
    #[must_use]
    pub fn buffer(&self) -> usize {
        self.claim.index()
    }

    /// Keeps the buffer out of use after this, until the device was made again: it may still write there.
    pub fn withhold(&self) {
        self.claim.withhold();
    }

    /// From the first pixel of the first plane to the last of the last. What lies between the
    /// rows are zeros that must stay zeros.
    pub fn pixels(&mut self) -> &mut [f32] {
        let range = self.layout.offset..self.layout.offset + self.layout.span();
        &mut self.claim.floats()[range]
    }

    /// The place of vector `at` of the input, to be written whole. Empty if the network has no such vector.
    pub fn vector(&mut self, at: usize) -> &mut [f32] {
        let place = self.layout.vectors.get(at).copied().unwrap_or_default();
        &mut self.claim.floats()[place.offset..place.offset + place.length]
    }

    /// Writes a whole input given as `[channel][row][column]`.
    ///
    /// # Panics
    /// If `planar` is not `channels * height * width` long.
    pub fn write_planar(&mut self, planar: &[f32]) {
        let layout = self.layout;
        assert_eq!(
            planar.len(),
            layout.channels * layout.height * layout.width,
            "length of a planar input"
        );
        let pixels = self.pixels();
        for (index, row) in planar.chunks_exact(layout.width).enumerate() {
            let (channel, y) = (index / layout.height, index % layout.height);
            let start = channel * layout.plane_stride + y * layout.row_stride;
            pixels[start..start + layout.width].copy_from_slice(row);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(height: usize, width: usize, halo: usize) -> InputLayout {
        let row_stride = width + 2 * halo;
        InputLayout {
            channels: 3,
            height,
            width,
            row_stride,
            plane_stride: (height + 2 * halo) * row_stride,
            offset: halo * row_stride + halo,
            vectors: Default::default(),
        }
    }

    #[test]
    fn an_input_lands_between_its_zeros_and_another_model_starts_from_zeros() {
        let layouts = [layout(2, 2, 1), layout(3, 3, 0)];
        let buffers = InputBuffers::new(2, 48, Box::new(layouts));
        let ones = [1.0; 12];
        buffers
            .claim(1, ModelId(0))
            .expect("free")
            .write_planar(&ones);
        let mut claim = buffers.regions().claim(1).expect("released");
        let floats = claim.floats();
        assert_eq!(floats.iter().filter(|&&x| x == 1.0).count(), 12);
        assert_eq!(floats[5..7], [1.0, 1.0]);
        assert_eq!(floats[..5], [0.0; 5]);
        drop(claim);
        let mut writer = buffers.claim(1, ModelId(1)).expect("free");
        assert!(writer.pixels().iter().all(|&x| x == 0.0));
    }

    #[test]
    fn a_buffer_in_use_is_refused_and_not_waited_for() {
        let buffers = InputBuffers::new(1, 48, Box::new([layout(2, 2, 1)]));
        let writer = buffers.claim(0, ModelId(0)).expect("free");
        assert_eq!(
            buffers.claim(0, ModelId(0)).err(),
            Some(ClaimError::InUse(0))
        );
        drop(writer);
        assert!(buffers.claim(0, ModelId(0)).is_ok());
        assert_eq!(
            buffers.claim(0, ModelId(1)).err(),
            Some(ClaimError::UnknownModel(ModelId(1)))
        );
        assert_eq!(
            buffers.claim(1, ModelId(0)).err(),
            Some(ClaimError::UnknownBuffer {
                buffer: 1,
                buffers: 1
            })
        );
    }
}

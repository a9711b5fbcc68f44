//! Inputs that the client prepared itself: taken as they are, and looked through for what is no number.

use punctual_types::SharedBytes;

use super::frame::CropRows;
use super::pieces;
use super::spec::{PlanarOutput, PreprocessError, PreprocessSpec};

/// A value of a tensor is infinite or no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a value of the tensor is not finite")]
pub struct NotFinite;

/// Whether the frame is the network's input.
pub(super) fn check(spec: &PreprocessSpec) -> Result<(), PreprocessError> {
    let (found, output, channels) = (spec.frame.size(), spec.output, spec.channels);
    let rows = u64::from(output.height) * u64::from(channels);
    let same =
        spec.crop == output && found.width == output.width && rows == u64::from(found.height);
    if same {
        Ok(())
    } else {
        Err(PreprocessError::TensorSize {
            found,
            channels,
            output,
        })
    }
}

/// Takes rows of little-endian `f32`, channel after channel. Each value is read once and then looked at: what the
/// network sees is finite, whatever the memory holds by then.
pub(super) fn take(
    rows: &CropRows,
    frame: SharedBytes<'_>,
    height: usize,
    output: &mut PlanarOutput<'_>,
) -> Result<(), NotFinite> {
    let plane = rows.planes()[0];
    let width = plane.len / 4;
    let mut finite = true;
    let mut piece = [0; pieces::BYTES];
    for index in 0..plane.count {
        let (channel, y) = (index / height, index % height);
        let start = output.offset + channel * output.plane_stride + y * output.row_stride;
        let row = plane.row(index, frame);
        let to = &mut output.data[start..][..width];
        for at in pieces::starts(row) {
            let piece = pieces::load::<false>(row, at, &mut piece);
            let numbers = piece.as_chunks::<4>().0.iter();
            for (to, bytes) in to[at / 4..].iter_mut().zip(numbers) {
                *to = f32::from_le_bytes(*bytes);
                finite &= to.is_finite();
            }
        }
    }
    if finite { Ok(()) } else { Err(NotFinite) }
}

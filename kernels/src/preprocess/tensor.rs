//! Inputs that the client prepared itself: copied, and looked through for what is no number.

use super::spec::{PlanarOutput, PreprocessError, PreprocessSpec};
use punctual_types::Size;

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

/// Copies rows of little-endian `f32` without gaps, channel after channel.
pub(super) fn copy(
    copy: &[u8],
    plane: Size,
    channels: usize,
    output: &mut PlanarOutput<'_>,
) -> Result<(), NotFinite> {
    let (width, height) = (plane.width as usize, plane.height as usize);
    let rows = copy.as_chunks::<4>().0.chunks_exact(width);
    let mut finite = true;
    for (index, row) in rows.take(channels * height).enumerate() {
        let (channel, y) = (index / height, index % height);
        let start = output.offset + channel * output.plane_stride + y * output.row_stride;
        for (to, bytes) in output.data[start..][..width].iter_mut().zip(row) {
            *to = f32::from_le_bytes(*bytes);
            finite &= to.is_finite();
        }
    }
    if finite { Ok(()) } else { Err(NotFinite) }
}

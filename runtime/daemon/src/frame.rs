//! A frame's geometry, in the words of the crates that know nothing of plans.

use punctual_ipc::FrameSpec;
use punctual_kernels::preprocess::{self, FrameLayout};
use punctual_plan::{FramePlan, PixelFormat};

/// For the channel.
pub fn spec(plan: &FramePlan) -> FrameSpec {
    let format = match plan.format {
        PixelFormat::Rgb8 => punctual_ipc::PixelFormat::Rgb8,
        PixelFormat::Nv12 => punctual_ipc::PixelFormat::Nv12,
    };
    FrameSpec::strided(format, plan.size.width, plan.size.height, plan.stride)
}

/// For the preparation.
pub fn layout(plan: &FramePlan) -> FrameLayout {
    let spec = spec(plan);
    FrameLayout {
        format: match plan.format {
            PixelFormat::Rgb8 => preprocess::PixelFormat::Rgb8,
            PixelFormat::Nv12 => preprocess::PixelFormat::Nv12,
        },
        width: spec.width,
        height: spec.height,
        row_stride: spec.row_stride,
        chroma_offset: spec.chroma_offset,
        chroma_stride: spec.chroma_stride,
    }
}

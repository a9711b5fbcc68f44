//! A frame's geometry, in the words of the crates that know nothing of plans.

use punctual_ipc::FrameSpec;
use punctual_kernels::preprocess::FrameLayout;
use punctual_plan::{FramePlan, PixelFormat};

/// For the channel.
pub fn spec(plan: &FramePlan) -> FrameSpec {
    let (chroma_offset, chroma_stride) = chroma(plan);
    FrameSpec {
        format: match plan.format {
            PixelFormat::Rgb8 => punctual_ipc::PixelFormat::Rgb8,
            PixelFormat::Nv12 => punctual_ipc::PixelFormat::Nv12,
        },
        width: plan.size.width,
        height: plan.size.height,
        row_stride: plan.stride,
        chroma_offset,
        chroma_stride,
    }
}

/// For the preparation.
pub fn layout(plan: &FramePlan) -> FrameLayout {
    let (chroma_offset, chroma_stride) = chroma(plan);
    FrameLayout {
        format: match plan.format {
            PixelFormat::Rgb8 => punctual_kernels::preprocess::PixelFormat::Rgb8,
            PixelFormat::Nv12 => punctual_kernels::preprocess::PixelFormat::Nv12,
        },
        width: plan.size.width,
        height: plan.size.height,
        row_stride: plan.stride,
        chroma_offset,
        chroma_stride,
    }
}

/// Where the chroma plane begins and its stride: right behind luma, with the same stride.
fn chroma(plan: &FramePlan) -> (u32, u32) {
    match plan.format {
        PixelFormat::Rgb8 => (0, 0),
        PixelFormat::Nv12 => (plan.stride * plan.size.height, plan.stride),
    }
}

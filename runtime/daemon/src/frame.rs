//! A frame's geometry, in the words of the crates that know nothing of plans.

use punctual_ipc::FrameSpec;
use punctual_kernels::preprocess::{self, FrameLayout};
use punctual_plan::{FramePlan, PixelFormat};

pub fn spec(plan: &FramePlan) -> FrameSpec {
    let format = match plan.format {
        PixelFormat::Rgb8 => punctual_ipc::PixelFormat::Rgb8,
        PixelFormat::Nv12 => punctual_ipc::PixelFormat::Nv12,
        PixelFormat::Bgr8 => punctual_ipc::PixelFormat::Bgr8,
        PixelFormat::Gray8 => punctual_ipc::PixelFormat::Gray8,
        PixelFormat::Yuyv => punctual_ipc::PixelFormat::Yuyv,
    };
    FrameSpec::strided(format, plan.size.width, plan.size.height, plan.stride)
}

/// For the preparation of frames that lie as the plan says.
pub fn layout(plan: &FramePlan) -> FrameLayout {
    layout_of(&spec(plan))
}

/// For the preparation of a client's frames, wherever it has its rows and planes.
pub fn layout_of(spec: &FrameSpec) -> FrameLayout {
    FrameLayout {
        format: match spec.format {
            punctual_ipc::PixelFormat::Rgb8 => preprocess::PixelFormat::Rgb8,
            punctual_ipc::PixelFormat::Nv12 => preprocess::PixelFormat::Nv12,
            punctual_ipc::PixelFormat::Bgr8 => preprocess::PixelFormat::Bgr8,
            punctual_ipc::PixelFormat::Gray8 => preprocess::PixelFormat::Gray8,
            punctual_ipc::PixelFormat::Yuyv => preprocess::PixelFormat::Yuyv,
        },
        width: spec.width,
        height: spec.height,
        offset: spec.offset,
        row_stride: spec.row_stride,
        chroma_offset: spec.chroma_offset,
        chroma_stride: spec.chroma_stride,
    }
}

//! Measuring a network on this machine, with a progress bar.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use punctual_device::profile::{self, Effort, Frame, MeasureError, PixelFormat, Request, Size};
use punctual_model::{Package, Profile};
use punctual_plan::{FramePlan, ModelNeeds, Needs};
use punctual_platform::affinity;

/// What to measure of one model so that a plan can be made from the manifest that needs it.
/// `direct`: with the general solution of every operator, without choosing any.
pub fn request(needs: &Needs, model: &ModelNeeds, effort: Effort, direct: bool) -> Request {
    Request {
        board: needs.board.clone(),
        power_mode: needs
            .power_mode
            .clone()
            .unwrap_or_else(|| "default".to_owned()),
        batches: model.batches.clone(),
        units: model.units.clone(),
        cores: affinity::available_cores().unwrap_or_default(),
        frames: model.frames.iter().map(frame).collect(),
        effort,
        direct,
    }
}

fn frame(plan: &FramePlan) -> Frame {
    let format = match plan.format {
        punctual_plan::PixelFormat::Rgb8 => PixelFormat::Rgb8,
        punctual_plan::PixelFormat::Nv12 => PixelFormat::Nv12,
    };
    let size = |size: punctual_plan::Size| Size {
        width: size.width,
        height: size.height,
    };
    Frame::new(format, size(plan.size), plan.stride, size(plan.crop))
}

/// Measures, and shows on standard error how far it is.
///
/// # Errors
/// As [`profile::measure`].
pub fn measure(name: &str, package: &Package, request: &Request) -> Result<Profile, MeasureError> {
    let bar = ProgressBar::with_draw_target(None, target());
    bar.set_style(
        ProgressStyle::with_template("measuring {prefix} [{bar:30}] {pos}/{len} {msg}")
            .expect("the template is a constant"),
    );
    bar.set_prefix(name.to_owned());
    let measured = profile::measure(package, request, &mut |progress| {
        bar.set_length(u64::from(progress.total));
        bar.set_position(u64::from(progress.done));
        bar.set_message(progress.what.to_string());
    });
    bar.finish_and_clear();
    measured
}

fn target() -> ProgressDrawTarget {
    if std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    }
}

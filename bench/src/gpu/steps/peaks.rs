//! The highest rates that our kernels reach: what is far above a device's peak was not measured, and far below means that
//! something holds it back.

use punctual_cuda_kernels::images::ImageError;
use punctual_cuda_measuring::launcher::{LaunchError, Launcher, Looks};
use punctual_cuda_measuring::recipe::rates::{self, Rated, Size};
use punctual_device_cuda::KernelError;
use punctual_device_cuda::driver::{Attribute, Context, Gpu};

use super::super::result::{Claim, Latency, StepResult};
use super::super::roofline::Roofline;
use super::super::step::{Session, Step, StepError};

pub struct Peaks;

/// Over a peak by clocks that are higher than the driver says, and by rounding; more is impossible.
const PLAUSIBLE_MAX: f64 = 1.1;

/// A measured rate next to the highest possible one, if that is known.
struct Rate {
    of: &'static str,
    unit: &'static str,
    reached: f64,
    peak: Option<f64>,
}

impl Rate {
    fn share(&self) -> Option<f64> {
        self.peak.map(|peak| self.reached / peak)
    }

    fn is_possible(&self) -> bool {
        self.share().is_none_or(|share| share <= PLAUSIBLE_MAX)
    }
}

impl std::fmt::Display for Rate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {:.1} {}", self.of, self.reached, self.unit)?;
        match (self.share(), self.peak) {
            (Some(share), Some(peak)) => write!(f, " ({:.0}% of {peak:.1})", 100.0 * share),
            _ => f.write_str(" (no peak is known)"),
        }
    }
}

impl Step for Peaks {
    fn name(&self) -> &'static str {
        "peaks"
    }

    fn about(&self) -> &'static str {
        "products on tensor cores and copies within device memory, beside what the device can do at most"
    }

    fn run(&self, session: &Session<'_>) -> Result<StepResult, StepError> {
        let gpu = session.gpu()?;
        let context = Context::retain(gpu)?;
        let launcher = Launcher::new(&context)?;
        let mut result = StepResult::default();
        let mut found = Vec::new();
        let products = rates::tensor_products(session.size(Size::Full, Size::Tiny));
        match durations(session, &launcher, &products) {
            Ok(durations) => {
                found.push(Rate {
                    of: "tensor cores",
                    unit: "TFLOP/s",
                    // A multiply-accumulate is two operations.
                    reached: 2.0 * rate(&durations, &products) / 1e12,
                    peak: tensor_peak(session, gpu)?,
                });
                result.nanoseconds(of(&products, "multiply-accumulates"), durations);
            }
            Err(StepError::Launch(LaunchError::Kernel(KernelError::Image(
                error @ ImageError::Unsupported { .. },
            )))) => {
                result.note(format!("tensor cores: {error}"));
            }
            Err(error) => return Err(error),
        }
        let copy = rates::copy(session.size(Size::Full, Size::Tiny));
        let copies = durations(session, &launcher, &copy)?;
        found.push(Rate {
            of: "copies",
            unit: "GB/s",
            reached: rate(&copies, &copy) / 1e9,
            peak: memory_peak(gpu)?,
        });
        result.nanoseconds(of(&copy, "bytes read and written"), copies);
        let words: Vec<String> = found.iter().map(Rate::to_string).collect();
        result.found = words.join("; ");
        if !session.quick && !found.iter().all(Rate::is_possible) {
            result.claim = Claim::Refuted;
            result.found += "; more than the device can do: its clock or our measurement is wrong";
        }
        result.note(
            "The peak of tensor cores is that of mma.sync on halves with f32 sums at the highest clock that the driver \
             names; that of memory is by the clock and the width of the bus that the driver names.",
        );
        Ok(result)
    }
}

fn of(rated: &Rated, unit: &str) -> String {
    format!("{} of {} {unit}", rated.recipe.name(), rated.amount)
}

fn durations(
    session: &Session<'_>,
    launcher: &Launcher,
    rated: &Rated,
) -> Result<Vec<u64>, StepError> {
    let prepared = launcher.prepare(&rated.recipe)?;
    // The first launch finds cold caches.
    launcher.nanoseconds(&prepared, Looks::Never, 1)?;
    let mut durations = Vec::new();
    for () in session.rounds(50, 2, 400) {
        durations.push(launcher.nanoseconds(&prepared, Looks::Never, 1)?);
    }
    Ok(durations)
}

/// A second, by the median.
fn rate(durations: &[u64], rated: &Rated) -> f64 {
    let us = Latency::of(durations.to_vec()).p50_us;
    rated.amount as f64 / us * 1e6
}

fn tensor_peak(session: &Session<'_>, gpu: Gpu) -> Result<Option<f64>, StepError> {
    let roofline = Roofline::find(session)?;
    let clock_hz = f64::from(gpu.attribute(Attribute::ClockKhz)?) * 1e3;
    let multiprocessors = f64::from(gpu.attribute(Attribute::Multiprocessors)?);
    let products = roofline.tensor_products_a_clock();
    Ok(products.map(|products| 2.0 * products * multiprocessors * clock_hz / 1e12))
}

/// Drivers of boards name the clock of another memory, or none.
fn memory_peak(gpu: Gpu) -> Result<Option<f64>, StepError> {
    let clock_hz = f64::from(gpu.attribute(Attribute::MemoryClockKhz)?) * 1e3;
    let bytes = f64::from(gpu.attribute(Attribute::MemoryBusBits)?) / 8.0;
    let known = !gpu.can(Attribute::Integrated)? && clock_hz * bytes > 0.0;
    // Two transfers a clock.
    Ok(known.then_some(2.0 * clock_hz * bytes / 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_above_the_peak_is_impossible_and_one_without_a_peak_is_just_a_rate() {
        let rate = |reached, peak| Rate {
            of: "copies",
            unit: "GB/s",
            reached,
            peak,
        };
        assert!(rate(180.0, Some(204.8)).is_possible());
        assert!(!rate(408.0, Some(204.8)).is_possible());
        assert!(rate(408.0, None).is_possible());
        let text = rate(102.4, Some(204.8)).to_string();
        assert_eq!(text, "copies 102.4 GB/s (50% of 204.8)");
    }
}

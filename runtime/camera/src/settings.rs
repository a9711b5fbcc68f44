//! Frame rate and exposure, which the driver is told after the format.

use log::warn;
use punctual_platform::v4l2::{Capture, CaptureError, Exposure};

use crate::Options;
use crate::feed::FeedError;

/// The longest exposure that can be asked for: of a frame that is younger than the oldest one that is taken.
const EXPOSURE_US_MAX: u32 = 10_000_000;

/// `auto`, or a time in microseconds.
pub fn exposure(text: &str) -> Result<Exposure, String> {
    if text == "auto" {
        return Ok(Exposure::Automatic);
    }
    let us = text.parse().ok();
    let us = us.filter(|us| (1..=EXPOSURE_US_MAX).contains(us));
    us.map(|us| Exposure::Time { us }).ok_or_else(|| {
        format!(
            "{text} is neither auto nor 1 to {EXPOSURE_US_MAX}, the microseconds of an exposure"
        )
    })
}

/// Sets what the options ask for. A driver gives the nearest that it has, which is said; one that cannot set it at all is an error.
pub fn set(options: &Options, capture: &mut Capture) -> Result<(), FeedError> {
    if let Some(fps) = options.fps {
        let given = capture.set_frame_rate(fps).map_err(without("--fps"))?;
        let (numerator, denominator) = (given.numerator, given.denominator);
        if u64::from(numerator) * u64::from(fps) != u64::from(denominator) {
            warn!(
                "the camera gives a frame every {numerator}/{denominator} s, not every 1/{fps} s"
            );
        }
    }
    if let Some(exposure) = options.exposure {
        let given = capture.set_exposure(exposure);
        match (exposure, given.map_err(without("--exposure"))?) {
            (Exposure::Time { us }, Exposure::Time { us: given })
                if us.abs_diff(given) >= Exposure::UNIT_US =>
            {
                warn!("the camera exposes for {given} us, not for {us} us");
            }
            _ => {}
        }
    }
    Ok(())
}

fn without(option: &'static str) -> impl Fn(CaptureError) -> FeedError {
    move |source| FeedError::Setting { option, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exposure_is_auto_or_a_time_that_a_frame_can_take() {
        assert_eq!(exposure("auto"), Ok(Exposure::Automatic));
        assert_eq!(exposure("8000"), Ok(Exposure::Time { us: 8_000 }));
        for text in ["", "0", "-1", "8ms", "10000001", "99999999999"] {
            let error = exposure(text).expect_err("no exposure");
            assert!(error.contains("neither auto nor 1 to 10000000"), "{error}");
        }
    }
}

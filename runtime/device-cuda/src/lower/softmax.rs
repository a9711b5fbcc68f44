//! Softmaxes.

use punctual_cuda_kernels::params::Softmax;
use punctual_model::{self as model, Operator};
use punctual_types::Axis;

use super::digits::step_of;
use super::error::LowerError;
use super::list::Of;
use super::pages::Pack;
use super::stage::{Launches, Lower};
use super::traffic::Role::{Operand as Read, Result as Made};
use super::traffic::{HALF, Launch, Span, Traffic};

impl Pack for model::Softmax {}

impl Lower for model::Softmax {
    fn launch<'l>(
        &self,
        launches: &mut Launches<'l>,
        of: Of<'_>,
        operator: &'l Operator,
    ) -> Result<(), LowerError> {
        let &model::Softmax { digit, logarithm } = self;
        let input = launches.read(operator.input);
        let step = digit.step * step_of(&input, digit.axis);
        let period = digit.step * digit.extent;
        // Values between two positions belong to other groups; `rest` counts how often the axis occurs in an image.
        let (size, rest, rest_step) = match digit.axis {
            Axis::Column => (input.width, input.height, input.width * input.pitch),
            Axis::Row => (input.height, 1, input.height * input.width * input.pitch),
            _ => (input.channels, input.height * input.width, input.pitch),
        };
        let along_channels = digit.axis == Axis::Channel;
        let lanes = if along_channels {
            digit.extent.next_power_of_two().min(32)
        } else {
            1
        };
        let softmax = Softmax {
            input: input.address,
            output: launches.write(operator.output).address,
            images: u32::from(launches.batch),
            rest,
            rest_step,
            outer: size / period,
            inner: step,
            extent: digit.extent,
            step,
            lanes,
            channels: input.channels,
            pitch: input.pitch,
            along_channels: u32::from(along_channels),
            logarithm: u32::from(logarithm),
        };
        launches.push(of, "softmax", softmax);
        Ok(())
    }
}

impl Launch for Softmax {
    fn traffic(&self) -> Traffic {
        let values = u64::from(self.images * self.rest * self.rest_step);
        Traffic::new(
            [Span::at(Read(0), self.input, values * HALF)],
            [Span::at(Made, self.output, values * HALF)],
        )
    }
}

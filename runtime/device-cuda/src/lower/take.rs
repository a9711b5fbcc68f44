//! Values at computed positions.

use punctual_cuda_kernels::params::{Kept, Take};
use punctual_model::{self as model, Operator};
use punctual_types::Axis;

use super::error::LowerError;
use super::layout::WHOLE_HALVES;
use super::list::Of;
use super::pages::Pack;
use super::stage::{Launches, Lower};
use super::traffic::Role::{Operand as Read, Result as Made};
use super::traffic::{Launch, Span, Traffic};

impl Pack for model::Take {}

impl Lower for model::Take {
    fn launch<'l>(
        &self,
        launches: &mut Launches<'l>,
        of: Of<'_>,
        operator: &'l Operator,
    ) -> Result<(), LowerError> {
        let (input, indices) = (launches.read(operator.input), operator.others[0]);
        let (axis, positions) = match self.axis {
            Axis::Channel => (0, input.channels),
            Axis::Row => (1, input.height),
            _ => (2, input.width),
        };
        let numbers = launches.numbers(indices)?;
        if numbers.is_none() && positions > WHOLE_HALVES {
            let kind = "choice among more than 2048 positions that are computed";
            return Err(launches.lowering.no_kernel(operator, kind));
        }
        let (indices, kept) = match numbers {
            Some(numbers) => (numbers, Kept::Floats),
            None => (launches.read(indices), Kept::Halves),
        };
        let take = Take {
            input,
            indices,
            output: launches.write(operator.output),
            images: u32::from(launches.batch),
            axis,
            kept: kept as u32,
            gap: 0,
        };
        launches.push(of, "take", take);
        Ok(())
    }
}

impl Launch for Take {
    fn traffic(&self) -> Traffic {
        Traffic::new(
            [
                Span::tensor(Read(0), &self.input, self.images),
                Span::kept(Read(1), &self.indices, self.images, self.kept),
            ],
            [Span::tensor(Made, &self.output, self.images)],
        )
    }
}

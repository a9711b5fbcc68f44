//! Pixels at computed positions.

use punctual_cuda_kernels::params::GridSample;
use punctual_model::{self as model, Operator};
use punctual_types::{Interpolation, Outside};

use super::error::LowerError;
use super::list::Of;
use super::pages::Pack;
use super::stage::{Launches, Lower};
use super::traffic::Role::{Operand as Read, Result as Made};
use super::traffic::{HALF, Launch, Span, Traffic};

impl Pack for model::GridSample {}

impl Lower for model::GridSample {
    fn launch<'l>(
        &self,
        launches: &mut Launches<'l>,
        of: Of<'_>,
        operator: &'l Operator,
    ) -> Result<(), LowerError> {
        let &Self { groups, sampling } = self;
        let sample = GridSample {
            input: launches.read(operator.input),
            grid: launches.read(operator.others[0]),
            output: launches.write(operator.output).address,
            images: u32::from(launches.batch),
            groups,
            nearest: u32::from(sampling.interpolation == Interpolation::Nearest),
            outside: match sampling.outside {
                Outside::Zeros => 0,
                Outside::Border => 1,
                Outside::Reflection => 2,
            },
            align_corners: u32::from(sampling.align_corners),
            gap: 0,
        };
        launches.push(of, "grid_sample", sample);
        Ok(())
    }
}

impl Launch for GridSample {
    fn traffic(&self) -> Traffic {
        let grid = Span::tensor(Read(1), &self.grid, self.images);
        let pixels = u64::from(self.images * self.grid.height * self.grid.width);
        let output = pixels * u64::from(self.input.pitch) * HALF;
        Traffic::new(
            [Span::tensor(Read(0), &self.input, self.images), grid],
            [Span::at(Made, self.output, output)],
        )
    }
}

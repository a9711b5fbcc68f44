//! Positions of the values that come first.

use punctual_cuda_kernels::padded;
use punctual_cuda_kernels::params::{Kept, TopK};
use punctual_model::{self as model, Operator};
use punctual_types::Axis;

use super::error::LowerError;
use super::list::Of;
use super::pages::Pack;
use super::stage::{Launches, Lower};
use super::traffic::Role::{Operand as Read, Result as Made};
use super::traffic::{FLOAT, Launch, Span, Traffic};

impl Pack for model::TopK {}

impl Lower for model::TopK {
    /// Positions are floats, as halves are inexact for large ones. Operators that read them as values get halves, too.
    fn launch<'l>(
        &self,
        launches: &mut Launches<'l>,
        of: Of<'_>,
        operator: &'l Operator,
    ) -> Result<(), LowerError> {
        let &Self {
            axis,
            count,
            ranking,
        } = self;
        let (kernel, count) = match axis {
            Axis::Channel => ("top_channel", 0),
            _ => ("top_columns", count),
        };
        let top = TopK {
            input: launches.read(operator.input),
            output: launches.room(operator.output, Kept::Floats).address,
            images: u32::from(launches.batch),
            count,
            largest: u32::from(ranking.largest),
            last: u32::from(ranking.last),
        };
        launches.push(of, kernel, top);
        if launches.is_read(operator.output) {
            launches.convert_kept(of, operator.output, Kept::Floats, Kept::Halves);
        }
        Ok(())
    }
}

impl Launch for TopK {
    fn traffic(&self) -> Traffic {
        let lines = u64::from(self.images * self.input.height);
        let values = match self.count {
            0 => lines * u64::from(self.input.width * padded(1)),
            count => lines * u64::from(count * self.input.pitch),
        };
        Traffic::new(
            [Span::tensor(Read(0), &self.input, self.images)],
            [Span::at(Made, self.output, values * FLOAT)],
        )
    }
}

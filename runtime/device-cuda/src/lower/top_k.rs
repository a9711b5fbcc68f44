//! Positions of the values that come first.

use punctual_cuda_kernels::params::{Kept, TopK};
use punctual_cuda_kernels::{Arguments, Kernel, padded};
use punctual_model::{self as model, Operator};
use punctual_types::Axis;

use super::list::Of;
use super::stage::{Launches, known};
use super::traffic::Role::{Operand as Read, Result as Made};
use super::traffic::{FLOAT, Launch, Span, Traffic};
use super::work::Work;
use super::{Lower, LowerError};

impl Lower for model::TopK {
    fn launch<'l>(
        &self,
        launches: &mut Launches<'l>,
        of: Of<'_>,
        operator: &'l Operator,
    ) -> Result<(), LowerError> {
        launches.top_k(of, operator, self);
        Ok(())
    }
}

impl Launches<'_> {
    /// Positions are floats, as halves are inexact for large ones. Operators that read them as values get halves, too.
    fn top_k(
        &mut self,
        of: Of<'_>,
        operator: &Operator,
        &model::TopK {
            axis,
            count,
            ranking,
        }: &model::TopK,
    ) {
        let (kernel, count) = match axis {
            Axis::Channel => ("top_channel", 0),
            _ => ("top_columns", count),
        };
        let top = TopK {
            input: self.read(operator.input),
            output: self.room(operator.output, Kept::Floats).address,
            images: u32::from(self.batch),
            count,
            largest: u32::from(ranking.largest),
            last: u32::from(ranking.last),
        };
        self.draft.push(of, known(kernel), Arguments::TopK(top));
        if self.is_read(operator.output) {
            self.convert_kept(of, operator.output, (Kept::Floats, Kept::Halves));
        }
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

    fn work(&self, _kernel: &Kernel, plain: Work) -> Work {
        let rounds = f64::from(self.input.width) / 4.0;
        Work { rounds, ..plain }.summed(1.0, 100.0)
    }
}

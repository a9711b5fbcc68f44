//! Images of other rows and columns.

use punctual_cuda_kernels::params::Resize;
use punctual_model::{self as model, Operator, Tensor};
use punctual_types::{Between, Filter, Resampling};

use super::error::LowerError;
use super::list::Of;
use super::pages::{Content, Pack, Packed};
use super::stage::{Launches, Lower};
use super::traffic::Role::{Operand as Read, Result as Made};
use super::traffic::{Launch, Span, Traffic};

impl Pack for model::Resize {
    fn content(&self, of: &Packed<'_>) -> Option<Content> {
        Some(Content::Table(table(&self.resampling, of.input)))
    }
}

impl Lower for model::Resize {
    fn launch<'l>(
        &self,
        launches: &mut Launches<'l>,
        of: Of<'_>,
        operator: &'l Operator,
    ) -> Result<(), LowerError> {
        let resize = Resize {
            input: launches.read(operator.input),
            output: launches.write(operator.output),
            table: launches.constant(of).encode(),
            images: u32::from(launches.batch),
            kept: launches.kept(operator.output) as u32,
        };
        launches.push(of, "resize", resize);
        Ok(())
    }
}

/// For each row of a resized image and then for each column, four words: the rows or columns that it lies between, the
/// share of the second, and padding.
fn table(resampling: &Resampling, image: Tensor) -> Vec<u32> {
    let at = |pixel: usize| Between {
        first: pixel,
        second: pixel,
        share: 0.0,
    };
    let (height, width) = (image.height, image.width);
    let between: Vec<Between> = match resampling.filter {
        Filter::Nearest(rounding) => {
            let rows = resampling.nearest_rows(height, rounding);
            let columns = resampling.nearest_columns(width, rounding);
            rows.chain(columns).map(at).collect()
        }
        Filter::Linear => {
            let rows = resampling.linear_rows(height);
            rows.chain(resampling.linear_columns(width)).collect()
        }
    };
    let words = |of: &Between| [of.first as u32, of.second as u32, of.share.to_bits(), 0];
    between.iter().flat_map(words).collect()
}

impl Launch for Resize {
    fn traffic(&self) -> Traffic {
        Traffic::new(
            [
                Span::kept(Read(0), &self.input, self.images, self.kept),
                Span::weights(self.table),
            ],
            [Span::kept(Made, &self.output, self.images, self.kept)],
        )
    }

    fn weight_bytes(&self) -> u64 {
        16 * (u64::from(self.output.height) + u64::from(self.output.width))
    }
}

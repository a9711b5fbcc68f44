//! Rows of a table.

use punctual_cuda_kernels::params::{Embedding, Kept};
use punctual_model::{self as model, Operator};

use super::error::LowerError;
use super::layout::WHOLE_HALVES;
use super::list::Of;
use super::pages::{Content, Pack, Packed, Rows};
use super::stage::{Launches, Lower};
use super::traffic::Role::{Operand as Read, Result as Made};
use super::traffic::{Launch, Part, Span, Traffic, value_bytes};

impl Pack for model::Embedding {
    fn content(&self, of: &Packed<'_>) -> Option<Content> {
        let rows = of.operator.weights[0].len / self.channels;
        Some(Content::Rows(Rows {
            is_cut: true,
            ..of.rows(rows, self.channels)
        }))
    }
}

impl Lower for model::Embedding {
    fn launch<'l>(
        &self,
        launches: &mut Launches<'l>,
        of: Of<'_>,
        operator: &'l Operator,
    ) -> Result<(), LowerError> {
        let rows = operator.weights[0].len / launches.shape(operator.output).channels;
        let numbers = launches.numbers(operator.input)?;
        if numbers.is_none() && rows > WHOLE_HALVES {
            let kind = "table of more than 2048 rows whose numbers are computed";
            return Err(launches.lowering.no_kernel(operator, kind));
        }
        let (input, kept) = match numbers {
            Some(numbers) => (numbers, Kept::Floats),
            None => (launches.read(operator.input), Kept::Halves),
        };
        let output = launches.write(operator.output);
        for piece in launches.lowering.pieces(of.operator) {
            let embedding = Embedding {
                output,
                input: input.address,
                table: piece.weights().encode(),
                images: u32::from(launches.batch),
                rows,
                pitch: input.pitch,
                kept: kept as u32,
                first_channel: piece.first,
                channel_count: piece.count,
            };
            launches.push(of, "embedding", embedding);
        }
        Ok(())
    }
}

impl Launch for Embedding {
    fn traffic(&self) -> Traffic {
        let output = &self.output;
        let pixels = u64::from(self.images * output.height * output.width);
        let values = pixels * u64::from(self.pitch);
        let input = values * value_bytes(self.kept);
        Traffic::new(
            [
                Span::at(Read(0), self.input, input),
                Span::weights(self.table),
            ],
            [Span::tensor(Made, output, self.images)],
        )
    }

    fn weight_bytes(&self) -> u64 {
        let rows = self.images * self.output.height * self.output.width;
        2 * u64::from(rows) * u64::from(self.channel_count)
    }

    fn part(&self) -> Option<Part> {
        Some(Part::channels(self.first_channel, self.channel_count))
    }
}

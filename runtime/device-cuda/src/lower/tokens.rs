//! Pixels as a sequence of tokens.

use punctual_cuda_kernels::params::Tokens;
use punctual_model::{self as model, Operator};

use super::error::LowerError;
use super::list::Of;
use super::pages::{Content, Pack, Packed, Rows};
use super::stage::{Launches, Lower};
use super::traffic::Role::{Operand as Read, Result as Made};
use super::traffic::{HALF, Launch, Part, Span, Traffic};

impl Pack for model::Tokens {
    fn content(&self, of: &Packed<'_>) -> Option<Content> {
        Some(Content::Rows(Rows {
            is_cut: true,
            ..of.rows(of.output.width, of.output.channels)
        }))
    }
}

impl Lower for model::Tokens {
    fn launch<'l>(
        &self,
        launches: &mut Launches<'l>,
        of: Of<'_>,
        operator: &'l Operator,
    ) -> Result<(), LowerError> {
        let prefix = self.prefix;
        let input = launches.read(operator.input).address;
        let output = launches.write(operator.output);
        for piece in launches.lowering.pieces(of.operator) {
            let tokens = Tokens {
                output,
                input,
                table: piece.weights().encode(),
                images: u32::from(launches.batch),
                prefix,
                first_channel: piece.first,
                channel_count: piece.count,
            };
            launches.push(of, "tokens", tokens);
        }
        Ok(())
    }
}

impl Launch for Tokens {
    fn traffic(&self) -> Traffic {
        let output = Span::tensor(Made, &self.output, self.images);
        let pixels = u64::from(self.images * (self.output.width - self.prefix));
        let input = pixels * u64::from(self.output.pitch) * HALF;
        let input = Span::at(Read(0), self.input, input);
        Traffic::new([input, Span::weights(self.table)], [output])
    }

    fn weight_bytes(&self) -> u64 {
        2 * u64::from(self.output.width) * u64::from(self.channel_count)
    }

    fn part(&self) -> Option<Part> {
        Some(Part::channels(self.first_channel, self.channel_count))
    }
}

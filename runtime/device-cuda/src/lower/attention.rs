//! Attention.

use punctual_cuda_kernels::params::{Attention, Kept};
use punctual_cuda_kernels::{TensorView, padded};
use punctual_model::{self as model, Operator};

use super::error::LowerError;
use super::list::Of;
use super::pages::{Content, Pack, Packed, Rows};
use super::place::Place;
use super::stage::{Launches, Lower};
use super::traffic::Role::{Operand as Read, Result as Made};
use super::traffic::{HALF, Launch, Span, Traffic};

/// Most blocks of a launch in y and in z.
const BLOCKS_DEEP_MAX: u32 = 65_535;

impl Pack for model::Attention {
    fn content(&self, of: &Packed<'_>) -> Option<Content> {
        let bias = of.operator.weights.first()?;
        Some(Content::Rows(Rows {
            kept: Kept::Floats,
            ..of.rows(1, bias.len)
        }))
    }
}

impl Lower for model::Attention {
    fn launch<'l>(
        &self,
        launches: &mut Launches<'l>,
        of: Of<'_>,
        operator: &'l Operator,
    ) -> Result<(), LowerError> {
        let &model::Attention {
            heads,
            scale,
            by_row,
            bias,
        } = self;
        let others = &operator.others;
        let query = launches.read(operator.input);
        let (key, value) = (launches.read(others[0]), launches.read(others[1]));
        let kernel = match query.channels.max(value.channels) / heads {
            ..=64 => "attention_64",
            65..=256 => "attention_256",
            _ => {
                let kind = "attention by heads of more than 256 channels";
                return Err(launches.lowering.no_kernel(operator, kind));
            }
        };
        let pixels = |view: &TensorView| {
            if by_row {
                view.width
            } else {
                view.height * view.width
            }
        };
        let (queries, keys) = (pixels(&query), pixels(&key));
        let rows = if by_row { query.height } else { 1 };
        launches.check_rows(operator, rows)?;
        let of_head = bias
            .filter(|bias| bias.by_head)
            .map_or(0, |_| queries * keys);
        let heads_of_row = bias.map_or(0, |bias| if bias.by_head { heads } else { 1 });
        let of_row = bias.filter(|bias| bias.by_row && by_row);
        let attention = Attention {
            query,
            key,
            value,
            mask: others.get(2).map_or(0, |mask| launches.read(*mask).address),
            bias: bias
                .map_or(Place::Nothing, |_| launches.constant(of))
                .encode(),
            output: launches.write(operator.output).address,
            rows,
            queries,
            keys,
            bias_row: of_row.map_or(0, |_| heads_of_row * queries * keys),
            bias_head: of_head,
            images: u32::from(launches.batch),
            heads,
            scale,
        };
        launches.push(of, kernel, attention);
        Ok(())
    }
}

impl Launches<'_> {
    /// Rows of all images are blocks in z.
    pub(super) fn check_rows(&self, operator: &Operator, rows: u32) -> Result<(), LowerError> {
        match rows.saturating_mul(u32::from(self.batch)) {
            ..=BLOCKS_DEEP_MAX => Ok(()),
            _ => {
                let kind = "product or attention of more than 65535 rows in a batch";
                Err(self.lowering.no_kernel(operator, kind))
            }
        }
    }
}

impl Launch for Attention {
    fn traffic(&self) -> Traffic {
        let query = Span::tensor(Read(0), &self.query, self.images);
        let key = Span::tensor(Read(1), &self.key, self.images);
        let value = Span::tensor(Read(2), &self.value, self.images);
        let rows = u64::from(self.images * self.rows);
        let keys = rows * u64::from(self.keys);
        let mask = keys * u64::from(padded(1)) * HALF;
        let mask = Span::at(Read(3), self.mask, mask);
        let bias = Span::weights(self.bias);
        let values = rows * u64::from(self.queries * self.value.pitch);
        let output = Span::at(Made, self.output, values * HALF);
        Traffic::new([query, key, value, mask, bias], [output])
    }

    fn weight_bytes(&self) -> u64 {
        if self.bias == 0 {
            return 0;
        }
        let rows = if self.bias_row == 0 { 1 } else { self.rows };
        let heads = if self.bias_head == 0 { 1 } else { self.heads };
        let of_head = u64::from(self.queries) * u64::from(self.keys);
        4 * u64::from(rows) * u64::from(heads) * of_head
    }
}

//! The largest or the mean of windows.

use punctual_cuda_kernels::TensorView;
use punctual_cuda_kernels::params::{GlobalPool, Kept, Pool, PoolBytes, Rounding};
use punctual_model::{self as model, Operator};
use punctual_types::{Activation, Extent, PoolKind};

use super::convert::ratio;
use super::error::LowerError;
use super::list::Of;
use super::pages::Pack;
use super::stage::{Launches, Lower};
use super::traffic::Role::{Operand as Read, Result as Made};
use super::traffic::{Launch, Span, Traffic};

impl Pack for model::Pool {}

impl Lower for model::Pool {
    fn launch<'l>(
        &self,
        launches: &mut Launches<'l>,
        of: Of<'_>,
        operator: &'l Operator,
    ) -> Result<(), LowerError> {
        if launches.kept(operator.output) == Kept::Bytes {
            launches.pool_bytes(of, operator, self);
            return Ok(());
        }
        let &model::Pool {
            kind,
            kernel,
            stride,
            padding,
        } = self;
        let (input, output) = (
            launches.read(operator.input),
            launches.write(operator.output),
        );
        let is_whole = (kernel.height, kernel.width) == (input.height, input.width);
        let is_only = (padding.top, padding.left, output.height, output.width) == (0, 0, 1, 1);
        if is_whole && is_only {
            // With a thread for each window, few threads would read all of the image.
            launches.global_pool(of, kind, input, output);
            return Ok(());
        }
        let pool = Pool {
            input,
            output,
            images: u32::from(launches.batch),
            kind: pool_code(kind),
            kernel_height: kernel.height,
            kernel_width: kernel.width,
            stride_height: stride.height,
            stride_width: stride.width,
            pad_top: padding.top,
            pad_left: padding.left,
        };
        launches.push(of, "pool", pool);
        Ok(())
    }
}

impl Launches<'_> {
    /// The mean or the largest value of each channel of an image.
    fn global_pool(&mut self, of: Of<'_>, kind: PoolKind, input: TensorView, output: TensorView) {
        let pool = GlobalPool {
            input,
            output,
            images: u32::from(self.batch),
            kind: pool_code(kind),
        };
        self.push(of, "global_pool", pool);
    }

    fn pool_bytes(&mut self, of: Of<'_>, operator: &Operator, &pool: &model::Pool) {
        let window = pool.window();
        let (from, to) = (self.bytes(operator.input), self.bytes(operator.output));
        let Extent { height, width } = window.kernel;
        let pool = PoolBytes {
            input: self.read(operator.input),
            output: self.write(operator.output),
            images: u32::from(self.batch),
            kind: pool_code(pool.kind),
            kernel_height: height,
            kernel_width: width,
            stride_height: window.stride.height,
            stride_width: window.stride.width,
            pad_top: window.padding.top,
            pad_left: window.padding.left,
            zero: from.zero.into(),
            ratio: ratio(from, to),
            rounding: Rounding::of(to, Activation::None),
        };
        self.push(of, "pool_bytes", pool);
    }
}

/// The kind as the parameters of pools encode it.
fn pool_code(kind: PoolKind) -> u32 {
    match kind {
        PoolKind::Max => 0,
        PoolKind::Average {
            counts_padding: true,
        } => 1,
        PoolKind::Average {
            counts_padding: false,
        } => 2,
    }
}

impl Launch for Pool {
    fn traffic(&self) -> Traffic {
        Traffic::new(
            [Span::tensor(Read(0), &self.input, self.images)],
            [Span::tensor(Made, &self.output, self.images)],
        )
    }
}

impl Launch for GlobalPool {
    fn traffic(&self) -> Traffic {
        Traffic::new(
            [Span::tensor(Read(0), &self.input, self.images)],
            [Span::tensor(Made, &self.output, self.images)],
        )
    }
}

impl Launch for PoolBytes {
    fn traffic(&self) -> Traffic {
        let kept = Kept::Bytes as u32;
        Traffic::new(
            [Span::kept(Read(0), &self.input, self.images, kept)],
            [Span::kept(Made, &self.output, self.images, kept)],
        )
    }
}

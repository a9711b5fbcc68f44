//! Convolution of bytes.

use punctual_kernels::quantised::{Conv2d, Conv2dSpec};
use punctual_kernels::{BlockedLayout, Element, Image, KernelError, Part};

use super::{Layouts, Lower};
use crate::executable::{Kernel, Weights};

impl Lower for punctual_model::QuantisedConv2d {
    fn kernel(&self, of: &Layouts) -> Result<Box<dyn Kernel>, KernelError> {
        let spec = Conv2dSpec {
            input: of.blocked(),
            output: of.output,
            window: self.window,
            groups: self.groups as usize,
            activation: self.activation,
        };
        Ok(Box::new(Conv2d::new(of.isa, &spec)?))
    }
}

impl Kernel for Conv2d {
    fn run(&self, packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        self.run(packed, part, images);
    }

    fn packed_len(&self) -> usize {
        self.packed_len()
    }

    fn pack(&self, weights: &Weights<'_>, packed: &mut [f32]) -> Result<(), KernelError> {
        let (integers, floats) = (weights.integers[0], &weights.floats);
        self.pack(integers, floats[0], floats[1], packed)
    }

    fn packing(&self) -> Option<Vec<usize>> {
        // What biases and scales become depends on what bytes stand for.
        let spec = self.spec();
        let kernel = spec.window.kernel;
        let step = |layout: BlockedLayout| match layout.element() {
            Element::U8(of) => [of.scale.to_bits() as usize, of.zero.into()],
            Element::F32 => [0; 2],
        };
        let sizes = [kernel.height as usize, kernel.width as usize];
        let sizes = [spec.groups, spec.output.channels()]
            .into_iter()
            .chain(sizes);
        let steps = [spec.input, spec.output].into_iter().flat_map(step);
        Some(sizes.chain(steps).collect())
    }

    fn runs_in_rows(&self, output: &BlockedLayout) -> bool {
        // What it reads serves several blocks.
        output.blocks() == 1
    }
}

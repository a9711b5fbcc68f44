//! Convolution of floats.

use punctual_kernels::{BlockedLayout, Conv2d, Conv2dSpec, ConvInput, Image, KernelError, Part};

use super::{Layouts, Lower};
use crate::executable::{Kernel, Weights};

impl Lower for punctual_model::Conv2d {
    fn kernel(&self, of: &Layouts) -> Result<Box<dyn Kernel>, KernelError> {
        let spec = Conv2dSpec {
            input: of.input,
            output: of.output,
            residual: of.others.first().copied(),
            window: self.window,
            groups: self.groups as usize,
            activation: self.activation,
        };
        Ok(Box::new(Conv2d::new(of.isa, &spec)?))
    }

    fn reads_planes(&self, _channels: usize) -> bool {
        true
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
        self.pack(weights.floats[0], weights.floats[1], packed)
    }

    fn packing(&self) -> Option<Vec<usize>> {
        let spec = self.spec();
        let kernel = spec.window.kernel;
        let planar = matches!(spec.input, ConvInput::Planar(_));
        Some(vec![
            usize::from(planar),
            spec.groups,
            kernel.height as usize,
            kernel.width as usize,
            spec.output.channels(),
        ])
    }

    fn runs_in_rows(&self, output: &BlockedLayout) -> bool {
        // What it reads serves several blocks.
        output.blocks() == 1
    }

    fn conv2d(&self) -> Option<&Conv2d> {
        Some(self)
    }
}

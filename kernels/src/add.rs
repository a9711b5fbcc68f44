//! Addition that could not be fused into a convolution.

use crate::{Activation, BlockedLayout, Image, Isa, KernelError, Part, reference};

/// `activation(input + addend)`: the same image size, each tensor its own halo.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AddSpec {
    /// What it reads first.
    pub input: BlockedLayout,
    /// What it reads second, as [`Image::addend`].
    pub addend: BlockedLayout,
    /// What it writes.
    pub output: BlockedLayout,
    /// Applied last.
    pub activation: Activation,
}

/// An addition for one instruction set.
#[derive(Clone, Debug)]
pub struct Add {
    spec: AddSpec,
}

impl Add {
    /// Checks the shapes.
    pub fn new(isa: Isa, spec: &AddSpec) -> Result<Add, KernelError> {
        if !isa.is_available() {
            return Err(KernelError::IsaUnavailable { isa });
        }
        let AddSpec {
            input,
            addend,
            output,
            activation,
        } = spec;
        for (tensor, layout) in [("input", input), ("addend", addend), ("output", output)] {
            layout.check_lanes(tensor, isa)?;
            layout.check_same_image(output)?;
        }
        activation.check()?;
        Ok(Add { spec: *spec })
    }

    /// Its specification.
    pub fn spec(&self) -> &AddSpec {
        &self.spec
    }

    /// Runs `part` of the operator for each image.
    pub fn run(&self, part: Part, images: &mut [Image<'_>]) {
        let AddSpec {
            input,
            addend,
            output,
            activation,
        } = &self.spec;
        for image in images {
            let mut a = vec![0.0; input.shape().elements()];
            let mut b = a.clone();
            input.unpack(image.input, &mut a);
            addend.unpack(image.addend.expect("addend"), &mut b);
            let mut blocked = vec![0.0; output.len()];
            output.pack(&reference::add(*activation, &a, &b), &mut blocked);
            image.output.copy_from_slice(&blocked[output.part(part)]);
        }
    }
}

//! Functions of two tensors, or of one and a constant.

use punctual_kernels::{
    Binary, BinaryOperand, BinarySpec, BlockedLayout, Element, Image, KernelError, Part, quantised,
};

use super::{Layouts, Lower};
use crate::executable::{Kernel, Weights};

impl Lower for punctual_model::Binary {
    fn kernel(&self, of: &Layouts) -> Result<Box<dyn Kernel>, KernelError> {
        if of.blocked().element() != Element::F32 {
            let spec = quantised::AddSpec {
                input: of.blocked(),
                addend: of.others[0],
                output: of.output,
                activation: self.activation,
            };
            return Ok(Box::new(quantised::Add::new(of.isa, &spec)?));
        }
        let second = match self.constant {
            None => BinaryOperand::Tensor(of.others[0]),
            Some(shape) => {
                let [channels, height, width] = shape.sides().map(|side| side as usize);
                let layout = BlockedLayout::new(of.isa, channels, height, width, 0)?;
                BinaryOperand::Constant(layout)
            }
        };
        let spec = BinarySpec {
            function: self.function,
            operands: [BinaryOperand::Tensor(of.blocked()), second],
            swapped: self.swapped,
            output: of.output,
            activation: self.activation,
        };
        Ok(Box::new(Binary::new(of.isa, &spec)?))
    }
}

impl Kernel for Binary {
    fn run(&self, packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        self.run(packed, part, images);
    }

    fn packed_len(&self) -> usize {
        self.packed_len()
    }

    fn pack(&self, weights: &Weights<'_>, packed: &mut [f32]) -> Result<(), KernelError> {
        match weights.floats.first() {
            Some(constant) => self.pack(constant, packed),
            None => Ok(()),
        }
    }

    fn packing(&self) -> Option<Vec<usize>> {
        let operands = self.spec().operands.iter();
        let constants = operands.filter_map(|operand| match operand {
            BinaryOperand::Constant(layout) => Some(layout),
            BinaryOperand::Tensor(_) => None,
        });
        let sizes = constants.flat_map(|of| [of.channels(), of.height(), of.width()]);
        Some(sizes.collect())
    }

    fn runs_in_rows(&self, _output: &BlockedLayout) -> bool {
        true
    }
}

impl Kernel for quantised::Add {
    fn run(&self, _packed: &[f32], part: Part, images: &mut [Image<'_>]) {
        self.run(part, images);
    }

    fn runs_in_rows(&self, _output: &BlockedLayout) -> bool {
        true
    }
}

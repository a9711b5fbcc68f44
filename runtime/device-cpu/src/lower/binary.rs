//! Functions of two tensors, or of one and a constant.

use punctual_kernels::{
    Binary, BinaryOperand, BinarySpec, BlockedLayout, Element, Kernel, KernelError, quantised,
};

use super::{Layouts, Lower};

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

//! Copies of tensors for operators that cannot read them as they lie.

use punctual_kernels::{
    BlockedLayout, Conv2d, Conv2dSpec, ConvInput, Copy, CopySpec, Kernel, KernelError,
};
use punctual_model::TensorId;
use punctual_types::{Activation, Extent, Padding, Piece, View, Window};

use super::lowering::{INPUT_COPY, Lowering};
use super::places::Places;
use crate::executable::{Made, Step, Value};
use crate::shared::Operands;

impl Lowering<'_> {
    /// The copy of a tensor for those that cannot read it as it lies.
    pub(super) fn copy_step(
        &self,
        tensor: TensorId,
        places: &Places<'_>,
    ) -> Result<Step, KernelError> {
        let output = self.copies[&tensor];
        let (name, kernel, read): (_, Box<dyn Kernel>, _) = if tensor == self.network.input_tensor()
        {
            let kernel = Box::new(self.planes_to_blocks(output)?);
            (INPUT_COPY, kernel, self.planes(tensor))
        } else {
            let value = Value::Tensor(tensor);
            let kernel = Box::new(self.with_zeros(self.layout(value), output)?);
            ("zeros around", kernel, self.operand(value, places))
        };
        Ok(Step::new(
            name.to_owned(),
            Made::Whole(Value::Copy(tensor)),
            kernel,
            Operands::new([read], places.of(Value::Copy(tensor))),
            output,
        ))
    }

    /// A convolution with the identity.
    fn planes_to_blocks(&self, output: BlockedLayout) -> Result<Conv2d, KernelError> {
        let spec = Conv2dSpec {
            input: ConvInput::Planar(self.input),
            output,
            residual: None,
            window: Window::new(Extent::square(1), Extent::square(1), Padding::default()),
            groups: self.input.channels(),
            activation: Activation::None,
        };
        Conv2d::new(self.isa, &spec)
    }

    /// The same values; the halo is the output's.
    fn with_zeros(&self, input: BlockedLayout, output: BlockedLayout) -> Result<Copy, KernelError> {
        let shape = input.shape();
        let shape = [shape.channels, shape.height, shape.width].map(|side| side as u32);
        let spec = CopySpec {
            inputs: vec![input],
            table: 0,
            output,
            pieces: vec![Piece::whole(View::plain(shape), shape)],
        };
        Copy::new(self.isa, &spec)
    }
}

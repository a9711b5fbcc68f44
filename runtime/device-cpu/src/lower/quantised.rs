//! Operators on bytes.

use punctual_kernels::quantised::{Add, AddSpec, Conv2d, Conv2dSpec, Convert, ConvertSpec, Pool};
use punctual_kernels::{BlockedLayout, ConvInput, Element, KernelError, PoolSpec};
use punctual_model::{Network, OperatorKind, TensorId};
use punctual_types::{Extent, PoolKind, Window};

use super::Lowering;
use crate::executable::Kernel;

/// The layout of a tensor that may be one of bytes.
pub(super) fn layout(
    network: &Network,
    tensor: usize,
    layout: BlockedLayout,
) -> Result<BlockedLayout, KernelError> {
    match network.quantisation(TensorId(tensor as u32)) {
        None => Ok(layout),
        Some(quantisation) => layout.quantised(quantisation),
    }
}

impl Lowering<'_> {
    /// The kernel of an operator that reads or writes bytes; `None` for all others.
    pub(super) fn quantised(
        &self,
        kind: &OperatorKind,
        read: ConvInput,
        output: BlockedLayout,
    ) -> Result<Option<Kernel>, KernelError> {
        let isa = self.isa;
        if *kind == OperatorKind::Convert {
            let spec = ConvertSpec {
                input: read,
                output,
            };
            return Convert::new(isa, &spec).map(|kernel| Some(Kernel::Convert(kernel)));
        }
        let ConvInput::Blocked(input) = read else {
            return Ok(None);
        };
        if input.element() == Element::F32 {
            return Ok(None);
        }
        let kernel = match kind {
            OperatorKind::QuantisedConv2d {
                window,
                groups,
                activation,
                ..
            } => {
                let spec = Conv2dSpec {
                    input,
                    output,
                    window: *window,
                    groups: *groups as usize,
                    activation: *activation,
                };
                Kernel::QuantisedConv2d(Conv2d::new(isa, &spec)?)
            }
            OperatorKind::Pool {
                kind,
                kernel,
                stride,
                padding,
            } => {
                let window = Window::new(*kernel, *stride, *padding);
                pool(self, input, output, window, *kind)?
            }
            OperatorKind::GlobalAveragePool => {
                let whole = Window::whole(Extent {
                    height: input.height() as u32,
                    width: input.width() as u32,
                });
                let mean = PoolKind::Average {
                    counts_padding: false,
                };
                pool(self, input, output, whole, mean)?
            }
            OperatorKind::Add { other, activation } => {
                let spec = AddSpec {
                    input,
                    addend: self.layout(self.value(*other)),
                    output,
                    activation: *activation,
                };
                Kernel::QuantisedAdd(Add::new(isa, &spec)?)
            }
            _ => return Ok(None),
        };
        Ok(Some(kernel))
    }
}

fn pool(
    lowering: &Lowering<'_>,
    input: BlockedLayout,
    output: BlockedLayout,
    window: Window,
    kind: PoolKind,
) -> Result<Kernel, KernelError> {
    let spec = PoolSpec {
        input,
        output,
        window,
        kind,
    };
    Pool::new(lowering.isa, &spec).map(Kernel::QuantisedPool)
}

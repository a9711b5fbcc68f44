//! What lies around a tensor where a device keeps zeros around it for convolutions.

use crate::{Exit, Network, Operator};

/// What those who read and write a tensor want around it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Border {
    /// Rows and columns of zeros that the widest of its convolutions wants on each side.
    pub zeros: u32,
    /// Somebody takes it for plain values, one behind the other, with nothing around them. Its convolutions then read a
    /// copy that has the zeros.
    pub plain: bool,
}

impl Border {
    /// Zeros around the tensor itself.
    #[must_use]
    pub const fn around(self) -> u32 {
        if self.plain { 0 } else { self.zeros }
    }

    /// Zeros around a copy of it, if it needs one.
    #[must_use]
    pub const fn around_copy(self) -> Option<u32> {
        if self.plain && self.zeros > 0 {
            Some(self.zeros)
        } else {
            None
        }
    }
}

impl Network {
    /// The border of each tensor, by position.
    #[must_use]
    pub fn borders(&self) -> Vec<Border> {
        let mut borders = vec![Border::default(); self.tensors.len()];
        // Clients write vectors.
        for vector in self.input_tensors().skip(1) {
            borders[vector.index()].plain = true;
        }
        for stage in &self.stages {
            for operator in &stage.operators {
                mark(self, operator, &mut borders);
            }
            for tensor in stage.exit.iter().flat_map(Exit::answers) {
                borders[tensor.index()].plain = true;
            }
        }
        // Devices that keep zeros around tensors have it in planes; only convolutions read these.
        borders[self.input_tensor().index()].plain = false;
        borders
    }
}

fn mark(network: &Network, operator: &Operator, borders: &mut [Border]) {
    let input = &mut borders[operator.input.index()];
    input.zeros = input.zeros.max(operator.kind.border());
    let plain = operator.kind.plain(network.tensors[operator.input.index()]);
    if plain.reads {
        for read in operator.reads() {
            borders[read.index()].plain = true;
        }
    }
    if plain.writes {
        borders[operator.output.index()].plain = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        AnswerKind, Attention, Conv2d, InputSpec, OperatorKind, Quantised, QuantisedConv2d, Stage,
        Tensor, TensorId, VectorSpec,
    };
    use punctual_types::{Activation, Extent, Padding, Window};

    fn padded(padding: u32) -> Window {
        Window::new(
            Extent::square(3),
            Extent::square(1),
            Padding::uniform(padding),
        )
    }

    fn convolution(padding: u32) -> OperatorKind {
        let conv = Conv2d {
            window: padded(padding),
            groups: 1,
            activation: Activation::None,
        };
        conv.into()
    }

    fn of_bytes(padding: u32) -> OperatorKind {
        let conv = QuantisedConv2d {
            window: padded(padding),
            groups: 1,
            activation: Activation::None,
        };
        conv.into()
    }

    /// Operators that each read the tensor before: tensor 0 is the picture, 1 a vector.
    fn borders(kinds: &[OperatorKind], first: u32) -> Vec<Border> {
        let operator = |(at, kind): (u32, &OperatorKind)| Operator {
            name: format!("operator {at}"),
            input: TensorId(if at == 0 { first } else { at + 1 }),
            others: vec![],
            output: TensorId(at + 2),
            weights: vec![],
            kind: kind.clone(),
        };
        let operators: Vec<Operator> = (0..).zip(kinds).map(operator).collect();
        let last = TensorId(operators.len() as u32 + 1);
        Network {
            name: "borders".to_owned(),
            input: InputSpec::rgb(8, 8, [0.0; 3], [1.0; 3]),
            vectors: vec![VectorSpec {
                name: "vector".to_owned(),
                length: 3,
            }],
            answer: AnswerKind::Classes,
            classes: vec![],
            tensors: vec![Tensor::features(3); operators.len() + 2],
            stages: vec![Stage {
                inputs: vec![],
                outputs: vec![],
                operators,
                exit: Some(Exit::of_scores(last, 3)),
            }],
            weights: Vec::new().into(),
            quantised: Quantised::default(),
        }
        .borders()
    }

    #[test]
    fn the_widest_convolution_counts_of_floats_or_of_bytes() {
        let found = borders(&[of_bytes(1), of_bytes(2), convolution(1)], 0);
        let around: Vec<u32> = found.iter().map(|border| border.around()).collect();
        assert_eq!(around, [1, 0, 2, 1, 0]);
    }

    #[test]
    fn what_clients_write_and_answers_are_read_from_has_nothing_around_it() {
        let found = borders(&[convolution(2)], 1);
        assert_eq!((found[1].around(), found[1].around_copy()), (0, Some(2)));
        assert!(found[2].plain);
    }

    #[test]
    fn plain_values_of_the_picture_are_read_from_a_copy_in_blocks() {
        let attention = Attention {
            heads: 1,
            scale: 1.0,
            by_row: false,
            bias: None,
        };
        assert!(!borders(&[attention.into()], 0)[0].plain);
    }
}

//! Fully connected layers: directly, and as a convolution of one pixel whose sums are finished after.
use crate::buffer::Buffer;
use crate::error;
use crate::launch::launch;
use crate::tensor::{Tensor, halves, pitch, shape};
use punctual_conformance::Alone;
use punctual_cuda_kernels::params::{Conv, Linear};
use punctual_cuda_kernels::{Arguments, TensorView, padded};
use punctual_kernels::Shape;
use punctual_types::{Activation, Random, half};

struct Layer {
    input: Tensor,
    images: Vec<Vec<f32>>,
    weights: Vec<f32>,
    bias: Vec<f32>,
    features: usize,
    output: Tensor,
    scores: Buffer,
}

impl Layer {
    fn new(input: Shape, features: usize, images: usize) -> Self {
        let mut random = Random::new(5);
        let (tensor, planar) = Tensor::random(input, images, &mut random);
        let pitch = padded(features as u32) as usize;
        Self {
            weights: halves(&mut random, features * input.elements(), 0.25),
            bias: halves(&mut random, features, 1.0),
            input: tensor,
            images: planar,
            features,
            output: Tensor::unwritten(shape(features, 1, 1), images),
            scores: Buffer::of_bytes(images * pitch * 4),
        }
    }

    fn depth(&self) -> usize {
        self.input.shape.height * self.input.shape.width * pitch(self.input.shape)
    }

    /// `[padded feature][row][column][padded channel]`.
    fn packed(&self, first: usize, count: usize) -> (Buffer, Buffer) {
        let Shape {
            channels,
            height,
            width,
        } = self.input.shape;
        let pixels = height * width;
        let mut packed = Vec::new();
        for feature in first..first + count {
            for pixel in 0..pixels {
                packed.extend((0..pitch(self.input.shape)).map(|channel| {
                    if feature < self.features && channel < channels {
                        let at = (feature * channels + channel) * pixels + pixel;
                        half::from_f32(self.weights[at])
                    } else {
                        0
                    }
                }));
            }
        }
        let bias = |feature: usize| self.bias.get(feature).copied().unwrap_or(3.0);
        let bias: Vec<f32> = (first..first + count).map(bias).collect();
        (Buffer::of_halves(&packed), Buffer::of_f32(&bias))
    }

    fn params(&mut self, activation: Activation) -> Linear {
        Linear {
            input: self.input.buffer.address(),
            output: self.output.buffer.address(),
            scores: self.scores.address(),
            images: self.images.len() as u32,
            depth: self.depth() as u32,
            features: self.features as u32,
            pitch: padded(self.features as u32),
            epilogue: activation.into(),
            ..Linear::default()
        }
    }

    fn check(&self, activation: Activation) {
        let scores = self.scores.f32s();
        let pitch = padded(self.features as u32) as usize;
        let steps = self.input.shape.elements() + 4;
        for (at, image) in self.images.iter().enumerate() {
            let result = |activation, of: &dyn Fn(&[f32]) -> Vec<f32>| {
                let alone = Alone::new(punctual_model::Linear { activation });
                let alone = alone.reads(self.input.shape.sides(), &of(image));
                alone
                    .weights(&of(&self.weights))
                    .weights(&of(&self.bias))
                    .run()
            };
            let absolute = |values: &[f32]| values.iter().map(|v| v.abs()).collect::<Vec<f32>>();
            let expected = result(activation, &<[f32]>::to_vec);
            let magnitudes = result(Activation::None, &absolute);
            let found = &scores[at * pitch..][..pitch];
            error::check(
                "scores",
                &found[..self.features],
                &expected,
                steps,
                &magnitudes,
            );
            assert!(found[self.features..].iter().all(|&score| score == 0.0));
            error::check(
                "halves",
                &self.output.planar()[at],
                &expected,
                steps,
                &magnitudes,
            );
        }
    }
}

fn check_direct(input: Shape, features: usize, images: usize, pieces: &[u32]) {
    let activation = Activation::Sigmoid;
    let mut layer = Layer::new(input, features, images);
    let mut first = 0;
    for &count in pieces {
        let (mut weights, mut bias) = layer.packed(first as usize, count as usize);
        launch(
            "linear",
            Arguments::Linear(Linear {
                weights: weights.address(),
                bias: bias.address(),
                first_feature: first,
                feature_count: count,
                ..layer.params(activation)
            }),
        );
        first += count;
    }
    layer.check(activation);
}

#[test]
fn directly_with_features_and_images_that_fill_no_block() {
    check_direct(shape(40, 1, 1), 13, 1, &[16]);
    check_direct(shape(20, 3, 2), 24, 5, &[24]);
    check_direct(shape(1100, 1, 1), 8, 9, &[8]);
    check_direct(shape(8200, 1, 1), 3, 2, &[8]);
}

#[test]
fn directly_in_pieces() {
    check_direct(shape(64, 1, 1), 27, 2, &[8, 16, 8]);
}

#[test]
fn large_batches_as_a_convolution_of_one_pixel() {
    for (kernel, splits) in [
        ("conv_gemm_64x32", 1),
        ("conv_gemm_64x64", 3),
        ("conv_dense_general", 2),
    ] {
        let activation = Activation::Relu;
        let mut layer = Layer::new(shape(20, 3, 3), 45, 12);
        let (mut weights, mut bias) = layer.packed(0, 48);
        let mut partial = Buffer::of_bytes(splits as usize * 12 * 48 * 4);
        let linear = Linear {
            weights: weights.address(),
            bias: bias.address(),
            partial: partial.address(),
            feature_count: 48,
            splits,
            ..layer.params(activation)
        };
        let view = |address, channels| TensorView {
            address,
            height: 1,
            width: 1,
            channels,
            pitch: channels,
        };
        launch(
            kernel,
            Arguments::Conv(Conv {
                input: view(linear.input, linear.depth),
                output: view(0, linear.pitch),
                weights: linear.weights,
                partial: linear.partial,
                images: linear.images,
                kernel_height: 1,
                kernel_width: 1,
                stride_height: 1,
                stride_width: 1,
                dilation_height: 1,
                dilation_width: 1,
                groups: 1,
                splits,
                channel_count: linear.feature_count,
                ..Conv::default()
            }),
        );
        launch("linear_reduce", Arguments::Linear(linear));
        layer.check(activation);
    }
}

//! What structures of parameters have in common.

use punctual_types::{Activation, Quantisation};

use super::codes::Curve;
use crate::declaration::Address;

/// Most digits that say in which order values are read.
pub const DIGITS_MAX: usize = 8;

structures! {
    /// The first parameter of each kernel: whether it may still run, and where it says how far it is.
    struct Guard {
        /// Of the `u32` that holds the queue's epoch: launches of another one are evicted. 0: the launch
        /// is never evicted, and nothing is checked.
        epoch_now: Address,
        /// Of the `u32` that takes the minimum of [`index`](Self::index) over evicted blocks.
        first_evicted: Address,
        /// Of the `u32` in mapped host memory that becomes `index + 1` when the launch begins, whether it is evicted or
        /// not, so that the host sees progress without asking the driver. 0: it is not to be said.
        begun: Address,
        /// The epoch that the launch belongs to.
        epoch: u32,
        /// Its place in the list of launches that it was submitted with.
        index: u32,
        /// Tiles of a main loop between two looks at the epoch; 0: at the block's start only.
        check_stride: u32,
        gap: u32,
    }

    /// A tensor of a batch of images; one image lies `height * width * pitch` halves behind the other.
    struct TensorView {
        /// Of the first half of the first image.
        address: Address,
        height: u32,
        width: u32,
        channels: u32,
        /// Halves from a pixel to the next: the channels, padded.
        pitch: u32,
    }

    /// What is applied last.
    struct Epilogue {
        curve: u32,
        /// Lower bound of [`Curve::Clip`]; slope of [`Curve::LeakyRelu`]; factor above 0 of [`Curve::Elu`].
        low: f32,
        /// Upper bound of [`Curve::Clip`]; factor below 0 of [`Curve::Elu`].
        high: f32,
        /// Factor of the exponent of [`Curve::Elu`].
        rate: f32,
    }

    /// An operand of `elementwise`. Steps are in values; 0 where the operand has one position, which is repeated.
    struct Operand {
        /// 0 for the second operand of a function of one value.
        address: Address,
        /// Step from an image to the next; 0 for constants.
        image: u32,
        /// Step from a row to the next.
        row: u32,
        /// Step from a column to the next.
        column: u32,
        /// 1, or 0 for one channel that is repeated.
        channel: u32,
        /// Halves or floats.
        kept: u32,
        gap: u32,
    }

    /// In which order values of a tensor are read: mixed-radix digits, the last of which counts fastest. Unused digits come
    /// first and have the extent 1.
    struct Digits {
        extents: [u32; DIGITS_MAX],
        /// Values of the tensor from one of a digit to the next.
        steps: [u32; DIGITS_MAX],
    }

    /// How quantisation steps of a result become bytes: rounded half to even, offset by the byte of zero, clamped.
    struct Rounding {
        /// The byte that stands for zero.
        zero: f32,
        /// Bounds of the result, in bytes: the activation's.
        low: f32,
        high: f32,
        gap: u32,
    }

    /// What `answers` writes for each image.
    struct Answer {
        /// The class with the largest score, the first of equals.
        class_index: u32,
        /// How sure the network is of the class. 0 if the network has no confidence, and by softmax if a score is not
        /// finite, so that no threshold accepts the answer.
        confidence: f32,
        /// How many values of the outputs are infinite or NaN.
        not_finite: u32,
        gap: u32,
    }
}

impl TensorView {
    /// Values from an image to the next.
    #[must_use]
    pub const fn image(&self) -> u64 {
        self.height as u64 * self.width as u64 * self.pitch as u64
    }
}

impl From<Activation> for Epilogue {
    fn from(activation: Activation) -> Self {
        let plain = |curve| (curve, [0.0; 3]);
        let (curve, [low, high, rate]) = match activation {
            Activation::None => plain(Curve::None),
            Activation::Relu => (Curve::Clip, [0.0, f32::INFINITY, 0.0]),
            Activation::Clip { low, high } => (Curve::Clip, [low, high, 0.0]),
            Activation::Sigmoid => plain(Curve::Sigmoid),
            Activation::Silu => plain(Curve::Silu),
            Activation::HardSigmoid => plain(Curve::HardSigmoid),
            Activation::HardSwish => plain(Curve::HardSwish),
            Activation::Gelu => plain(Curve::Gelu),
            Activation::Tanh => plain(Curve::Tanh),
            Activation::LeakyRelu { slope } => (Curve::LeakyRelu, [slope, 0.0, 0.0]),
            Activation::Elu { above, below, rate } => (Curve::Elu, [above, below, rate]),
            Activation::Mish => plain(Curve::Mish),
            Activation::Softplus => plain(Curve::Softplus),
            Activation::Softsign => plain(Curve::Softsign),
            Activation::TanhGelu => plain(Curve::TanhGelu),
        };
        Self {
            curve: curve as u32,
            low,
            high,
            rate,
        }
    }
}

impl Rounding {
    /// To the quantisation of the result, with an activation that clips.
    #[must_use]
    pub fn of(to: Quantisation, activation: Activation) -> Self {
        let zero = f32::from(to.zero);
        let byte = |value: f32| ((value / to.scale).round_ties_even() + zero).clamp(0.0, 255.0);
        let (low, high) = activation.bounds();
        Self {
            zero,
            low: byte(low),
            high: byte(high),
            gap: 0,
        }
    }
}

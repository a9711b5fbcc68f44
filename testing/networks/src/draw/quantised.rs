//! Values and weights as bytes, in the form that tools of quantisation write.

use punctual_compile::schema::attribute::int;
use punctual_compile::schema::{TensorProto, data_type};

use super::{Drawing, Id};

impl Drawing {
    /// A scale that is a power of two, so that what it gives is exact, and a zero point.
    fn steps(&mut self) -> ([String; 2], f32) {
        let step = self.one_of(&[1.0 / 16.0, 1.0 / 32.0, 1.0 / 64.0]);
        let scale = self.floats(&[], &[step]);
        let zero = self.name();
        let (kind, byte) = if self.random.one_in(3) {
            (data_type::INT8, 0)
        } else {
            (data_type::UINT8, self.one_of(&[0, 128, 121]))
        };
        self.graph
            .initializer
            .push(TensorProto::raw(&zero, kind, &[], vec![byte]));
        ([scale, zero], step)
    }

    /// A value as bytes and back; and what a step of the bytes is.
    fn through_bytes(&mut self, from: Id) -> (Id, f32) {
        let dims = self.dims(from);
        let ([scale, zero], step) = self.steps();
        let name = self.read(from);
        let bytes = self
            .node("QuantizeLinear", &[&name, &scale, &zero], 1, vec![])
            .remove(0);
        let inputs = [bytes.as_str(), &scale, &zero];
        (self.apply("DequantizeLinear", &inputs, vec![], dims), step)
    }

    /// Signed bytes with a scale for each of the first dimension.
    fn weights_of_bytes(&mut self, dims: &[i64]) -> (String, Vec<f32>) {
        let count = dims.iter().product::<i64>() as usize;
        let (bytes, zeros) = (self.name(), self.name());
        let random = self.random.bytes(count);
        self.graph
            .initializer
            .push(TensorProto::raw(&bytes, data_type::INT8, dims, random));
        let zero = TensorProto::raw(
            &zeros,
            data_type::INT8,
            &dims[..1],
            vec![0; dims[0] as usize],
        );
        self.graph.initializer.push(zero);
        let terms: i64 = dims[1..].iter().product();
        let scale = if terms > 16 { 1.0 / 512.0 } else { 1.0 / 128.0 };
        let scales: Vec<f32> = (0..dims[0])
            .map(|_| scale * (1 << self.random.below(2)) as f32)
            .collect();
        let steps = self.floats(&dims[..1], &scales);
        let inputs = [bytes.as_str(), &steps, &zeros];
        let axis = vec![int("axis", 0)];
        (
            self.node("DequantizeLinear", &inputs, 1, axis).remove(0),
            scales,
        )
    }

    /// A bias in steps of the products, as a quantised convolution adds it.
    fn bias_of_steps(&mut self, steps: &[f32]) -> String {
        let (whole, zeros) = (self.name(), self.name());
        let bound = |step: &f32| (0.5 / step) as u64;
        let number = |step| self.random.below(2 * bound(step)) as i32 - bound(step) as i32;
        let numbers: Vec<i32> = steps.iter().map(number).collect();
        let bytes = |numbers: &[i32]| {
            numbers
                .iter()
                .flat_map(|number| number.to_le_bytes())
                .collect()
        };
        let dims = [steps.len() as i64];
        for (name, numbers) in [(&whole, &numbers), (&zeros, &vec![0; steps.len()])] {
            let constant = TensorProto::raw(name, data_type::INT32, &dims, bytes(numbers));
            self.graph.initializer.push(constant);
        }
        let steps = self.floats(&dims, steps);
        let inputs = [whole.as_str(), &steps, &zeros];
        self.node("DequantizeLinear", &inputs, 1, vec![int("axis", 0)])
            .remove(0)
    }

    pub(super) fn quantised_conv(&mut self) -> Option<()> {
        let from = self.image()?;
        let dims = self.dims(from);
        let results = self.channels();
        if results * dims[1] * dims[2] * dims[0] * 9 > super::PRODUCTS_MAX {
            return None;
        }
        let (bytes, step) = self.through_bytes(from);
        let kernel = self.one_of(&[1, 3]);
        let (weights, scales) = self.weights_of_bytes(&[results, dims[0], kernel, kernel]);
        let pads = vec![kernel / 2; 4];
        let attributes = vec![punctual_compile::schema::attribute::ints("pads", pads)];
        let steps: Vec<f32> = scales.iter().map(|scale| scale * step).collect();
        let bias = self.bias_of_steps(&steps);
        let name = self.read(bytes);
        let to = vec![results, dims[1], dims[2]];
        let mut conv = self.apply("Conv", &[&name, &weights, &bias], attributes, to.clone());
        if self.random.one_in(2) {
            let name = self.read(conv);
            conv = self.apply("Relu", &[&name], vec![], to);
        }
        self.through_bytes(conv);
        Some(())
    }

    /// What stands between two quantised layers: sums, joins, parts of bytes.
    pub(super) fn quantised_chain(&mut self) -> Option<()> {
        let from = self.field()?;
        let (first, _) = self.through_bytes(from);
        let other = self.same_as(first);
        let (second, _) = self.through_bytes(other);
        if self.random.one_in(2) {
            let dims = self.dims(first);
            let names = [self.read(first), self.read(second)];
            let sum = self.apply("Add", &[&names[0], &names[1]], vec![], dims);
            self.through_bytes(sum);
        } else {
            let joined = self.concat_of(&[first, second], 0)?;
            self.through_bytes(joined);
        }
        Some(())
    }
}

//! Normalisations, softmaxes, reductions, and what chooses.

use punctual_compile::schema::attribute::{float, int, ints};
use punctual_compile::schema::data_type;

use super::Drawing;

impl Drawing {
    /// Along the last dimension; of images with channels last, as convolutional networks of the transformers' time have it.
    pub(super) fn layer_norm(&mut self) -> Option<()> {
        if self.opset < 17 {
            return None;
        }
        let from = self.pick(|value| *value.dims.last().unwrap_or(&0) > 1)?;
        let dims = self.dims(from);
        let columns = *dims.last()?;
        let gain = self.gains(&[columns]);
        let name = self.read(from);
        if self.opset >= 23 && self.random.one_in(3) {
            let attributes = vec![int("axis", -1), float("epsilon", 1e-3)];
            self.apply("RMSNormalization", &[&name, &gain], attributes, dims);
            return Some(());
        }
        let bias = self.weights(&[columns], 0.5);
        let mut inputs = vec![name.as_str(), &gain];
        if self.random.one_in(2) {
            inputs.push(&bias);
        }
        let attributes = vec![int("axis", -1), float("epsilon", 1e-3)];
        let normal = self.apply("LayerNormalization", &inputs, attributes, dims.clone());
        if dims.len() == 3 && self.random.one_in(2) {
            let name = self.read(normal);
            let perm = vec![ints("perm", [0, 3, 1, 2])];
            let to = vec![dims[2], dims[0], dims[1]];
            self.apply("Transpose", &[&name], perm, to);
        }
        Some(())
    }

    pub(super) fn batch_norm(&mut self) -> Option<()> {
        let from = self.field()?;
        let dims = self.dims(from);
        let channels = [dims[0]];
        let name = self.read(from);
        let gain = self.gains(&channels);
        let bias = self.weights(&channels, 0.5);
        let mean = self.weights(&channels, 0.5);
        let variance = self.gains(&channels);
        let inputs = [name.as_str(), &gain, &bias, &mean, &variance];
        self.apply("BatchNormalization", &inputs, vec![], dims);
        Some(())
    }

    /// Each channel by itself, or groups of channels.
    pub(super) fn instance_norm(&mut self) -> Option<()> {
        let from = self.pick(|value| value.dims.len() == 3 && value.dims[1] * value.dims[2] > 1)?;
        let dims = self.dims(from);
        let name = self.read(from);
        let gain = self.gains(&dims[..1]);
        let bias = self.weights(&dims[..1], 0.5);
        let inputs = [name.as_str(), &gain, &bias];
        let mut attributes = vec![float("epsilon", 1e-3)];
        if self.opset >= 21 && self.random.one_in(2) {
            let groups: Vec<i64> = (1..=dims[0])
                .filter(|groups| dims[0] % groups == 0)
                .collect();
            attributes.push(int("num_groups", self.one_of(&groups)));
            self.apply("GroupNormalization", &inputs, attributes, dims);
            return Some(());
        }
        self.apply("InstanceNormalization", &inputs, attributes, dims);
        Some(())
    }

    pub(super) fn softmax(&mut self) -> Option<()> {
        let from = self.any()?;
        let dims = self.dims(from);
        let axis = self.side(1, dims.len() as u64);
        let operator = self.one_of(&["Softmax", "Softmax", "LogSoftmax"]);
        let name = self.read(from);
        self.apply(operator, &[&name], vec![int("axis", axis)], dims);
        Some(())
    }

    pub(super) fn reduce(&mut self) -> Option<()> {
        let from = self.any()?;
        let dims = self.dims(from);
        let all = [
            "ReduceMean",
            "ReduceMean",
            "ReduceSum",
            "ReduceMax",
            "ReduceMin",
            "ReduceL1",
            "ReduceL2",
            "ReduceSumSquare",
            "ReduceLogSumExp",
            "ReduceProd",
            "ReduceLogSum",
        ];
        let operator = self.one_of(&all);
        // A logarithm is of positive sums; a product of many values near one stays a number.
        let from = match operator {
            "ReduceLogSum" | "ReduceProd" => self.apply_to(from, "Softplus"),
            _ => from,
        };
        let mut axes: Vec<i64> = (1..=dims.len() as i64)
            .filter(|_| self.random.one_in(2))
            .collect();
        if axes.is_empty() {
            axes.push(dims.len() as i64);
        }
        let keeps = axes.len() == dims.len() || self.random.one_in(2);
        let is_reduced = |at: &usize| axes.contains(&(*at as i64 + 1));
        let to = if keeps {
            (0..dims.len())
                .map(|at| if is_reduced(&at) { 1 } else { dims[at] })
                .collect()
        } else {
            (0..dims.len())
                .filter(|at| !is_reduced(at))
                .map(|at| dims[at])
                .collect()
        };
        let mut attributes = vec![int("keepdims", i64::from(keeps))];
        let name = self.read(from);
        // Since 13 of sums, since 18 of all, the axes are an operand.
        if self.opset >= 18 || operator == "ReduceSum" {
            let axes = self.ints(&axes);
            self.apply(operator, &[&name, &axes], attributes, to);
        } else {
            attributes.push(ints("axes", axes));
            self.apply(operator, &[&name], attributes, to);
        }
        Some(())
    }

    /// Along one dimension, to length one.
    pub(super) fn length_norm(&mut self) -> Option<()> {
        let from = self.any()?;
        let dims = self.dims(from);
        // A length of zero would be divided by.
        let above_zero = self.apply_to(from, "Sigmoid");
        let name = self.read(above_zero);
        let axis = self.side(1, dims.len() as u64);
        let norm = self.side(1, 2);
        let attributes = vec![int("axis", axis), int("p", norm)];
        self.apply("LpNormalization", &[&name], attributes, dims);
        Some(())
    }

    pub(super) fn running_sum(&mut self) -> Option<()> {
        let from = self.any()?;
        let dims = self.dims(from);
        let name = self.read(from);
        let axis = self.side(1, dims.len() as u64);
        let axis = self.ints(&[axis]);
        self.apply("CumSum", &[&name, &axis], vec![], dims);
        Some(())
    }

    /// The largest values; perhaps where they are.
    pub(super) fn top_k(&mut self) -> Option<()> {
        let from = self.any()?;
        let mut dims = self.dims(from);
        let axis = self.random.below(dims.len() as u64) as usize;
        let count = self.side(1, dims[axis].min(6) as u64);
        dims[axis] = count;
        let count = self.ints(&[count]);
        let name = self.read(from);
        let attributes = vec![
            int("axis", axis as i64 + 1),
            int("largest", self.side(0, 1)),
        ];
        let mut results = self.node("TopK", &[&name, &count], 2, attributes);
        let positions = results.remove(1);
        self.value(results.remove(0), dims.clone());
        self.positions(positions, dims);
        Some(())
    }

    /// Positions as an output, or as floats to compute with.
    fn positions(&mut self, name: String, dims: Vec<i64>) {
        if self.random.one_in(2) {
            let to = vec![int("to", i64::from(data_type::FLOAT))];
            self.apply("Cast", &[&name], to, dims);
        } else {
            let id = self.value(name, dims);
            self.values[id].element = data_type::INT64;
        }
    }

    pub(super) fn arg_max(&mut self) -> Option<()> {
        let from = self.any()?;
        let mut dims = self.dims(from);
        let axis = self.random.below(dims.len() as u64) as usize;
        let keeps = dims.len() == 1 || self.random.one_in(2);
        if keeps {
            dims[axis] = 1
        } else {
            dims.remove(axis);
        }
        let name = self.read(from);
        let attributes = vec![
            int("axis", axis as i64 + 1),
            int("keepdims", i64::from(keeps)),
        ];
        let operator = self.one_of(&["ArgMax", "ArgMin"]);
        let name = self.node(operator, &[&name], 1, attributes).remove(0);
        self.positions(name, dims);
        Some(())
    }
}

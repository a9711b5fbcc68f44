//! Moves that only place values otherwise: joins, parts, other orders and other dimensions. What planners of memory get wrong.

use punctual_compile::schema::attribute::{int, ints};
use punctual_compile::schema::{TensorProto, data_type};

use super::{Drawing, ELEMENTS_MAX, Id};

impl Drawing {
    /// A dimension of a value; channels rather than others.
    fn axis(&mut self, rank: usize) -> usize {
        match self.random.below(3) {
            0 => self.random.below(rank as u64) as usize,
            _ => 0,
        }
    }

    pub(super) fn concat(&mut self) -> Option<()> {
        let first = self.any()?;
        let dims = self.dims(first);
        let axis = self.axis(dims.len());
        let mut parts = vec![first];
        for _ in 0..self.random.within(1, 3) {
            let other = self.pick(|value| {
                value.dims.len() == dims.len()
                    && (0..dims.len()).all(|at| at == axis || value.dims[at] == dims[at])
            })?;
            parts.push(other);
        }
        if self.random.one_in(2) {
            parts.reverse();
        }
        let joined = self.concat_of(&parts, axis)?;
        // Joined once more: with a part of itself, with itself, or with what it was made of.
        if self.random.one_in(3) {
            let also = self.one_of(&parts);
            self.concat_of(&[joined, also], axis)?;
        }
        Some(())
    }

    /// The parts side by side along a dimension.
    pub(super) fn concat_of(&mut self, parts: &[Id], axis: usize) -> Option<Id> {
        let mut dims = self.dims(parts[0]);
        dims[axis] = parts.iter().map(|part| self.values[*part].dims[axis]).sum();
        if dims.iter().product::<i64>() > ELEMENTS_MAX {
            return None;
        }
        let names: Vec<String> = parts.iter().map(|part| self.read(*part)).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let from_behind = self.random.one_in(4);
        let behind = axis as i64 - dims.len() as i64;
        let axis = if from_behind { behind } else { axis as i64 + 1 };
        Some(self.apply("Concat", &names, vec![int("axis", axis)], dims))
    }

    pub(super) fn concat_with_itself(&mut self) -> Option<()> {
        let part = self.any()?;
        let rank = self.values[part].dims.len();
        let times = self.side(2, 3) as usize;
        let axis = self.axis(rank);
        self.concat_of(&vec![part; times], axis).map(|_| ())
    }

    pub(super) fn split(&mut self) -> Option<()> {
        let from = self.pick(|value| value.dims.iter().any(|side| *side > 1))?;
        let dims = self.dims(from);
        let axis = self.axis(dims.len());
        let size = dims[axis];
        if size < 2 {
            return None;
        }
        let mut sizes = vec![self.side(1, size as u64 - 1)];
        sizes.push(size - sizes[0]);
        if size % 2 == 0 && self.random.one_in(2) {
            sizes = vec![size / 2; 2];
        }
        if sizes[1] > 1 && self.random.one_in(3) {
            let cut = self.side(1, sizes[1] as u64 - 1);
            sizes.push(sizes[1] - cut);
            sizes[1] = cut;
        }
        let lengths = self.ints(&sizes);
        let name = self.read(from);
        let axis_attribute = vec![int("axis", axis as i64 + 1)];
        let parts = self.node("Split", &[&name, &lengths], sizes.len(), axis_attribute);
        let mut ids = Vec::new();
        for (part, size) in std::iter::zip(parts, sizes) {
            let mut dims = dims.clone();
            dims[axis] = size;
            ids.push(self.value(part, dims));
        }
        // Often each part has its own way, and they come together again.
        if self.random.one_in(2) {
            let ids: Vec<Id> = ids.iter().map(|part| self.unary_of(*part)).collect();
            self.concat_of(&ids, axis)?;
        }
        Some(())
    }

    pub(super) fn slice(&mut self) -> Option<()> {
        let from = self.pick(|value| value.dims.iter().any(|side| *side > 1))?;
        let mut dims = self.dims(from);
        let axis = self.axis(dims.len());
        let size = dims[axis];
        if size < 2 {
            return None;
        }
        let start = self.side(0, size as u64 - 1);
        let (start, end, step, count) = match self.random.below(6) {
            0 => {
                let step = self.side(2, 3);
                (start, size, step, (size - start + step - 1) / step)
            }
            1 => (start, i64::MIN + 1, -1, start + 1),
            _ => {
                let end = self.side(start as u64 + 1, size as u64);
                (start, end, 1, end - start)
            }
        };
        dims[axis] = count;
        let operands = [[start], [end], [axis as i64 + 1], [step]];
        let operands = operands.map(|operand| self.ints(&operand));
        let name = self.read(from);
        let mut inputs = vec![name.as_str()];
        inputs.extend(operands.iter().map(String::as_str));
        self.apply("Slice", &inputs, vec![], dims);
        Some(())
    }

    pub(super) fn gather(&mut self) -> Option<()> {
        let from = self.any()?;
        let mut dims = self.dims(from);
        let axis = self.axis(dims.len());
        let count = self.side(1, (dims[axis] + 2).min(24) as u64);
        let size = dims[axis] as u64;
        let positions: Vec<i64> = (0..count).map(|_| self.random.below(size) as i64).collect();
        dims[axis] = count;
        if dims.iter().product::<i64>() > ELEMENTS_MAX {
            return None;
        }
        let positions = self.ints(&positions);
        let name = self.read(from);
        let axis = vec![int("axis", axis as i64 + 1)];
        self.apply("Gather", &[&name, &positions], axis, dims);
        Some(())
    }

    /// Values at positions that are constant, one for each value or one for each row.
    pub(super) fn gather_each(&mut self) -> Option<()> {
        let from = self.any()?;
        let dims = self.dims(from);
        let name = self.read(from);
        let last = dims.len() - 1;
        let size = dims[last] as u64;
        // Equal for all images, so that the batch may be of any size: that is what a gather along one dimension is.
        if dims.len() == 1 || self.random.one_in(2) {
            return self.gather_rows(from);
        }
        // Positions that are computed: of the largest values first.
        let count = self.side(1, size.min(4));
        let places = self.ints(&[count]);
        let axis = vec![int("axis", last as i64 + 1)];
        let order = self.node("TopK", &[&name, &places], 2, axis.clone());
        let other = self.same_as(from);
        let other = self.read(other);
        let mut to = dims;
        to[last] = count;
        self.apply("GatherElements", &[&other, &order[1]], axis, to);
        Some(())
    }

    /// One row of a dimension, which is left out then.
    fn gather_rows(&mut self, from: Id) -> Option<()> {
        let mut dims = self.dims(from);
        if dims.len() < 2 {
            return None;
        }
        let axis = self.random.below(dims.len() as u64) as usize;
        let row = self.random.below(dims.remove(axis) as u64) as i64;
        let position = self.name();
        let position_bytes = row.to_le_bytes().to_vec();
        let scalar = TensorProto::raw(&position, data_type::INT64, &[], position_bytes);
        self.graph.initializer.push(scalar);
        let name = self.read(from);
        let axis = vec![int("axis", axis as i64 + 1)];
        self.apply("Gather", &[&name, &position], axis, dims);
        Some(())
    }

    /// A dimension of one position more, or less.
    pub(super) fn squeeze(&mut self) -> Option<()> {
        let from = self.pick(|value| value.dims.len() < 3 || value.dims.contains(&1))?;
        let mut dims = self.dims(from);
        let name = self.read(from);
        match dims.iter().position(|side| *side == 1) {
            Some(at) if dims.len() > 1 => {
                dims.remove(at);
                let axis = self.ints(&[at as i64 + 1]);
                self.apply("Squeeze", &[&name, &axis], vec![], dims);
            }
            _ => {
                let at = self.random.below(dims.len() as u64 + 1) as usize;
                dims.insert(at, 1);
                let axis = self.ints(&[at as i64 + 1]);
                self.apply("Unsqueeze", &[&name, &axis], vec![], dims);
            }
        }
        Some(())
    }

    pub(super) fn transpose(&mut self) -> Option<()> {
        let from = self.pick(|value| value.dims.len() > 1)?;
        let dims = self.dims(from);
        let mut order: Vec<usize> = (0..dims.len()).collect();
        for at in (1..order.len()).rev() {
            order.swap(at, self.random.below(at as u64 + 1) as usize);
        }
        let to = order.iter().map(|at| dims[*at]).collect();
        let perm: Vec<i64> = [0]
            .into_iter()
            .chain(order.iter().map(|at| *at as i64 + 1))
            .collect();
        let name = self.read(from);
        self.apply("Transpose", &[&name], vec![ints("perm", perm)], to);
        Some(())
    }

    /// Splits a dimension, or merges neighbours.
    pub(super) fn reshape(&mut self) -> Option<()> {
        let from = self.any()?;
        let mut dims = self.dims(from);
        let at = self.random.below(dims.len() as u64) as usize;
        if dims.len() > 1 && (dims.len() == 3 || self.random.one_in(2)) {
            let at = at.min(dims.len() - 2);
            let merged = dims.remove(at + 1);
            dims[at] *= merged;
        } else {
            let size = dims[at];
            let divisors: Vec<i64> = (1..=size).filter(|cut| size % cut == 0).collect();
            let cut = self.one_of(&divisors);
            dims[at] = cut;
            dims.insert(at + 1, size / cut);
        }
        self.reshaped(from, dims);
        Some(())
    }

    /// The same values with other dimensions.
    pub(super) fn reshaped(&mut self, from: Id, dims: Vec<i64>) -> Id {
        // The batch as it is, or whatever is left.
        let batch = if self.random.one_in(2) { 0 } else { -1 };
        let sizes = [vec![batch], dims.clone()].concat();
        let sizes = self.ints(&sizes);
        let name = self.read(from);
        self.apply("Reshape", &[&name, &sizes], vec![], dims)
    }

    /// Rows become members of the batch, are multiplied by a matrix, and come back.
    pub(super) fn folded_batch(&mut self) -> Option<()> {
        let from = self.pick(|value| value.dims.len() == 2)?;
        let dims = self.dims(from);
        let (rows, columns) = (dims[0], dims[1]);
        let results = self.channels();
        let folded = self.ints(&[-1, columns]);
        let name = self.read(from);
        let folded = self.node("Reshape", &[&name, &folded], 1, vec![]).remove(0);
        let weights = self.kernel(&[columns, results], columns);
        let bias = self.weights(&[results], 0.5);
        let inputs = [folded.as_str(), &weights, &bias];
        let product = self.node("Gemm", &inputs, 1, vec![]).remove(0);
        let back = self.ints(&[-1, rows, results]);
        self.apply("Reshape", &[&product, &back], vec![], vec![rows, results]);
        Some(())
    }

    pub(super) fn flatten(&mut self) -> Option<()> {
        let from = self.pick(|value| value.dims.len() > 1)?;
        let elements = self.values[from].elements();
        let name = self.read(from);
        self.apply("Flatten", &[&name], vec![int("axis", 1)], vec![elements]);
        Some(())
    }

    pub(super) fn tile(&mut self) -> Option<()> {
        let from = self.any()?;
        let mut dims = self.dims(from);
        let axis = self.axis(dims.len());
        let times = self.side(2, 3);
        let mut repeats = vec![1; dims.len() + 1];
        if dims[axis] == 1 && self.random.one_in(2) {
            dims[axis] = times;
            repeats[axis + 1] = times;
            let repeats = self.ints(&repeats);
            let name = self.read(from);
            self.apply("Expand", &[&name, &repeats], vec![], dims);
            return Some(());
        }
        dims[axis] *= times;
        if dims.iter().product::<i64>() > ELEMENTS_MAX {
            return None;
        }
        repeats[axis + 1] = times;
        let repeats = self.ints(&repeats);
        let name = self.read(from);
        self.apply("Tile", &[&name, &repeats], vec![], dims);
        Some(())
    }

    pub(super) fn identity(&mut self) -> Option<()> {
        let from = self.any()?;
        let dims = self.dims(from);
        let name = self.read(from);
        self.apply("Identity", &[&name], vec![], dims);
        Some(())
    }
}

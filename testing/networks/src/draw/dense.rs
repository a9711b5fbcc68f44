//! Products of matrices: layers, products of two values, attention.

use punctual_compile::schema::attribute::{int, ints, text};

use super::{Drawing, ELEMENTS_MAX, Id, PRODUCTS_MAX};

impl Drawing {
    /// A matrix of weights times the last dimension.
    pub(super) fn dense(&mut self) -> Option<()> {
        let from = self.any()?;
        let results = self.channels();
        self.dense_of(from, results).map(|_| ())
    }

    pub(super) fn dense_of(&mut self, from: Id, results: i64) -> Option<Id> {
        let mut dims = self.dims(from);
        let columns = *dims.last()?;
        let elements = dims.iter().product::<i64>() / columns * results;
        if elements > ELEMENTS_MAX || elements * columns > PRODUCTS_MAX {
            return None;
        }
        *dims.last_mut()? = results;
        let name = self.read(from);
        if dims.len() == 1 && self.random.one_in(2) {
            let transposed = self.random.one_in(2);
            let shape = if transposed {
                [results, columns]
            } else {
                [columns, results]
            };
            let weights = self.kernel(&shape, columns);
            let bias = self.weights(&[results], 0.5);
            let attributes = vec![int("transB", i64::from(transposed))];
            return Some(self.apply("Gemm", &[&name, &weights, &bias], attributes, dims));
        }
        let weights = self.kernel(&[columns, results], columns);
        let product = self.apply("MatMul", &[&name, &weights], vec![], dims.clone());
        if self.random.one_in(2) {
            return Some(product);
        }
        let bias = self.weights(&[results], 0.5);
        let name = self.read(product);
        Some(self.apply("Add", &[&name, &bias], vec![], dims))
    }

    /// Two values of matrices, of which one is turned if need be.
    pub(super) fn product(&mut self) -> Option<()> {
        let first = self.pick(|value| value.dims.len() > 1)?;
        let dims = self.dims(first);
        let rank = dims.len();
        let (outer, [rows, terms]) = (&dims[..rank - 2], [dims[rank - 2], dims[rank - 1]]);
        let second = self.pick(|value| {
            value.dims.len() == rank
                && value.dims[..rank - 2] == *outer
                && value.dims[rank - 2] == terms
        });
        let second = match second {
            Some(second) => second,
            // With itself, turned.
            None => self.turned(first),
        };
        let columns = *self.values[second].dims.last()?;
        let to = [outer.to_vec(), vec![rows, columns]].concat();
        let elements = to.iter().product::<i64>();
        if elements > ELEMENTS_MAX || elements * terms > PRODUCTS_MAX {
            return None;
        }
        let names = [self.read(first), self.read(second)];
        let product = self
            .node("MatMul", &[&names[0], &names[1]], 1, vec![])
            .remove(0);
        // Sums of products of two values grow.
        if self.random.one_in(2) {
            self.apply("Tanh", &[&product], vec![], to);
            return Some(());
        }
        let factor = self.floats(&[], &[1.0 / terms as f32]);
        self.apply("Mul", &[&product, &factor], vec![], to);
        Some(())
    }

    /// A value with its last two dimensions exchanged.
    fn turned(&mut self, from: Id) -> Id {
        let mut dims = self.dims(from);
        let rank = dims.len();
        dims.swap(rank - 2, rank - 1);
        let mut perm: Vec<i64> = (0..=rank as i64).collect();
        perm.swap(rank - 1, rank);
        let name = self.read(from);
        self.apply("Transpose", &[&name], vec![ints("perm", perm)], dims)
    }

    pub(super) fn attention(&mut self) -> Option<()> {
        if self.random.one_in(2) {
            self.attention_of_pixels()
        } else {
            self.attention_of_tokens()
        }
    }

    /// Attention between the pixels of an image. A padded convolution also reads its values.
    fn attention_of_pixels(&mut self) -> Option<()> {
        let from =
            self.pick(|value| value.dims.len() == 3 && value.dims[1] * value.dims[2] <= 64)?;
        let dims = self.dims(from);
        let pixels = dims[1] * dims[2];
        let channels = self.channels().min(32);
        let query = self.pointwise(from, channels)?;
        let key = self.pointwise(from, channels)?;
        let value = if self.random.one_in(3) {
            key
        } else {
            self.pointwise(from, channels)?
        };
        let flat = [query, key, value].map(|id| self.reshaped(id, vec![channels, pixels]));
        let query = self.turned(flat[0]);
        let value_rows = self.turned(flat[2]);
        let attended = self.attend(query, flat[1], value_rows, channels)?;
        let columns = self.turned(attended);
        let image = self.reshaped(columns, vec![channels, dims[1], dims[2]]);
        if self.random.one_in(2) {
            self.conv_of(value)?;
        }
        if self.random.one_in(2) {
            let names = [self.read(image), self.read(value)];
            let dims = self.dims(image);
            self.apply("Add", &[&names[0], &names[1]], vec![], dims);
        }
        Some(())
    }

    /// Attention with heads, as transformers have it.
    fn attention_of_tokens(&mut self) -> Option<()> {
        let from = self.pick(|value| value.dims.len() == 2 && value.dims[0] <= 32)?;
        let tokens = self.values[from].dims[0];
        let heads = self.side(1, 3);
        let channels = self.one_of(&[2, 4, 6, 8, 16]);
        let mut parts = Vec::new();
        for part in 0..3 {
            let projected = self.dense_of(from, heads * channels)?;
            let cut = self.reshaped(projected, vec![tokens, heads, channels]);
            let (order, to) = match part {
                1 => ([0, 2, 3, 1], vec![heads, channels, tokens]),
                _ => ([0, 2, 1, 3], vec![heads, tokens, channels]),
            };
            let name = self.read(cut);
            let perm = vec![ints("perm", order)];
            parts.push(self.apply("Transpose", &[&name], perm, to));
        }
        let attended = self.attend(parts[0], parts[1], parts[2], channels)?;
        let name = self.read(attended);
        let perm = vec![ints("perm", [0, 2, 1, 3])];
        let to = vec![tokens, heads, channels];
        let back = self.apply("Transpose", &[&name], perm, to);
        let flat = self.reshaped(back, vec![tokens, heads * channels]);
        if self.random.one_in(2) {
            let columns = self.values[from].dims[1];
            let projected = self.dense_of(flat, columns)?;
            let names = [self.read(projected), self.read(from)];
            self.apply(
                "Add",
                &[&names[0], &names[1]],
                vec![],
                vec![tokens, columns],
            );
        }
        Some(())
    }

    /// (.., queries, channels), (.., channels, keys), (.., keys, values) to (.., queries, values).
    fn attend(&mut self, query: Id, key: Id, value: Id, channels: i64) -> Option<Id> {
        let mut scored = self.dims(query);
        *scored.last_mut()? = *self.values[key].dims.last()?;
        let mut to = self.dims(query);
        *to.last_mut()? = *self.values[value].dims.last()?;
        let products = scored.iter().product::<i64>();
        if products > ELEMENTS_MAX || products * channels > PRODUCTS_MAX {
            return None;
        }
        let names = [query, key, value].map(|id| self.read(id));
        let mut scores = self
            .node("MatMul", &[&names[0], &names[1]], 1, vec![])
            .remove(0);
        let scale = self.floats(&[], &[0.25]);
        scores = self.node("Mul", &[&scores, &scale], 1, vec![]).remove(0);
        if self.random.one_in(4) {
            let bias = self.weights(&scored[scored.len() - 2..], 1.0);
            scores = self.node("Add", &[&scores, &bias], 1, vec![]).remove(0);
        }
        scores = self
            .node("Softmax", &[&scores], 1, vec![int("axis", -1)])
            .remove(0);
        // Sometimes something else reads the weights of the attention.
        if self.random.one_in(5) {
            self.value(scores.clone(), scored);
        }
        Some(self.apply("MatMul", &[&scores, &names[2]], vec![], to))
    }

    pub(super) fn einsum(&mut self) -> Option<()> {
        let first = self.pick(|value| value.dims.len() == 2)?;
        let [rows, columns] = self.dims(first)[..] else {
            return None;
        };
        let second = self.pick(|value| value.dims.len() == 2 && value.dims[1] == columns)?;
        let others = self.values[second].dims[0];
        if rows * others > ELEMENTS_MAX || rows * others * columns > PRODUCTS_MAX {
            return None;
        }
        let names = [self.read(first), self.read(second)];
        let equation = vec![text("equation", "bic,bjc->bij")];
        let product = self
            .node("Einsum", &[&names[0], &names[1]], 1, equation)
            .remove(0);
        let factor = self.floats(&[], &[1.0 / columns as f32]);
        self.apply("Mul", &[&product, &factor], vec![], vec![rows, others]);
        Some(())
    }
}

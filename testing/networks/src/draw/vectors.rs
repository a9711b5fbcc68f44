//! What networks do with further inputs: latents, commands, conditions.

use super::{Drawing, Id};

impl Drawing {
    /// One use of a vector input.
    pub(super) fn vector_use(&mut self) -> Option<()> {
        let vectors = self.values.iter().enumerate();
        let vectors: Vec<Id> = vectors
            .filter(|(_, value)| value.input.is_some_and(|at| at > 0))
            .map(|(id, _)| id)
            .collect();
        if vectors.is_empty() {
            return None;
        }
        let vector = self.one_of(&vectors);
        match self.random.below(6) {
            0 => self.vector_convolved(vector),
            1 => self.vector_transposed(vector),
            2 => self.vector_as_factor(vector),
            3 => {
                let results = self.channels();
                self.dense_of(vector, results).map(|_| ())
            }
            4 => self.vector_beside(vector),
            _ => {
                self.unary_of(vector);
                Some(())
            }
        }
    }

    /// The vector as an image of one pixel, or of few.
    fn as_image(&mut self, vector: Id) -> Id {
        let elements = self.values[vector].elements();
        if self.values[vector].dims == [elements, 1, 1] {
            return vector;
        }
        let side = [2, 3]
            .into_iter()
            .find(|side| elements % (side * side) == 0);
        let side = side.filter(|_| self.random.one_in(3)).unwrap_or(1);
        self.reshaped(vector, vec![elements / (side * side), side, side])
    }

    fn vector_convolved(&mut self, vector: Id) -> Option<()> {
        let image = self.as_image(vector);
        let convolved = self.conv_of(image)?;
        self.unary_of(convolved);
        Some(())
    }

    fn vector_transposed(&mut self, vector: Id) -> Option<()> {
        let image = self.as_image(vector);
        self.transposed_conv_of(image).map(|_| ())
    }

    /// A factor, or an addend, of each channel of an image.
    fn vector_as_factor(&mut self, vector: Id) -> Option<()> {
        let image = self.image()?;
        let dims = self.dims(image);
        let elements = self.values[vector].elements();
        let flat = self.reshaped(vector, vec![elements]);
        let factors = if elements == dims[0] {
            flat
        } else {
            self.dense_of(flat, dims[0])?
        };
        let factors = self.reshaped(factors, vec![dims[0], 1, 1]);
        let operator = self.one_of(&["Mul", "Add"]);
        let names = [self.read(image), self.read(factors)];
        self.apply(operator, &[&names[0], &names[1]], vec![], dims);
        Some(())
    }

    /// Concatenated with features, or with an image in whose every pixel it is repeated.
    fn vector_beside(&mut self, vector: Id) -> Option<()> {
        let elements = self.values[vector].elements();
        if self.random.one_in(2) {
            let flat = self.reshaped(vector, vec![elements]);
            let other = self.pick(|value| value.dims.len() == 1)?;
            return self.concat_of(&[flat, other], 0).map(|_| ());
        }
        let image = self.image()?;
        let dims = self.dims(image);
        let pixel = self.reshaped(vector, vec![elements, 1, 1]);
        if elements * dims[1] * dims[2] > super::ELEMENTS_MAX / 2 {
            return None;
        }
        let to = self.ints(&[1, elements, dims[1], dims[2]]);
        let name = self.read(pixel);
        let dims = vec![elements, dims[1], dims[2]];
        let repeated = self.apply("Expand", &[&name, &to], vec![], dims);
        self.concat_of(&[image, repeated], 0).map(|_| ())
    }
}

//! Layers that carry a state from step to step, and embeddings.

use punctual_compile::schema::attribute::{int, ints, text};

use super::{Drawing, Id, Numbers, TOKENS};

impl Drawing {
    /// A layer over (steps, values): the batch goes to the second place and comes back.
    pub(super) fn recurrent(&mut self) -> Option<()> {
        let from = self.pick(|value| value.dims.len() == 2 && value.dims[0] <= 16)?;
        let [steps, columns] = self.dims(from)[..] else {
            return None;
        };
        let (operator, gates) = self.one_of(&[("LSTM", 4), ("GRU", 3), ("RNN", 1)]);
        let hidden = self.channels().min(16);
        let direction = self.one_of(&["forward", "reverse", "bidirectional"]);
        let directions = if direction == "bidirectional" { 2 } else { 1 };
        let name = self.read(from);
        let perm = vec![ints("perm", [1, 0, 2])];
        let turned = self.node("Transpose", &[&name], 1, perm).remove(0);
        let weights = self.kernel(&[directions, gates * hidden, columns], columns);
        let carried = self.kernel(&[directions, gates * hidden, hidden], hidden);
        let bias = self.weights(&[directions, 2 * gates * hidden], 0.5);
        let mut attributes = vec![int("hidden_size", hidden), text("direction", direction)];
        if operator == "GRU" {
            attributes.push(int("linear_before_reset", self.side(0, 1)));
        }
        let inputs = [turned.as_str(), &weights, &carried, &bias];
        let results = if operator == "LSTM" { 3 } else { 2 };
        let results = self.node(operator, &inputs, results, attributes);
        // (steps, directions, batch, hidden) to (batch, steps, directions * hidden).
        let perm = vec![ints("perm", [2, 0, 1, 3])];
        let all = self.node("Transpose", &[&results[0]], 1, perm).remove(0);
        let sizes = self.ints(&[0, steps, directions * hidden]);
        self.apply(
            "Reshape",
            &[&all, &sizes],
            vec![],
            vec![steps, directions * hidden],
        );
        // Often the last states are read, too: (directions, batch, hidden).
        if self.random.one_in(3) {
            let perm = vec![ints("perm", [1, 0, 2])];
            let last = self.one_of(&results[1..]);
            self.apply("Transpose", &[&last], perm, vec![directions, hidden]);
        }
        Some(())
    }

    /// Tokens become rows of a table, and each place has a row of its own added.
    pub(super) fn draw_tokens(&mut self, dims: Vec<i64>) {
        let tokens = dims[0];
        self.input("tokens", dims, Numbers::Tokens(TOKENS));
        let channels = self.channels();
        let table = self.weights(&[TOKENS as i64, channels], 1.0);
        let mut rows = self
            .node("Gather", &[&table, "tokens"], 1, vec![int("axis", 0)])
            .remove(0);
        if self.random.one_in(2) {
            let places = self.weights(&[tokens, channels], 1.0);
            rows = self.node("Add", &[&rows, &places], 1, vec![]).remove(0);
        }
        let rows: Id = self.value(rows, vec![tokens, channels]);
        if self.random.one_in(2) {
            let name = self.read(rows);
            let perm = vec![ints("perm", [0, 2, 1])];
            self.apply("Transpose", &[&name], perm, vec![channels, tokens]);
        }
    }
}

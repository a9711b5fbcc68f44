//! Lists of detections.

use punctual_model::{Detections, Tensor, TensorId};
use punctual_types::{Axis, Decoder, Scoring};

use super::copy::digit;
use super::{Builder, Mutable, Random, Reads, below};

impl Builder {
    /// The values of each pixel's only channel as a vector.
    pub fn places(&mut self, input: TensorId) -> TensorId {
        let Tensor { height, width, .. } = self.shape(input);
        let digits = [digit(Axis::Row, 1, height), digit(Axis::Column, 1, width)];
        self.rearranged(input, &digits, [height * width, 1, 1])
    }

    /// A list of detections; the decoder's size is that of the network's input, and its candidates are at most the places.
    pub fn detections(
        &mut self,
        [boxes, scores]: [TensorId; 2],
        objectness: Option<TensorId>,
        scoring: Scoring,
        decoder: Decoder,
    ) -> TensorId {
        let best = self.best_score(scores, objectness, scoring);
        let image = self.shape(self.input);
        let decoder = Decoder {
            size: [image.width, image.height],
            candidates: decoder.candidates.min(self.shape(best).channels),
            ..decoder
        };
        self.push(&[best, boxes, scores], Detections { scoring, decoder })
    }
}

impl Mutable for Detections {
    fn vary(&mut self, random: &mut Random) {
        let Self { scoring, decoder } = self;
        match random.below(8) {
            0 => scoring.first = below(4, random),
            1 => scoring.logits = !scoring.logits,
            2 => decoder.rows = below(60, random),
            3 => decoder.candidates = below(60, random),
            4 => decoder.by_class = !decoder.by_class,
            5 => decoder.overlap = None,
            6 => decoder.averaged = below(6, random),
            _ => decoder.threshold = random.signed_unit(),
        }
    }

    fn fit(&mut self, reads: &mut Reads<'_>) {
        self.decoder.candidates = self.decoder.candidates.min(reads.shape.channels);
    }
}

//! What a detector's places become.

use punctual_model::{BestScore, Detections, Tensor, TensorId};
use punctual_types::{Axis, Decoder, Scoring};

use super::Builder;
use super::copies::digit;

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
        let Tensor { height, width, .. } = self.shape(scores);
        let reads: Vec<TensorId> = [scores].into_iter().chain(objectness).collect();
        let best = self.push(&reads, BestScore { scoring });
        let detections = Detections {
            scoring,
            decoder: Decoder {
                size: [self.size.1, self.size.0],
                candidates: decoder.candidates.min(height * width),
                ..decoder
            },
        };
        self.push(&[best, boxes, scores], detections)
    }
}

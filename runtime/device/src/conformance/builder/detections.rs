//! What a detector's places become.

use punctual_model::{OperatorKind, Tensor, TensorId};
use punctual_types::{Axis, DETECTION_VALUES, Decoder, Scoring};

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
        let kind = OperatorKind::BestScore {
            objectness,
            scoring,
        };
        let best = self.push(scores, kind, Tensor::features(height * width));
        let kind = OperatorKind::Detections {
            others: [boxes, scores],
            scoring,
            decoder: Decoder {
                size: [self.size.1, self.size.0],
                candidates: decoder.candidates.min(height * width),
                ..decoder
            },
        };
        let list = Tensor {
            channels: DETECTION_VALUES,
            height: 1,
            width: decoder.rows + 1,
        };
        self.push(best, kind, list)
    }
}

//! What the exits say of a frame.
//!
//! Of an exit that a frame did not reach, the answer is drawn by the plan's calibration: the confidence by how confidences change
//! from exit to exit. Whether an answer is right is not in any recording. It is drawn by the accuracy that the calibration gives
//! it, with one draw a frame, so that a deeper answer is wrong after a right one only where accuracy falls.

use punctual_core::{ACCURACY_BINS, Answer, Confidence, ModelConfig, StageConfig};
use punctual_model::bin_of;
use punctual_simulator::recorded::FrameStage;
use punctual_types::Random;

use super::log::Reached;

/// A frame's answer at each stage; where it `reached` an exit, that is the recorded one.
pub fn answers(model: &ModelConfig, reached: &[Reached], mut random: Random) -> Vec<FrameStage> {
    // The higher, the more often the frame is answered wrongly.
    let hardness = random.unit();
    let mut before = None;
    let stages = model.stages.iter().enumerate().map(|(index, stage)| {
        let recorded = reached.get(index).and_then(|reached| reached.answer);
        let is_last = index + 1 == model.stages.len();
        let answered = answer(stage, is_last, recorded, before, hardness, &mut random);
        before = Some(answered);
        answered
    });
    stages.collect()
}

/// Without an exit at a stage, a frame keeps the answer that it has.
fn answer(
    stage: &StageConfig,
    is_last: bool,
    recorded: Option<Answer>,
    before: Option<FrameStage>,
    hardness: f64,
    random: &mut Random,
) -> FrameStage {
    let nothing = FrameStage {
        confidence: Confidence(0),
        right: false,
        ran: None,
    };
    if !stage.answers {
        return before.unwrap_or(nothing);
    }
    let from = before.map_or(0, |before| bin_of(before.confidence));
    let drawn = drawn_confidence(&stage.follows[from], random);
    // Nothing is known of how confidences change: it is not sure before its last exit.
    let unknown = if is_last {
        Confidence::ONE
    } else {
        Confidence(0)
    };
    let confidence = recorded.map(|answer| answer.confidence).or(drawn);
    let confidence = confidence.unwrap_or(unknown);
    let accuracy = f64::from(stage.accuracy[bin_of(confidence)]) / f64::from(u16::MAX);
    FrameStage {
        confidence,
        right: hardness < accuracy,
        ran: None,
    }
}

/// The middle of a bin that is drawn by how often each is next; none if that is not known.
fn drawn_confidence(follows: &[u16; ACCURACY_BINS], random: &mut Random) -> Option<Confidence> {
    let all: u64 = follows.iter().map(|often| u64::from(*often)).sum();
    if all == 0 {
        return None;
    }
    let mut left = random.below(all);
    let bin = follows.iter().position(|often| {
        let often = u64::from(*often);
        let is_it = left < often;
        left = left.saturating_sub(often);
        is_it
    })?;
    let width = (usize::from(u16::MAX) + 1) / ACCURACY_BINS;
    Some(Confidence((bin * width + width / 2) as u16))
}

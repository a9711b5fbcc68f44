//! How good a network's answers are, compared with the truth.
//!
//! | module | answers | of one frame, 0 to 1 | of many |
//! |---|---|---|---|
//! | `detections` | objects with places and classes | F1 at overlap 0.5 | mAP50, mAP50-95 |
//! | `masks` | a class for each pixel | mean IoU | mean IoU, share of right pixels |
//! | `labels` | sets of labels | Jaccard index | F1, share of exact sets |
//! | `values` | numbers | 1 within the tolerance, else 0 | mean absolute and root mean square error |
//! | `ranking` | what confidence tells about any of these | | concordance |
//!
//! ```
//! use punctual_decode::{Detection, Rect};
//! use punctual_quality::{AveragePrecision, Matched, Object};
//!
//! let rect = Rect { left: 10.0, top: 10.0, right: 30.0, bottom: 50.0 };
//! let truth = [Object { rect, class: 0, crowd: false }];
//! let found = [Detection { rect, score: 0.8, class: 0 }];
//! // Each frame is compared once; any selection of frames has a mean average precision.
//! let frames = [Matched::of(&truth, &found), Matched::of(&truth, &[])];
//! assert_eq!(frames.each_ref().map(|frame| frame.f1(0.5)), [1.0, 0.0]);
//! assert!(AveragePrecision::of(&frames).map50.unwrap() < 0.51);
//! ```
#![forbid(unsafe_code)]

mod detections;
mod labels;
mod masks;
mod ranking;
mod values;

pub use detections::{
    AveragePrecision, BestScore, ClassPrecision, DETECTIONS_MAX, Matched, OVERLAPS, Object,
    best_score,
};
pub use labels::SetCounts;
pub use masks::{ClassPixels, IGNORED, PixelCounts};
pub use ranking::concordance;
pub use values::Errors;

//! Non-maximum suppression: of detections that overlap, the best one stays.

use crate::Detection;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub(crate) detection: Detection,
    pub(crate) place: u32,
}

impl Candidate {
    /// For sorting: the best first.
    pub(crate) fn better(&self, other: &Self) -> std::cmp::Ordering {
        other.detection.score.total_cmp(&self.detection.score)
    }
}

/// Which detections suppress which: those with a higher score, if the area of the intersection is more than `overlap` (0 to
/// 1) of the area of the union.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Suppression {
    /// All stay: for networks that were trained to say everything once.
    #[default]
    None,
    /// Those of the same class.
    PerClass { overlap: f32 },
    /// Those of any class.
    AcrossClasses { overlap: f32 },
}

impl Suppression {
    fn removes(self, better: &Candidate, other: &Candidate) -> bool {
        let (better, other) = (&better.detection, &other.detection);
        match self {
            Self::None => false,
            Self::PerClass { overlap } => {
                better.class == other.class && better.rect.overlap(&other.rect) > overlap
            }
            Self::AcrossClasses { overlap } => better.rect.overlap(&other.rect) > overlap,
        }
    }

    /// Keeps at most `limit` of candidates that are sorted, the best first.
    pub(crate) fn apply(self, candidates: &mut Vec<Candidate>, limit: usize) {
        let mut kept = 0;
        for at in 0..candidates.len() {
            if kept == limit {
                break;
            }
            let candidate = candidates[at];
            let mut better = candidates[..kept].iter();
            if !better.any(|better| self.removes(better, &candidate)) {
                candidates[kept] = candidate;
                kept += 1;
            }
        }
        candidates.truncate(kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rect;

    fn candidate(left: f32, class: u16) -> Candidate {
        let rect = Rect {
            left,
            top: 0.0,
            right: left + 2.0,
            bottom: 2.0,
        };
        Candidate {
            detection: Detection {
                rect,
                score: 0.5,
                class,
            },
            place: left as u32,
        }
    }

    fn kept(suppression: Suppression, limit: usize) -> Vec<(u32, u16)> {
        // The second overlaps with the first by a third and with the third one, which overlaps with no other.
        let mut all = vec![
            candidate(0.0, 0),
            candidate(1.0, 0),
            candidate(2.0, 0),
            candidate(0.0, 1),
        ];
        suppression.apply(&mut all, limit);
        let pair = |kept: &Candidate| (kept.place, kept.detection.class);
        all.iter().map(pair).collect()
    }

    #[test]
    fn what_was_suppressed_suppresses_nothing() {
        let overlap = 0.3;
        let per_class = Suppression::PerClass { overlap };
        assert_eq!(kept(per_class, 9), [(0, 0), (2, 0), (0, 1)]);
        let across = Suppression::AcrossClasses { overlap };
        assert_eq!(kept(across, 9), [(0, 0), (2, 0)]);
        assert_eq!(kept(Suppression::None, 9).len(), 4);
    }

    #[test]
    fn an_overlap_of_just_the_limit_is_none_and_the_best_come_first() {
        let overlap = 1.0 / 3.0;
        assert_eq!(kept(Suppression::PerClass { overlap }, 9).len(), 4);
        assert_eq!(kept(Suppression::None, 1), [(0, 0)]);
        assert_eq!(kept(Suppression::None, 0), []);
    }
}

//! What the CUDA device must reach, as data: the report shows each figure next to its bound.

use serde::{Deserialize, Serialize};

/// On which side of a value a figure must lie.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

/// One thing that must be reached.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Bound {
    /// Figures name it by this.
    pub id: &'static str,
    pub step: &'static str,
    pub what: &'static str,
    /// What figures are counted in.
    pub unit: &'static str,
    pub limit: Limit,
    pub aim: Option<f64>,
    pub source: &'static str,
    /// It is about time, of which an emulated driver says nothing.
    pub of_time: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Reached,
    Missed,
    /// There is no figure, or it means nothing.
    NotMeasured,
}

impl Limit {
    /// Whether a figure lies where it must.
    #[must_use]
    pub fn holds(self, value: f64) -> bool {
        match self {
            Self::AtMost(limit) => value <= limit,
            Self::AtLeast(limit) => value >= limit,
        }
    }
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::AtMost(limit) => write!(f, "at most {limit}"),
            Self::AtLeast(limit) => write!(f, "at least {limit}"),
        }
    }
}

impl Verdict {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reached => "reached",
            Self::Missed => "missed",
            Self::NotMeasured => "not measured",
        }
    }
}

const REEF: &str = "REEF (OSDI 2022), section 7.2";

/// Of the throughput on a workload of DISB, all answers over those of real-time tasks alone.
const fn gain(id: &'static str, what: &'static str, times: f64, source: &'static str) -> Bound {
    Bound {
        id,
        step: "disb",
        what,
        unit: "x of real-time alone",
        limit: Limit::AtLeast(times),
        aim: None,
        source,
        of_time: true,
    }
}

/// All bounds, in the order of the report.
pub const BOUNDS: &[Bound] = &[
    Bound {
        id: "masks",
        step: "calibration",
        what: "mask bits whose multiprocessors are those that %smid shows",
        unit: "of all tried",
        limit: Limit::AtLeast(1.0),
        aim: None,
        source: "ours",
        of_time: false,
    },
    Bound {
        id: "conformance",
        step: "conformance",
        what: "functions of the device suite that fail",
        unit: "functions",
        limit: Limit::AtMost(0.0),
        aim: None,
        source: "ours",
        of_time: false,
    },
    Bound {
        id: "exits",
        step: "numerics",
        what: "answers whose class is the CPU device's, or scores as much within the tolerance",
        unit: "of all",
        limit: Limit::AtLeast(1.0),
        aim: None,
        source: "ours",
        of_time: false,
    },
    Bound {
        id: "logits",
        step: "numerics",
        what: "largest difference from the CPU device",
        unit: "x the tolerance of halves",
        limit: Limit::AtMost(1.0),
        aim: None,
        source: "ours",
        of_time: false,
    },
    Bound {
        id: "networks",
        step: "networks",
        what: "networks, every kernel among them, that are not verified",
        unit: "networks",
        limit: Limit::AtMost(0.0),
        aim: None,
        source: "ours",
        of_time: false,
    },
    Bound {
        id: "disjoint",
        step: "isolation",
        what: "median latency beside another stage on disjoint TPCs",
        unit: "x alone",
        limit: Limit::AtMost(1.15),
        aim: None,
        source: "SEEB-GPU, Table 1: 1.13 (0.077 over 0.068 ms)",
        of_time: true,
    },
    Bound {
        id: "preemption",
        step: "preemption",
        what: "preemption latency, p99, kernels of 1 ms in flight",
        unit: "us",
        limit: Limit::AtMost(100.0),
        aim: Some(40.0),
        source: "REEF, section 7.5: REEF-N takes 71 to 288 us",
        of_time: true,
    },
    Bound {
        id: "guards",
        step: "preemption",
        what: "what checking guards adds to a stage",
        unit: "%",
        limit: Limit::AtMost(3.0),
        aim: None,
        source: "ours",
        of_time: true,
    },
    Bound {
        id: "disb-latency",
        step: "disb",
        what: "mean real-time latency beside best-effort work",
        unit: "x alone",
        limit: Limit::AtMost(1.02),
        aim: None,
        source: "REEF, abstract: less than 2% over alone",
        of_time: true,
    },
    gain("disb-a", "throughput on DISB A", 1.60, REEF),
    gain("disb-b", "throughput on DISB B", 1.14, REEF),
    gain(
        "disb-c",
        "throughput on DISB C",
        4.3,
        "REEF, abstract: the largest gain on DISB; section 7.2 gives those of A, B, D and E",
    ),
    gain("disb-d", "throughput on DISB D", 3.00, REEF),
    gain("disb-e", "throughput on DISB E", 2.96, REEF),
    Bound {
        id: "padding",
        step: "padding",
        what: "p99 of real-time latency beside launches that fill what it leaves",
        unit: "x alone",
        limit: Limit::AtMost(1.02),
        aim: None,
        source: "REEF, abstract: less than 2% over alone",
        of_time: true,
    },
    Bound {
        id: "too-long",
        step: "prediction",
        what: "p99 of what stages end before their predicted time",
        unit: "us",
        limit: Limit::AtMost(144.0),
        aim: None,
        source: "Clockwork (OSDI 2020), section 6.5",
        of_time: true,
    },
    Bound {
        id: "too-short",
        step: "prediction",
        what: "p99 of what stages end after their predicted time",
        unit: "us",
        limit: Limit::AtMost(55.0),
        aim: None,
        source: "Clockwork (OSDI 2020), section 6.5",
        of_time: true,
    },
    Bound {
        id: "cudnn",
        step: "cudnn",
        what: "median time of a stage of convolutions over PyTorch's with cuDNN, the slowest stage",
        unit: "x cuDNN",
        limit: Limit::AtMost(1.5),
        aim: Some(1.0),
        source: "ours",
        of_time: true,
    },
];

#[must_use]
pub fn find(id: &str) -> Option<&'static Bound> {
    BOUNDS.iter().find(|bound| bound.id == id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_on_the_limit_reaches_it() {
        assert!(Limit::AtMost(1.15).holds(1.15) && !Limit::AtMost(1.15).holds(1.151));
        assert!(Limit::AtLeast(5.0).holds(5.0) && !Limit::AtLeast(5.0).holds(4.99));
        assert!(!Limit::AtMost(1.0).holds(f64::NAN) && !Limit::AtLeast(1.0).holds(f64::NAN));
    }

    #[test]
    fn names_of_bounds_are_unique() {
        for (index, bound) in BOUNDS.iter().enumerate() {
            let same = |other: &Bound| other.id == bound.id;
            assert!(!BOUNDS[..index].iter().any(same), "{}", bound.id);
        }
    }

    #[test]
    fn what_is_aimed_at_is_within_the_bound() {
        for bound in BOUNDS {
            assert!(
                bound.aim.is_none_or(|aim| bound.limit.holds(aim)),
                "{bound:?}"
            );
        }
    }
}

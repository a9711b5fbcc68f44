//! When clients submit their frames.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use punctual_core::Event;
use punctual_platform::read;
use punctual_platform::termination::{Terminates, Termination};
use punctual_recording::Entry;
use punctual_types::Random;

use crate::recorded::{Opened, RecordingError, RecordingFile, unreadable};

/// The largest trace that is read, in bytes.
const TRACE_BYTES_MAX: u64 = 64 << 20;

/// The most frames that come at once.
const BURST_MAX: u32 = 1_000;

/// What `--shape` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Equal gaps.
    Steady,
    /// Exponential gaps.
    Poisson,
    /// So many at once, with gaps that keep the rate.
    Bursts(u32),
    /// The times of a file.
    File(PathBuf),
}

impl Shape {
    pub fn parse(text: &str) -> Result<Self, String> {
        let allowed = "use steady, poisson, bursts:N, or a trace or recording: file:PATH";
        match text.split_once(':') {
            None if text == "steady" => Ok(Self::Steady),
            None if text == "poisson" => Ok(Self::Poisson),
            Some(("bursts", count)) => match count.parse() {
                Ok(count @ 1..=BURST_MAX) => Ok(Self::Bursts(count)),
                _ => Err(format!("a burst has 1 to {BURST_MAX} frames")),
            },
            Some(("file", path)) if !path.is_empty() => Ok(Self::File(path.into())),
            _ => Err(allowed.to_owned()),
        }
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Steady => f.write_str("steady"),
            Self::Poisson => f.write_str("poisson"),
            Self::Bursts(count) => write!(f, "bursts:{count}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    #[error(transparent)]
    Recording(#[from] RecordingError),
    #[error("{path}: {source}", path = path.display())]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(
        "{path}, line {line}: {text:?} is no arrival: write the seconds since the beginning and the task, as in `0.033 front`",
        path = path.display()
    )]
    Line {
        path: PathBuf,
        line: usize,
        text: String,
    },
    #[error("{path} has no frame of any task: {tasks}", path = path.display())]
    Nothing { path: PathBuf, tasks: String },
}

impl Terminates for TraceError {
    fn termination(&self) -> Termination {
        match self {
            Self::Recording(error) => error.termination(),
            Self::File { .. } => Termination::File,
            Self::Line { .. } | Self::Nothing { .. } => Termination::BadInput,
        }
    }
}

/// Times of frames by task, in ns since the first of all, rising.
pub type Trace = BTreeMap<String, Vec<u64>>;

/// Reads a recording (`.mcap`), or a text with an arrival a line.
pub fn read_trace(path: &Path) -> Result<Trace, TraceError> {
    let mut trace = if path.extension().is_some_and(|ending| ending == "mcap") {
        of_recording(path)?
    } else {
        of_text(path)?
    };
    let first_ns = trace.values().flatten().copied().min().unwrap_or(0);
    for times in trace.values_mut() {
        times.iter_mut().for_each(|at| *at -= first_ns);
        times.sort_unstable();
    }
    Ok(trace)
}

fn of_recording(path: &Path) -> Result<Trace, TraceError> {
    let file = RecordingFile::read(path)?;
    let Opened { recording, setting } = file.open()?;
    let mut trace = Trace::new();
    for entry in recording.entries() {
        let entry = entry.map_err(|source| unreadable(path, source))?;
        if let Entry::Step(step) = entry
            && let Event::Arrived(arrival) = step.event
        {
            let times = trace.entry(setting.names.task(arrival.task)).or_default();
            times.push(arrival.captured.as_nanos());
        }
    }
    Ok(trace)
}

fn of_text(path: &Path) -> Result<Trace, TraceError> {
    let text = read::text(path, TRACE_BYTES_MAX).map_err(|source| TraceError::File {
        path: path.to_owned(),
        source,
    })?;
    let mut trace = Trace::new();
    for (at, line) in text.lines().enumerate() {
        let words = line.split('#').next().unwrap_or_default();
        if words.trim().is_empty() {
            continue;
        }
        let (ns, task) = arrival(words).ok_or_else(|| TraceError::Line {
            path: path.to_owned(),
            line: at + 1,
            text: line.chars().take(80).collect(),
        })?;
        trace.entry(task.to_owned()).or_default().push(ns);
    }
    Ok(trace)
}

fn arrival(words: &str) -> Option<(u64, &str)> {
    let mut words = words.split_whitespace();
    let seconds: f64 = words.next()?.parse().ok()?;
    let task = words.next()?;
    let is_arrival = (0.0..1e9).contains(&seconds) && words.next().is_none();
    is_arrival.then_some(((seconds * 1e9) as u64, task))
}

/// The times of a task's frames in ns since the start; without an end, but for those of a trace.
pub fn times(
    shape: &Shape,
    hz: f64,
    seed: u64,
    trace: &[u64],
    factor: f64,
) -> Box<dyn Iterator<Item = u64> + Send> {
    let gap_ns = 1e9 / (hz * factor);
    match shape {
        Shape::Steady => Box::new((0_u64..).map(move |frame| (frame as f64 * gap_ns) as u64)),
        Shape::Bursts(count) => {
            let count = u64::from(*count);
            Box::new((0_u64..).map(move |frame| ((frame / count * count) as f64 * gap_ns) as u64))
        }
        Shape::Poisson => {
            let mut random = Random::new(seed);
            let mut at_ns = 0.0;
            Box::new(std::iter::from_fn(move || {
                let uniform = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
                at_ns += -(1.0 - uniform).ln() * gap_ns;
                Some(at_ns as u64)
            }))
        }
        Shape::File(_) => {
            let times: Vec<u64> = trace
                .iter()
                .map(|at| (*at as f64 / factor) as u64)
                .collect();
            Box::new(times.into_iter())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first(shape: &str, count: usize) -> Vec<u64> {
        let shape = Shape::parse(shape).expect("a shape");
        times(&shape, 50.0, 7, &[], 2.0).take(count).collect()
    }

    #[test]
    fn each_shape_keeps_the_rate() {
        assert_eq!(first("steady", 4), [0, 10_000_000, 20_000_000, 30_000_000]);
        assert_eq!(first("bursts:3", 5), [0, 0, 0, 30_000_000, 30_000_000]);
        let poisson = first("poisson", 20_000);
        assert!(poisson.is_sorted());
        let mean_ms = poisson[19_999] as f64 / 20_000.0 / 1e6;
        assert!((mean_ms - 10.0).abs() < 0.3, "{mean_ms} ms");
        assert_eq!(poisson[..9], first("poisson", 9), "by its seed");
    }

    #[test]
    fn what_is_no_shape_is_refused_with_those_that_are() {
        for text in [
            "stead",
            "bursts",
            "bursts:0",
            "bursts:1001",
            "file:",
            "trace:x",
        ] {
            assert!(Shape::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_trace_has_a_time_and_a_task_a_line_and_begins_at_its_first() {
        let path = std::env::temp_dir().join(format!("punctual-trace-{}", std::process::id()));
        std::fs::write(
            &path,
            "# cameras\n1.5 front\n1.25 rear # a comment\n\n1.75 front\n",
        )
        .unwrap();
        let trace = read_trace(&path).expect("a trace");
        assert_eq!(trace["front"], [250_000_000, 500_000_000]);
        assert_eq!(trace["rear"], [0]);
        let shape = Shape::File(path.clone());
        let faster: Vec<u64> = times(&shape, 1.0, 1, &trace["front"], 2.0).collect();
        assert_eq!(faster, [125_000_000, 250_000_000]);
        for wrong in ["front 1.5", "-1 front", "1.5", "1 2 3", "inf front"] {
            std::fs::write(&path, wrong).unwrap();
            let error = read_trace(&path).expect_err(wrong);
            assert!(matches!(error, TraceError::Line { line: 1, .. }), "{error}");
        }
        std::fs::remove_file(path).unwrap();
    }
}

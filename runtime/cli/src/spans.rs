//! How long each part of a measurement took.

use std::fmt;

use punctual_device::profile::Phase;

const MS: u64 = 1_000_000;

/// The parts of a measurement in the order in which they began, each with all of its time.
#[derive(Clone, Debug, Default)]
pub struct Spans {
    spans: Vec<Span>,
    /// The part that goes on, and since when, in ns.
    current: Option<(Phase, u64)>,
}

#[derive(Clone, Debug)]
struct Span {
    what: Phase,
    took_ns: u64,
}

impl Spans {
    /// From now on the measurement is at this part.
    pub fn enter(&mut self, what: Phase, now_ns: u64) {
        if self.current.is_some_and(|(current, _)| current == what) {
            return;
        }
        self.leave(now_ns);
        self.current = Some((what, now_ns));
    }

    /// The part that went on is over.
    pub fn leave(&mut self, now_ns: u64) {
        let Some((what, since_ns)) = self.current.take() else {
            return;
        };
        let took_ns = now_ns.saturating_sub(since_ns);
        match self.spans.iter_mut().find(|span| span.what == what) {
            Some(span) => span.took_ns += took_ns,
            None => self.spans.push(Span { what, took_ns }),
        }
    }
}

/// The sum, and its parts, the longest first.
impl fmt::Display for Spans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |ns: u64| format!("{}.{} s", ns / (1000 * MS), ns / (100 * MS) % 10);
        let all = self.spans.iter().map(|span| span.took_ns).sum();
        let mut parts: Vec<&Span> = self.spans.iter().collect();
        parts.sort_by_key(|span| std::cmp::Reverse(span.took_ns));
        write!(f, "{}", seconds(all))?;
        for (at, part) in parts.into_iter().enumerate() {
            let before = if at == 0 { ": " } else { ", " };
            write!(f, "{before}{} {}", part.what, seconds(part.took_ns))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_goes_on_and_comes_again_has_all_of_its_time() {
        let (solutions, stages) = (
            Phase::Solutions { units: 1 },
            Phase::Stages {
                units: 1,
                unit: "core",
            },
        );
        let mut spans = Spans::default();
        spans.enter(solutions, 1000 * MS);
        spans.enter(solutions, 1500 * MS);
        spans.leave(3000 * MS);
        spans.enter(stages, 4000 * MS);
        spans.enter(Phase::Prepare, 9000 * MS);
        spans.enter(stages, 9300 * MS);
        spans.leave(9400 * MS);
        assert_eq!(
            spans.to_string(),
            "7.4 s: stages on 1 core 5.1 s, solutions on 1 core 2.0 s, preparing frames 0.3 s"
        );
    }
}

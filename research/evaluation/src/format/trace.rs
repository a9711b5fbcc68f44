//! Recordings of arrivals: comma-separated lines `time_ms,task[,deadline_ms]`, by rising time or not.
//! A first line of exactly these words, empty lines, and lines that begin with `#` are passed over.

use punctual_core::Nanos;
use thiserror::Error;

use punctual_simulator::arrivals::TraceEntry;

/// What is wrong with a recording.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TraceError {
    /// A line that is none of a recording.
    #[error("line {line}: `{found}` is not `time_ms,task[,deadline_ms]`")]
    Line { line: usize, found: String },
    /// A task that the workload does not have, or that does not play a recording.
    #[error("line {line}: no task `{task}` has arrivals of kind `trace`; there are: {known}")]
    Task {
        line: usize,
        task: String,
        known: String,
    },
}

/// The longest time in a recording: a hundred days.
const MILLIS_MAX: f64 = 8.64e9;

/// The entries of each task of `tasks`, by rising time.
pub(super) fn parse(text: &str, tasks: &[&str]) -> Result<Vec<Vec<TraceEntry>>, TraceError> {
    let mut entries: Vec<Vec<TraceEntry>> = vec![Vec::new(); tasks.len()];
    for (index, line) in text.lines().enumerate() {
        let content = line.trim();
        let is_header = index == 0 && content.starts_with("time_ms,");
        if content.is_empty() || content.starts_with('#') || is_header {
            continue;
        }
        let (task, entry) = parse_line(content).ok_or_else(|| TraceError::Line {
            line: index + 1,
            found: content.chars().take(60).collect(),
        })?;
        let place = tasks.iter().position(|known| *known == task);
        let place = place.ok_or_else(|| TraceError::Task {
            line: index + 1,
            task: task.into(),
            known: tasks.join(", "),
        })?;
        entries[place].push(entry);
    }
    for entries in &mut entries {
        entries.sort_by_key(|entry| entry.at);
    }
    Ok(entries)
}

fn parse_line(line: &str) -> Option<(&str, TraceEntry)> {
    let mut fields = line.split(',').map(str::trim);
    let at = millis(fields.next()?)?;
    let task = fields.next()?;
    let deadline = match fields.next() {
        None => None,
        Some(field) => Some(millis(field).filter(|deadline| *deadline > Nanos::ZERO)?),
    };
    let rest = fields.next();
    (rest.is_none() && !task.is_empty()).then_some((task, TraceEntry { at, deadline }))
}

fn millis(field: &str) -> Option<Nanos> {
    let ms: f64 = field.parse().ok()?;
    (0.0..=MILLIS_MAX)
        .contains(&ms)
        .then(|| Nanos::new((ms * 1e6).round() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_entries_by_task_and_time() {
        let text = "time_ms,task,deadline_ms\n# a comment\n20.5,a\n\n10,b,33\n5, a ,7.5\n";
        let entries = parse(text, &["a", "b"]).expect("it can be read");
        let entry = |at_us, deadline_us: Option<u64>| TraceEntry {
            at: Nanos::from_micros(at_us),
            deadline: deadline_us.map(Nanos::from_micros),
        };
        assert_eq!(entries[0], [entry(5_000, Some(7_500)), entry(20_500, None)]);
        assert_eq!(entries[1], [entry(10_000, Some(33_000))]);
    }

    #[test]
    fn what_cannot_be_used_is_named_with_its_line() {
        let error = |text: &str| parse(text, &["a"]).expect_err("refused").to_string();
        for line in [
            "x,a", "1", "1,a,2,3", "-1,a", "NaN,a", "1,a,0", "1e300,a", "1,",
        ] {
            assert!(
                error(&format!("1,a\n{line}")).starts_with("line 2: "),
                "{line}"
            );
        }
        assert!(error("1,b").contains("no task `b`"));
    }
}

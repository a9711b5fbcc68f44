//! What is wrong with a workload file: where, what, by which rule.

use std::fmt;

use thiserror::Error;

use punctual_core::ConfigError;

use super::trace::TraceError;
use punctual_simulator::arrivals::PatternError;

/// All that is wrong with a workload file; never empty.
#[derive(Debug)]
pub struct FormatError {
    pub file: String,
    /// By line; those of the whole file first.
    pub problems: Vec<Problem>,
}

#[derive(Debug)]
pub struct Problem {
    /// The line of the file, from 1, if the problem has one.
    pub line: Option<u32>,
    /// The key's path, such as `task[1].deadline_ms`; empty for the whole file.
    pub key: String,
    pub cause: Cause,
}

#[derive(Debug, Error)]
pub enum Cause {
    /// The file or one that it names cannot be read.
    #[error("{file} cannot be read: {error}")]
    Unreadable { file: String, error: std::io::Error },
    /// The file is too large to be what somebody wrote.
    #[error("the file has {found} bytes; the most are {limit}")]
    TooLarge { found: usize, limit: usize },
    #[error("{0}")]
    Syntax(toml::de::Error),
    /// A key that nobody asked for.
    #[error("unknown key{}; known here: {known}", 
        .nearest.as_ref().map(|key| format!(" (did you mean `{key}`?)")).unwrap_or_default())]
    UnknownKey {
        /// The key that was probably meant.
        nearest: Option<String>,
        known: String,
    },
    /// A value that is missing or cannot be used.
    #[error("{found}; it must be {rule}")]
    Value { found: String, rule: String },
    /// A pattern of arrivals whose numbers do not go together.
    #[error("{0}")]
    Pattern(#[from] PatternError),
    /// A recording that cannot be read.
    #[error("{0}")]
    Trace(#[from] TraceError),
    /// A profile or calibration that cannot be used.
    #[error("{file}: {reason}")]
    File { file: String, reason: String },
    #[error("{0}")]
    Policy(toml::de::Error),
    #[error("there is no policy {0:?}; there are {known}", known = known_policies())]
    NoPolicy(String),
    /// The whole cannot be promised, or breaks a limit of the scheduler.
    #[error("the default policy refuses the plan: {0}")]
    Plan(ConfigError),
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for problem in &self.problems {
            write!(f, "error: {}", self.file)?;
            if let Some(line) = problem.line {
                write!(f, ":{line}")?;
            }
            match problem.key.as_str() {
                "" => writeln!(f, ": {}", problem.cause)?,
                key => writeln!(f, ": `{key}`: {}", problem.cause)?,
            }
        }
        match self.problems.len() {
            1 => write!(f, "1 problem, no workload"),
            several => write!(f, "{several} problems, no workload"),
        }
    }
}

impl std::error::Error for FormatError {}

fn known_policies() -> String {
    let names: Vec<&str> = punctual_baselines::all().names().collect();
    names.join(", ")
}

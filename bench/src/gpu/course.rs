//! Which steps run, one after the other, and what is kept of them.

use punctual_platform::{clock, output};

use super::folder::{Folder, FolderError, Outcome, Record};
use super::machine::{self, Machine};
use super::report::verdict;
use super::runner::Ran;
use super::step::{Prerequisite, Step, Timed};

#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// These, and what they need; all if none is named.
    pub only: Vec<String>,
    /// These even if they have a result.
    pub again: Vec<String>,
}

/// No step has the name that was given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no step `{name}`; there are {known}")]
pub struct NoSuchStep {
    name: String,
    known: String,
}

/// The steps that are asked for, those included that they need. What a step needs stands before it.
pub fn chosen<'s>(steps: &[Timed<'s>], choice: &Choice) -> Result<Vec<Timed<'s>>, NoSuchStep> {
    for name in choice.only.iter().chain(&choice.again) {
        find(steps, name)?;
    }
    let mut wanted: Vec<&str> = choice.only.iter().map(String::as_str).collect();
    if wanted.is_empty() {
        return Ok(steps.to_vec());
    }
    // From the last, so that what a needed step needs is needed, too.
    for Timed { step, .. } in steps.iter().rev() {
        if wanted.contains(&step.name()) {
            wanted.extend(step.needs());
        }
    }
    let is_wanted = |timed: &&Timed<'_>| wanted.contains(&timed.step.name());
    Ok(steps.iter().filter(is_wanted).copied().collect())
}

pub fn find<'s>(steps: &[Timed<'s>], name: &str) -> Result<Timed<'s>, NoSuchStep> {
    let found = steps.iter().find(|timed| timed.step.name() == name);
    found.copied().ok_or_else(|| NoSuchStep {
        name: name.to_owned(),
        known: steps
            .iter()
            .map(|timed| timed.step.name())
            .collect::<Vec<_>>()
            .join(", "),
    })
}

/// Runs of steps in a folder.
pub struct Course<'c> {
    pub folder: &'c Folder,
    pub machine: &'c Machine,
    pub quick: bool,
}

/// Something to say while steps run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress<'p> {
    /// A step has a result from before.
    Kept,
    Begins,
    Ended(&'p Record),
}

impl Progress<'_> {
    /// Says it of a step, the `index`th of `all`.
    pub fn note(self, index: usize, all: usize, Timed { step, seconds }: Timed<'_>) {
        let place = format!("[{}/{all}] {}", index + 1, step.name());
        let record = match self {
            Self::Kept => return output::note(format_args!("{place}: has a result")),
            Self::Begins => {
                let about = step.about();
                return output::note(format_args!("{place}: {about} (about {seconds} s)"));
            }
            Self::Ended(record) => record,
        };
        let seconds = record.seconds;
        match &record.outcome {
            Outcome::Measured(_) => {
                let (verdict, _) = verdict::judge(record, step.of_time());
                let verdict = verdict.name();
                output::note(format_args!("{place}: {verdict} after {seconds:.1} s"));
            }
            Outcome::NotMeasured { why } => {
                output::note(format_args!("{place}: not measured: {why}"));
            }
            Outcome::Failed { why } => output::note(format_args!("{place}: failed: {why}")),
        }
    }
}

impl Course<'_> {
    /// Runs the steps that have no result yet, and keeps what becomes of each as it ends. A step that
    /// failed, or had not what it needs, is tried again. What became of each of these steps, in their order.
    pub fn run(
        &self,
        steps: &[Timed<'_>],
        again: &[String],
        mut execute: impl FnMut(Timed<'_>) -> Ran,
        mut tell: impl FnMut(usize, Timed<'_>, Progress<'_>),
    ) -> Result<Vec<Record>, FolderError> {
        let mut records = Vec::new();
        for (index, &timed) in steps.iter().enumerate() {
            let step = timed.step;
            let before = self.folder.read_of(step.name(), self.machine, self.quick)?;
            let kept = before.filter(|record| record.outcome.is_measured());
            let wanted = again.iter().any(|name| name == step.name());
            if let Some(record) = kept.filter(|_| !wanted) {
                tell(index, timed, Progress::Kept);
                records.push(record);
                continue;
            }
            tell(index, timed, Progress::Begins);
            let (began, start) = (machine::date(), clock::now_ns());
            let Ran { outcome, clocks } = match self.missing(step)? {
                Some(need) => Ran {
                    outcome: Outcome::NotMeasured {
                        why: Prerequisite::Step(need).to_string(),
                    },
                    clocks: Vec::new(),
                },
                None => execute(timed),
            };
            let record = Record {
                step: step.name().to_owned(),
                outcome,
                clocks,
                began,
                seconds: (clock::now_ns() - start) as f64 / 1e9,
                machine: self.machine.clone(),
                quick: self.quick,
            };
            tell(index, timed, Progress::Ended(&record));
            self.folder.write(&record)?;
            records.push(record);
        }
        Ok(records)
    }

    /// What a step needs and has no result.
    fn missing(&self, step: &dyn Step) -> Result<Option<&'static str>, FolderError> {
        for need in step.needs() {
            let record = self.folder.read_of(need, self.machine, self.quick)?;
            if !record.is_some_and(|record| record.outcome.is_measured()) {
                return Ok(Some(need));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{machine, made};
    use super::super::result::StepResult;
    use super::super::step::{Session, StepError};
    use super::*;

    struct Fake(&'static str, &'static [&'static str]);

    impl Step for Fake {
        fn name(&self) -> &'static str {
            self.0
        }

        fn about(&self) -> &'static str {
            "nothing"
        }

        fn needs(&self) -> &'static [&'static str] {
            self.1
        }

        fn run(&self, _: &Session<'_>) -> Result<StepResult, StepError> {
            Ok(StepResult::default())
        }
    }

    const FAKES: &[Timed<'static>] = &[
        timed(&Fake("a", &[])),
        timed(&Fake("b", &["a"])),
        timed(&Fake("c", &["b"])),
        timed(&Fake("d", &[])),
    ];

    const fn timed(step: &'static dyn Step) -> Timed<'static> {
        Timed { step, seconds: 1 }
    }

    fn names(only: &[&str]) -> Vec<&'static str> {
        let choice = Choice {
            only: only.iter().map(|name| (*name).to_owned()).collect(),
            again: Vec::new(),
        };
        let steps = chosen(FAKES, &choice).expect("known steps");
        steps.iter().map(|timed| timed.step.name()).collect()
    }

    /// Runs all fakes; those in `failing` fail. Says which were run.
    fn run(folder: &Folder, again: &[&str], failing: &[&str]) -> Vec<String> {
        let machine = machine("a");
        let course = Course {
            folder,
            machine: &machine,
            quick: false,
        };
        let again: Vec<String> = again.iter().map(|name| (*name).to_owned()).collect();
        let mut executed = Vec::new();
        let execute = |Timed { step, .. }: Timed<'_>| {
            executed.push(step.name().to_owned());
            let outcome = if failing.contains(&step.name()) {
                Outcome::Failed {
                    why: "it is planted".into(),
                }
            } else {
                Outcome::Measured(StepResult::default())
            };
            Ran {
                outcome,
                clocks: Vec::new(),
            }
        };
        course
            .run(FAKES, &again, execute, |_, _, _| ())
            .expect("a folder that can be written");
        executed
    }

    #[test]
    fn a_named_step_brings_what_it_needs_and_nothing_else() {
        assert_eq!(names(&["c"]), ["a", "b", "c"]);
        assert_eq!(names(&["d"]), ["d"]);
        assert_eq!(names(&[]), ["a", "b", "c", "d"]);
    }

    #[test]
    fn a_step_that_does_not_exist_is_refused_with_those_that_do() {
        let choice = Choice {
            only: Vec::new(),
            again: vec!["e".into()],
        };
        let error = chosen(FAKES, &choice)
            .err()
            .expect("no such step")
            .to_string();
        assert!(
            error.contains("`e`") && error.contains("a, b, c, d"),
            "{error}"
        );
    }

    #[test]
    fn a_second_run_goes_on_where_the_first_one_stopped() {
        let made = made("resume", &[]);
        let folder = &Folder::open(&made).expect("a folder");
        assert_eq!(run(folder, &[], &[]), ["a", "b", "c", "d"]);
        assert_eq!(run(folder, &[], &[]), [""; 0]);
        assert_eq!(run(folder, &["b"], &[]), ["b"]);
        // As if the machine had been switched off while it ran.
        std::fs::remove_file(folder.path().join("c.json")).expect("it was written");
        assert_eq!(run(folder, &[], &[]), ["c"]);
    }

    #[test]
    fn a_failed_step_stops_only_what_builds_on_it_and_is_tried_again() {
        let made = made("failed", &[]);
        let folder = &Folder::open(&made).expect("a folder");
        assert_eq!(run(folder, &[], &["b"]), ["a", "b", "d"]);
        let outcome = |step| folder.read(step).expect("read").expect("ended").outcome;
        assert!(matches!(outcome("b"), Outcome::Failed { .. }));
        let Outcome::NotMeasured { why } = outcome("c") else {
            panic!("it needs what failed");
        };
        assert!(why.contains("`b`"), "{why}");
        assert_eq!(run(folder, &[], &[]), ["b", "c"]);
    }
}

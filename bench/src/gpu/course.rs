//! Which steps run, one after the other, and what is kept of them.

use punctual_platform::clock;

use super::folder::{Folder, FolderError, Outcome, Record};
use super::machine::{self, Machine};
use super::step::Step;

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

/// Steps in the order in which they run: what a step needs stands before it.
pub type Steps<'s> = [&'s dyn Step];

/// The steps that are asked for, those included that they need.
pub fn chosen<'s>(steps: &Steps<'s>, choice: &Choice) -> Result<Vec<&'s dyn Step>, NoSuchStep> {
    for name in choice.only.iter().chain(&choice.again) {
        find(steps, name)?;
    }
    let mut wanted: Vec<&str> = choice.only.iter().map(String::as_str).collect();
    if wanted.is_empty() {
        return Ok(steps.to_vec());
    }
    // From the last, so that what a needed step needs is needed, too.
    for step in steps.iter().rev() {
        if wanted.contains(&step.name()) {
            wanted.extend(step.needs());
        }
    }
    let is_wanted = |step: &&&dyn Step| wanted.contains(&step.name());
    Ok(steps.iter().filter(is_wanted).copied().collect())
}

pub fn find<'s>(steps: &Steps<'s>, name: &str) -> Result<&'s dyn Step, NoSuchStep> {
    let found = steps.iter().find(|step| step.name() == name);
    found.copied().ok_or_else(|| NoSuchStep {
        name: name.to_owned(),
        known: steps
            .iter()
            .map(|step| step.name())
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
    Ended(&'p Outcome),
}

impl Course<'_> {
    /// Runs the steps that have no result yet, and keeps what becomes of each as it ends. A step that
    /// failed, or had not what it needs, is tried again.
    pub fn run(
        &self,
        steps: &Steps<'_>,
        again: &[String],
        mut execute: impl FnMut(&dyn Step) -> Outcome,
        mut tell: impl FnMut(usize, &dyn Step, Progress<'_>),
    ) -> Result<(), FolderError> {
        for (index, &step) in steps.iter().enumerate() {
            let before = self.folder.read_of(step.name(), self.machine, self.quick)?;
            let has_result = before.is_some_and(|record| record.outcome.is_measured());
            if has_result && !again.iter().any(|name| name == step.name()) {
                tell(index, step, Progress::Kept);
                continue;
            }
            tell(index, step, Progress::Begins);
            let (began, start) = (machine::date(), clock::now_ns());
            let outcome = match self.missing(step)? {
                Some(need) => Outcome::NotMeasured {
                    why: super::step::Prerequisite::Step(need).to_string(),
                },
                None => execute(step),
            };
            tell(index, step, Progress::Ended(&outcome));
            self.folder.write(&Record {
                step: step.name().to_owned(),
                outcome,
                began,
                seconds: (clock::now_ns() - start) as f64 / 1e9,
                machine: self.machine.clone(),
                quick: self.quick,
            })?;
        }
        Ok(())
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
    use super::super::folder::tests::Temporary;
    use super::super::machine::tests::machine;
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

        fn seconds(&self) -> u32 {
            1
        }

        fn run(&self, _: &Session<'_>) -> Result<StepResult, StepError> {
            Ok(StepResult::default())
        }
    }

    const FAKES: &Steps<'static> = &[
        &Fake("a", &[]),
        &Fake("b", &["a"]),
        &Fake("c", &["b"]),
        &Fake("d", &[]),
    ];

    fn names(only: &[&str]) -> Vec<&'static str> {
        let choice = Choice {
            only: only.iter().map(|name| (*name).to_owned()).collect(),
            again: Vec::new(),
        };
        let steps = chosen(FAKES, &choice).expect("known steps");
        steps.iter().map(|step| step.name()).collect()
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
        let execute = |step: &dyn Step| {
            executed.push(step.name().to_owned());
            if failing.contains(&step.name()) {
                Outcome::Failed {
                    why: "it is planted".into(),
                }
            } else {
                Outcome::Measured(StepResult::default())
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
        let Temporary(folder) = &Temporary::new("resume");
        assert_eq!(run(folder, &[], &[]), ["a", "b", "c", "d"]);
        assert_eq!(run(folder, &[], &[]), [""; 0]);
        assert_eq!(run(folder, &["b"], &[]), ["b"]);
        // As if the machine had been switched off while it ran.
        std::fs::remove_file(folder.path().join("c.json")).expect("it was written");
        assert_eq!(run(folder, &[], &[]), ["c"]);
    }

    #[test]
    fn a_failed_step_stops_only_what_builds_on_it_and_is_tried_again() {
        let Temporary(folder) = &Temporary::new("failed");
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

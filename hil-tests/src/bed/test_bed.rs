//! A case while it runs: what it does on the target, and what it finds out.

use punctual_client::now_ns;

use crate::bounds::Bounds;
use crate::facts::{Facts, Feature};
use crate::outcome::{Effect, Failure, Measured, MissedBound, Pictured};
use crate::records::Latencies;
use crate::stage::Stage;
use crate::target::child::pause;
use crate::target::process::{Launch, Started};
use crate::target::{Output, Script, Target, TargetError};

/// Between two looks at the target, in ms.
const LOOK_MS: u16 = 25;

/// What a case works with.
pub struct TestBed<'a> {
    pub target: &'a Target,
    pub stage: &'a Stage,
    pub facts: &'a Facts,
    /// Of all that is random in this case.
    pub seed: u64,
    /// How long a soak shall take.
    pub hours: f64,
    /// How long a daemon may take to get ready, and to give its last verdicts.
    pub patience_s: u64,
    suite: &'static str,
    /// Keys and units of what the case may measure.
    declared: &'static [(&'static str, &'static str)],
    bounds: &'a Bounds,
    until_ns: u64,
    pub(crate) measures: Vec<Measured>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) histograms: Vec<Pictured>,
}

/// What a test bed is built from.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    pub target: &'a Target,
    pub stage: &'a Stage,
    pub facts: &'a Facts,
    pub bounds: &'a Bounds,
    pub seed: u64,
    /// How long a soak shall take.
    pub hours: f64,
    /// How long a daemon may take to get ready, and to give its last verdicts.
    pub patience_s: u64,
}

impl<'a> TestBed<'a> {
    pub(crate) fn new(
        setting: Setting<'a>,
        suite: &'static str,
        declared: &'static [(&'static str, &'static str)],
        until_ns: u64,
    ) -> Self {
        Self {
            target: setting.target,
            stage: setting.stage,
            facts: setting.facts,
            seed: setting.seed,
            hours: setting.hours,
            patience_s: setting.patience_s,
            suite,
            declared,
            bounds: setting.bounds,
            until_ns,
            measures: Vec::new(),
            effects: Vec::new(),
            histograms: Vec::new(),
        }
    }

    /// Bounds of the board that did not hold.
    pub(crate) fn missed(&self) -> Vec<Failure> {
        let missed = self.measures.iter().filter(|measure| !measure.held);
        let failures = missed.filter_map(|measure| {
            Some(Failure::Bound(Box::new(MissedBound {
                suite: self.suite,
                key: measure.key,
                value: measure.value,
                unit: measure.unit,
                file: self.bounds.file.clone(),
                bound: measure.bound.clone()?,
            })))
        });
        failures.collect()
    }

    /// Notes a figure, and holds it against the board's bound, if there is one.
    ///
    /// # Panics
    /// If the case does not declare the key: its bounds could not be checked for misspelling.
    pub fn measure(&mut self, key: &'static str, value: f64) {
        let declared = self.declared.iter().find(|(name, _)| *name == key);
        let (key, unit) = *declared.expect("a case declares what it measures");
        let bound = self.bounds.get(self.suite, key).cloned();
        let held = bound.as_ref().is_none_or(|bound| bound.holds(value));
        self.measures.push(Measured {
            key,
            unit,
            value,
            bound,
            held,
        });
    }

    /// Notes what a fault or a load did.
    pub fn effect(&mut self, count: u64, what: impl Into<String>) {
        self.effects.push(Effect {
            count,
            what: what.into(),
        });
    }

    /// Notes latencies for the report's pictures.
    pub fn picture(&mut self, name: impl Into<String>, latencies: &Latencies) {
        let latencies = latencies.clone();
        self.histograms.push(Pictured {
            name: name.into(),
            latencies,
        });
    }

    /// The end of the next `seconds` seconds, or of the case's time if that is earlier.
    #[must_use]
    pub fn within(&self, seconds: u64) -> u64 {
        self.until_ns.min(now_ns() + seconds * 1_000_000_000)
    }

    /// Runs a script to its end; not to end well is a failure.
    pub fn run(&self, script: &Script) -> Result<Output, TargetError> {
        self.target.run(script, self.until_ns)
    }

    /// Runs a command in the case's folder and says how it ended.
    pub fn try_command(
        &self,
        purpose: &'static str,
        seconds: u64,
        command: &[&str],
    ) -> Result<Output, TargetError> {
        // Marked, like all that is started, in case it leaves something behind.
        let text = "cd \"$1\" && shift && env \"$@\"";
        let mark = format!("{}={}", crate::target::process::MARK, self.stage.mark);
        let script = Script::new(purpose, text)
            .with([self.stage.case.as_str(), mark.as_str()])
            .with(command.iter().copied());
        self.target.try_run(&script, self.within(seconds))
    }

    /// Arguments that give a program this real-time priority, if the system grants it.
    #[must_use]
    pub fn priority(&self, priority: u8) -> Vec<String> {
        if !self.facts.has.contains(&Feature::RealTime) {
            return Vec::new();
        }
        ["chrt".to_owned(), "-f".to_owned(), priority.to_string()].into()
    }

    /// Starts a process in the case's folder.
    pub fn start(
        &mut self,
        name: &str,
        environment: &[String],
        command: Vec<String>,
    ) -> Result<Started, TargetError> {
        let launch = Launch {
            folder: &self.stage.case,
            name,
            mark: &self.stage.mark,
            environment: environment.to_vec(),
            command,
        };
        self.target.start(&launch, self.until_ns)
    }

    /// Reads a file of the case's folder; empty if there is none.
    pub fn read(&self, name: &str) -> Result<Vec<u8>, TargetError> {
        self.target.read(&self.path(name), self.until_ns)
    }

    /// Writes a file into the case's folder.
    pub fn write(&self, name: &str, text: &str) -> Result<(), TargetError> {
        self.target
            .write(&self.path(name), "644", text.as_bytes(), self.until_ns)
    }

    /// A path in the case's folder.
    #[must_use]
    pub fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.stage.case)
    }

    /// Looks again and again until there is something to see; none after `seconds` seconds.
    pub fn look_for<T>(
        &self,
        seconds: u64,
        mut look: impl FnMut(&Self) -> Result<Option<T>, Failure>,
    ) -> Result<Option<T>, Failure> {
        let until_ns = self.within(seconds);
        loop {
            if let Some(seen) = look(self)? {
                return Ok(Some(seen));
            }
            if now_ns() >= self.until_ns {
                return Err(TargetError::OutOfTime {
                    purpose: "see what the case waits for",
                }
                .into());
            }
            if now_ns() >= until_ns {
                return Ok(None);
            }
            pause(LOOK_MS);
        }
    }

    /// Lets `seconds` seconds pass, while what was started does its work.
    pub fn let_pass(&self, seconds: f64) -> Result<(), Failure> {
        let until_ns = now_ns() + (seconds * 1e9) as u64;
        while now_ns() < until_ns {
            self.target.go_on("let time pass")?;
            if now_ns() >= self.until_ns {
                return Err(TargetError::OutOfTime {
                    purpose: "let time pass",
                }
                .into());
            }
            let left_ms = (until_ns.saturating_sub(now_ns())).div_ceil(1_000_000);
            pause(left_ms.min(100) as u16);
        }
        Ok(())
    }

    /// Waits until a process has ended.
    pub fn ended(&self, who: &str, process: Started, seconds: u64) -> Result<(), Failure> {
        let gone = self.look_for(seconds, |bed| {
            Ok((!bed.target.lives(process, bed.until_ns)?).then_some(()))
        })?;
        gone.ok_or_else(|| Failure::NotEnding {
            who: who.to_owned(),
            seconds,
        })
    }

    /// Asks a process to end, and waits until it has.
    pub fn stop(&self, who: &str, process: Started) -> Result<(), Failure> {
        self.target.signal(process, "TERM", false, self.until_ns)?;
        self.ended(who, process, 10)
    }

    /// The end of the case's time.
    pub(crate) fn until_ns(&self) -> u64 {
        self.until_ns
    }
}

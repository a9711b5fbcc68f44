//! A step in a process of its own, so that its failure does not end the others: what waits for it, and what the process does.

use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use punctual_cuda_measuring::launcher::{Launcher, Looks};
use punctual_cuda_measuring::recipe::rates::{self, Size};
use punctual_device_cuda::driver::Context;
use punctual_platform::{clock, poll};
use serde::{Deserialize, Serialize};

use super::clocks::{Reading, Sensors, TOOL};
use super::folder::{Folder, Outcome};
use super::machine::Machine;
use super::result::StepResult;
use super::step::{Session, Step, StepError};

/// What the process of a step prints.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    pub outcome: Outcome,
    /// None but in first light.
    pub clocks: Vec<Reading>,
}

#[derive(Clone, Copy, Debug)]
pub struct Runner<'r> {
    pub folder: &'r Folder,
    /// The GPU's number, as the driver counts.
    pub device: u32,
    pub quick: bool,
    /// In first light: where the files of kernel and system lie, of which some tell the clocks.
    pub first: Option<&'r Path>,
}

/// What a step has in addition to twice its seconds. The emulated driver is as slow as the processor, which may be busy.
const GRACE_S: u32 = 90;
/// Of first light on a GPU, which has a minute for all.
const GRACE_FIRST_S: u32 = 10;

impl Runner<'_> {
    /// Runs a step that may measure for `seconds` in a process of its own, which is `program` again.
    pub fn run(&self, program: &Path, step: &dyn Step, seconds: u32, machine: &Machine) -> Ran {
        let mut command = Command::new(program);
        command
            .args(["gpu", "--step", step.name(), "--device"])
            .arg(self.device.to_string())
            .arg("--out")
            .arg(self.folder.path());
        if self.quick {
            command.arg("--quick");
        }
        if let Some(root) = self.first {
            command.args(["--first", "--root"]).arg(root);
        }
        let hurried = self.first.is_some() && !machine.emulated;
        let grace = if hurried { GRACE_FIRST_S } else { GRACE_S };
        // More than two multiprocessors in none of them.
        let reserve = step.reserve(machine.multiprocessors.div_ceil(2));
        listen(&mut command, 2 * seconds + reserve + grace)
    }

    /// Runs a step in this process.
    pub fn run_here(&self, step: &dyn Step, seconds: u32) -> Ran {
        let session = Session::new(self.folder, self.device, self.quick, seconds);
        let (result, clocks) = match self.first {
            Some(root) => watched(step, &session.brief(), root),
            None => (step.run(&session).map(without_samples), Vec::new()),
        };
        let outcome = match result {
            Ok(result) => Outcome::Measured(result),
            Err(StepError::Prerequisite(lack)) => Outcome::NotMeasured {
                why: lack.to_string(),
            },
            Err(error) => Outcome::Failed {
                why: error.to_string(),
            },
        };
        Ran { outcome, clocks }
    }
}

fn without_samples(result: StepResult) -> StepResult {
    StepResult {
        samples: Vec::new(),
        ..result
    }
}

/// Runs a step and reads the clocks meanwhile.
fn watched(
    step: &dyn Step,
    session: &Session<'_>,
    root: &Path,
) -> (Result<StepResult, StepError>, Vec<Reading>) {
    let uuid = match session.gpu().and_then(|gpu| Ok(gpu.uuid()?)) {
        Ok(uuid) => uuid.map(|byte| format!("{byte:02x}")).concat(),
        Err(error) => return (Err(error), Vec::new()),
    };
    let sensors = Sensors::find(root, Path::new(TOOL), &uuid);
    let mut held = Ok(None);
    let warm = || {
        if step.of_time() {
            held = self::warm(session).map(Some);
        }
    };
    let (result, clocks) = sensors.watch(warm, || step.run(session));
    // Held until the last reading: a card lowers its clocks within half a second after the last context is gone.
    (held.and(result), clocks)
}

/// A governor raises the clocks of a device that has work within this time.
const WARM_NS: u64 = 400_000_000;

/// Gives the device work until its clocks are up. As long as somebody has the context, they stay.
fn warm(session: &Session<'_>) -> Result<Arc<Context>, StepError> {
    let context = Context::retain(session.gpu()?)?;
    let launcher = Launcher::new(&context)?;
    let size = session.size(Size::Full, Size::Tiny);
    let copy = launcher.prepare(&rates::copy(size).recipe)?;
    let until_ns = clock::now_ns() + session.size(WARM_NS, 0);
    loop {
        launcher.nanoseconds(&copy, Looks::Never, 4)?;
        if clock::now_ns() >= until_ns {
            return Ok(context);
        }
    }
}

/// Runs a command that prints what came of a step as JSON, for at most `seconds` seconds.
fn listen(command: &mut Command, seconds: u32) -> Ran {
    finish(command, seconds)
        .unwrap_or_else(|error| failed(format!("its process cannot be started: {error}")))
}

fn failed(why: String) -> Ran {
    Ran {
        outcome: Outcome::Failed { why },
        clocks: Vec::new(),
    }
}

fn finish(command: &mut Command, seconds: u32) -> io::Result<Ran> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let limit_ns = clock::now_ns() + u64::from(seconds) * 1_000_000_000;
    let Some(words) = words(&mut child, limit_ns)? else {
        child.kill()?;
        child.wait()?;
        let why = format!("it was still running after {seconds} s and was ended");
        return Ok(failed(why));
    };
    let status = child.wait()?;
    let without = |_| {
        failed(format!(
            "its process ended with {status} and without a result"
        ))
    };
    Ok(serde_json::from_slice(&words).unwrap_or_else(without))
}

/// What the child says until it closes its output; none if that takes too long.
fn words(child: &mut Child, limit_ns: u64) -> io::Result<Option<Vec<u8>>> {
    let mut output = child.stdout.take().expect("it was piped");
    let (mut words, mut chunk) = (Vec::new(), [0; 4096]);
    while poll::wait_readable(output.as_fd(), Some(limit_ns)) {
        match output.read(&mut chunk)? {
            0 => return Ok(Some(words)),
            count => words.extend_from_slice(&chunk[..count]),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(text: &str, seconds: u32) -> Ran {
        listen(Command::new("sh").args(["-c", text]), seconds)
    }

    fn why(ran: Ran) -> String {
        match ran.outcome {
            Outcome::Failed { why } => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_outcome_that_is_printed_is_taken() {
        let ran = Ran {
            outcome: Outcome::Measured(StepResult::default()),
            clocks: vec![Reading::default()],
        };
        let text = serde_json::to_string(&ran).expect("plain data");
        assert_eq!(shell(&format!("echo '{text}'"), 60), ran);
    }

    #[test]
    fn a_process_that_crashes_is_a_failure_that_says_how() {
        let why = why(shell("kill -SEGV $$", 60));
        assert!(why.contains("signal: 11"), "{why}");
    }

    #[test]
    fn a_process_that_hangs_is_ended() {
        // The limit is reached at once; nothing is waited for.
        let why = why(shell("exec tail -f /dev/null", 0));
        assert!(why.contains("still running"), "{why}");
    }
}

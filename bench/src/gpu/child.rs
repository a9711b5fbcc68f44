//! A step in a process of its own, so that its failure does not end the others.

use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::process::{Child, Command, Stdio};

use punctual_platform::{clock, poll};
use serde::de::DeserializeOwned;

use super::folder::Outcome;

/// Runs a command that prints its outcome as JSON, for at most `seconds` seconds.
pub fn run<R: DeserializeOwned>(command: &mut Command, seconds: u32) -> Outcome<R> {
    match finish(command, seconds) {
        Ok(outcome) => outcome,
        Err(error) => Outcome::Failed {
            why: format!("its process cannot be started: {error}"),
        },
    }
}

fn finish<R: DeserializeOwned>(command: &mut Command, seconds: u32) -> io::Result<Outcome<R>> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let limit_ns = clock::now_ns() + u64::from(seconds) * 1_000_000_000;
    let words = listen(&mut child, limit_ns)?;
    let Some(words) = words else {
        child.kill()?;
        child.wait()?;
        return Ok(Outcome::Failed {
            why: format!("it was still running after {seconds} s and was ended"),
        });
    };
    let status = child.wait()?;
    Ok(
        serde_json::from_slice(&words).unwrap_or_else(|_| Outcome::Failed {
            why: format!("its process ended with {status} and without a result"),
        }),
    )
}

/// What the child says until it closes its output; none if that takes too long.
fn listen(child: &mut Child, limit_ns: u64) -> io::Result<Option<Vec<u8>>> {
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
    use super::super::result::StepResult;
    use super::*;

    fn shell(text: &str, seconds: u32) -> Outcome {
        run(Command::new("sh").args(["-c", text]), seconds)
    }

    fn why(outcome: Outcome) -> String {
        match outcome {
            Outcome::Failed { why } => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_outcome_that_is_printed_is_taken() {
        let outcome = Outcome::Measured(StepResult::default());
        let text = serde_json::to_string(&outcome).expect("plain data");
        assert_eq!(shell(&format!("echo '{text}'"), 60), outcome);
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

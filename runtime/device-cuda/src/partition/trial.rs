//! A mechanism tried on the device, in this process or in one that may die of it.

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use libsmctrl_sys::raw::{Library, TRIAL_LIMIT};
use libsmctrl_sys::{CudaVersion, DriverKey, NoDrivers, Soc, stream_mask};
use punctual_platform::{clock, poll};

use super::calibration::{self, Refusal, calibrate};
use super::means::{Means, StreamError};
use super::mechanism::Mechanism;
use super::place::MaskPlace;
use super::record::Outcome;
use super::sm_probe::{GUESS_LIMIT_NS, LIMIT_NS, SmProbe};
use super::units::sms_per_tpc;
use crate::driver::{Attribute, Context, Driver, Gpu, Groups, Masking};

/// What is tried, for what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// How launches are kept to a part.
    pub mechanism: Mechanism,
    /// The device's number.
    pub device: u32,
    /// Of the driver, as it will say.
    pub version: CudaVersion,
    pub compute_capability: (u32, u32),
    /// libsmctrl's file.
    pub libsmctrl: OsString,
    /// Where masks may be; none: where our table or the published descriptors have them.
    pub place: Option<MaskPlace>,
}

impl Trial {
    /// Tries it in this process, which may die of it, or be left with a context that hangs: it should end
    /// soon afterwards. CUDA must not be initialised yet.
    pub fn run(&self) -> Outcome {
        // Before CUDA is initialised: libsmctrl's first call is made in a forked child, and a child of a process that
        // has initialised CUDA cannot use it.
        let library = match self.mechanism {
            Mechanism::Libsmctrl => Some(self.library()?),
            _ => None,
        };
        let driver = Driver::open();
        let gpu = driver.and_then(|driver| driver.device(self.device));
        let gpu = gpu.map_err(|error| Refusal::NoDriver {
            said: error.to_string(),
        })?;
        let (major, minor) = self.compute_capability;
        // With its only TPC switched off, a launch would wait for ever.
        if gpu.attribute(Attribute::Multiprocessors)? <= sms_per_tpc(major, minor) {
            return Err(Refusal::Indivisible { groups: 1 });
        }
        let context = Context::retain(gpu)?;
        let means = self.means(gpu, library)?;
        let mut probe = SmProbe::new(context, &means, LIMIT_NS)?;
        let expected = probe.expected()?;
        if self.place.is_some() {
            // Most guesses are wrong, and this tells sooner.
            probe.limit(GUESS_LIMIT_NS);
            calibration::has_effect(&mut probe, expected)?;
            probe.limit(LIMIT_NS);
        }
        calibrate(&mut probe, expected)
    }

    fn means(&self, gpu: Gpu, library: Option<Library>) -> Result<Means, Refusal> {
        if let Some(library) = library {
            // SAFETY: opened for the version that our parent was told by this driver.
            return Ok(Means::Masks(unsafe { Masking::by(library) }));
        }
        match self.mechanism {
            Mechanism::StreamMask => {
                let place = match self.place {
                    Some(MaskPlace::Stream(place)) => place,
                    _ => stream_mask::find(self.driver_key()?)?.place(),
                };
                // SAFETY: this process is there to find out whether the place is right.
                Ok(Means::Masks(unsafe { Masking::native(place) }))
            }
            Mechanism::LaunchMask => {
                let found = match self.place {
                    Some(MaskPlace::Launch(layout)) => Some(layout),
                    _ => None,
                };
                // SAFETY: this process is there to find out whether the callback works.
                let masking = unsafe { Masking::of_launches(gpu, found) };
                Ok(Means::Masks(masking.map_err(StreamError::from)?))
            }
            Mechanism::GreenContexts => {
                let groups = Groups::split(gpu).map_err(StreamError::from)?;
                let count = groups.count() as u32;
                match count {
                    0 | 1 => Err(Refusal::Indivisible { groups: count }),
                    _ => Ok(Means::Groups(groups)),
                }
            }
            Mechanism::Libsmctrl | Mechanism::Priority => Ok(Means::Streams),
        }
    }

    fn driver_key(&self) -> Result<DriverKey, Refusal> {
        let (major, minor) = self.compute_capability;
        let key = DriverKey::here(self.version, Soc::of_compute_capability(major, minor));
        key.map_err(|NoDrivers| Refusal::UnknownDriver {
            driver: format!("CUDA {} on {}", self.version, std::env::consts::ARCH),
        })
    }

    fn library(&self) -> Result<Library, Refusal> {
        let key = self.driver_key()?;
        // SAFETY: the file is what the user calls libsmctrl. CUDA is not initialised yet, by the
        // contract of `run`, and a process that was started for a trial has no other threads.
        let library = unsafe { Library::open(&self.libsmctrl, key, TRIAL_LIMIT) };
        library.map_err(|error| Refusal::Libsmctrl {
            said: error.to_string(),
        })
    }
}

/// A program that runs a trial: told about it by [`arguments`](Self::arguments) and what
/// [`Trial`] adds, it prints the outcome as JSON and ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub file: PathBuf,
    /// Its first arguments.
    pub arguments: Vec<OsString>,
    /// How long it may take on a device without TPCs: the start of CUDA. Each of its TPCs adds
    /// [`TPC_LIMIT`](Self::TPC_LIMIT).
    pub limit: Duration,
}

impl Program {
    /// How long a trial usually may take, but for its TPCs.
    pub const LIMIT: Duration = Duration::from_secs(60);
    /// What each TPC adds: some launches, which reach more multiprocessors the more TPCs there are.
    pub const TPC_LIMIT: Duration = Duration::from_secs(1);

    /// The command `punctual`: this program, or the one in the same folder. None if neither is.
    #[must_use]
    pub fn punctual() -> Option<Self> {
        let this = std::env::current_exe().ok()?;
        let file = if this.file_stem()? == "punctual" {
            this
        } else {
            Some(this.with_file_name("punctual")).filter(|file| file.is_file())?
        };
        Some(Self {
            file,
            arguments: ["board", "calibrate"].map(OsString::from).to_vec(),
            limit: Self::LIMIT,
        })
    }

    /// The outcome of a trial on a device of `tpcs` TPCs, in a process of its own.
    pub fn run(&self, trial: &Trial, tpcs: u32) -> Outcome {
        let (major, minor) = trial.compute_capability;
        let place = trial
            .place
            .map(|place| ["--place".to_owned(), place.to_string()]);
        let limit = self.limit + Self::TPC_LIMIT * tpcs;
        let spawned = Command::new(&self.file)
            .args(&self.arguments)
            .args(["--mechanism", trial.mechanism.name()])
            .args(["--device", &trial.device.to_string()])
            .args(["--driver", &trial.version.to_string()])
            .args(["--compute-capability", &format!("{major}.{minor}")])
            .arg("--libsmctrl")
            .arg(&trial.libsmctrl)
            .args(place.into_iter().flatten())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let died = |how: String| Refusal::Died { how };
        let mut child = spawned.map_err(|error| Refusal::NotStarted {
            said: error.to_string(),
        })?;
        let said = listen(&mut child, limit);
        // Nothing is left behind, whether it ended by itself or hangs.
        let _ = child.kill();
        let status = child
            .wait()
            .map_err(|error| died(format!("was lost: {error}")))?;
        let said = said.map_err(|error| died(format!("could not be heard: {error}")))?;
        let outcome = said.lines().rev().find(|line| !line.trim().is_empty());
        let outcome = outcome.and_then(|line| serde_json::from_str::<Outcome>(line).ok());
        outcome.unwrap_or_else(|| Err(died(format!("ended with {status}"))))
    }
}

/// What it prints until it ends, or the limit: a process that hangs while it ends has said all.
fn listen(child: &mut Child, limit: Duration) -> io::Result<String> {
    let until_ns = clock::now_ns().saturating_add(limit.as_nanos() as u64);
    let mut output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let mut said = Vec::new();
    let mut part = [0; 4096];
    while poll::wait_readable(output.as_fd(), Some(until_ns)) {
        match output.read(&mut part)? {
            0 => break,
            read => said.extend_from_slice(&part[..read]),
        }
    }
    Ok(String::from_utf8_lossy(&said).into_owned())
}

/// What a [`Program`] prints.
#[must_use]
pub fn print(outcome: &Outcome) -> String {
    serde_json::to_string(outcome).expect("an outcome is plain data")
}

#[cfg(test)]
mod tests {
    use super::super::calibration::Lasting;
    use super::*;

    /// A program that is the shell, told what to do.
    fn shell(script: &str, limit: Duration) -> Outcome {
        let program = Program {
            file: PathBuf::from("/bin/sh"),
            arguments: ["-c", script].map(OsString::from).to_vec(),
            limit,
        };
        let trial = &Trial {
            mechanism: Mechanism::StreamMask,
            device: 0,
            version: CudaVersion::new(12, 6),
            compute_capability: (8, 7),
            libsmctrl: OsString::from("libsmctrl.so"),
            place: None,
        };
        program.run(trial, 0)
    }

    const LIMIT: Duration = Duration::from_secs(20);

    #[test]
    fn the_last_line_of_a_program_is_the_outcome() {
        for outcome in [
            Err(Refusal::NoEffect),
            Ok(super::super::UnitMap::undivided(4).expect("four multiprocessors")),
        ] {
            let script = format!("echo noise; echo '{}'", print(&outcome));
            assert_eq!(shell(&script, LIMIT), outcome);
        }
    }

    #[test]
    fn a_program_is_told_what_to_try() {
        // The shell's $0 and on are what follows its script.
        let script = r#"test "$0 $1 $2 $3 $4 $5 $6 $7 $8" = "--mechanism stream-mask --device 0 --driver 12.6 --compute-capability 8.7 --libsmctrl" && echo '{"Err":"no-effect"}'"#;
        assert_eq!(shell(script, LIMIT), Err(Refusal::NoEffect));
    }

    #[test]
    fn a_program_that_dies_is_a_reason() {
        for (script, how) in [
            ("kill -SEGV $$", "signal: 11"),
            ("exit 1", "exit status: 1"),
            ("echo '{\"Ok\":[]}'", "exit status: 0"),
            ("exec tail -f /dev/null", "signal: 9"),
        ] {
            let limit = if script.starts_with("exec") {
                Duration::from_millis(100)
            } else {
                LIMIT
            };
            let died = shell(script, limit);
            assert!(
                matches!(&died, Err(Refusal::Died { how: said }) if said.contains(how)),
                "{died:?}"
            );
        }
    }

    #[test]
    fn a_program_that_is_not_there_was_no_trial() {
        let program = Program {
            file: PathBuf::from("/nowhere/punctual"),
            arguments: Vec::new(),
            limit: LIMIT,
        };
        let trial = Trial {
            mechanism: Mechanism::StreamMask,
            device: 0,
            version: CudaVersion::new(12, 6),
            compute_capability: (8, 7),
            libsmctrl: OsString::from("libsmctrl.so"),
            place: None,
        };
        let refused = program.run(&trial, 8).expect_err("there is no program");
        assert!(matches!(refused, Refusal::NotStarted { .. }) && refused.lasting() == Lasting::Not);
    }
}

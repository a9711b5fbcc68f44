//! `punctual bench lending`: stages that also run on idle cores of other homes, compared with each task on its own home only.

mod plan;
mod report;
mod roles;
mod turn;

use std::path::PathBuf;

use punctual_platform::output::{self, OutputError};
use punctual_platform::termination::{Terminates, Termination};
use punctual_signs::Camera;
use serde::Serialize;

use crate::camera::CameraError;
use crate::programs::{Folder, ProgramError, Programs};
use plan::PlaceUse;
use punctual::demo;
use report::{Report, Results};
use roles::{ROLES, Scenes};
use turn::Turn;

/// How long, at which loads, with which profiles and programs.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "\
EXAMPLES:
  punctual bench lending
  punctual bench lending --loads 1,4 --seconds 10 --turns 6 --json
  punctual bench lending --profiles ~/lending      # measures the networks once, and keeps their profiles there

Needs cores 0 and 1, and about three minutes. Measures two networks of the demo on this machine, also beside busy neighbours.
Then starts punctuald with four cameras, in turns with two manifests: with `places = \"none\"` each task runs on its own home of
one core, with `places = \"cells\"` its stages also run on idle cores of the other home. The cameras send their rates times
each load. Reported of each load and side, of all cameras and of each one: frames on time; by which exit they were answered,
and the mean exit; right classes in time as a share of all frames; the mean average precision of boxes (mAP50) of all
frames, where nothing was found in a frame without an answer in time; times from the intended capture to the answer; stages
on places. `read late` are those of `late` that the daemon gave on time: the camera, which has the lowest priority, read
them late. Without real-time priority all threads are ordinary ones, and the result says so. If no place pays by the
plan, that is the result: nothing else is measured.

TERMINATION CODES: 0 done; 1 a camera or daemon failed; 4 a file cannot be read or written; 5 a program cannot be started.")]
pub struct Options {
    /// By which the cameras' rates are multiplied.
    #[arg(long, value_delimiter = ',', default_values_t = [1.0, 2.0, 3.0, 4.0], value_parser = positive)]
    loads: Vec<f64>,
    /// Seconds of a turn.
    #[arg(long, default_value_t = 5.0, value_parser = positive)]
    seconds: f64,
    /// Turns of each load and side.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    turns: u32,
    /// Use the networks' profiles in this folder; if one is missing, measure all and keep them there.
    #[arg(long, value_name = "FOLDER")]
    profiles: Option<PathBuf>,
    /// The folder of the programs punctual and punctuald [default: that of this one].
    #[arg(long, value_name = "FOLDER")]
    bin: Option<PathBuf>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

fn positive(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value <= 1e4 => Ok(value),
        _ => Err("must be a number above 0 and up to 10000".to_owned()),
    }
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Program(#[from] ProgramError),
    #[error(transparent)]
    Camera(#[from] CameraError),
    #[error("the plan is not understood: {0}")]
    Plan(#[from] serde_json::Error),
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl Terminates for Error {
    fn termination(&self) -> Termination {
        match self {
            Self::Output(error) => error.termination(),
            Self::Program(error) => error.termination(),
            Self::Camera(_) | Self::Plan(_) => Termination::BadResult,
        }
    }
}

/// The manifest of the side that lends.
const MANIFEST: &str = include_str!("lending.toml");

/// The manifest's partitions.
const HOMES: [&str; 2] = ["crossing", "lane"];

/// The demo's networks, with their files' names.
fn packages() -> [(&'static str, &'static [u8]); 2] {
    [("signs", demo::SIGNS), ("streets", demo::STREETS)]
}

/// How many scenes a camera draws, to show them in turn. A street takes longer.
const SIGNS: u32 = 200;
const STREETS: u32 = 40;

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Side {
    OwnHome,
    Lending,
}

impl Side {
    const ALL: [Self; 2] = [Self::OwnHome, Self::Lending];

    const fn name(self) -> &'static str {
        match self {
            Self::OwnHome => "own home",
            Self::Lending => "lending",
        }
    }

    const fn file(self) -> &'static str {
        match self {
            Self::OwnHome => "own-home.toml",
            Self::Lending => "lending.toml",
        }
    }

    fn manifest(self) -> String {
        match self {
            Self::OwnHome => {
                MANIFEST.replace("places = \"cells\"\ncell = 1\n", "places = \"none\"\n")
            }
            Self::Lending => MANIFEST.to_owned(),
        }
    }
}

pub fn run(options: &Options) -> Result<(), Error> {
    let programs = Programs::new(options.bin.as_deref());
    let folder = folder()?;
    profiles(options, &programs, &folder)?;
    let places = plan::places(&programs, &folder.path(Side::Lending.file()))?;
    let results = if places.iter().any(|place| place.pays) {
        measure(options, &programs, &folder)?
    } else {
        Results::default()
    };
    print(options, places, results)
}

fn print(options: &Options, places: Vec<PlaceUse>, results: Results) -> Result<(), Error> {
    let report = Report::new(places, results);
    let text = if options.json {
        serde_json::to_string_pretty(&report).expect("numbers and names") + "\n"
    } else {
        report.text()
    };
    Ok(output::text(text)?)
}

/// What the daemons are started with.
fn folder() -> Result<Folder, ProgramError> {
    let folder = Folder::new("lending")?;
    for (name, package) in packages() {
        folder.write(&format!("{name}.punctual"), package)?;
    }
    for side in Side::ALL {
        folder.write(side.file(), side.manifest().as_bytes())?;
    }
    Ok(folder)
}

/// Puts the networks' profiles next to their packages.
fn profiles(options: &Options, programs: &Programs, folder: &Folder) -> Result<(), Error> {
    let files = packages().map(|(name, _)| format!("{name}.profile.json"));
    let kept = options.profiles.as_ref();
    if let Some(kept) = kept.filter(|kept| files.iter().all(|file| kept.join(file).exists())) {
        for file in &files {
            copy(kept.join(file), folder.path(file))?;
        }
        return Ok(());
    }
    output::note("measuring the networks on this machine");
    // The figures of this side are those of the other one, and also those with busy neighbours.
    programs.profile(&folder.path(Side::Lending.file()))?;
    if let Some(kept) = kept {
        std::fs::create_dir_all(kept).map_err(|source| ProgramError::File {
            path: kept.clone(),
            source,
        })?;
        for file in &files {
            copy(folder.path(file), kept.join(file))?;
        }
    }
    Ok(())
}

fn copy(from: PathBuf, to: PathBuf) -> Result<(), ProgramError> {
    let copied = std::fs::copy(&from, to);
    copied
        .map(|_| ())
        .map_err(|source| ProgramError::File { path: from, source })
}

/// Both sides at each load, in turns.
fn measure(options: &Options, programs: &Programs, folder: &Folder) -> Result<Results, Error> {
    let cameras = draw();
    let mut results = Results::default();
    for turn in 0..options.turns {
        for &load in &options.loads {
            for side in Side::ALL {
                let turn_of = Turn {
                    side,
                    load,
                    seconds: options.seconds,
                };
                results.add(turn_of, turn_of.run(programs, folder, &cameras)?);
                let (turn, side) = (turn + 1, side.name());
                output::note(format_args!("turn {turn}, load {load}, {side}"));
            }
        }
    }
    Ok(results)
}

/// Once, so that no turn has less of a core because of it.
fn draw() -> Vec<Camera> {
    std::thread::scope(|scope| {
        let threads = ROLES.map(|role| {
            let scenes = match role.scenes {
                Scenes::Signs => SIGNS,
                Scenes::Streets => STREETS,
            };
            scope.spawn(move || role.draw(scenes))
        });
        let cameras = threads.into_iter();
        cameras
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sides_differ_in_their_places_only() {
        let [own, lending] = Side::ALL.map(Side::manifest);
        let lines = |text: &str, other: &str| -> Vec<String> {
            let others: Vec<&str> = other.lines().collect();
            let only = text.lines().filter(|line| !others.contains(line));
            only.map(str::to_owned).collect()
        };
        assert_eq!(lines(&own, &lending), ["places = \"none\""]);
        assert_eq!(lines(&lending, &own), ["places = \"cells\"", "cell = 1"]);
    }

    #[test]
    fn the_homes_are_the_manifest_s_partitions() {
        let partitions = MANIFEST.split("[[partition]]\nname = \"").skip(1);
        let names = partitions.map(|text| text.split('"').next().expect("a name"));
        assert_eq!(names.collect::<Vec<&str>>(), HOMES);
    }

    #[test]
    fn each_camera_sends_at_the_rate_that_the_manifest_promises() {
        let tasks: Vec<&str> = MANIFEST.split("[[task]]").skip(1).collect();
        assert_eq!(tasks.len(), ROLES.len());
        for (role, task) in ROLES.iter().zip(tasks) {
            assert!(task.contains(&format!("\nname = \"{}\"\n", role.task)));
            assert!(task.contains(&format!("\nrate_hz = {}\n", role.rate)));
        }
    }
}

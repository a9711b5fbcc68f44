//! One turn of one contestant at one load.

use punctual::demo::cameras::{CAMERAS, CameraRole};
use punctual_client::now_ns;
use punctual_plan::{Plan, Role};
use punctual_platform::stall::{Attention, Stall, StallProbe};
use punctual_platform::thread::{ThreadError, ThreadSpec};
use punctual_signs::Camera;
use punctual_types::Random;

use super::Error;
use super::contestants::{Change, Kind, Rules};
use super::looped::{Ground, Looped};
use super::processor::ProcessorTime;
use crate::camera::{CameraError, Connection, Feed, Pace, Service, Tally};
use crate::programs::{Folder, Programs, Serves};

/// From the last connection to the first frame.
const START_NS: u64 = 50_000_000;

/// How many stalls a core's probe remembers.
const STALLS_MAX: usize = 4096;

/// What all turns are run with.
pub struct Stage<'p> {
    pub programs: &'p Programs,
    pub folder: &'p Folder,
    /// In the order of [`CAMERAS`].
    pub cameras: &'p [Camera],
    pub ground: Option<Ground<'p>>,
    pub plan: &'p Plan,
}

#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// The first is 1. All contestants have the same phases of the cameras in a turn.
    pub number: u32,
    pub load: f64,
    pub seconds: f64,
}

pub struct Outcome {
    /// In the order of [`CAMERAS`].
    pub tallies: Vec<Tally>,
    /// Those of all cores.
    pub stalls: Vec<Stall>,
    /// Of all processes, without the probes that watch for stalls.
    pub cores_used: f64,
    /// Times that a task lost its promises, as its model broke its profile.
    pub demotions: u64,
    /// Facilities that were asked for and not granted.
    pub missing: Vec<String>,
}

impl Turn {
    pub fn run(self, stage: &Stage<'_>, kind: Kind) -> Result<Outcome, Error> {
        match kind {
            Kind::Daemon { changes } => self.of_daemon(stage, changes),
            Kind::Loop(rules) => self.of_loop(stage, rules),
        }
    }

    fn of_daemon(self, stage: &Stage<'_>, changes: &[Change]) -> Result<Outcome, Error> {
        let folder = stage.folder;
        let manifest = changed(punctual::demo::MANIFEST, changes);
        folder.write("served.toml", manifest.as_bytes())?;
        let manifest = folder.path("served.toml");
        let daemon = (stage.programs).reporting(Serves::Daemon, &manifest, folder)?;
        let connect = |role: &CameraRole| Connection::open(daemon.socket(), role.task, role.format);
        let connections = CAMERAS.iter().map(connect);
        let connections = connections.collect::<Result<Vec<_>, CameraError>>()?;
        let mut outcome = self.feed(stage, connections, Some(daemon.id()))?;
        let report = daemon.stop()?;
        outcome.demotions = report.tasks.iter().map(|task| task.demotions).sum();
        outcome.missing.extend(report.missing);
        Ok(outcome)
    }

    fn of_loop(self, stage: &Stage<'_>, rules: Rules) -> Result<Outcome, Error> {
        let ground = stage.ground.as_ref();
        let ground = ground.expect("made if there is a loop among the contestants");
        let names: Vec<&'static str> = CAMERAS.iter().map(|role| role.task).collect();
        let (looped, served) = Looped::start(ground, rules, &names)?;
        let missing = looped.missing();
        let fed = self.feed(stage, served, None);
        // If one of its threads ended, this says why.
        looped.stop()?;
        let mut outcome = fed?;
        let missing = missing.iter().map(ToString::to_string);
        outcome.missing.extend(missing);
        Ok(outcome)
    }

    /// Runs all cameras at once, and watches the cores meanwhile.
    fn feed<S: Service + Send>(
        self,
        stage: &Stage<'_>,
        services: Vec<S>,
        daemon: Option<u32>,
    ) -> Result<Outcome, Error> {
        let attention = Default::default();
        let probes = probes(stage.plan, &attention)?;
        attention.demand(now_ns());
        let processor = ProcessorTime::begin(daemon, &probes)?;
        let start_ns = now_ns() + START_NS;
        let fed = std::thread::scope(|scope| {
            let feeds = services.into_iter().enumerate().map(|(position, service)| {
                let pace = self.pace(position, start_ns);
                let task = CAMERAS[position].task;
                let feed = Feed::new(task, &stage.cameras[position], service);
                scope.spawn(move || feed.run(pace))
            });
            let feeds: Vec<_> = feeds.collect();
            let tallies = feeds.into_iter();
            let tallies = tallies.map(|feed| feed.join().expect("no panic"));
            tallies.collect::<Result<Vec<Tally>, CameraError>>()
        });
        let cores_used = processor.cores_used(&probes)?;
        let stalls = probes.into_iter().flat_map(StallProbe::stop).collect();
        Ok(Outcome {
            tallies: fed?,
            stalls,
            cores_used,
            demotions: 0,
            missing: Vec::new(),
        })
    }

    /// Cameras begin at some time within a period: how their frames meet decides what a loop that cannot be interrupted misses.
    fn pace(self, position: usize, start_ns: u64) -> Pace {
        let Some(fps) = CAMERAS[position].fps else {
            return Pace::Closed {
                start_ns,
                end_ns: start_ns + (self.seconds * 1e9) as u64,
            };
        };
        let rate = fps * self.load;
        let period_ns = (1e9 / rate) as u64;
        let mut phase = Random::new(self.number.into()).stream("phase", position as u64);
        Pace::Open {
            start_ns: start_ns + phase.below(period_ns),
            period_ns,
            frames: ((self.seconds * rate) as u64).max(1),
        }
    }
}

fn changed(manifest: &str, changes: &[Change]) -> String {
    let mut text = manifest.to_owned();
    for Change { from, to } in changes {
        assert!(text.contains(from), "the manifest has no `{from}`");
        text = text.replace(from, to);
    }
    text
}

/// On the cores, and at the priority, of the daemon's own.
fn probes(
    plan: &Plan,
    attention: &std::sync::Arc<Attention>,
) -> Result<Vec<StallProbe>, ThreadError> {
    let planned = plan.threads.iter();
    let planned = planned.filter(|thread| thread.role == Role::StallProbe);
    let probe = |thread: &punctual_plan::ThreadPlan| {
        let name = format!("watch/{}", thread.core);
        let spec = ThreadSpec::new(name, Some(usize::from(thread.core)), thread.priority);
        StallProbe::start(spec, attention.clone(), STALLS_MAX)
    };
    planned.map(probe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cameras_and_tasks_of_the_manifest_are_in_the_same_order() {
        let tasks = punctual::demo::MANIFEST
            .split("[[task]]\nname = \"")
            .skip(1);
        let tasks: Vec<&str> = tasks.filter_map(|text| text.split('"').next()).collect();
        let cameras: Vec<&str> = CAMERAS.iter().map(|role| role.task).collect();
        assert_eq!(tasks, cameras);
    }

    #[test]
    fn best_effort_cameras_are_paced_by_their_answers_and_the_others_by_the_load() {
        let turn = Turn {
            number: 1,
            load: 2.0,
            seconds: 3.0,
        };
        for (position, role) in CAMERAS.iter().enumerate() {
            match (turn.pace(position, 0), role.fps) {
                (Pace::Closed { end_ns, .. }, None) => assert_eq!(end_ns, 3_000_000_000),
                (Pace::Open { frames, .. }, Some(fps)) => assert_eq!(frames, (6.0 * fps) as u64),
                other => panic!("{}: {other:?}", role.task),
            }
        }
    }
}

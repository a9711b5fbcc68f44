//! One turn: a daemon, its cameras, and what both of them report at the end.

use punctual_client::now_ns;
use punctual_daemon::{PartitionReport, Report};
use punctual_signs::Camera;
use serde::Serialize;

use super::roles::ROLES;
use super::{Error, HOMES, Side};
use crate::camera::{CameraError, Connection, Feed, Pace, Tally};
use crate::programs::{Folder, Programs, Serves};

/// From the last connection to the first frame.
const START_NS: u64 = 50_000_000;

#[derive(Clone, Copy, Debug)]
pub struct Turn {
    pub side: Side,
    pub load: f64,
    pub seconds: f64,
}

pub struct Outcome {
    /// In the order of [`ROLES`].
    pub tallies: Vec<Tally>,
    pub stages: Stages,
    pub stalls: Stalls,
    /// Facilities that the daemon asked for and did not get.
    pub missing: Vec<String>,
}

/// Stages that ran, as the daemon counted them.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Stages {
    pub all: u64,
    /// Those that ran on a place.
    pub on_places: u64,
    /// Those that took longer than their budgets.
    pub overruns: u64,
    /// Times that a task's model lost its promises, as it broke its profile.
    pub demotions: u64,
}

/// Times over 1 ms in which the machine stood still.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Stalls {
    pub count: u64,
    pub longest_us: u64,
}

impl Turn {
    pub fn run(
        self,
        programs: &Programs,
        folder: &Folder,
        cameras: &[Camera],
    ) -> Result<Outcome, Error> {
        let manifest = folder.path(self.side.file());
        let daemon = programs.reporting(Serves::Daemon, &manifest, folder)?;
        let clients = ROLES.iter().map(|role| role.connect(daemon.socket()));
        let clients = clients.collect::<Result<Vec<Connection>, CameraError>>()?;
        let tallies = self.feed(cameras, clients)?;
        let report = daemon.stop()?;
        Ok(Outcome {
            tallies,
            stages: Stages::of(&report),
            stalls: Stalls {
                count: report.host_stalls.count,
                longest_us: report.host_stalls.longest_us,
            },
            missing: report.missing,
        })
    }

    /// Runs all cameras at once.
    fn feed(self, cameras: &[Camera], clients: Vec<Connection>) -> Result<Vec<Tally>, CameraError> {
        let start_ns = now_ns() + START_NS;
        std::thread::scope(|scope| {
            let feeds = clients.into_iter().enumerate().map(|(position, client)| {
                let pace = self.pace(position, start_ns);
                let feed = Feed::new(ROLES[position].task, &cameras[position], client);
                scope.spawn(move || feed.run(pace))
            });
            let feeds: Vec<_> = feeds.collect();
            let tallies = feeds.into_iter();
            tallies.map(|feed| feed.join().expect("no panic")).collect()
        })
    }

    /// At different times, as cameras are.
    fn pace(self, position: usize, start_ns: u64) -> Pace {
        let rate = ROLES[position].rate * self.load;
        let period_ns = (1e9 / rate) as u64;
        Pace::Open {
            start_ns: start_ns + period_ns * position as u64 / ROLES.len() as u64,
            period_ns,
            frames: ((self.seconds * rate) as u64).max(1),
        }
    }
}

impl Stages {
    fn of(report: &Report) -> Self {
        let actions = |of: &PartitionReport| of.actions;
        let on_place = |of: &&PartitionReport| !HOMES.contains(&of.name.as_str());
        Self {
            all: report.partitions.iter().map(actions).sum(),
            on_places: report.partitions.iter().filter(on_place).map(actions).sum(),
            overruns: report.tasks.iter().map(|task| task.overruns).sum(),
            demotions: report.tasks.iter().map(|task| task.demotions).sum(),
        }
    }
}

//! What a daemon that is started serves.

use std::path::PathBuf;

use clap::ValueEnum;
use punctual::demo::{self, cameras::CAMERAS};
use punctual_client::PixelFormat;
use punctual_conformance::networks;
use punctual_device_cpu::images;
use punctual_model::{Calibration, Network, Package, PackageError};
use serde::Serialize;

use super::Error;
use crate::programs::{Folder, Programs};

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// The demo's.
    Demo,
    /// A network of 200 MB.
    Heavy,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Demo => "demo",
            Self::Heavy => "heavy",
        }
    }
}

impl Kind {
    /// The network, or the first of several.
    pub fn network(self) -> Result<Network, PackageError> {
        match self {
            Self::Demo => Package::decode(demo::SIGNS).map(|package| package.network().clone()),
            Self::Heavy => Ok(networks::heavy(1)),
        }
    }
}

/// A manifest with packages and profiles in a folder, and what its clients send.
pub struct Workload {
    pub kind: Kind,
    pub folder: Folder,
    /// Files that a start reads.
    pub files: Vec<PathBuf>,
    pub tasks: Vec<Task>,
}

pub struct Task {
    pub name: &'static str,
    pub format: PixelFormat,
}

pub const MANIFEST: &str = "manifest.toml";

const HEAVY: &str = r#"[daemon]
board = "host"
budget_factor = 1.5

[[model]]
name = "heavy"
package = "heavy.punctual"

[[partition]]
name = "main"
units = 1

[[task]]
name = "heavy"
model = "heavy"
partition = "main"
criticality = "real-time"
rate_hz = 2
deadline_ms = 400
mandatory_exit = 0
threshold = 0.99
queue_depth = 32
frame = { format = "rgb8", width = 112, height = 112, crop = [112, 112] }
"#;

impl Workload {
    /// In a folder of its own, with the profiles of this machine.
    pub fn prepare(kind: Kind, programs: &Programs) -> Result<Self, Error> {
        let folder = Folder::new("start")?;
        let (packages, tasks): (Vec<&str>, Vec<Task>) = match kind {
            Kind::Demo => {
                for (name, package) in demo::packed()? {
                    folder.write(name, &package)?;
                }
                folder.write(MANIFEST, demo::MANIFEST.as_bytes())?;
                demo::promised(&folder.path(MANIFEST))?;
                let tasks = CAMERAS.iter().map(|role| Task {
                    name: role.task,
                    format: role.format,
                });
                let names = demo::PACKAGES.iter().map(|(name, _)| *name);
                (names.collect(), tasks.collect())
            }
            Kind::Heavy => {
                folder.write("heavy.punctual", &heavy()?.encode())?;
                folder.write(MANIFEST, HEAVY.as_bytes())?;
                programs.profile(&folder.path(MANIFEST))?;
                let task = Task {
                    name: "heavy",
                    format: PixelFormat::Rgb8,
                };
                (vec!["heavy.punctual"], vec![task])
            }
        };
        let files = packages.iter().flat_map(|package| {
            let package = folder.path(package);
            [package.with_extension("profile.json"), package]
        });
        Ok(Self {
            kind,
            files: files.collect(),
            folder,
            tasks,
        })
    }
}

/// Packed for this processor.
fn heavy() -> Result<Package, Error> {
    let package = Package::new(Kind::Heavy.network()?, Calibration::default())?;
    Ok(images::add(package, &[punctual_device_cpu::lanes()])?)
}

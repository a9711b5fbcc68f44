//! The cameras of the demo.

use std::path::Path;

use clap::ValueEnum;
use punctual_signs::Camera;
use punctual_types::PixelFormat;

use crate::commands::camera::Scenes;

/// Of how many scenes of each camera the answers are shown.
pub(super) const SHOWN: u64 = 4;

/// One camera: the task of the embedded manifest that it feeds, and how.
pub struct CameraRole {
    pub task: &'static str,
    /// Frames a second; none: the next frame goes out when the last is answered (closed loop).
    pub fps: Option<f64>,
    pub format: PixelFormat,
    pub scenes: Scenes,
    pub seed: u64,
}

/// In the manifest's order.
pub const CAMERAS: &[CameraRole] = &[
    CameraRole {
        task: "signs",
        fps: Some(30.0),
        format: PixelFormat::Rgb8,
        scenes: Scenes::Signs,
        seed: 11,
    },
    CameraRole {
        task: "signs-fast",
        fps: Some(60.0),
        format: PixelFormat::Nv12,
        scenes: Scenes::Signs,
        seed: 22,
    },
    CameraRole {
        task: "streets",
        fps: Some(10.0),
        format: PixelFormat::Nv12,
        scenes: Scenes::Streets,
        seed: 44,
    },
    CameraRole {
        task: "watch",
        fps: None,
        format: PixelFormat::Rgb8,
        scenes: Scenes::Signs,
        seed: 33,
    },
];

impl CameraRole {
    pub fn criticality(&self) -> &'static str {
        if self.fps.is_some() {
            "real-time"
        } else {
            "best-effort"
        }
    }

    /// The name of the model in the manifest.
    pub fn network(&self) -> &'static str {
        match self.scenes {
            Scenes::Signs => "signs",
            Scenes::Streets => "streets",
        }
    }

    /// The frames that it shows.
    pub fn draw(&self) -> Camera {
        self.scenes.camera(self.format, self.seed)
    }

    /// The arguments after `punctual camera`.
    pub(super) fn arguments(&self, socket: &Path, seconds: f64, overload: f64) -> Vec<String> {
        let scenes = self.scenes.to_possible_value().expect("none is hidden");
        let mut arguments = vec![
            "--socket".to_owned(),
            socket.display().to_string(),
            "--task".to_owned(),
            self.task.to_owned(),
            "--format".to_owned(),
            self.format.name().to_owned(),
            "--scenes".to_owned(),
            scenes.get_name().to_owned(),
            "--answers".to_owned(),
            SHOWN.to_string(),
            "--seed".to_owned(),
            self.seed.to_string(),
            "--seconds".to_owned(),
            seconds.to_string(),
            "--json".to_owned(),
            "--end-with-parent".to_owned(),
        ];
        if let Some(fps) = self.fps {
            arguments.extend(["--fps".to_owned(), (fps * overload).to_string()]);
            arguments.push("--realtime".to_owned());
        }
        arguments
    }
}

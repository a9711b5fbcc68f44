//! The three cameras of the demo.

use std::path::Path;

/// One camera: the task of the embedded manifest that it feeds, and how.
pub struct CameraRole {
    pub task: &'static str,
    /// Frames a second; none: the next frame goes out when the last is answered (closed loop).
    pub fps: Option<f64>,
    pub format: &'static str,
    pub seed: u64,
}

/// In the manifest's order.
pub const CAMERAS: &[CameraRole] = &[
    CameraRole {
        task: "signs",
        fps: Some(30.0),
        format: "rgb8",
        seed: 11,
    },
    CameraRole {
        task: "signs-fast",
        fps: Some(60.0),
        format: "nv12",
        seed: 22,
    },
    CameraRole {
        task: "watch",
        fps: None,
        format: "rgb8",
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

    /// The arguments after `punctual camera`.
    pub fn arguments(&self, socket: &Path, seconds: f64, overload: f64) -> Vec<String> {
        let mut arguments = vec![
            "--socket".to_owned(),
            socket.display().to_string(),
            "--task".to_owned(),
            self.task.to_owned(),
            "--format".to_owned(),
            self.format.to_owned(),
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

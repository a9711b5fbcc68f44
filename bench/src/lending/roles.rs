//! The cameras that are compared.

use std::path::Path;

use punctual_signs::Camera;
use punctual_types::PixelFormat;

use crate::camera::{CameraError, Connection};

/// Of all frames, as the manifest says.
const FORMAT: PixelFormat = PixelFormat::Nv12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenes {
    Signs,
    Streets,
}

/// A camera: the task of the manifest that it feeds, and how.
#[derive(Clone, Copy, Debug)]
pub struct Role {
    pub task: &'static str,
    pub scenes: Scenes,
    /// No set that trained or tuned the networks has it.
    seed: u64,
    /// Frames a second at load 1, as the manifest promises.
    pub rate: f64,
}

const fn role(task: &'static str, scenes: Scenes, seed: u64, rate: f64) -> Role {
    Role {
        task,
        scenes,
        seed,
        rate,
    }
}

/// In the manifest's order.
pub const ROLES: [Role; 4] = [
    role("streets", Scenes::Streets, 55, 30.0),
    role("signs-near", Scenes::Signs, 56, 40.0),
    role("signs-fast", Scenes::Signs, 57, 30.0),
    role("signs-far", Scenes::Signs, 58, 10.0),
];

impl Role {
    pub fn draw(&self, scenes: u32) -> Camera {
        match self.scenes {
            Scenes::Signs => Camera::signs(FORMAT, self.seed, scenes),
            Scenes::Streets => Camera::streets(FORMAT, self.seed, scenes),
        }
    }

    /// Waits for the daemon to start.
    pub fn connect(&self, socket: &Path) -> Result<Connection, CameraError> {
        Connection::open(socket, self.task, FORMAT)
    }
}

//! The manifests that the cases serve: some of three tasks, for one network.

use std::fmt::Write as _;

/// A task of the rig's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Real-time: 30 frames a second of 640 x 480 in RGB, 50 ms each.
    Front,
    /// Real-time: 60 frames a second of 320 x 240 in NV12, 25 ms each.
    Fast,
    /// Best-effort, for up to six clients: 320 x 240 in RGB.
    Watch,
    /// The same for four clients that bring their buffers.
    Own,
    /// The same for two clients that stay a moment only, and get class scores as outputs.
    Guest,
}

impl Task {
    pub const ALL: [Self; 3] = [Self::Front, Self::Fast, Self::Watch];

    /// Those of a daemon that is attacked.
    pub const ATTACKED: [Self; 5] = [Self::Front, Self::Fast, Self::Watch, Self::Own, Self::Guest];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Front => "front",
            Self::Fast => "fast",
            Self::Watch => "watch",
            Self::Own => "own",
            Self::Guest => "guest",
        }
    }

    #[must_use]
    pub const fn format(self) -> &'static str {
        match self {
            Self::Front | Self::Watch | Self::Own | Self::Guest => "rgb8",
            Self::Fast => "nv12",
        }
    }

    /// The rate that is promised; none for best-effort work.
    #[must_use]
    pub const fn fps(self) -> Option<f64> {
        match self {
            Self::Front => Some(30.0),
            Self::Fast => Some(60.0),
            Self::Watch | Self::Own | Self::Guest => None,
        }
    }

    const fn keys(self) -> &'static str {
        match self {
            Self::Front => {
                "criticality = \"real-time\"\nrate_hz = 30\ndeadline_ms = 50\nthreshold = 0.9
batch_max = 2\nqueue_depth = 8\nclients = 2
frame = { format = \"rgb8\", width = 640, height = 480, crop = [192, 192] }\n"
            }
            Self::Fast => {
                "criticality = \"real-time\"\nrate_hz = 60\ndeadline_ms = 25\nthreshold = 0.9
batch_max = 2\nqueue_depth = 8\nclients = 2
frame = { format = \"nv12\", width = 320, height = 240, crop = [192, 192] }\n"
            }
            Self::Watch => {
                "criticality = \"best-effort\"\nrate_hz = 1000\nthreshold = 0.9
batch_max = 2\nqueue_depth = 8\nclients = 6
frame = { format = \"rgb8\", width = 320, height = 240, crop = [192, 192] }\n"
            }
            Self::Own => {
                "criticality = \"best-effort\"\nrate_hz = 100\nthreshold = 0.9
batch_max = 2\nqueue_depth = 8\nclients = 4\nimport_buffers = true
frame = { format = \"rgb8\", width = 320, height = 240, crop = [192, 192] }\n"
            }
            Self::Guest => {
                "criticality = \"best-effort\"\nrate_hz = 100\nthreshold = 0.9
batch_max = 2\nqueue_depth = 8\nclients = 2\noutputs = [\"output\"]
frame = { format = \"rgb8\", width = 320, height = 240, crop = [192, 192] }\n"
            }
        }
    }
}

/// The manifest of these tasks on `board`, with the package at `package` and further lines for the table `[daemon]`.
#[must_use]
pub fn manifest(board: &str, package: &str, tasks: &[Task], daemon: &str) -> String {
    let mut text = format!(
        "[daemon]\nboard = \"{board}\"\n{daemon}\n[[model]]\nname = \"signs\"\npackage = \"{package}\"\n
[[partition]]\nname = \"main\"\nunits = 1\n"
    );
    for task in tasks {
        let (name, keys) = (task.name(), task.keys());
        let head =
            format!("\n[[task]]\nname = \"{name}\"\nmodel = \"signs\"\npartition = \"main\"\n");
        write!(text, "{head}{keys}").expect("text grows");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_is_toml() {
        for tasks in [&Task::ATTACKED[..], &Task::ALL[..1], &[]] {
            let text = manifest("host", "signs.punctual", tasks, "");
            let table: toml::Table = text.parse().expect("TOML");
            let listed = table.get("task").and_then(|list| list.as_array());
            assert_eq!(listed.map_or(0, Vec::len), tasks.len());
        }
    }
}

//! The manifests that the cases serve: some of the rig's tasks, for its networks.

use std::fmt::Write as _;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Traffic signs, with early exits.
    Signs,
    /// Answers with its input, in microseconds.
    Mirror,
}

impl Network {
    pub const ALL: [Self; 2] = [Self::Signs, Self::Mirror];

    /// The model's, and its package's without the ending.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Signs => "signs",
            Self::Mirror => "mirror",
        }
    }
}

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
    /// Best-effort, for up to six clients: 8 x 8 in RGB, whose answers are their pixels.
    Mirror,
    /// Best-effort, for two clients: 3840 x 2160 in RGB, 220 MB each.
    Large,
}

impl Task {
    pub const ALL: [Self; 3] = [Self::Front, Self::Fast, Self::Watch];

    /// Those that each network is measured for. Not in one manifest: together with another network it would take longer, and
    /// only one case has both.
    pub const MEASURED: [&[Self]; 2] = [
        &[Self::Front, Self::Fast, Self::Watch, Self::Large],
        &[Self::Mirror],
    ];

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
            Self::Mirror => "mirror",
            Self::Large => "large",
        }
    }

    const fn network(self) -> Network {
        match self {
            Self::Mirror => Network::Mirror,
            _ => Network::Signs,
        }
    }

    #[must_use]
    pub const fn format(self) -> &'static str {
        match self {
            Self::Fast => "nv12",
            _ => "rgb8",
        }
    }

    /// The rate that is promised; none for best-effort work.
    #[must_use]
    pub const fn fps(self) -> Option<f64> {
        match self {
            Self::Front => Some(30.0),
            Self::Fast => Some(60.0),
            _ => None,
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
            Self::Mirror => {
                "criticality = \"best-effort\"\nrate_hz = 10000
batch_max = 8\nqueue_depth = 32\nclients = 6\noutputs = [\"output\"]
frame = { format = \"rgb8\", width = 8, height = 8, crop = [8, 8] }\n"
            }
            Self::Large => {
                "criticality = \"best-effort\"\nrate_hz = 10\nthreshold = 0.9
batch_max = 2\nqueue_depth = 8\nclients = 2
frame = { format = \"rgb8\", width = 3840, height = 2160, crop = [192, 192] }\n"
            }
        }
    }
}

/// The manifest of these tasks on `board`, with the packages in `folder` and further lines for the table `[daemon]`.
#[must_use]
pub fn manifest(board: &str, folder: &str, tasks: &[Task], daemon: &str) -> String {
    let mut text = format!("[daemon]\nboard = \"{board}\"\n{daemon}\n");
    let served = |network: &Network| tasks.iter().any(|task| task.network() == *network);
    for network in Network::ALL.iter().filter(|network| served(network)) {
        let name = network.name();
        let model =
            format!("\n[[model]]\nname = \"{name}\"\npackage = \"{folder}/{name}.punctual\"\n");
        text.push_str(&model);
    }
    text.push_str("\n[[partition]]\nname = \"main\"\nunits = 1\n");
    for task in tasks {
        let (name, model, keys) = (task.name(), task.network().name(), task.keys());
        let head =
            format!("\n[[task]]\nname = \"{name}\"\nmodel = \"{model}\"\npartition = \"main\"\n");
        write!(text, "{head}{keys}").expect("text grows");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_is_toml() {
        for tasks in [
            &Task::ATTACKED[..],
            &Task::ALL[..1],
            &[Task::Fast, Task::Mirror],
            &[],
        ] {
            let text = manifest("host", ".", tasks, "");
            let table: toml::Table = text.parse().expect("TOML");
            let count = |key| {
                table
                    .get(key)
                    .and_then(|list| list.as_array())
                    .map_or(0, Vec::len)
            };
            assert_eq!(count("task"), tasks.len());
            let networks = Network::ALL.into_iter().filter(|&network| {
                let mut tasks = tasks.iter();
                tasks.any(|task| task.network() == network)
            });
            assert_eq!(count("model"), networks.count());
        }
    }
}

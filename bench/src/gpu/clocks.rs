//! Clocks, temperature and throttling of the GPU while a step runs: from the kernel's files on a board, from `nvidia-smi` for
//! a card.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use punctual_device_cuda::host::Host;
use punctual_platform::{Doorbell, clock, read};
use serde::{Deserialize, Serialize};

use super::machine::said;

/// The tool that knows cards.
pub const TOOL: &str = "nvidia-smi";

/// Between two readings while a step runs. Reading takes a part of a millisecond from files, and some ten from a tool.
const EVERY_NS: u64 = 250_000_000;

/// How far a clock may be from its first reading: cards change theirs by steps of 15 MHz with the temperature.
const TOLERANCE: f64 = 0.03;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Before the device was given anything to do.
    #[default]
    Idle,
    /// When it was warm, and the step began.
    Before,
    During,
    After,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    pub phase: Phase,
    /// Since the first reading.
    pub at_ms: u64,
    pub gpu_mhz: Option<f64>,
    pub memory_mhz: Option<f64>,
    pub celsius: Option<f64>,
    /// Names of what slows the GPU down; empty if nothing does, or nothing tells.
    pub throttled_by: Vec<String>,
}

/// Why what was measured says nothing.
#[derive(Clone, Debug, PartialEq)]
pub enum Moved {
    Clock {
        what: &'static str,
        from_mhz: f64,
        to_mhz: f64,
    },
    Throttled {
        by: String,
    },
}

impl std::fmt::Display for Moved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Clock {
                what,
                from_mhz,
                to_mhz,
            } => write!(
                f,
                "the {what} clock moved from {from_mhz:.0} to {to_mhz:.0} MHz, more than {:.0}%: fix the clocks (Jetson: \
                 sudo jetson_clocks; others: sudo nvidia-smi --lock-gpu-clocks) and run it again",
                TOLERANCE * 100.0
            ),
            Self::Throttled { by } => write!(
                f,
                "the GPU was slowed down by {by}: cool it or allow it more power, and run it again"
            ),
        }
    }
}

impl Moved {
    /// What moved from when the step began until it ended, if anything did.
    pub fn between(readings: &[Reading]) -> Option<Self> {
        let mut counted = readings
            .iter()
            .filter(|reading| reading.phase != Phase::Idle);
        let first = counted.clone().next()?;
        if let Some(by) = counted.clone().find_map(|r| r.throttled_by.first()) {
            return Some(Self::Throttled { by: by.clone() });
        }
        counted.find_map(|reading| {
            let clocks = [
                ("GPU's", first.gpu_mhz, reading.gpu_mhz),
                ("memory's", first.memory_mhz, reading.memory_mhz),
            ];
            clocks.into_iter().find_map(|(what, from, to)| {
                let (from_mhz, to_mhz) = (from?, to?);
                let moved = (to_mhz - from_mhz).abs() > TOLERANCE * from_mhz;
                moved.then_some(Self::Clock {
                    what,
                    from_mhz,
                    to_mhz,
                })
            })
        })
    }
}

/// Where readings come from.
#[derive(Clone, Debug)]
pub enum Sensors {
    /// Files of a board with an integrated GPU.
    Board(PathBuf),
    /// A tool that knows a card by its UUID, and calls what slows it down so.
    Card {
        tool: PathBuf,
        uuid: String,
        reasons: &'static str,
    },
    Nothing,
}

impl Sensors {
    /// Those of a machine whose files lie below `root`; `tool` is `nvidia-smi` or what stands in for it, `uuid` the GPU's, in
    /// hexadecimal digits.
    pub fn find(root: &Path, tool: &Path, uuid: &str) -> Self {
        let board = Self::Board(root.to_owned());
        let cards = REASONS.map(|reasons| Self::Card {
            tool: tool.to_owned(),
            uuid: hyphened(uuid),
            reasons,
        });
        let tells = |sensors: &Self| sensors.read(Phase::Idle, 0).gpu_mhz.is_some();
        [board]
            .into_iter()
            .chain(cards)
            .find(tells)
            .unwrap_or(Self::Nothing)
    }

    pub fn about(&self) -> &'static str {
        match self {
            Self::Board(_) => {
                "the kernel's files of clocks (devfreq), thermal zones and cooling devices"
            }
            Self::Card { .. } => "nvidia-smi",
            Self::Nothing => {
                "nothing: this machine shows no clock of its GPU, so that no step can be rejected because one moved"
            }
        }
    }

    pub fn read(&self, phase: Phase, at_ms: u64) -> Reading {
        let reading = match self {
            Self::Board(root) => of_board(root),
            Self::Card {
                tool,
                uuid,
                reasons,
            } => of_card(tool, uuid, reasons).unwrap_or_default(),
            Self::Nothing => Reading::default(),
        };
        Reading {
            phase,
            at_ms,
            ..reading
        }
    }

    /// Does some work and reads meanwhile, from when `warm` is over.
    pub fn watch<T>(&self, warm: impl FnOnce(), work: impl FnOnce() -> T) -> (T, Vec<Reading>) {
        let start = clock::now_ns();
        let now_ms = || (clock::now_ns() - start) / 1_000_000;
        let mut readings = vec![self.read(Phase::Idle, now_ms())];
        warm();
        readings.push(self.read(Phase::Before, now_ms()));
        let (bell, over) = (Doorbell::new(), AtomicBool::new(false));
        let (done, during) = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                // One at least, however short the work is.
                let mut during = vec![self.read(Phase::During, now_ms())];
                loop {
                    let seen = bell.count();
                    // Acquire: pairs with the release when the work is done. Asked after the bell's count, so that a ring
                    // in between ends the wait.
                    if over.load(Ordering::Acquire) {
                        return during;
                    }
                    bell.wait(seen, Some(clock::now_ns() + EVERY_NS));
                    // Relaxed: what it says is asked again above. An idle device may lower its clocks at once.
                    if !over.load(Ordering::Relaxed) {
                        during.push(self.read(Phase::During, now_ms()));
                    }
                }
            });
            let done = work();
            // Release: pairs with the reader's acquire.
            over.store(true, Ordering::Release);
            bell.ring();
            (done, reader.join().unwrap_or_default())
        });
        readings.extend(during);
        readings.push(self.read(Phase::After, now_ms()));
        (done, readings)
    }
}

fn of_board(root: &Path) -> Reading {
    let mhz = |khz: u64| khz as f64 / 1e3;
    let clocks = Host::at(root).clocks();
    let now = |wanted: fn(&str) -> bool| {
        let clock = clocks.iter().find(|clock| wanted(&clock.name));
        clock.and_then(|clock| clock.now_khz).map(mhz)
    };
    let zone = |(kind, folder): (String, PathBuf)| {
        let gpu = kind.to_lowercase().contains("gpu");
        gpu.then(|| number(&folder.join("temp"))).flatten()
    };
    let slows = |(kind, folder): (String, PathBuf)| {
        let slowing = ["throttle", "devfreq", "alert"];
        let named = slowing.iter().any(|word| kind.contains(word));
        let active = named && number(&folder.join("cur_state")) > Some(0.0);
        active.then_some(kind)
    };
    Reading {
        gpu_mhz: now(|name| name != "emc"),
        memory_mhz: now(|name| name == "emc"),
        celsius: thermal(root, "thermal_zone")
            .find_map(zone)
            .map(|milli| milli / 1e3),
        throttled_by: thermal(root, "cooling_device").filter_map(slows).collect(),
        ..Reading::default()
    }
}

/// Folders of the kernel's thermal framework whose names begin so, by the name of the folder, each with its type.
fn thermal(root: &Path, begin: &'static str) -> impl Iterator<Item = (String, PathBuf)> {
    let entries = fs::read_dir(root.join("sys/class/thermal"));
    let entries = entries.into_iter().flatten().flatten();
    let named = entries.filter(move |e| e.file_name().to_string_lossy().starts_with(begin));
    let mut folders: Vec<PathBuf> = named.map(|entry| entry.path()).collect();
    folders.sort();
    folders
        .into_iter()
        .filter_map(|folder| Some((line(&folder.join("type"))?, folder)))
}

fn number(path: &Path) -> Option<f64> {
    line(path)?.parse().ok()
}

fn line(path: &Path) -> Option<String> {
    let text = read::text(path, 4096).ok()?;
    Some(text.trim().to_owned())
}

/// Bits of NVML's reasons that mean less than the clock that was asked for.
const THROTTLING: [(u64, &str); 5] = [
    (0x4, "the power limit"),
    (0x8, "hardware (temperature or power)"),
    (0x20, "temperature, by the driver"),
    (0x40, "temperature, by hardware"),
    (0x80, "the power supply"),
];

/// What the tool calls them from drivers of 2023 on, and before.
const REASONS: [&str; 2] = [
    "clocks_event_reasons.active",
    "clocks_throttle_reasons.active",
];

/// A UUID as the tool writes it: `GPU-8f3c...-...`.
fn hyphened(uuid: &str) -> String {
    let mut text = "GPU".to_owned();
    let mut rest = uuid;
    for digits in [8, 4, 4, 4, 12] {
        let (part, behind) = rest.split_at(digits.min(rest.len()));
        text = format!("{text}-{part}");
        rest = behind;
    }
    text
}

fn of_card(tool: &Path, uuid: &str, reasons: &str) -> Option<Reading> {
    let query = format!("--query-gpu=clocks.sm,clocks.mem,temperature.gpu,{reasons}");
    let arguments = [&query, "--format=csv,noheader,nounits", "-i", uuid];
    let text = said(tool, &arguments)?;
    let fields: Vec<&str> = text.lines().next()?.split(',').map(str::trim).collect();
    let number = |at: usize| fields.get(at)?.parse::<f64>().ok();
    let reasons = fields.get(3).and_then(|word| word.strip_prefix("0x"));
    let reasons = reasons.and_then(|word| u64::from_str_radix(word, 16).ok());
    let reasons = reasons.unwrap_or(0);
    let active = |(bit, name): &(u64, &str)| (reasons & bit != 0).then(|| (*name).to_owned());
    Some(Reading {
        gpu_mhz: number(0),
        memory_mhz: number(1),
        celsius: number(2),
        throttled_by: THROTTLING.iter().filter_map(active).collect(),
        ..Reading::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{Made, made};
    use super::*;

    /// A file `tool` that can be run.
    fn with_tool(name: &str, does: &str) -> Made {
        use std::os::unix::fs::PermissionsExt as _;
        let script = format!("#!/bin/sh\n{does}\n");
        let folder = made(name, &[("tool", &script)]);
        let mode = fs::Permissions::from_mode(0o700);
        fs::set_permissions(folder.join("tool"), mode).expect("its mode");
        folder
    }

    fn none() -> PathBuf {
        PathBuf::from("/nowhere/nvidia-smi")
    }

    const JETSON: &[(&str, &str)] = &[
        ("sys/class/devfreq/17000000.gpu/cur_freq", "918000000\n"),
        ("sys/kernel/debug/bpmp/debug/clk/emc/rate", "3199000000\n"),
        ("sys/class/thermal/thermal_zone0/type", "cpu-thermal\n"),
        ("sys/class/thermal/thermal_zone0/temp", "40000\n"),
        ("sys/class/thermal/thermal_zone1/type", "gpu-thermal\n"),
        ("sys/class/thermal/thermal_zone1/temp", "51500\n"),
        ("sys/class/thermal/cooling_device0/type", "pwm-fan\n"),
        ("sys/class/thermal/cooling_device0/cur_state", "1\n"),
        (
            "sys/class/thermal/cooling_device1/type",
            "gpu-throttle-alert\n",
        ),
        ("sys/class/thermal/cooling_device1/cur_state", "1\n"),
    ];

    #[test]
    fn a_board_tells_its_clocks_its_temperature_and_what_slows_it_down() {
        let root = made("jetson", JETSON);
        let sensors = Sensors::find(&root, &none(), UUID);
        assert!(matches!(sensors, Sensors::Board(_)), "{sensors:?}");
        let reading = sensors.read(Phase::During, 7);
        let expected = Reading {
            phase: Phase::During,
            at_ms: 7,
            gpu_mhz: Some(918.0),
            memory_mhz: Some(3199.0),
            celsius: Some(51.5),
            throttled_by: vec!["gpu-throttle-alert".to_owned()],
        };
        assert_eq!(reading, expected);
    }

    const UUID: &str = "00112233445566778899aabbccddeeff";

    /// A tool of an older driver, which refuses the newer name, and knows one card.
    const OLDER: &str = "case \"$*\" in
*event_reasons*) echo 'Field is not a valid field to query.'; exit 2;;
*'-i GPU-00112233-4455-6677-8899-aabbccddeeff') echo '1410, 5001, 47, 0x0000000000000024';;
*) exit 6;;
esac";

    #[test]
    fn a_card_is_asked_of_its_tool_by_its_uuid_whatever_the_driver_calls_its_reasons() {
        let empty = made("no-files", &[]);
        let tool = with_tool("card", OLDER);
        let reading = Sensors::find(&empty, &tool.join("tool"), UUID).read(Phase::Before, 0);
        let figures = (reading.gpu_mhz, reading.memory_mhz, reading.celsius);
        assert_eq!(figures, (Some(1410.0), Some(5001.0), Some(47.0)));
        assert_eq!(
            reading.throttled_by,
            ["the power limit", "temperature, by the driver"]
        );
    }

    #[test]
    fn a_machine_that_shows_nothing_is_said_to_show_nothing() {
        let empty = made("nothing", &[]);
        let silent = with_tool("silent", "echo '[N/A], [N/A], [N/A], [N/A]'");
        for tool in [none(), silent.join("tool")] {
            let sensors = Sensors::find(&empty, &tool, UUID);
            assert!(matches!(sensors, Sensors::Nothing), "{sensors:?}");
            assert!(sensors.about().contains("no clock"));
        }
    }

    #[test]
    fn work_is_watched_from_before_it_begins_until_after_it_has_ended() {
        let root = made("watched", JETSON);
        let sensors = Sensors::Board(root.to_path_buf());
        let slower = || {
            fs::write(
                root.join("sys/class/devfreq/17000000.gpu/cur_freq"),
                "306000000\n",
            )
            .expect("a file");
            5
        };
        let (done, readings) = sensors.watch(|| (), slower);
        assert_eq!(done, 5);
        let phases: Vec<Phase> = readings.iter().map(|reading| reading.phase).collect();
        let beginning = [Phase::Idle, Phase::Before, Phase::During];
        assert_eq!(phases[..3], beginning);
        assert_eq!(phases.last(), Some(&Phase::After));
        let unthrottled = readings.into_iter().map(|reading| Reading {
            throttled_by: Vec::new(),
            ..reading
        });
        let moved = Moved::between(&unthrottled.collect::<Vec<_>>());
        let expected = Moved::Clock {
            what: "GPU's",
            from_mhz: 918.0,
            to_mhz: 306.0,
        };
        assert_eq!(moved, Some(expected));
    }

    #[test]
    fn a_clock_that_was_low_while_the_device_was_idle_has_not_moved() {
        let reading = |phase, mhz| Reading {
            phase,
            gpu_mhz: Some(mhz),
            ..Reading::default()
        };
        let mut readings = vec![
            reading(Phase::Idle, 210.0),
            reading(Phase::Before, 1410.0),
            reading(Phase::During, 1395.0),
        ];
        assert_eq!(Moved::between(&readings), None);
        readings[2].throttled_by = vec!["the power limit".to_owned()];
        let moved = Moved::between(&readings).expect("it is throttled");
        assert!(moved.to_string().contains("the power limit"), "{moved}");
        assert_eq!(Moved::between(&[]), None);
    }
}

//! GPUs as the roofline knows them: `devices.toml`, each figure with its source.

use std::path::Path;
use std::sync::LazyLock;

use punctual_cuda_kernels::contract::Multiprocessor;
use punctual_diagnostics::{Diagnostics, Document, FromToml, Problems, Rule, Section, Spanned};
use punctual_roofline::{Device, Memory, PerClock, Times};
use serde::Serialize;

/// The source of figures that were not looked up.
const RECALLED: &str = "recalled";
/// How the text of a source begins that is an assumption of ours.
const INFERRED: &str = "Inferred";

#[derive(Debug)]
pub struct Devices {
    pub devices: Vec<Described>,
    pub sources: Vec<Source>,
}

#[derive(Debug)]
pub struct Described {
    pub device: Device,
    /// The file in `boards` that has it, if one has.
    pub board: Option<String>,
    pub facts: Vec<Fact>,
}

/// A figure as it is shown.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fact {
    pub what: &'static str,
    pub value: String,
    pub source: String,
    /// The source is an assumption.
    pub inferred: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    pub name: String,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    #[error("the source {0:?} is not listed under [sources]")]
    Source(String),
    #[error("{0} is not a positive number")]
    Figure(String),
    #[error("{0:?} is no compute capability")]
    Capability(String),
}

impl Rule for Wrong {
    fn rule(&self) -> &'static str {
        match self {
            Self::Source(_) => "every figure of a GPU names its source",
            Self::Figure(_) => "figures of a GPU are positive",
            Self::Capability(_) => "a compute capability has two numbers",
        }
    }

    fn help(&self) -> String {
        match self {
            Self::Source(_) => "list it under [sources], or correct the name".into(),
            Self::Figure(_) => "correct it".into(),
            Self::Capability(_) => "write it like \"8.7\"".into(),
        }
    }
}

/// A number of a device: its key, what it is, and where it belongs.
struct Figure {
    key: &'static str,
    what: &'static str,
    set: fn(&mut Device, f64),
}

const fn figure(key: &'static str, what: &'static str, set: fn(&mut Device, f64)) -> Figure {
    Figure { key, what, set }
}

const FIGURES: [Figure; 23] = [
    figure("multiprocessors", "multiprocessors", |d, n| {
        d.multiprocessors = n as u32
    }),
    figure("tpcs", "TPCs", |d, n| d.tpcs = n as u32),
    figure("clock_mhz", "clock, MHz", |d, n| d.clock_mhz = n),
    figure("memory_gb_s", "memory, GB/s", |d, n| d.memory.gb_s = n),
    figure("memory_share", "share of it that is reached", |d, n| {
        d.memory.share_reached = n
    }),
    figure("host_gb_s", "the host's memory, GB/s", |d, n| {
        d.memory.host_gb_s = n
    }),
    figure("cache_mib", "second-level cache, MiB", |d, n| {
        d.memory.cache_bytes = (n * f64::from(1 << 20)) as u64;
    }),
    figure("instructions", "instructions of warps a clock", |d, n| {
        d.per_clock.instructions = n
    }),
    figure("tensor_products", "products of mma.sync a clock", |d, n| {
        d.per_clock.tensor_products = n;
    }),
    figure("float_products", "products of f32 a clock", |d, n| {
        d.per_clock.float_products = n
    }),
    figure("shared_bytes", "bytes of shared memory a clock", |d, n| {
        d.per_clock.shared_bytes = n
    }),
    figure("loaded_bytes", "bytes loaded a clock", |d, n| {
        d.per_clock.loaded_bytes = n
    }),
    figure("threads", "resident threads", |d, n| {
        d.resident.threads = n as u32
    }),
    figure("blocks", "resident blocks", |d, n| {
        d.resident.blocks = n as u32
    }),
    figure("registers", "registers", |d, n| {
        d.resident.registers = n as u32
    }),
    figure("shared_kib", "shared memory, KiB", |d, n| {
        d.resident.shared_bytes = (n * 1024.0) as u32;
    }),
    figure("memory_ns", "to read memory, ns", |d, n| d.times.memory = n),
    figure("cache_ns", "to read the cache, ns", |d, n| {
        d.times.cache = n
    }),
    figure("look_ns", "a look at the epoch, ns", |d, n| {
        d.times.look = n
    }),
    figure("hand_over_ns", "to hand a launch over, ns", |d, n| {
        d.times.hand_over = n
    }),
    figure("gap_ns", "between two launches, ns", |d, n| d.times.gap = n),
    figure("stage_ns", "of a stage besides launches, ns", |d, n| {
        d.times.stage = n
    }),
    figure(
        "reserved_kib",
        "shared memory that the driver takes a block, KiB",
        |d, n| {
            d.resident.reserved_bytes = (n * 1024.0) as u32;
        },
    ),
];

/// Before its figures are read.
const BLANK: Device = Device {
    name: String::new(),
    compute_capability: (0, 0),
    multiprocessors: 0,
    tpcs: 0,
    integrated: false,
    clock_mhz: 0.0,
    resident: Multiprocessor {
        threads: 0,
        blocks: 0,
        registers: 0,
        shared_bytes: 0,
        reserved_bytes: 0,
    },
    per_clock: PerClock {
        instructions: 0.0,
        tensor_products: 0.0,
        float_products: 0.0,
        shared_bytes: 0.0,
        loaded_bytes: 0.0,
    },
    memory: Memory {
        gb_s: 0.0,
        share_reached: 0.0,
        host_gb_s: 0.0,
        cache_bytes: 0,
    },
    times: Times {
        memory: 0.0,
        cache: 0.0,
        look: 0.0,
        hand_over: 0.0,
        gap: 0.0,
        stage: 0.0,
    },
};

/// Those of the program.
///
/// # Panics
/// Never: the tests parse the file.
pub fn builtin() -> &'static Devices {
    static DEVICES: LazyLock<Devices> = LazyLock::new(|| {
        let parsed = parse(include_str!("devices.toml"), Path::new("devices.toml"));
        parsed.expect("the tests parse it")
    });
    &DEVICES
}

/// `path` is for messages.
fn parse(text: &str, path: &Path) -> Result<Devices, Diagnostics> {
    let mut problems = Problems::new(path, text, "devices");
    let devices = read(&mut problems);
    problems.into_result()?;
    Ok(devices.expect("a file without problems is complete"))
}

fn read(problems: &mut Problems<'_>) -> Option<Devices> {
    let document = Document::parse(problems)?;
    let mut root = document.root();
    let listed = root.table("sources", problems);
    let listed = listed.map(|section| section.entries::<String>(problems));
    let sources: Vec<Source> = listed
        .into_iter()
        .flatten()
        .map(|(name, text)| Source {
            name,
            text: text.value,
        })
        .collect();
    let devices = root.list("device", 1..=32, problems, |section, problems| {
        let facts = Facts {
            sources: &sources,
            problems,
            read: Vec::new(),
        };
        facts.device(section)
    });
    root.finish(problems);
    Some(Devices { devices, sources })
}

/// Reads facts: `key = { is = VALUE, source = "NAME" }`.
struct Facts<'s, 'p, 'a> {
    sources: &'s [Source],
    problems: &'p mut Problems<'a>,
    read: Vec<Fact>,
}

impl Facts<'_, '_, '_> {
    fn device(mut self, mut section: Section<'_, '_>) -> Option<Described> {
        let name = section.required::<String>("name", self.problems);
        let board = section.optional::<String>("board", self.problems);
        let integrated = section.required::<bool>("integrated", self.problems);
        let mut device = BLANK;
        let what = "compute capability";
        let capability = self.fact::<String>(&mut section, "compute_capability", what);
        if let Some(capability) = capability {
            match capability_of(&capability.value) {
                Some(pair) => device.compute_capability = pair,
                None => self
                    .problems
                    .add(&capability.place, Wrong::Capability(capability.value)),
            }
        }
        for figure in &FIGURES {
            let found = self.fact::<f64>(&mut section, figure.key, figure.what);
            let Some(found) = found else { continue };
            if found.value > 0.0 {
                (figure.set)(&mut device, found.value);
            } else {
                let wrong = Wrong::Figure(found.value.to_string());
                self.problems.add(&found.place, wrong);
            }
        }
        section.finish(self.problems);
        device.name = name?.value;
        device.integrated = integrated?.value;
        Some(Described {
            device,
            board: board.map(|board| board.value),
            facts: self.read,
        })
    }

    fn fact<T: FromToml + ToString>(
        &mut self,
        section: &mut Section<'_, '_>,
        key: &'static str,
        what: &'static str,
    ) -> Option<Spanned<T>> {
        let table = section.table(key, self.problems);
        let Some(mut fact) = table else {
            section.missing(key, "{ is = VALUE, source = \"NAME\" }", self.problems);
            return None;
        };
        let source: Option<Spanned<String>> = fact.required("source", self.problems);
        let value: Option<Spanned<T>> = fact.required("is", self.problems);
        fact.finish(self.problems);
        let (source, value) = (source?, value?);
        let listed = self.sources.iter().find(|known| known.name == source.value);
        if listed.is_none() && source.value != RECALLED {
            let wrong = Wrong::Source(source.value.clone());
            self.problems.add(&source.place, wrong);
        }
        self.read.push(Fact {
            what,
            value: value.value.to_string(),
            source: source.value,
            inferred: listed.is_some_and(|source| source.text.starts_with(INFERRED)),
        });
        Some(value)
    }
}

/// `8.7` as `(8, 7)`.
pub fn capability_of(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use punctual_plan::Board;

    use super::*;

    #[test]
    fn every_device_of_the_program_is_complete_and_has_a_name_of_its_own() {
        let mut names: Vec<_> = builtin().devices.iter().map(|d| &d.device.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 6);
        for described in &builtin().devices {
            assert_eq!(described.facts.len(), 1 + FIGURES.len());
            let device = &described.device;
            assert_eq!(device.multiprocessors % device.tpcs, 0, "{}", device.name);
        }
    }

    #[test]
    fn figures_that_the_boards_have_too_are_the_same_there() {
        let mut boards = 0;
        for described in &builtin().devices {
            let Some(name) = &described.board else {
                continue;
            };
            boards += 1;
            let board = Board::builtin(name).expect("a board of ours");
            let gpu = board.gpu.expect("it has one");
            let device = &described.device;
            assert_eq!(u32::from(gpu.sm.value), device.multiprocessors, "{name}");
            assert_eq!(u32::from(gpu.tpc.value), device.tpcs, "{name}");
            let bandwidth = board.bandwidth_gb_s.expect("it is known").value;
            assert_eq!(bandwidth, device.memory.gb_s, "{name}");
            let capability = capability_of(&gpu.compute_capability.value);
            assert_eq!(capability, Some(device.compute_capability), "{name}");
        }
        assert_eq!(boards, 3);
    }

    fn problems(change: impl Fn(&str) -> String) -> String {
        let text = change(include_str!("devices.toml"));
        let parsed = parse(&text, Path::new("devices.toml"));
        parsed.expect_err("it is wrong").to_string()
    }

    #[test]
    fn a_figure_without_a_known_source_is_refused() {
        let said = problems(|text| text.replacen("source = \"share\"", "source = \"shares\"", 1));
        assert!(said.contains("\"shares\" is not listed"), "{said}");
    }

    #[test]
    fn figures_that_are_missing_or_not_positive_and_unknown_keys_are_refused_together() {
        let said = problems(|text| {
            text.replacen("gap_ns = { is = 1500", "gap_ns = { is = 0", 1)
                .replacen("look_ns", "lock_ns", 1)
                .replacen("\"8.7\"", "\"eight\"", 1)
        });
        for part in [
            "0 is not a positive number",
            "look_ns",
            "lock_ns",
            "\"eight\"",
        ] {
            assert!(said.contains(part), "{part} is missing: {said}");
        }
    }
}

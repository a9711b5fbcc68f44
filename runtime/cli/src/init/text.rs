//! The text of a first manifest.

use std::fmt::{self, Display, Formatter};

use punctual_model::{InputSpec, VectorSpec};
use punctual_plan::FramePlan;
use punctual_types::{PixelFormat, Size};

use super::machine::{Gpu, Machine};
use super::promise::Promise;
use crate::commands::board::quoted;

/// A network that is to be served.
pub struct Network {
    /// That of its task.
    pub name: String,
    /// As the manifest says it.
    pub package: String,
    pub input: InputSpec,
    pub vectors: Vec<VectorSpec>,
    /// None: best-effort.
    pub promise: Option<Promise>,
}

/// What a first manifest says.
pub struct Proposal {
    pub machine: Machine,
    pub socket: String,
    pub networks: Vec<Network>,
    /// Of the frames; none: of networks' inputs.
    pub frame: Option<Size>,
}

impl Display for Proposal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "# A first manifest, by `punctual init`: what is served, where, and by when. Whatever is not here has a default; all keys:\n\
             # docs/manifest.md."
        )?;
        self.daemon(f)?;
        self.partition(f)?;
        self.networks
            .iter()
            .try_for_each(|network| self.task(f, network))
    }
}

/// A key with the reason for its value.
fn key(f: &mut Formatter<'_>, why: &str, key: &str, value: impl Display) -> fmt::Result {
    for line in why.lines() {
        writeln!(f, "# {line}")?;
    }
    writeln!(f, "{key} = {value}")
}

impl Proposal {
    fn daemon(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n[daemon]")?;
        let why = "The machine that `punctual init` ran on. Others that have files are in boards/; `punctual board detect` writes one.";
        key(f, why, "board", quoted(&self.machine.board))?;
        if let Some(mode) = &self.machine.power_mode {
            let why = "The mode that the machine is in: profiles hold for one. `nvpmodel` sets it, and the board's file lists all.";
            key(f, why, "power_mode", quoted(mode))?;
        }
        let why = "Where clients connect, without root. Remove the line for the service's place, /run/punctual/socket, where\n\
                   `punctual status` and others look.";
        key(f, why, "socket", quoted(&self.socket))
    }

    fn partition(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "\n# A partition runs one stage at a time, on units of its own. More of them keep networks from waiting for each other.\n\
             [[partition]]"
        )?;
        key(
            f,
            "Any name, for tasks and for tables of what happened.",
            "name",
            quoted("main"),
        )?;
        if let Some(Gpu { name, tpcs, .. }) = self.machine.usable_gpu() {
            let why = format!(
                "All TPCs of the GPU ({name}). Fewer leave some to another partition; `units = N` would be cores of the processor."
            );
            return key(f, &why, "tpcs", tpcs);
        }
        let units = self.machine.partition_cores();
        let all = self.machine.cores.available.len();
        let mut why = match (self.machine.cores.isolated.len(), all) {
            (0, 0 | 1) => {
                "The only core of this machine, which the daemon's own threads share.".to_owned()
            }
            (0, _) => format!(
                "All {all} cores but one, which the daemon's own threads have. Fewer leave cores to cameras; `cores = [1]` says which."
            ),
            (isolated, _) => format!(
                "The isolated cores (isolcpus), {isolated} of {all}. `cores = [...]` says which; `punctual doctor` looks at them."
            ),
        };
        if let Some(gpu) = &self.machine.gpu {
            why.push_str(&format!(
                "\nThe GPU ({}) is not used: `punctual board detect --write boards/NAME.toml` writes a board with it, and with board = \"NAME\"\n\
                 `tpcs = {}` here is all of it.",
                gpu.name, gpu.tpcs
            ));
        }
        key(f, &why, "units", units)
    }

    fn task(&self, f: &mut Formatter<'_>, network: &Network) -> fmt::Result {
        writeln!(f, "\n# A stream of frames.\n[[task]]")?;
        key(
            f,
            "What clients name when they connect: any name, here the package's.",
            "name",
            quoted(&network.name),
        )?;
        let why = "Made by `punctual compile`. The path goes from this file's folder; several tasks may have one package.";
        key(f, why, "package", quoted(&network.package))?;
        let words = "\"real-time\": a frame is admitted only if it can be on time. \"best-effort\": it runs in the time that others leave.";
        match &network.promise {
            None => key(f, words, "criticality", quoted("best-effort"))?,
            Some(Promise {
                rate_hz,
                deadline_ms,
            }) => {
                key(f, words, "criticality", quoted("real-time"))?;
                let why = format!("Frames a second, of all clients together: {}.", rate_hz.why);
                key(f, &why, "rate_hz", rate_hz.value)?;
                let why = format!("Milliseconds from capture to answer: {}.", deadline_ms.why);
                key(f, &why, "deadline_ms", deadline_ms.value)?;
            }
        }
        self.frame(f, &network.input)?;
        network
            .vectors
            .iter()
            .try_for_each(|vector| vector_table(f, vector))
    }

    fn frame(&self, f: &mut Formatter<'_>, input: &InputSpec) -> fmt::Result {
        let FramePlan { format, size, .. } = FramePlan::of_network(input);
        let word = quoted(format.name());
        if format == PixelFormat::Tensor {
            let why = format!(
                "The network takes what its clients computed: {}, as f32.",
                input.tensor()
            );
            return key(f, &why, "frame", format_args!("{{ format = {word} }}"));
        }
        let from = match self.frame {
            Some(_) => "as --frame said",
            None => "the network's own",
        };
        let Size { width, height } = self.frame.unwrap_or(size);
        let why = format!(
            "What a client sends: {from}. Another size is resized to the network's input of {}; \"nv12\", \"yuyv\" and others are formats,\n\
             `crop = [width, height]` is the part that the network sees, and `fit = \"letterbox\"` keeps its proportions.",
            input.tensor()
        );
        let value =
            format_args!("{{ format = {word}, width = {width}, height = {height} }}").to_string();
        key(f, &why, "frame", value)
    }
}

/// Numbers that come with each frame.
fn vector_table(f: &mut Formatter<'_>, vector: &VectorSpec) -> fmt::Result {
    writeln!(
        f,
        "\n# An input of the network beside the picture.\n[[task.vector]]"
    )?;
    key(f, "As the network calls it.", "name", quoted(&vector.name))?;
    key(
        f,
        "How many numbers it has in the network.",
        "length",
        vector.length,
    )?;
    let why = "A guess: the least and the most that a number may be. Frames with others fail.";
    key(f, why, "range", "[-1.0, 1.0]")
}

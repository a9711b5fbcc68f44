//! Board files: facts of a board, each with its source.
use std::path::Path;

use punctual_diagnostics::{Diagnostics, Document, FromToml, Problems, Rule, Section, Spanned};
use serde::Serialize;
use thiserror::Error;

/// The source of figures that nobody looked up.
const RECALLED: &str = "recalled";

/// The source of figures that are found out on the machine itself.
const DETECTED: &str = "detected";

#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Board {
    pub name: String,
    pub title: String,
    /// Number of processor cores; none when it is detected at run time.
    pub cores: Option<Fact<u16>>,
    /// What the cores are, e.g. `6 x Arm Cortex-A78AE`.
    pub processor: Option<Fact<String>>,
    /// Memory in bytes, shared by processor and accelerator; none when it is detected at run time.
    pub memory_bytes: Option<Fact<u64>>,
    /// Memory bandwidth in 10^9 bytes a second.
    pub bandwidth_gb_s: Option<Fact<f64>>,
    /// Power modes; the first is the default.
    pub power_modes: Fact<Vec<String>>,
    /// The accelerator, if it has one.
    pub gpu: Option<Gpu>,
    /// Titles of the sources that the facts name.
    pub sources: Vec<Source>,
}

/// A figure and where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fact<T> {
    pub value: T,
    /// The name of a [`Source`], or `recalled`: written down from memory, not confirmed, or
    /// `detected`: found out on the machine.
    pub source: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    pub name: String,
    pub text: String,
}

/// A figure whose source nobody can look up.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the source {name:?} is not listed under [sources]")]
#[non_exhaustive]
pub struct UnknownSource {
    pub name: String,
}

impl Rule for UnknownSource {
    fn rule(&self) -> &'static str {
        "every figure of a board names its source"
    }

    fn help(&self) -> String {
        "list it under [sources], or correct the name".into()
    }
}

/// A board's graphics processor.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Gpu {
    /// e.g. `Ampere`.
    pub architecture: Fact<String>,
    /// e.g. `8.7`.
    pub compute_capability: Fact<String>,
    pub sm: Fact<u16>,
    /// Texture processing clusters: the smallest part that partitions are made of.
    pub tpc: Fact<u16>,
    pub gpc: Option<Fact<u16>>,
    /// The newest CUDA version of its system software.
    pub cuda: Option<Fact<String>>,
}

/// `(name, text)` of board files that are part of the program.
macro_rules! builtin {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("../../../../boards/", $name, ".toml")))),*]
    };
}

const BUILTIN: [(&str, &str); 14] = builtin! {
    "host"
    "jetson-agx-orin-32gb"
    "jetson-agx-orin-64gb"
    "jetson-agx-xavier-32gb"
    "jetson-agx-xavier-64gb"
    "jetson-orin-nano-4gb"
    "jetson-orin-nano-8gb"
    "jetson-orin-nx-16gb"
    "jetson-orin-nx-8gb"
    "jetson-thor-t4000"
    "jetson-thor-t5000"
    "jetson-tx2"
    "jetson-xavier-nx-16gb"
    "jetson-xavier-nx-8gb"
};

impl Board {
    /// Names of the boards that are part of the program.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        BUILTIN.iter().map(|(name, _)| *name)
    }

    /// The board of that name that is part of the program.
    ///
    /// # Panics
    /// Never: the tests parse all of them.
    #[must_use]
    pub fn builtin(name: &str) -> Option<Self> {
        let (_, text) = BUILTIN.iter().find(|(builtin, _)| *builtin == name)?;
        let path = format!("boards/{name}.toml");
        Some(Self::parse(text, Path::new(&path)).expect("the tests parse it"))
    }

    /// Parses a board file; `path` is for messages.
    pub fn parse(text: &str, path: &Path) -> Result<Self, Diagnostics> {
        let mut problems = Problems::new(path, text, "board");
        let board = read(&mut problems);
        problems.into_result()?;
        Ok(board.expect("a board without problems is complete"))
    }

    /// The mode that profiles are for when the manifest does not say.
    #[must_use]
    pub fn default_power_mode(&self) -> &str {
        self.power_modes
            .value
            .first()
            .map_or("default", |mode| mode)
    }
}

fn read(problems: &mut Problems<'_>) -> Option<Board> {
    let document = Document::parse(problems)?;
    let mut root = document.root();
    let name = root.required::<String>("name", problems);
    let title = root.required::<String>("title", problems);
    let mut sources = Vec::new();
    if let Some(section) = root.table("sources", problems) {
        for (name, text) in section.entries::<String>(problems) {
            let text = text.value;
            sources.push(Source { name, text });
        }
    }
    let mut facts = Facts {
        sources: &sources,
        problems,
    };
    let cores = facts.optional(&mut root, "cores");
    let processor = facts.optional(&mut root, "processor");
    let memory_gib = facts.optional::<u64>(&mut root, "memory_gib");
    // Detected figures have no value, but must be said to be detected.
    for key in ["cores", "memory_gib"] {
        root.missing(key, "a fact, or { source = \"detected\" }", facts.problems);
    }
    let bandwidth_gb_s = facts.optional(&mut root, "bandwidth_gb_s");
    let power_modes = facts.required(&mut root, "power_modes");
    let gpu = match root.table("gpu", facts.problems) {
        Some(section) => Some(facts.gpu(section)?),
        None => None,
    };
    root.finish(problems);
    Some(Board {
        name: name?.value,
        title: title?.value,
        cores: narrow(cores),
        processor,
        memory_bytes: memory_gib.map(|fact| Fact {
            value: fact.value.saturating_mul(1 << 30),
            source: fact.source,
        }),
        bandwidth_gb_s,
        power_modes: power_modes?,
        gpu,
        sources,
    })
}

fn narrow(fact: Option<Fact<u64>>) -> Option<Fact<u16>> {
    fact.map(|fact| Fact {
        value: u16::try_from(fact.value).unwrap_or(u16::MAX),
        source: fact.source,
    })
}

/// Reads facts: `key = { is = VALUE, source = "NAME" }`.
struct Facts<'s, 'p, 'a> {
    sources: &'s [Source],
    problems: &'p mut Problems<'a>,
}

impl Facts<'_, '_, '_> {
    fn gpu(&mut self, mut section: Section<'_, '_>) -> Option<Gpu> {
        let s = &mut section;
        let architecture = self.required(s, "architecture");
        let compute_capability = self.required(s, "compute_capability");
        let sm = self.required(s, "sm");
        let tpc = self.required(s, "tpc");
        let gpc = self.optional(s, "gpc");
        let cuda = self.optional(s, "cuda");
        section.finish(self.problems);
        Some(Gpu {
            architecture: architecture?,
            compute_capability: compute_capability?,
            sm: narrow(sm)?,
            tpc: narrow(tpc)?,
            gpc: narrow(gpc),
            cuda,
        })
    }

    fn required<T: FromToml>(
        &mut self,
        section: &mut Section<'_, '_>,
        key: &'static str,
    ) -> Option<Fact<T>> {
        let fact = self.optional(section, key);
        if fact.is_none() {
            section.missing(key, T::EXPECTED, self.problems);
        }
        fact
    }

    fn optional<T: FromToml>(
        &mut self,
        section: &mut Section<'_, '_>,
        key: &'static str,
    ) -> Option<Fact<T>> {
        let mut fact = section.table(key, self.problems)?;
        let source: Spanned<String> = fact.required("source", self.problems)?;
        let listed = self.sources.iter().any(|known| known.name == source.value);
        if !listed && source.value != RECALLED && source.value != DETECTED {
            let name = source.value.clone();
            self.problems.add(&source.place, UnknownSource { name });
        }
        let value = if source.value == DETECTED {
            fact.optional("is", self.problems)
        } else {
            fact.required("is", self.problems)
        };
        fact.finish(self.problems);
        Some(Fact {
            value: value?.value,
            source: source.value,
        })
    }
}

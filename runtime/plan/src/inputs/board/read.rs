//! Reading board files: facts are `key = { is = VALUE, source = "NAME" }`.

use punctual_diagnostics::{Document, FromToml, Problems, Rule, Section, Spanned};
use thiserror::Error;

use super::{Board, DETECTED, Fact, Gpu, PowerMode, RECALLED, Releases, Source};

/// A figure whose source cannot be looked up.
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

pub(super) fn read(problems: &mut Problems<'_>) -> Option<Board> {
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
    let compatible = facts.optional(&mut root, "compatible");
    let modules = facts.optional(&mut root, "modules");
    let cores = facts.optional(&mut root, "cores");
    let processor = facts.optional(&mut root, "processor");
    let memory_gib = facts.optional::<u64>(&mut root, "memory_gib");
    // Detected figures have no value, but must be said to be detected.
    for key in ["cores", "memory_gib"] {
        root.missing(key, "a fact, or { source = \"detected\" }", facts.problems);
    }
    let bandwidth_gb_s = facts.optional(&mut root, "bandwidth_gb_s");
    let jetpack = facts.releases(&mut root, "jetpack");
    let power_modes = facts.power_modes(&mut root);
    let gpu = match root.table("gpu", facts.problems) {
        Some(section) => Some(facts.gpu(section)?),
        None => None,
    };
    root.finish(problems);
    Some(Board {
        name: name?.value,
        title: title?.value,
        compatible,
        modules,
        cores: narrow(cores),
        processor,
        memory_bytes: memory_gib.map(|fact| Fact {
            value: fact.value.saturating_mul(1 << 30),
            source: fact.source,
        }),
        bandwidth_gb_s,
        jetpack,
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
        let cuda = self.releases(s, "cuda");
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

    /// `[power_modes]`: by name, in the file's order, a line each. Or only names, `{ is = [..], source = ".." }`: what
    /// such modes leave on is not known.
    fn power_modes(&mut self, root: &mut Section<'_, '_>) -> Option<Vec<PowerMode>> {
        let key = "power_modes";
        root.missing(key, "a table of modes by name", self.problems);
        let mut section = root.table(key, self.problems)?;
        if section.has("is") {
            let source = self.source(&mut section)?;
            let names: Spanned<Vec<String>> = section.required("is", self.problems)?;
            section.finish(self.problems);
            let modes = names.value.into_iter();
            return Some(modes.map(|name| PowerMode::named(name, &source)).collect());
        }
        let modes = section.tables_by_name(self.problems).into_iter();
        let modes = modes.filter_map(|(name, section)| self.power_mode(name, section));
        Some(modes.collect())
    }

    /// Figures that are no facts of their own have the mode's source.
    fn power_mode(&mut self, name: String, mut section: Section<'_, '_>) -> Option<PowerMode> {
        let source = self.source(&mut section)?;
        let s = &mut section;
        let mode = PowerMode {
            cores: narrow(self.figure(s, "cores", &source)),
            tpc: narrow(self.figure(s, "tpc", &source)),
            cpu_mhz: self.figure(s, "cpu_mhz", &source),
            gpu_mhz: self.figure(s, "gpu_mhz", &source),
            memory_mhz: self.figure(s, "memory_mhz", &source),
            ..PowerMode::named(name, &source)
        };
        section.finish(self.problems);
        Some(mode)
    }

    fn figure<T: FromToml>(
        &mut self,
        section: &mut Section<'_, '_>,
        key: &'static str,
        source: &str,
    ) -> Option<Fact<T>> {
        if section.has_table(key) {
            return self.optional(section, key);
        }
        let value: Spanned<T> = section.optional(key, self.problems)?;
        Some(Fact {
            value: value.value,
            source: source.to_owned(),
        })
    }

    /// `{ oldest = "..", newest = "..", source = ".." }`, or `is` for the newest alone.
    fn releases(
        &mut self,
        section: &mut Section<'_, '_>,
        key: &'static str,
    ) -> Option<Fact<Releases>> {
        let mut fact = section.table(key, self.problems)?;
        let source = self.source(&mut fact)?;
        let key = if fact.has("is") { "is" } else { "newest" };
        let newest = fact.required(key, self.problems);
        let oldest: Option<Spanned<String>> = fact.optional("oldest", self.problems);
        fact.finish(self.problems);
        let newest: Spanned<String> = newest?;
        let value = Releases {
            oldest: oldest.map(|oldest| oldest.value),
            newest: newest.value,
        };
        Some(Fact { value, source })
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
        let source = self.source(&mut fact)?;
        let value = if source == DETECTED {
            fact.optional("is", self.problems)
        } else {
            fact.required("is", self.problems)
        };
        fact.finish(self.problems);
        let value: Spanned<T> = value?;
        Some(Fact {
            value: value.value,
            source,
        })
    }

    /// The name of a fact's source. One that is not listed is noted.
    fn source(&mut self, fact: &mut Section<'_, '_>) -> Option<String> {
        let source: Spanned<String> = fact.required("source", self.problems)?;
        let listed = self.sources.iter().any(|known| known.name == source.value);
        if !listed && source.value != RECALLED && source.value != DETECTED {
            let name = source.value.clone();
            self.problems.add(&source.place, UnknownSource { name });
        }
        Some(source.value)
    }
}

impl PowerMode {
    /// A mode of which no more is known.
    fn named(name: String, source: &str) -> Self {
        Self {
            name,
            source: source.to_owned(),
            cores: None,
            tpc: None,
            cpu_mhz: None,
            gpu_mhz: None,
            memory_mhz: None,
        }
    }
}

//! A module that is ready to run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::decode::{Decoder, Symbol};
use crate::error::ParseError;
use crate::instruction::{Instruction, Op, Space};
use crate::registers::{Files, Registers};
use crate::text::{self, Array, Entry, SharedArray, Statement};

/// Kernels by name, as one PTX text has them.
#[derive(Debug)]
pub struct Module {
    kernels: BTreeMap<String, Arc<Kernel>>,
}

/// A parameter's place in the bytes of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub offset: usize,
    pub bytes: usize,
}

#[derive(Debug)]
pub struct Kernel {
    /// No two kernels of a process have the same.
    pub(crate) identity: u64,
    pub(crate) name: String,
    parameters: Vec<Parameter>,
    threads_max: u32,
    pub(crate) static_shared: u32,
    /// Bytes of the smallest access to shared memory.
    pub(crate) granule: u32,
    pub(crate) files: Files,
    pub(crate) code: Vec<Instruction>,
    /// The line and the text of each.
    pub(crate) lines: Vec<u32>,
    pub(crate) texts: Vec<Box<str>>,
}

static KERNELS: AtomicU64 = AtomicU64::new(0);

impl Module {
    pub fn read(ptx: &str) -> Result<Self, ParseError> {
        let text = text::read(ptx)?;
        let kernels = text.entries.iter().map(|entry| {
            let kernel = Kernel::decode(entry, &text.shared)?;
            Ok((entry.name.to_owned(), Arc::new(kernel)))
        });
        Ok(Self {
            kernels: kernels.collect::<Result<_, ParseError>>()?,
        })
    }

    #[must_use]
    pub fn kernel(&self, name: &str) -> Option<&Arc<Kernel>> {
        self.kernels.get(name)
    }

    pub fn kernels(&self) -> impl Iterator<Item = &Arc<Kernel>> {
        self.kernels.values()
    }
}

impl Kernel {
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    #[must_use]
    pub fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    /// Bytes that hold all parameters.
    #[must_use]
    pub fn parameter_bytes(&self) -> usize {
        self.parameters.last().map_or(0, |p| p.offset + p.bytes)
    }

    /// The most threads that a block may have.
    #[must_use]
    pub const fn threads_max(&self) -> u32 {
        self.threads_max
    }

    /// Bytes of shared memory that every block has.
    #[must_use]
    pub const fn static_shared(&self) -> u32 {
        self.static_shared
    }

    fn decode(entry: &Entry<'_>, shared: &[SharedArray<'_>]) -> Result<Self, ParseError> {
        let parameters = places(&entry.parameters);
        let mut symbols = BTreeMap::new();
        for (array, place) in entry.parameters.iter().zip(&parameters) {
            symbols.insert(array.name, Symbol::Parameter(place.offset as u32));
        }
        let static_shared = place_shared(entry, shared, &mut symbols);
        let labels = labels(entry);
        let mut registers = Registers::new(entry.name);
        let mut kernel = Self {
            // Relaxed: only that it is counted once.
            identity: KERNELS.fetch_add(1, Ordering::Relaxed),
            name: entry.name.to_owned(),
            parameters,
            threads_max: entry.threads_max,
            static_shared,
            granule: 4,
            files: Files::default(),
            code: Vec::new(),
            lines: Vec::new(),
            texts: Vec::new(),
        };
        let mut used = u16::MAX;
        for statement in &entry.body {
            match statement {
                Statement::Open => registers.open(),
                Statement::Close => registers.close(),
                Statement::Registers { class, name, count } => {
                    if !registers.declare(class, name, *count)? {
                        return Err(ParseError::NotInterpreted {
                            line: 0,
                            text: format!(".reg {class} {name}"),
                        });
                    }
                }
                Statement::UsedBytes(mask) => used = *mask as u16,
                Statement::Shared(_) | Statement::Label(_) => {}
                Statement::Instruction(raw) => {
                    let mut decoder = Decoder {
                        registers: &mut registers,
                        symbols: &symbols,
                        labels: &labels,
                        used,
                    };
                    let instruction = decoder.decode(raw)?;
                    used = u16::MAX;
                    kernel.push(instruction, raw.line, raw.text);
                }
            }
        }
        // Control that runs off the end has ended, as with `ret`.
        let end = Instruction {
            guard: None,
            op: Op::Return,
        };
        kernel.push(end, kernel.lines.last().copied().unwrap_or(0), "}");
        kernel.files = registers.files;
        Ok(kernel)
    }

    fn push(&mut self, instruction: Instruction, line: u32, text: &str) {
        if let Op::Load(access) | Op::Store(access) = instruction.op
            && matches!(access.space, Space::Shared | Space::Generic)
        {
            self.granule = self.granule.min(u32::from(access.elements.bytes));
        }
        self.code.push(instruction);
        self.lines.push(line);
        self.texts.push(text.into());
    }
}

fn places(arrays: &[Array<'_>]) -> Vec<Parameter> {
    let mut end = 0usize;
    let place = |array: &Array<'_>| {
        let offset = end.next_multiple_of(array.align);
        end = offset + array.bytes;
        Parameter {
            offset,
            bytes: array.bytes,
        }
    };
    arrays.iter().map(place).collect()
}

/// Static arrays one behind the other, then the dynamic one; returns where that begins.
fn place_shared<'t>(
    entry: &Entry<'t>,
    shared: &[SharedArray<'t>],
    symbols: &mut BTreeMap<&'t str, Symbol>,
) -> u32 {
    let of_body = entry.body.iter().filter_map(|statement| match statement {
        Statement::Shared(array) => Some(*array),
        _ => None,
    });
    let of_module = shared.iter().filter(|s| !s.dynamic).map(|s| s.array);
    let mut end = 0usize;
    // A kernel has those of the module that it names.
    let named: Vec<&str> = names(entry);
    for array in of_module
        .filter(|array| named.contains(&array.name))
        .chain(of_body)
    {
        let offset = end.next_multiple_of(array.align);
        symbols.insert(array.name, Symbol::Shared(offset as u32));
        end = offset + array.bytes;
    }
    for dynamic in shared.iter().filter(|s| s.dynamic) {
        let at = end.next_multiple_of(dynamic.array.align);
        symbols.insert(dynamic.array.name, Symbol::Shared(at as u32));
        if named.contains(&dynamic.array.name) {
            end = at;
        }
    }
    end as u32
}

/// What a kernel's instructions name, but for addresses' offsets.
fn names<'t>(entry: &Entry<'t>) -> Vec<&'t str> {
    let mut names = Vec::new();
    for statement in &entry.body {
        let Statement::Instruction(raw) = statement else {
            continue;
        };
        for operand in &raw.operands {
            match operand {
                text::Operand::Name(name) if !name.starts_with(['%', '$']) => names.push(*name),
                text::Operand::Address {
                    base: text::Base::Name(name),
                    ..
                } if !name.starts_with('%') => names.push(*name),
                _ => {}
            }
        }
    }
    names.sort_unstable();
    names.dedup();
    names
}

fn labels<'t>(entry: &Entry<'t>) -> BTreeMap<&'t str, u32> {
    let mut at = 0;
    let mut labels = BTreeMap::new();
    for statement in &entry.body {
        match statement {
            Statement::Instruction(_) => at += 1,
            Statement::Label(name) => {
                labels.insert(*name, at);
            }
            _ => {}
        }
    }
    labels
}

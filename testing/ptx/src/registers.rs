//! Names of registers, and the registers of constants and of special values.

use std::collections::BTreeMap;

use crate::error::ParseError;
use crate::instruction::Reg;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum File {
    Word,
    Long,
    Predicate,
}

/// What a warp knows of itself without computing it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Special {
    /// Of x, y and z.
    Thread(u8),
    BlockSize(u8),
    Block(u8),
    GridSize(u8),
    Lane,
    Warp,
    Multiprocessor,
}

impl Special {
    fn named(name: &str) -> Option<Self> {
        let axis = |suffix: &str| match suffix {
            ".x" => Some(0),
            ".y" => Some(1),
            ".z" => Some(2),
            _ => None,
        };
        let three = [
            ("%tid", Self::Thread as fn(u8) -> Self),
            ("%ntid", Self::BlockSize),
            ("%ctaid", Self::Block),
            ("%nctaid", Self::GridSize),
        ];
        for (prefix, of) in three {
            if let Some(which) = name.strip_prefix(prefix).and_then(axis) {
                return Some(of(which));
            }
        }
        match name {
            "%laneid" => Some(Self::Lane),
            "%warpid" => Some(Self::Warp),
            "%smid" => Some(Self::Multiprocessor),
            _ => None,
        }
    }
}

/// The files of a kernel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files {
    pub(crate) words: u32,
    pub(crate) longs: u32,
    pub(crate) predicates: u32,
    pub(crate) constant_words: Vec<(Reg, u32)>,
    pub(crate) constant_longs: Vec<(Reg, u64)>,
    pub(crate) specials: Vec<(Reg, Special)>,
    /// By number, for messages.
    pub(crate) word_names: Vec<Box<str>>,
    pub(crate) long_names: Vec<Box<str>>,
    pub(crate) predicate_names: Vec<Box<str>>,
}

pub(crate) struct Registers<'t> {
    kernel: &'t str,
    pub(crate) files: Files,
    /// Innermost last.
    scopes: Vec<BTreeMap<String, (File, Reg)>>,
    words: BTreeMap<u32, Reg>,
    longs: BTreeMap<u64, Reg>,
    specials: BTreeMap<Special, Reg>,
}

impl<'t> Registers<'t> {
    pub(crate) fn new(kernel: &'t str) -> Self {
        Self {
            kernel,
            files: Files::default(),
            scopes: vec![BTreeMap::new()],
            words: BTreeMap::new(),
            longs: BTreeMap::new(),
            specials: BTreeMap::new(),
        }
    }

    pub(crate) fn open(&mut self) {
        self.scopes.push(BTreeMap::new());
    }

    pub(crate) fn close(&mut self) {
        if self.scopes.len() > 1 {
            self.scopes.pop();
        }
    }

    fn next(&mut self, file: File, name: &str) -> Result<Reg, ParseError> {
        let (count, names) = match file {
            File::Word => (&mut self.files.words, &mut self.files.word_names),
            File::Long => (&mut self.files.longs, &mut self.files.long_names),
            File::Predicate => (&mut self.files.predicates, &mut self.files.predicate_names),
        };
        let register = Reg::try_from(*count).map_err(|_| ParseError::Registers {
            kernel: self.kernel.to_owned(),
        })?;
        *count += 1;
        names.push(name.into());
        Ok(register)
    }

    /// `.reg .b32 %r<8>`; an unknown class is `false`.
    pub(crate) fn declare(
        &mut self,
        class: &str,
        name: &str,
        count: Option<u32>,
    ) -> Result<bool, ParseError> {
        let file = match class {
            ".pred" => File::Predicate,
            ".b16" | ".u16" | ".s16" | ".f16" | ".b32" | ".u32" | ".s32" | ".f32" => File::Word,
            ".b64" | ".u64" | ".s64" | ".f64" => File::Long,
            _ => return Ok(false),
        };
        let names: Vec<String> = match count {
            None => vec![name.to_owned()],
            Some(count) => (0..count).map(|i| format!("{name}{i}")).collect(),
        };
        for name in names {
            let register = self.next(file, &name)?;
            if let Some(scope) = self.scopes.last_mut() {
                scope.insert(name, (file, register));
            }
        }
        Ok(true)
    }

    /// A declared register, or a special one.
    pub(crate) fn find(&mut self, name: &str) -> Result<Option<(File, Reg)>, ParseError> {
        let declared = self.scopes.iter().rev().find_map(|scope| scope.get(name));
        if let Some(&found) = declared {
            return Ok(Some(found));
        }
        let Some(special) = Special::named(name) else {
            return Ok(None);
        };
        if let Some(&register) = self.specials.get(&special) {
            return Ok(Some((File::Word, register)));
        }
        let register = self.next(File::Word, name)?;
        self.specials.insert(special, register);
        self.files.specials.push((register, special));
        Ok(Some((File::Word, register)))
    }

    pub(crate) fn constant(&mut self, value: u32) -> Result<Reg, ParseError> {
        if let Some(&register) = self.words.get(&value) {
            return Ok(register);
        }
        let register = self.next(File::Word, &value.to_string())?;
        self.words.insert(value, register);
        self.files.constant_words.push((register, value));
        Ok(register)
    }

    pub(crate) fn constant_long(&mut self, value: u64) -> Result<Reg, ParseError> {
        if let Some(&register) = self.longs.get(&value) {
            return Ok(register);
        }
        let register = self.next(File::Long, &value.to_string())?;
        self.longs.insert(value, register);
        self.files.constant_longs.push((register, value));
        Ok(register)
    }
}

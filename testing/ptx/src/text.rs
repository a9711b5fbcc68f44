//! PTX as text: tokens, directives and statements. Nothing here knows what an instruction does.
//!
//! The grammar is that of "Parallel Thread Execution ISA", chapters 4 and 5, as far as NVIDIA's compilers use it for
//! kernels without calls.

use crate::error::ParseError;

/// A module as it is written.
pub(crate) struct Text<'t> {
    /// Shared arrays outside of kernels; `extern`: the dynamic one, without a size.
    pub(crate) shared: Vec<SharedArray<'t>>,
    pub(crate) entries: Vec<Entry<'t>>,
}

pub(crate) struct Entry<'t> {
    pub(crate) name: &'t str,
    pub(crate) parameters: Vec<Array<'t>>,
    /// `.maxntid`, multiplied; 1024 if there is none.
    pub(crate) threads_max: u32,
    pub(crate) body: Vec<Statement<'t>>,
}

/// A parameter, or an array in shared memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Array<'t> {
    pub(crate) name: &'t str,
    pub(crate) align: usize,
    pub(crate) bytes: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct SharedArray<'t> {
    pub(crate) array: Array<'t>,
    pub(crate) dynamic: bool,
}

pub(crate) enum Statement<'t> {
    /// `{` and `}` within a body: registers that are declared between them are known only there.
    Open,
    Close,
    Registers {
        class: &'t str,
        name: &'t str,
        /// `%r<8>` declares `%r0` to `%r7`; `%p`, one of that name.
        count: Option<u32>,
    },
    Shared(Array<'t>),
    Label(&'t str),
    /// Bytes of the next load that are used.
    UsedBytes(u32),
    Instruction(Raw<'t>),
}

/// An instruction as it is written.
#[derive(Debug)]
pub(crate) struct Raw<'t> {
    pub(crate) line: u32,
    /// `@%p` or `@!%p`: the register, and whether it is negated.
    pub(crate) guard: Option<(&'t str, bool)>,
    pub(crate) opcode: &'t str,
    pub(crate) operands: Vec<Operand<'t>>,
    /// All of it, for messages.
    pub(crate) text: &'t str,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operand<'t> {
    /// A register, a label or a symbol.
    Name(&'t str),
    /// `!%p`
    Not(&'t str),
    Integer(i128),
    /// Bits of a float: `0f3F800000`.
    Float(u32),
    Address {
        base: Base<'t>,
        offset: i64,
    },
    Vector(Vec<Operand<'t>>),
    /// `%r1|%p1`
    Pair(&'t str, &'t str),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Base<'t> {
    Name(&'t str),
    Absolute,
}

#[derive(Clone, Copy)]
struct Token<'t> {
    text: &'t str,
    at: usize,
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%' | b'.')
}

/// Words, signs and quoted texts; comments are left out.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        match bytes[at] {
            byte if byte.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                at = text[at..].find('\n').map_or(bytes.len(), |end| at + end);
                continue;
            }
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                at = text[at..]
                    .find("*/")
                    .map_or(bytes.len(), |end| at + end + 2);
                continue;
            }
            b'"' => {
                let rest = &text[at + 1..];
                at = rest.find('"').map_or(bytes.len(), |end| at + end + 2);
            }
            byte if is_word(byte) => {
                // `L2::128B` is part of a word.
                while at < bytes.len() && (is_word(bytes[at]) || text[at..].starts_with("::")) {
                    at += if bytes[at] == b':' { 2 } else { 1 };
                }
            }
            _ => at += text[at..].chars().next().map_or(1, char::len_utf8),
        }
        found.push(Token {
            text: &text[start..at],
            at: start,
        });
    }
    found
}

struct Parser<'t> {
    text: &'t str,
    tokens: Vec<Token<'t>>,
    next: usize,
    /// Where the lines begin.
    lines: Vec<usize>,
}

/// Reads a module.
pub(crate) fn read(text: &str) -> Result<Text<'_>, ParseError> {
    let lines = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1));
    let mut parser = Parser {
        text,
        tokens: tokens(text),
        next: 0,
        lines: lines.collect(),
    };
    parser.module()
}

impl<'t> Parser<'t> {
    fn line(&self) -> u32 {
        let last = self.tokens.last().map_or(0, |token| token.at);
        let at = self.tokens.get(self.next).map_or(last, |token| token.at);
        self.lines.partition_point(|&start| start <= at) as u32
    }

    fn expected(&self, what: &'static str) -> ParseError {
        ParseError::Expected {
            line: self.line(),
            what,
            found: self.peek().unwrap_or("the end").to_owned(),
        }
    }

    fn peek(&self) -> Option<&'t str> {
        self.tokens.get(self.next).map(|token| token.text)
    }

    fn take(&mut self) -> Result<&'t str, ParseError> {
        let found = self.peek().ok_or_else(|| self.expected("more"))?;
        self.next += 1;
        Ok(found)
    }

    /// Whether the next token is this one, which is then taken.
    fn takes(&mut self, wanted: &str) -> bool {
        let found = self.peek() == Some(wanted);
        self.next += usize::from(found);
        found
    }

    fn must(&mut self, wanted: &'static str) -> Result<(), ParseError> {
        if self.takes(wanted) {
            return Ok(());
        }
        Err(self.expected(wanted))
    }

    fn count(&mut self) -> Result<u32, ParseError> {
        let number = self.peek().and_then(|word| word.parse().ok());
        let number = number.ok_or_else(|| self.expected("a number"))?;
        self.next += 1;
        Ok(number)
    }

    /// Up to the end of a directive that has no meaning here.
    fn skip_past(&mut self, end: &str) {
        while let Some(token) = self.peek() {
            self.next += 1;
            if token == end {
                return;
            }
        }
    }

    fn module(&mut self) -> Result<Text<'t>, ParseError> {
        self.must(".version")?;
        // The code that loads a module knows which versions and targets it takes.
        self.take()?;
        self.must(".target")?;
        self.take()?;
        let mut module = Text {
            shared: Vec::new(),
            entries: Vec::new(),
        };
        while let Some(word) = self.peek() {
            match word {
                ".address_size" => {
                    self.next += 1;
                    if self.count()? != 64 {
                        return Err(self.expected("addresses of 64 bits"));
                    }
                }
                ".visible" | ".extern" | ".weak" => self.next += 1,
                ".global" | ".const" => self.skip_past(";"),
                ".shared" => {
                    self.next += 1;
                    let (array, dynamic) = self.array()?;
                    self.must(";")?;
                    module.shared.push(SharedArray { array, dynamic });
                }
                ".entry" => {
                    self.next += 1;
                    module.entries.push(self.entry()?);
                }
                _ => return Err(self.expected("a kernel or a variable")),
            }
        }
        Ok(module)
    }

    /// `.align 16 .b8 name[128]` or `.u64 name`; whether its size is left open.
    fn array(&mut self) -> Result<(Array<'t>, bool), ParseError> {
        let mut align = 1;
        if self.takes(".align") {
            align = self.count()? as usize;
        }
        let each = self.take()?;
        let each = bytes_of(each).ok_or_else(|| self.expected("a type"))?;
        let name = self.take()?;
        let (mut count, mut dynamic) = (1, false);
        if self.takes("[") {
            dynamic = self.peek() == Some("]");
            count = if dynamic { 0 } else { self.count()? as usize };
            self.must("]")?;
        }
        let array = Array {
            name,
            align: align.max(each),
            bytes: each * count,
        };
        Ok((array, dynamic))
    }

    fn entry(&mut self) -> Result<Entry<'t>, ParseError> {
        let name = self.take()?;
        let mut parameters = Vec::new();
        self.must("(")?;
        while !self.takes(")") {
            self.must(".param")?;
            parameters.push(self.array()?.0);
            self.takes(",");
        }
        let mut threads_max = 1024;
        while !self.takes("{") {
            let directive = self.take()?;
            let mut product = 1;
            while self.peek().is_some_and(|word| word.parse::<u32>().is_ok()) {
                product *= self.count()?;
                self.takes(",");
            }
            if directive == ".maxntid" {
                threads_max = product;
            }
        }
        let body = self.body()?;
        Ok(Entry {
            name,
            parameters,
            threads_max,
            body,
        })
    }

    fn body(&mut self) -> Result<Vec<Statement<'t>>, ParseError> {
        let mut body = Vec::new();
        let mut depth = 0;
        loop {
            let word = self.take()?;
            match word {
                "{" => {
                    depth += 1;
                    body.push(Statement::Open);
                }
                "}" if depth == 0 => return Ok(body),
                "}" => {
                    depth -= 1;
                    body.push(Statement::Close);
                }
                ".reg" => self.registers(&mut body)?,
                ".shared" => {
                    body.push(Statement::Shared(self.array()?.0));
                    self.must(";")?;
                }
                ".pragma" => {
                    let text = self.take()?.trim_matches('"');
                    self.must(";")?;
                    let used = text.strip_prefix("used_bytes_mask ");
                    if let Some(mask) = used.and_then(number) {
                        body.push(Statement::UsedBytes(mask as u32));
                    }
                }
                ";" => {}
                _ if self.takes(":") => body.push(Statement::Label(word)),
                _ => {
                    self.next -= 1;
                    body.push(Statement::Instruction(self.instruction()?));
                }
            }
        }
    }

    fn registers(&mut self, body: &mut Vec<Statement<'t>>) -> Result<(), ParseError> {
        let class = self.take()?;
        loop {
            let name = self.take()?;
            let mut count = None;
            if self.takes("<") {
                count = Some(self.count()?);
                self.must(">")?;
            }
            body.push(Statement::Registers { class, name, count });
            if !self.takes(",") {
                return self.must(";");
            }
        }
    }

    fn instruction(&mut self) -> Result<Raw<'t>, ParseError> {
        let (line, start) = (self.line(), self.tokens[self.next].at);
        let mut guard = None;
        if self.takes("@") {
            let negated = self.takes("!");
            guard = Some((self.take()?, negated));
        }
        let opcode = self.take()?;
        let mut operands = Vec::new();
        while !self.takes(";") {
            operands.push(self.operand()?);
            if !self.takes(",") && self.peek() != Some(";") {
                return Err(self.expected(", or ;"));
            }
        }
        let end = self.tokens[self.next - 1].at;
        Ok(Raw {
            line,
            guard,
            opcode,
            operands,
            text: &self.text[start..end],
        })
    }

    fn operand(&mut self) -> Result<Operand<'t>, ParseError> {
        if self.takes("{") {
            let mut parts = Vec::new();
            while !self.takes("}") {
                parts.push(self.operand()?);
                self.takes(",");
            }
            return Ok(Operand::Vector(parts));
        }
        if self.takes("[") {
            return self.address();
        }
        if self.takes("!") {
            return Ok(Operand::Not(self.take()?));
        }
        let negative = self.takes("-");
        let word = self.take()?;
        if let Some(bits) = word.strip_prefix("0f").or_else(|| word.strip_prefix("0F")) {
            let bits = u32::from_str_radix(bits, 16);
            return bits
                .map(Operand::Float)
                .map_err(|_| self.expected("a float"));
        }
        if let Some(value) = number(word) {
            return Ok(Operand::Integer(if negative { -value } else { value }));
        }
        if self.takes("|") {
            return Ok(Operand::Pair(word, self.take()?));
        }
        Ok(Operand::Name(word))
    }

    /// After the bracket: `%rd1+16]`, `name+-8]`, `1024]`.
    fn address(&mut self) -> Result<Operand<'t>, ParseError> {
        let word = self.take()?;
        let mut offset = 0i64;
        let base = match number(word) {
            Some(value) => {
                offset = value as i64;
                Base::Absolute
            }
            None => Base::Name(word),
        };
        while !self.takes("]") {
            let plus = self.takes("+");
            let minus = self.takes("-");
            if !plus && !minus {
                return Err(self.expected("an offset or ]"));
            }
            let value = number(self.take()?).ok_or_else(|| self.expected("an offset"))? as i64;
            offset += if minus { -value } else { value };
        }
        Ok(Operand::Address { base, offset })
    }
}

/// A whole number, decimal or hexadecimal, with or without the `U` of unsigned ones.
fn number(word: &str) -> Option<i128> {
    let word = word.strip_suffix('U').unwrap_or(word);
    match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(digits) => i128::from_str_radix(digits, 16).ok(),
        None if word.starts_with(|c: char| c.is_ascii_digit()) => word.parse().ok(),
        None => None,
    }
}

/// `.u32` has four.
fn bytes_of(kind: &str) -> Option<usize> {
    let digits = kind.trim_start_matches(|c: char| !c.is_ascii_digit());
    let bits: usize = digits.parse().ok()?;
    matches!(bits, 8 | 16 | 32 | 64 | 128).then_some(bits / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KERNEL: &str = "// a comment\n.version 8.5\n.target sm_80\n.address_size 64\n\
        .global .align 4 .u32 UNUSED = 32;\n.extern .shared .align 128 .b8 dynamic_shared[];\n\
        .visible .entry one(\n.param .align 8 .b8 one_param_0[40],\n.param .u32 one_param_1\n)\n\
        .maxntid 32, 2, 1\n.minnctapersm 1\n{\n.reg .b32 %r<3>;\n.pragma \"used_bytes_mask 15\";\n\
        ld.param.u32 %r1, [one_param_0+24];\n{ .reg .pred %p1; }\n@!%p1 bra $L_1;\n\
        cp.async.cg.shared.global.L2::128B [%r1], [%rd2+-8], 16, %r2;\n$L_1:\n\
        shfl.sync.bfly.b32 %r1|%p2, %r2, 0x1, 31, -1;\nmov.b32 %r1, {%rs1, %rs2};\n\
        mov.f32 %f1, 0f3F800000;\nret;\n}\n";

    fn instructions<'t>(entry: &'t Entry<'t>) -> Vec<&'t Raw<'t>> {
        let of = |statement: &'t Statement<'t>| match statement {
            Statement::Instruction(raw) => Some(raw),
            _ => None,
        };
        entry.body.iter().filter_map(of).collect()
    }

    #[test]
    fn a_module_is_read_with_its_parameters_registers_and_operands() {
        let module = read(KERNEL).expect("well formed");
        assert!(module.shared[0].dynamic && module.shared[0].array.align == 128);
        let entry = &module.entries[0];
        assert_eq!((entry.name, entry.threads_max), ("one", 64));
        let sizes: Vec<_> = entry
            .parameters
            .iter()
            .map(|p| (p.align, p.bytes))
            .collect();
        assert_eq!(sizes, [(8, 40), (4, 4)]);
        let code = instructions(entry);
        assert_eq!(code[1].guard, Some(("%p1", true)));
        assert_eq!(code[2].opcode, "cp.async.cg.shared.global.L2::128B");
        assert_eq!(
            code[2].operands[1],
            Operand::Address {
                base: Base::Name("%rd2"),
                offset: -8
            }
        );
        assert_eq!(code[3].operands[0], Operand::Pair("%r1", "%p2"));
        assert_eq!(code[3].operands[4], Operand::Integer(-1));
        assert_eq!(
            code[4].operands[1],
            Operand::Vector(vec![Operand::Name("%rs1"), Operand::Name("%rs2")])
        );
        assert_eq!(code[5].operands[1], Operand::Float(0x3f80_0000));
        assert_eq!(code[6].text, "ret");
    }

    #[test]
    fn text_that_is_cut_anywhere_is_an_error_and_no_panic() {
        for end in 0..KERNEL.len() - 2 {
            let cut = &KERNEL[..end];
            let whole = read(cut).is_ok_and(|module| !module.entries.is_empty());
            assert!(!whole, "cut at {end}");
        }
    }
}

//! From an instruction's text to what is executed. Every form is listed here; any other is refused by name.

use std::collections::BTreeMap;

use crate::error::ParseError;
use crate::instruction::{
    Access, Atomic, Compare, Compared, Condition, Convert, Divide, Elements, Exchange, Float1,
    Float2, Instruction, Logic, Op, Order, Pointer, Reg, Rounding, Space, Vote, Word1, Word2,
};
use crate::registers::{File, Registers};
use crate::text::{Base, Operand, Raw};

/// Where a name of memory lies, in its space.
#[derive(Clone, Copy)]
pub(crate) enum Symbol {
    Parameter(u32),
    Shared(u32),
}

pub(crate) struct Decoder<'a, 't> {
    pub(crate) registers: &'a mut Registers<'t>,
    pub(crate) symbols: &'a BTreeMap<&'t str, Symbol>,
    pub(crate) labels: &'a BTreeMap<&'t str, u32>,
    /// Of the next load.
    pub(crate) used: u16,
}

/// `None`: this form is not known.
type Found<T> = Result<Option<T>, ParseError>;

/// The value of a `Found` that must be there for this form.
macro_rules! need {
    ($found:expr) => {
        match $found? {
            Some(value) => value,
            None => return Ok(None),
        }
    };
}

impl<'t> Decoder<'_, 't> {
    pub(crate) fn decode(&mut self, raw: &Raw<'t>) -> Result<Instruction, ParseError> {
        let guard = match raw.guard {
            None => None,
            Some((name, negated)) => {
                let found = self.registers.find(name)?;
                let Some((File::Predicate, register)) = found else {
                    return Err(self.unknown(raw, name));
                };
                Some(Condition { register, negated })
            }
        };
        self.check_names(raw)?;
        let parts: Vec<&str> = raw.opcode.split('.').collect();
        let op = self.op(&parts, &raw.operands)?;
        let op = op.ok_or_else(|| ParseError::NotInterpreted {
            line: raw.line,
            text: raw.text.to_owned(),
        })?;
        Ok(Instruction { guard, op })
    }

    fn unknown(&self, raw: &Raw<'_>, name: &str) -> ParseError {
        ParseError::Unknown {
            line: raw.line,
            name: name.to_owned(),
        }
    }

    /// Refuses registers and labels that are not declared, before anything else in the instruction is checked.
    fn check_names(&mut self, raw: &Raw<'t>) -> Result<(), ParseError> {
        let mut names = Vec::new();
        let mut left: Vec<&Operand<'t>> = raw.operands.iter().collect();
        while let Some(operand) = left.pop() {
            match operand {
                Operand::Name(name) | Operand::Not(name) => names.push(*name),
                Operand::Pair(a, b) => names.extend([*a, *b]),
                Operand::Address {
                    base: Base::Name(name),
                    ..
                } => names.push(name),
                Operand::Vector(parts) => left.extend(parts),
                _ => {}
            }
        }
        for name in names {
            let known = name == "_"
                || name.starts_with("%globaltimer")
                || self.symbols.contains_key(name)
                || self.labels.contains_key(name)
                || self.registers.find(name)?.is_some();
            if !known {
                return Err(self.unknown(raw, name));
            }
        }
        Ok(())
    }

    fn register(&mut self, file: File, operand: &Operand<'t>) -> Found<Reg> {
        let Operand::Name(name) = operand else {
            return Ok(None);
        };
        let found = self.registers.find(name)?;
        Ok(found.and_then(|(of, register)| (of == file).then_some(register)))
    }

    fn word(&mut self, operand: &Operand<'t>) -> Found<Reg> {
        match operand {
            Operand::Integer(value) => self.registers.constant(*value as u32).map(Some),
            Operand::Float(bits) => self.registers.constant(*bits).map(Some),
            Operand::Name(name) => match self.symbols.get(name) {
                Some(Symbol::Parameter(at) | Symbol::Shared(at)) => {
                    self.registers.constant(*at).map(Some)
                }
                None => self.register(File::Word, operand),
            },
            _ => Ok(None),
        }
    }

    fn long(&mut self, operand: &Operand<'t>) -> Found<Reg> {
        match operand {
            Operand::Integer(value) => self.registers.constant_long(*value as u64).map(Some),
            Operand::Name(name) => match self.symbols.get(name) {
                Some(Symbol::Parameter(at) | Symbol::Shared(at)) => {
                    self.registers.constant_long(u64::from(*at)).map(Some)
                }
                None => self.register(File::Long, operand),
            },
            _ => Ok(None),
        }
    }

    fn predicate(&mut self, operand: &Operand<'t>) -> Found<Reg> {
        self.register(File::Predicate, operand)
    }

    fn condition(&mut self, operand: &Operand<'t>) -> Found<Condition> {
        let (name, negated) = match operand {
            Operand::Name(name) => (name, false),
            Operand::Not(name) => (name, true),
            _ => return Ok(None),
        };
        let register = need!(self.predicate(&Operand::Name(name)));
        Ok(Some(Condition { register, negated }))
    }

    fn pointer(&mut self, operand: &Operand<'t>) -> Found<Pointer> {
        let Operand::Address { base, offset } = operand else {
            return Ok(None);
        };
        let Base::Name(name) = base else {
            return Ok(u32::try_from(*offset).ok().map(Pointer::Absolute));
        };
        let Ok(offset) = i32::try_from(*offset) else {
            return Ok(None);
        };
        if let Some(Symbol::Parameter(at) | Symbol::Shared(at)) = self.symbols.get(name) {
            return Ok(Some(Pointer::Absolute(at.wrapping_add_signed(offset))));
        }
        Ok(match self.registers.find(name)? {
            Some((File::Word, register)) => Some(Pointer::Word(register, offset)),
            Some((File::Long, register)) => Some(Pointer::Long(register, offset)),
            _ => None,
        })
    }

    fn op(&mut self, parts: &[&'t str], o: &[Operand<'t>]) -> Found<Op> {
        if let Some(found) = self.control(parts, o)? {
            return Ok(Some(found));
        }
        if let Some(found) = self.memory(parts, o)? {
            return Ok(Some(found));
        }
        if let Some(found) = self.warp_wide(parts, o)? {
            return Ok(Some(found));
        }
        if let Some(found) = self.floats(parts, o)? {
            return Ok(Some(found));
        }
        if let Some(found) = self.integers(parts, o)? {
            return Ok(Some(found));
        }
        self.moves(parts, o)
    }

    fn control(&mut self, parts: &[&str], o: &[Operand<'t>]) -> Found<Op> {
        Ok(match (parts, o) {
            (["bra"] | ["bra", "uni"], [Operand::Name(label)]) => {
                self.labels.get(label).map(|&at| Op::Branch(at))
            }
            (["ret"] | ["exit"], []) => Some(Op::Return),
            (["membar", "sys" | "gl" | "cta"] | ["fence", ..], []) => Some(Op::Fence),
            (["nanosleep", "u32"], [_]) => Some(Op::Sleep),
            (["bar", "sync"] | ["barrier", "sync"], [Operand::Integer(0)]) => {
                Some(Op::Barrier(Vote::None, None, None))
            }
            (["bar" | "barrier", "red", vote, "pred"], [to, Operand::Integer(0), from]) => {
                let vote = match *vote {
                    "or" => Vote::Or,
                    "and" => Vote::And,
                    _ => return Ok(None),
                };
                let (to, from) = (need!(self.predicate(to)), need!(self.condition(from)));
                Some(Op::Barrier(vote, Some(to), Some(from)))
            }
            _ => None,
        })
    }

    /// Loads, stores and what else has an address.
    fn memory(&mut self, parts: &[&str], o: &[Operand<'t>]) -> Found<Op> {
        Ok(match (parts, o) {
            (["ld", rest @ ..], [to, from]) => {
                let mut access = need!(self.access(rest, to, from));
                access.used = std::mem::replace(&mut self.used, u16::MAX);
                Some(Op::Load(access))
            }
            (["st", rest @ ..], [to, from]) => self.access(rest, from, to)?.map(Op::Store),
            (["atom", "global", op, "u32"], [to, at, value]) => {
                let (to, at) = (need!(self.word(to)), need!(self.pointer(at)));
                let value = need!(self.word(value));
                atomic(op).map(|op| Op::Atomic(op, to, at, value))
            }
            (["cvta", "to", "global", "u64"] | ["cvta", "global", "u64"], [to, from]) => Some(
                Op::Long1(Word1::Move, need!(self.long(to)), need!(self.long(from))),
            ),
            (["cvta", "to", "shared", "u64"], [to, from]) => {
                Some(Op::ToShared(need!(self.long(to)), need!(self.long(from))))
            }
            (["cvta", "shared", "u64"], [to, from]) => {
                Some(Op::FromShared(need!(self.long(to)), need!(self.long(from))))
            }
            (
                ["cp", "async", "cg" | "ca", "shared", "global", ..],
                [to, from, Operand::Integer(16), rest @ ..],
            ) => {
                let valid = match rest {
                    [] => None,
                    [valid] => Some(need!(self.word(valid))),
                    _ => return Ok(None),
                };
                let (to, from) = (need!(self.pointer(to)), need!(self.pointer(from)));
                Some(Op::CopyAsync { to, from, valid })
            }
            (["cp", "async", "commit_group"], []) => Some(Op::CopyCommit),
            (["cp", "async", "wait_group"], [Operand::Integer(left)]) => {
                u32::try_from(*left).ok().map(Op::CopyWait)
            }
            _ => None,
        })
    }

    /// `.relaxed.sys.global.v4.f32` and the like.
    fn access(
        &mut self,
        parts: &[&str],
        value: &Operand<'t>,
        address: &Operand<'t>,
    ) -> Found<Access> {
        let (mut space, mut order, mut count) = (Space::Generic, Order::Plain, 1u8);
        let Some((kind, modifiers)) = parts.split_last() else {
            return Ok(None);
        };
        for modifier in modifiers {
            match *modifier {
                "global" => space = Space::Global,
                "shared" => space = Space::Shared,
                "param" => space = Space::Parameter,
                "relaxed" => order = Order::Relaxed,
                "release" => order = Order::Release,
                "v2" => count = 2,
                "v4" => count = 4,
                "sys" | "nc" | "weak" => {}
                _ => return Ok(None),
            }
        }
        let (bytes, signed) = match *kind {
            "u8" | "b8" => (1, false),
            "s8" => (1, true),
            "u16" | "b16" => (2, false),
            "s16" => (2, true),
            "u32" | "b32" | "f32" => (4, false),
            "s32" => (4, true),
            "u64" | "s64" | "b64" | "f64" => (8, false),
            _ => return Ok(None),
        };
        let single = std::slice::from_ref(value);
        let operands = match value {
            Operand::Vector(parts) => parts.as_slice(),
            _ => single,
        };
        if operands.len() != usize::from(count) || bytes * count > 16 {
            return Ok(None);
        }
        let mut registers = [0; 4];
        // A register may be wider than what is loaded or stored.
        let long = bytes == 8 || self.register(File::Long, &operands[0])?.is_some();
        for (register, operand) in registers.iter_mut().zip(operands) {
            *register = if long {
                need!(self.long(operand))
            } else {
                need!(self.word(operand))
            };
        }
        let pointer = need!(self.pointer(address));
        let elements = Elements {
            bytes,
            count,
            signed,
            long,
        };
        Ok(Some(Access {
            space,
            order,
            elements,
            pointer,
            registers,
            used: u16::MAX,
        }))
    }

    fn four(&mut self, operand: &Operand<'t>) -> Found<[Reg; 4]> {
        let Operand::Vector(parts) = operand else {
            return Ok(None);
        };
        let [a, b, c, d] = parts.as_slice() else {
            return Ok(None);
        };
        Ok(Some([
            need!(self.word(a)),
            need!(self.word(b)),
            need!(self.word(c)),
            need!(self.word(d)),
        ]))
    }

    fn warp_wide(&mut self, parts: &[&str], o: &[Operand<'t>]) -> Found<Op> {
        Ok(match (parts, o) {
            (["shfl", "sync", mode, "b32"], [to, from, lane, clamp, members]) => {
                let exchange = match *mode {
                    "up" => Exchange::Up,
                    "down" => Exchange::Down,
                    "bfly" => Exchange::Butterfly,
                    "idx" => Exchange::Index,
                    _ => return Ok(None),
                };
                let (to, valid) = match to {
                    Operand::Pair(to, valid) => {
                        let valid = need!(self.predicate(&Operand::Name(valid)));
                        (need!(self.word(&Operand::Name(to))), Some(valid))
                    }
                    _ => (need!(self.word(to)), None),
                };
                Some(Op::Shuffle {
                    exchange,
                    to,
                    valid,
                    from: need!(self.word(from)),
                    lane: need!(self.word(lane)),
                    clamp: need!(self.word(clamp)),
                    members: need!(self.word(members)),
                })
            }
            (["ldmatrix", "sync", "aligned", "m8n8", "x4", "shared", "b16"], [to, at]) => Some(
                Op::LoadMatrices(need!(self.four(to)), need!(self.pointer(at))),
            ),
            (
                [
                    "mma",
                    "sync",
                    "aligned",
                    "m16n8k16",
                    "row",
                    "col",
                    "f32",
                    "f16",
                    "f16",
                    "f32",
                ],
                [to, a, Operand::Vector(b), c],
            ) => {
                let [low, high] = b.as_slice() else {
                    return Ok(None);
                };
                Some(Op::MultiplyMatrices {
                    to: need!(self.four(to)),
                    a: need!(self.four(a)),
                    b: [need!(self.word(low)), need!(self.word(high))],
                    c: need!(self.four(c)),
                })
            }
            _ => None,
        })
    }

    fn floats(&mut self, parts: &[&str], o: &[Operand<'t>]) -> Found<Op> {
        let one = match parts {
            ["neg", "f32"] => Some(Float1::Negate),
            ["abs", "f32"] => Some(Float1::Absolute),
            ["rcp", "rn", "f32"] => Some(Float1::Reciprocal),
            ["rcp", "approx", "ftz", "f32"] => Some(Float1::ReciprocalApprox),
            ["sqrt", "rn", "f32"] => Some(Float1::SquareRoot),
            ["sqrt", "approx", "ftz", "f32"] => Some(Float1::SquareRootApprox),
            ["rsqrt", "approx", "ftz", "f32"] => Some(Float1::InverseRootApprox),
            ["ex2", "approx", "ftz", "f32"] => Some(Float1::Power2Approx),
            ["lg2", "approx", "f32"] => Some(Float1::Logarithm2Approx),
            ["lg2", "approx", "ftz", "f32"] => Some(Float1::Logarithm2ApproxFlushed),
            ["sin", "approx", "ftz", "f32"] => Some(Float1::SineApprox),
            ["cos", "approx", "ftz", "f32"] => Some(Float1::CosineApprox),
            ["cvt", "rmi", "f32", "f32"] => Some(Float1::RoundDown),
            ["cvt", "rpi", "f32", "f32"] => Some(Float1::RoundUp),
            ["cvt", "rni", "f32", "f32"] => Some(Float1::RoundToEven),
            ["cvt", "rzi", "f32", "f32"] => Some(Float1::RoundToZero),
            ["cvt", "sat", "f32", "f32"] => Some(Float1::Saturate),
            _ => None,
        };
        let two = match parts {
            ["add", "f32"] | ["add", "rn", "f32"] => Some(Float2::Add),
            ["add", "rz", "f32"] => Some(Float2::AddTowardsZero),
            ["sub", "f32"] | ["sub", "rn", "f32"] => Some(Float2::Subtract),
            ["mul", "f32"] | ["mul", "rn", "f32"] => Some(Float2::Multiply),
            ["mul", "rz", "f32"] => Some(Float2::MultiplyTowardsZero),
            ["div", "rn", "f32"] => Some(Float2::Divide),
            ["div", "approx", "f32"] | ["div", "full", "f32"] => Some(Float2::DivideApprox),
            ["div", "approx", "ftz", "f32"] => Some(Float2::DivideApproxFlushed),
            ["min", "f32"] => Some(Float2::Min),
            ["max", "f32"] => Some(Float2::Max),
            ["copysign", "f32"] => Some(Float2::CopySign),
            _ => None,
        };
        let three = match parts {
            ["fma", "rn", "f32"] => Some(Rounding::Nearest),
            ["fma", "rm", "f32"] => Some(Rounding::Down),
            ["fma", "rp", "f32"] => Some(Rounding::Up),
            ["fma", "rz", "f32"] => Some(Rounding::Zero),
            _ => None,
        };
        Ok(match (one, two, three, o) {
            (Some(op), _, _, [to, a]) => {
                Some(Op::Float1(op, need!(self.word(to)), need!(self.word(a))))
            }
            (_, Some(op), _, [to, a, b]) => Some(Op::Float2(
                op,
                need!(self.word(to)),
                need!(self.word(a)),
                need!(self.word(b)),
            )),
            (_, _, Some(rounding), [to, a, b, c]) => Some(Op::FusedMultiplyAdd(
                rounding,
                need!(self.word(to)),
                need!(self.word(a)),
                need!(self.word(b)),
                need!(self.word(c)),
            )),
            _ => None,
        })
    }

    fn integers(&mut self, parts: &[&str], o: &[Operand<'t>]) -> Found<Op> {
        if let Some(found) = self.products(parts, o)? {
            return Ok(Some(found));
        }
        let (word1, long1) = one_operand(parts);
        let (two, long) = two_operands(parts);
        let divide = match parts {
            ["div", "u32" | "u16"] => Some((Divide::Unsigned, false)),
            ["div", "s32"] => Some((Divide::Signed, false)),
            ["rem", "u32" | "u16"] => Some((Divide::UnsignedRemainder, false)),
            ["rem", "s32"] => Some((Divide::SignedRemainder, false)),
            ["div", "u64"] => Some((Divide::Unsigned, true)),
            ["div", "s64"] => Some((Divide::Signed, true)),
            ["rem", "u64"] => Some((Divide::UnsignedRemainder, true)),
            ["rem", "s64"] => Some((Divide::SignedRemainder, true)),
            _ => None,
        };
        let is_shift = matches!(parts, ["shl" | "shr", ..]);
        Ok(match o {
            [to, a] if word1.is_some() => {
                let (to, a) = (need!(self.word(to)), need!(self.word(a)));
                word1.map(|op| Op::Word1(op, to, a))
            }
            [to, a] if long1.is_some() => {
                let (to, a) = (need!(self.long(to)), need!(self.long(a)));
                long1.map(|op| Op::Long1(op, to, a))
            }
            [to, a, b] if divide.is_some() => match divide {
                Some((op, false)) => {
                    let (to, a, b) = (
                        need!(self.word(to)),
                        need!(self.word(a)),
                        need!(self.word(b)),
                    );
                    Some(Op::Divide(op, to, a, b))
                }
                Some((op, true)) => {
                    let (to, a, b) = (
                        need!(self.long(to)),
                        need!(self.long(a)),
                        need!(self.long(b)),
                    );
                    Some(Op::LongDivide(op, to, a, b))
                }
                None => None,
            },
            [to, a, b] => {
                let Some(op) = two else { return Ok(None) };
                match (long, is_shift) {
                    (false, _) => {
                        let (to, a, b) = (
                            need!(self.word(to)),
                            need!(self.word(a)),
                            need!(self.word(b)),
                        );
                        Some(Op::Word2(op, to, a, b))
                    }
                    (true, false) => {
                        let (to, a, b) = (
                            need!(self.long(to)),
                            need!(self.long(a)),
                            need!(self.long(b)),
                        );
                        Some(Op::Long2(op, to, a, b))
                    }
                    (true, true) => {
                        let (to, a, b) = (
                            need!(self.long(to)),
                            need!(self.long(a)),
                            need!(self.word(b)),
                        );
                        Some(Op::LongShift(op, to, a, b))
                    }
                }
            }
            _ => None,
        })
    }

    /// Products of several kinds, and what works on the bits of a word.
    fn products(&mut self, parts: &[&str], o: &[Operand<'t>]) -> Found<Op> {
        Ok(match (parts, o) {
            (["mad", "lo", "s32" | "u32"], [to, a, b, c]) => Some(Op::MultiplyAdd(
                need!(self.word(to)),
                need!(self.word(a)),
                need!(self.word(b)),
                need!(self.word(c)),
            )),
            (["mad", "lo", "s64" | "u64"], [to, a, b, c]) => Some(Op::LongMultiplyAdd(
                need!(self.long(to)),
                need!(self.long(a)),
                need!(self.long(b)),
                need!(self.long(c)),
            )),
            (["mul", "wide", kind @ ("s32" | "u32")], [to, a, b]) => Some(Op::MultiplyWide(
                *kind == "s32",
                need!(self.long(to)),
                need!(self.word(a)),
                need!(self.word(b)),
            )),
            (["mad", "wide", kind @ ("s32" | "u32")], [to, a, b, c]) => Some(Op::MultiplyAddWide(
                *kind == "s32",
                need!(self.long(to)),
                need!(self.word(a)),
                need!(self.word(b)),
                need!(self.long(c)),
            )),
            (["bfi", "b32"], [to, a, b, at, count]) => Some(Op::Insert(
                need!(self.word(to)),
                need!(self.word(a)),
                need!(self.word(b)),
                need!(self.word(at)),
                need!(self.word(count)),
            )),
            (["bfi", "b64"], [to, a, b, at, count]) => Some(Op::InsertLong(
                need!(self.long(to)),
                need!(self.long(a)),
                need!(self.long(b)),
                need!(self.word(at)),
                need!(self.word(count)),
            )),
            (["bfe", "u32"], [to, a, at, count]) => Some(Op::Extract(
                need!(self.word(to)),
                need!(self.word(a)),
                need!(self.word(at)),
                need!(self.word(count)),
            )),
            (["prmt", "b32"], [to, a, b, selector]) => Some(Op::Permute(
                need!(self.word(to)),
                need!(self.word(a)),
                need!(self.word(b)),
                need!(self.word(selector)),
            )),
            (["lop3", "b32"], [to, a, b, c, Operand::Integer(table)]) => {
                let (to, a, b, c) = (
                    need!(self.word(to)),
                    need!(self.word(a)),
                    need!(self.word(b)),
                    need!(self.word(c)),
                );
                u8::try_from(*table)
                    .ok()
                    .map(|table| Op::Logic3(table, to, a, b, c))
            }
            (["shf", way @ ("l" | "r"), mode @ ("wrap" | "clamp"), "b32"], [to, low, high, by]) => {
                Some(Op::FunnelShift {
                    left: *way == "l",
                    wraps: *mode == "wrap",
                    to: need!(self.word(to)),
                    low: need!(self.word(low)),
                    high: need!(self.word(high)),
                    by: need!(self.word(by)),
                })
            }
            (["dp4a", first @ ("u32" | "s32"), second @ ("u32" | "s32")], [to, a, b, c]) => {
                Some(Op::DotBytes(
                    *first == "s32",
                    *second == "s32",
                    need!(self.word(to)),
                    need!(self.word(a)),
                    need!(self.word(b)),
                    need!(self.word(c)),
                ))
            }
            _ => None,
        })
    }

    /// Moves, conversions, comparisons and predicates.
    fn moves(&mut self, parts: &[&str], o: &[Operand<'t>]) -> Found<Op> {
        Ok(match (parts, o) {
            (["setp", compare, kind], [to, a, b]) => {
                let Some((compare, compared)) = comparison(compare, kind) else {
                    return Ok(None);
                };
                let to = need!(self.predicate(to));
                let long = matches!(compared, Compared::Unsigned64 | Compared::Signed64);
                let (a, b) = if long {
                    (need!(self.long(a)), need!(self.long(b)))
                } else {
                    (need!(self.word(a)), need!(self.word(b)))
                };
                Some(Op::Compare(compare, compared, to, a, b))
            }
            ([logic @ ("and" | "or" | "xor"), "pred"], [to, a, b]) => {
                let logic = match *logic {
                    "and" => Logic::And,
                    "or" => Logic::Or,
                    _ => Logic::Xor,
                };
                let to = need!(self.predicate(to));
                Some(Op::Logic(
                    logic,
                    to,
                    need!(self.condition(a)),
                    need!(self.condition(b)),
                ))
            }
            (["not", "pred"], [to, a]) => {
                let to = need!(self.predicate(to));
                let mut from = need!(self.condition(a));
                from.negated ^= true;
                Some(Op::MovePredicate(to, from))
            }
            (["mov", "pred"], [to, Operand::Integer(value)]) => {
                // A constant is a comparison of a constant with itself.
                let to = need!(self.predicate(to));
                let zero = self.registers.constant(0)?;
                let compare = if *value != 0 {
                    Compare::Equal
                } else {
                    Compare::NotEqual
                };
                Some(Op::Compare(compare, Compared::Unsigned32, to, zero, zero))
            }
            (["mov", "pred"], [to, from]) => Some(Op::MovePredicate(
                need!(self.predicate(to)),
                need!(self.condition(from)),
            )),
            (
                [
                    "selp",
                    "b16" | "u16" | "s16" | "b32" | "u32" | "s32" | "f32",
                ],
                [to, a, b, c],
            ) => Some(Op::Select(
                need!(self.word(to)),
                need!(self.word(a)),
                need!(self.word(b)),
                need!(self.condition(c)),
            )),
            (["selp", "b64" | "u64" | "s64"], [to, a, b, c]) => Some(Op::SelectLong(
                need!(self.long(to)),
                need!(self.long(a)),
                need!(self.long(b)),
                need!(self.condition(c)),
            )),
            (["mov", kind], [to, from]) => self.mov(kind, to, from)?,
            (["cvt", "rn", "f16x2", "f32"], [to, high, low]) => Some(Op::FloatsToHalves(
                need!(self.word(to)),
                need!(self.word(high)),
                need!(self.word(low)),
            )),
            (["cvt", rest @ ..], [to, from]) => self.convert(rest, to, from)?,
            _ => None,
        })
    }

    fn half(&mut self, operand: &Operand<'t>) -> Found<Option<Reg>> {
        if *operand == Operand::Name("_") {
            return Ok(Some(None));
        }
        Ok(self.word(operand)?.map(Some))
    }

    fn mov(&mut self, kind: &str, to: &Operand<'t>, from: &Operand<'t>) -> Found<Op> {
        Ok(match (kind, to, from) {
            ("b32", to, Operand::Vector(parts)) => match parts.as_slice() {
                [low, high] => Some(Op::PackHalves(
                    need!(self.word(to)),
                    need!(self.word(low)),
                    need!(self.word(high)),
                )),
                _ => None,
            },
            ("b32", Operand::Vector(parts), from) => match parts.as_slice() {
                [low, high] => Some(Op::UnpackHalves(
                    need!(self.half(low)),
                    need!(self.half(high)),
                    need!(self.word(from)),
                )),
                _ => None,
            },
            ("b64", to, Operand::Vector(parts)) => match parts.as_slice() {
                [low, high] => Some(Op::PackWords(
                    need!(self.long(to)),
                    need!(self.word(low)),
                    need!(self.word(high)),
                )),
                _ => None,
            },
            ("b64", Operand::Vector(parts), from) => match parts.as_slice() {
                [low, high] => Some(Op::UnpackWords(
                    need!(self.half(low)),
                    need!(self.half(high)),
                    need!(self.long(from)),
                )),
                _ => None,
            },
            ("u64" | "b64", to, Operand::Name("%globaltimer")) => {
                Some(Op::Timer(need!(self.long(to))))
            }
            ("b16" | "u16" | "s16" | "f16" | "b32" | "u32" | "s32" | "f32", to, from) => Some(
                Op::Word1(Word1::Move, need!(self.word(to)), need!(self.word(from))),
            ),
            ("b64" | "u64" | "s64" | "f64", to, from) => Some(Op::Long1(
                Word1::Move,
                need!(self.long(to)),
                need!(self.long(from)),
            )),
            _ => None,
        })
    }

    fn convert(&mut self, parts: &[&str], to: &Operand<'t>, from: &Operand<'t>) -> Found<Op> {
        let convert = match parts {
            ["f32", "f16"] => Some(Convert::HalfToFloat),
            ["rn", "f16", "f32"] => Some(Convert::FloatToHalf),
            ["rn", "f32", "s32"] => Some(Convert::SignedToFloat),
            ["rn", "f32", "u32"] => Some(Convert::UnsignedToFloat),
            ["rn", "f32", "u16"] => Some(Convert::Unsigned16ToFloat),
            ["rn", "f32", "s16"] => Some(Convert::Signed16ToFloat),
            ["rn", "f32", "u8"] => Some(Convert::Unsigned8ToFloat),
            ["rn", "f32", "s8"] => Some(Convert::Signed8ToFloat),
            ["rzi", "s32", "f32"] => Some(Convert::FloatToSigned),
            ["rzi", "u32", "f32"] => Some(Convert::FloatToUnsigned),
            ["rni", "s32", "f32"] => Some(Convert::FloatToSignedNearest),
            ["rni", "u32", "f32"] => Some(Convert::FloatToUnsignedNearest),
            _ => None,
        };
        if let Some(convert) = convert {
            let (to, from) = (need!(self.word(to)), need!(self.word(from)));
            return Ok(Some(Op::Convert(convert, to, from)));
        }
        let [into, of] = parts else {
            return Ok(None);
        };
        let (Some((_, into)), Some((signed, of))) = (integer(into), integer(of)) else {
            return Ok(None);
        };
        Ok(match (into, of) {
            (64, 64) => Some(Op::Long1(
                Word1::Move,
                need!(self.long(to)),
                need!(self.long(from)),
            )),
            (64, bits) => {
                let (to, from) = (need!(self.long(to)), need!(self.word(from)));
                Some(Op::Widen(signed, bits, to, from))
            }
            (32, 64) => Some(Op::Narrow(need!(self.word(to)), need!(self.long(from)))),
            (_, 64) => None,
            (into, bits) => {
                let (to, from) = (need!(self.word(to)), need!(self.word(from)));
                let convert = Convert::Integer {
                    signed,
                    from: bits,
                    to: into,
                };
                Some(Op::Convert(convert, to, from))
            }
        })
    }
}

/// Whether it is signed, and its bits.
fn integer(kind: &str) -> Option<(bool, u8)> {
    let signed = kind.starts_with('s');
    let bits = kind.strip_prefix(['s', 'u', 'b'])?.parse().ok()?;
    matches!(bits, 8 | 16 | 32 | 64).then_some((signed, bits))
}

/// Of words, or of longs.
fn one_operand(parts: &[&str]) -> (Option<Word1>, Option<Word1>) {
    match parts {
        ["not", "b32" | "b16"] => (Some(Word1::Not), None),
        ["neg", "s32"] => (Some(Word1::Negate), None),
        ["abs", "s32"] => (Some(Word1::Absolute), None),
        ["popc", "b32"] => (Some(Word1::CountOnes), None),
        ["clz", "b32"] => (Some(Word1::LeadingZeros), None),
        ["brev", "b32"] => (Some(Word1::Reverse), None),
        ["not", "b64"] => (None, Some(Word1::Not)),
        ["neg", "s64"] => (None, Some(Word1::Negate)),
        _ => (None, None),
    }
}

/// And whether it is of longs.
fn two_operands(parts: &[&str]) -> (Option<Word2>, bool) {
    let (op, kind) = match parts {
        ["add", kind] => (Word2::Add, kind),
        ["sub", kind] => (Word2::Subtract, kind),
        ["mul", "lo", kind] => (Word2::MultiplyLow, kind),
        ["mul", "wide", "u16"] => return (Some(Word2::MultiplyShort), false),
        ["mul", "hi", kind @ ("u32" | "u64")] => (Word2::MultiplyHighUnsigned, kind),
        ["mul", "hi", kind @ ("s32" | "s64")] => (Word2::MultiplyHighSigned, kind),
        ["min", kind @ ("s32" | "s64")] => (Word2::MinSigned, kind),
        ["min", kind @ ("u32" | "u64")] => (Word2::MinUnsigned, kind),
        ["max", kind @ ("s32" | "s64")] => (Word2::MaxSigned, kind),
        ["max", kind @ ("u32" | "u64")] => (Word2::MaxUnsigned, kind),
        ["and", kind] => (Word2::And, kind),
        ["or", kind] => (Word2::Or, kind),
        ["xor", kind] => (Word2::Xor, kind),
        ["shl", kind] => (Word2::ShiftLeft, kind),
        ["shr", kind @ ("u32" | "u64" | "b32" | "b64")] => (Word2::ShiftRight, kind),
        ["shr", kind @ ("s32" | "s64")] => (Word2::ShiftRightSigned, kind),
        _ => return (None, false),
    };
    match *kind {
        "u32" | "s32" | "b32" => (Some(op), false),
        // The upper half of a 16-bit register is zero; these keep it so.
        "b16" if matches!(op, Word2::And | Word2::Or | Word2::Xor) => (Some(op), false),
        "u64" | "s64" | "b64" => (Some(op), true),
        _ => (None, false),
    }
}

fn atomic(op: &str) -> Option<Atomic> {
    match op {
        "add" => Some(Atomic::Add),
        "min" => Some(Atomic::Min),
        _ => None,
    }
}

fn comparison(compare: &str, kind: &str) -> Option<(Compare, Compared)> {
    let is_float = kind == "f32";
    let (name, unordered) = match compare.strip_suffix('u') {
        Some(name) if is_float => (name, true),
        _ => (compare, false),
    };
    let op = match name {
        "eq" => Compare::Equal,
        "ne" => Compare::NotEqual,
        "lt" | "lo" => Compare::Less,
        "le" | "ls" => Compare::LessOrEqual,
        "gt" | "hi" => Compare::Greater,
        "ge" | "hs" => Compare::GreaterOrEqual,
        "nan" if is_float => return Some((Compare::Equal, Compared::IsNan)),
        "num" if is_float => return Some((Compare::Equal, Compared::IsNumber)),
        _ => return None,
    };
    let compared = match kind {
        "f32" if unordered => Compared::Unordered,
        "f32" => Compared::Ordered,
        "u32" | "b32" | "u16" | "b16" => Compared::Unsigned32,
        "s32" => Compared::Signed32,
        "s16" => Compared::Signed16,
        "u64" | "b64" => Compared::Unsigned64,
        "s64" => Compared::Signed64,
        _ => return None,
    };
    Some((op, compared))
}

//! Faults planted in the PTX that ships: each must be caught, by a check of the interpreter, a wrong result, or an eviction that is not
//! what it should be.
use std::sync::Arc;

use crate::launch::{INDEX, Queue};
use crate::samples::{Sample, samples};
use punctual_cuda_kernels::images::archives;
use punctual_cuda_kernels::kernel;
use punctual_ptx::Module;

/// What is changed in a kernel.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// The instruction is left out.
    Drop,
    /// It is another one.
    Opcode(&'static str),
    /// Part of its text is other text.
    Text(&'static str, &'static str),
    /// Two of its operands change places.
    Swap(usize, usize),
    /// A vote of the block is each thread's own.
    Alone,
    /// Operand `n` is this.
    Operand(usize, &'static str),
}

/// A fault: in which kernel, and in which of its instructions that begin like this, counted from 0, or from the end by a negative number.
struct Mutation {
    what: &'static str,
    kernel: &'static str,
    opcode: &'static str,
    nth: isize,
    change: Change,
}

const fn mutation(
    what: &'static str,
    kernel: &'static str,
    (opcode, nth): (&'static str, isize),
    change: Change,
) -> Mutation {
    Mutation {
        what,
        kernel,
        opcode,
        nth,
        change,
    }
}

use Change::{Alone, Drop, Opcode, Operand, Swap, Text};

const TILE: &str = "conv_gemm_64x64";

const MUTATIONS: &[Mutation] = &[
    mutation(
        "a copy is waited for one group too late",
        TILE,
        ("cp.async.wait_group", 0),
        Text("1", "2"),
    ),
    mutation(
        "copies are not committed",
        TILE,
        ("cp.async.commit_group", 0),
        Drop,
    ),
    mutation("a tile's barrier is missing", TILE, ("bar.red", 1), Alone),
    mutation(
        "the halves of a step are swapped",
        TILE,
        ("mma.sync", 0),
        Swap(8, 9),
    ),
    mutation(
        "rows of a fragment are swapped",
        TILE,
        ("mma.sync", 3),
        Swap(4, 5),
    ),
    mutation(
        "sums of another fragment",
        TILE,
        ("mma.sync", 1),
        Swap(0, 1),
    ),
    mutation(
        "the padding of a window is copied",
        TILE,
        ("cp.async.cg", 0),
        Operand(3, "16"),
    ),
    mutation("the swizzle is off", TILE, ("xor.b32", 0), Opcode("or.b32")),
    mutation(
        "a fragment is loaded from its neighbour's rows",
        TILE,
        ("ldmatrix", 0),
        Text("]", "+16]"),
    ),
    mutation(
        "results are stored two bytes further",
        TILE,
        ("st.global", -1),
        Text("]", "+2]"),
    ),
    mutation(
        "the eviction is not noted",
        TILE,
        ("atom.global.min", 0),
        Drop,
    ),
    mutation(
        "the epoch is looked for in the parameters",
        TILE,
        ("ld.relaxed", 0),
        Text("ld.relaxed.sys.global.u32", "ld.param.u32"),
    ),
    mutation(
        "a window's last row is left out",
        "pool",
        ("setp.ge.u32", 0),
        Opcode("setp.gt.u32"),
    ),
    mutation(
        "shared sums are read before they are written",
        "global_pool",
        ("bar.red", 0),
        Alone,
    ),
    mutation(
        "sums of warps are read before they are written",
        "linear",
        ("bar.red", 1),
        Alone,
    ),
    mutation(
        "threads behind the end compute, too",
        "elementwise",
        ("setp.ge.u32", 0),
        Operand(2, "-1"),
    ),
    mutation(
        "bytes behind the end are copied, too",
        "members_out",
        ("setp.ge.u64", 0),
        Operand(2, "-1"),
    ),
    mutation(
        "parts of a split sum are not added",
        "conv_reduce",
        ("add.f32", 0),
        Opcode("sub.f32"),
    ),
    mutation(
        "lanes exchange with the wrong ones",
        "softmax",
        ("shfl.sync", 0),
        Text("bfly", "up"),
    ),
    mutation(
        "a sum over lanes lacks some of them",
        "layer_norm",
        ("shfl.sync", 0),
        Operand(4, "15"),
    ),
    mutation(
        "keys are read before they are there",
        "attention_64",
        ("bar.sync", 0),
        Drop,
    ),
    mutation(
        "a tile of a product is overwritten",
        "product_of_rows",
        ("bar.sync", 0),
        Drop,
    ),
    mutation(
        "a state is read before its step is over",
        "recurrent",
        ("bar.red", 1),
        Alone,
    ),
    mutation(
        "scores are counted before all are there",
        "detections",
        ("bar.sync", 1),
        Drop,
    ),
    mutation(
        "chroma of another pixel",
        "preprocess_nv12",
        ("shr.u32", 0),
        Opcode("shl.b32"),
    ),
    mutation(
        "bytes are unsigned",
        "conv_bytes",
        ("dp4a", 0),
        Text("u32.s32", "u32.u32"),
    ),
    mutation(
        "bytes are rounded up",
        "convert",
        ("cvt.rni", -1),
        Opcode("cvt.rpi.f32.f32"),
    ),
    mutation(
        "results are stored a vector too late",
        "copy",
        ("st.global", -1),
        Text("]", "+16]"),
    ),
    mutation(
        "a neighbour is a vector too far",
        "resize",
        ("ld.global", -1),
        Text("]", "+16]"),
    ),
];

/// The PTX of the module that a kernel is in.
fn text(name: &str) -> String {
    let archive = archives()
        .iter()
        .find(|archive| archive.name() == "compute_80");
    let module = kernel(name).expect("in the table").module;
    let image = archive.expect("in the tree").module(module).expect("there");
    let text = String::from_utf8(image.code.to_vec()).expect("text");
    text.trim_end_matches('\0').to_owned()
}

/// The lines of a kernel's body, in a module's.
fn body(lines: &[String], name: &str) -> std::ops::Range<usize> {
    let entry = format!(".visible .entry {name}(");
    let first = lines.iter().position(|line| line.starts_with(&entry));
    let first = first.expect("the kernel is in its module");
    let end = lines[first + 1..]
        .iter()
        .position(|line| line.starts_with(".visible .entry"));
    first..end.map_or(lines.len(), |end| first + 1 + end)
}

/// Commas outside of brackets part operands; those within a vector count, too.
fn operands(line: &str) -> (String, Vec<String>) {
    let trimmed = line.trim().trim_end_matches(';');
    let (opcode, rest) = trimmed
        .split_once(char::is_whitespace)
        .unwrap_or((trimmed, ""));
    let parts = rest.split(',').map(|part| part.trim().to_owned());
    (opcode.to_owned(), parts.collect())
}

/// An operand without the braces around a vector's first and last.
fn bare(operand: &str) -> &str {
    operand.trim_matches(['{', '}'])
}

fn changed(line: &str, change: Change) -> String {
    match change {
        Drop => String::new(),
        Text(from, to) => {
            let at = line
                .find(from)
                .unwrap_or_else(|| panic!("no {from} in {line}"));
            format!("{}{to}{}", &line[..at], &line[at + from.len()..])
        }
        Alone => {
            let (_, parts) = operands(line);
            format!("mov.pred {}, {};", parts[0], parts[2])
        }
        Opcode(to) => {
            let (opcode, _) = operands(line);
            line.replacen(&opcode, to, 1)
        }
        Swap(a, b) => {
            let (opcode, mut parts) = operands(line);
            let (of_a, of_b) = (bare(&parts[a]).to_owned(), bare(&parts[b]).to_owned());
            parts[a] = parts[a].replace(&of_a, &of_b);
            parts[b] = parts[b].replace(&of_b, &of_a);
            format!("{opcode} {};", parts.join(", "))
        }
        Operand(n, value) => {
            let (opcode, mut parts) = operands(line);
            parts[n] = value.to_owned();
            format!("{opcode} {};", parts.join(", "))
        }
    }
}

fn mutated(mutation: &Mutation) -> Arc<Module> {
    let mut lines: Vec<String> = text(mutation.kernel).lines().map(str::to_owned).collect();
    let body = body(&lines, mutation.kernel);
    let begins = |line: &String| line.trim_start().starts_with(mutation.opcode);
    let found: Vec<usize> = body.filter(|&at| begins(&lines[at])).collect();
    let count = found.len() as isize;
    let at = if mutation.nth < 0 {
        count + mutation.nth
    } else {
        mutation.nth
    };
    assert!(
        (0..count).contains(&at),
        "{}: {count} of {}",
        mutation.what,
        mutation.opcode
    );
    let line = found[at as usize];
    lines[line] = changed(&lines[line], mutation.change);
    let module = Module::read(&lines.join("\n"));
    Arc::new(module.unwrap_or_else(|error| panic!("{}: {error}", mutation.what)))
}

/// How a fault shows, if it does.
fn caught(mutation: &Mutation, sample: &mut Sample) -> Option<String> {
    sample.launch(&Queue::new(), u64::MAX);
    let expected = sample.memory[0].bytes();
    let program = mutated(mutation);
    // Races may hide in one order.
    for _ in 0..2 {
        sample.memory[0].forget();
        if let Err(error) = sample.try_launch(&Queue::running(&program), u64::MAX) {
            return Some(error.to_string());
        }
        if sample.memory[0].bytes() != expected {
            return Some("another result".to_owned());
        }
    }
    sample.memory[0].forget();
    let queue = Queue::running(&program);
    if let Err(error) = sample.try_launch(&queue, 0) {
        return Some(error.to_string());
    }
    let noted = queue.first_evicted() == INDEX && sample.memory[0].is_untouched();
    (!noted).then(|| "an eviction that is not noted, or writes".to_owned())
}

#[test]
fn every_planted_fault_is_caught() {
    let mut samples = samples();
    let mut missed = Vec::new();
    for mutation in MUTATIONS {
        let of_kernel = |sample: &&mut Sample| sample.kernel == mutation.kernel;
        let mut how = None;
        for sample in samples.iter_mut().filter(of_kernel) {
            how = how.or_else(|| caught(mutation, sample));
        }
        match how {
            Some(how) => println!("{} in {}: {how}", mutation.what, mutation.kernel),
            None => missed.push((mutation.kernel, mutation.what)),
        }
    }
    assert_eq!(missed, []);
    assert!(MUTATIONS.len() >= 20);
}

//! `punctual.h` and the library agree on every size, offset and number.

mod compiler;

use std::collections::BTreeMap;
use std::mem::offset_of;
use std::process::Command;

use compiler::{Compiler, Linking};
use punctual::abi::{
    self, NO_RECONNECT, Options, Outcome, Request, SlotView, TensorView, Terms, numbers,
};
use punctual_client::{Element, Failure, Rejection, Verdict};

macro_rules! layout {
    ($into:ident, $c:literal, $type:ty, $($field:ident),+) => {
        $into.insert($c.to_owned(), size_of::<$type>() as i64);
        $($into.insert(
            concat!($c, ".", stringify!($field)).to_owned(),
            offset_of!($type, $field) as i64,
        );)+
    };
}

fn ours() -> BTreeMap<String, i64> {
    let mut ours = BTreeMap::new();
    layout!(
        ours,
        "punctual_options",
        Options,
        size,
        format,
        socket,
        task,
        spin_ns,
        flags,
        row_stride,
        offset,
        chroma_offset,
        chroma_stride,
        buffer_count,
        buffers
    );
    layout!(
        ours,
        "punctual_terms",
        Terms,
        format,
        width,
        height,
        row_stride,
        chroma_offset,
        chroma_stride,
        crop_width,
        crop_height,
        slots,
        results,
        offset,
        reserved
    );
    layout!(
        ours,
        "punctual_slot_t",
        SlotView,
        pixels,
        bytes,
        token,
        index,
        reserved
    );
    layout!(
        ours,
        "punctual_request",
        Request,
        captured_ns,
        deadline_ns,
        crop_x,
        crop_y
    );
    layout!(
        ours,
        "punctual_result",
        Outcome,
        sequence,
        captured_ns,
        deadline_ns,
        finished_ns,
        verdict,
        reason,
        answered,
        exit,
        class_index,
        confidence,
        slot,
        has_class,
        has_confidence,
        outputs,
        not_finite
    );
    layout!(
        ours,
        "punctual_tensor",
        TensorView,
        name,
        data,
        bytes,
        element,
        rank,
        shape,
        scale,
        zero
    );
    let verdict = |verdict| i64::from(numbers(verdict).0);
    let rejected = |reason| i64::from(numbers(Verdict::Rejected(reason)).1);
    let number = |element| i64::from(abi::element(element).0);
    let scale = 1.0;
    let failed = |reason| i64::from(numbers(Verdict::Failed(reason)).1);
    for (name, number) in [
        ("ON_TIME", verdict(Verdict::OnTime)),
        ("LATE", verdict(Verdict::Late)),
        ("LATE_ON_ARRIVAL", rejected(Rejection::LateOnArrival)),
        ("NO_SLACK", rejected(Rejection::NoSlack)),
        ("QUEUE_FULL", rejected(Rejection::QueueFull)),
        ("DRAINING", rejected(Rejection::Draining)),
        ("CAPTURED_IN_FUTURE", rejected(Rejection::CapturedInFuture)),
        ("QUOTA", rejected(Rejection::Quota)),
        ("SUPERSEDED", rejected(Rejection::Superseded)),
        ("SHEDDING", rejected(Rejection::Shedding)),
        ("NO_AREA", rejected(Rejection::NoArea)),
        ("DEVICE", failed(Failure::Device)),
        ("PAYLOAD", failed(Failure::Payload)),
        ("CLIENT_GONE", failed(Failure::ClientGone)),
        ("SHED", failed(Failure::Shed)),
        ("NOT_FINITE", failed(Failure::NotFinite)),
        ("VECTOR", failed(Failure::Vector)),
        ("DAEMON_GONE", failed(Failure::DaemonGone)),
        ("NO_RECONNECT", i64::from(NO_RECONNECT)),
        ("FLOAT32", number(Element::F32)),
        ("INT32", number(Element::I32)),
        ("BOOL", number(Element::Bool)),
        ("UINT8", number(Element::U8 { scale, zero: 0 })),
        ("INT8", number(Element::I8 { scale, zero: 0 })),
    ] {
        ours.insert(format!("PUNCTUAL_{name}"), number);
    }
    ours
}

#[test]
fn the_header_and_the_library_agree_in_c_and_in_cpp() {
    for compiler in [Compiler::C, Compiler::Cpp] {
        let Some(program) = compiler.build("layout.c", Linking::None) else {
            continue;
        };
        let output = Command::new(program).output().expect("it runs");
        let text = String::from_utf8(output.stdout).expect("text");
        let theirs: BTreeMap<String, i64> = text
            .lines()
            .map(|line| {
                let (name, number) = line.split_once(' ').expect("name and number");
                (name.to_owned(), number.parse().expect("a number"))
            })
            .collect();
        assert_eq!(theirs, ours());
    }
}

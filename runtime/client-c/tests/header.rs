//! `punctual.h`, `punctual_decode.h` and the library agree on every size, offset and number.

mod compiler;

use std::collections::BTreeMap;
use std::mem::offset_of;
use std::process::Command;

use compiler::{Compiler, Linking};
use punctual::abi::{
    self, NO_RECONNECT, Options, Outcome, Request, SlotView, TensorView, Terms, numbers,
};
use punctual::decode::abi::{
    CORNERS_ALIGNED, Found, FrameView, Head, Map, MaskPlace, Point, refinement,
};
use punctual_client::{Element, Failure, Rejection, Verdict};
use punctual_decode::{
    Activation, Alignment, BoxForm, Candidates, Keep, Layout, Refinement, Suppression,
};

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
        not_finite,
        is_final,
        part,
        task,
        left_out,
        reserved,
        crop_x,
        crop_y,
        crop_width,
        crop_height
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
    decoding(&mut ours);
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
        ("NOT_READY", rejected(Rejection::NotReady)),
        ("DEVICE", failed(Failure::Device)),
        ("PAYLOAD", failed(Failure::Payload)),
        ("CLIENT_GONE", failed(Failure::ClientGone)),
        ("SHED", failed(Failure::Shed)),
        ("NOT_FINITE", failed(Failure::NotFinite)),
        ("VECTOR", failed(Failure::Vector)),
        ("STARVED", failed(Failure::Starved)),
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

/// The part of `punctual_decode.h`.
fn decoding(ours: &mut BTreeMap<String, i64>) {
    layout!(
        ours,
        "punctual_detection",
        Found,
        left,
        top,
        right,
        bottom,
        score,
        class_index,
        place,
        reserved
    );
    layout!(ours, "punctual_key_point", Point, x, y, score);
    layout!(
        ours,
        "punctual_view",
        FrameView,
        crop_x,
        crop_y,
        crop_width,
        crop_height,
        input_width,
        input_height,
        letterbox,
        reserved
    );
    layout!(
        ours,
        "punctual_head",
        Head,
        size,
        input_width,
        input_height,
        layout,
        activation,
        background,
        form,
        threshold,
        several_classes,
        candidates,
        candidates_of,
        suppression,
        overlap,
        weights,
        centre
    );
    layout!(
        ours,
        "punctual_map",
        Map,
        width,
        height,
        values,
        count,
        scale,
        step
    );
    layout!(ours, "punctual_mask", MaskPlace, x, y, width, height);
    for (name, number) in [
        ("PLACES", 0),
        ("CHANNELS", 1),
        ("SIGMOID", 0),
        ("SOFTMAX", 1),
        ("SCORES", 2),
        ("CORNERS", 0),
        ("CENTRE", 1),
        ("OF_EACH_LEVEL", 0),
        ("OF_EACH_CLASS", 1),
        ("SUPPRESS_NONE", 0),
        ("SUPPRESS_PER_CLASS", 1),
        ("SUPPRESS_ACROSS_CLASSES", 2),
        ("HIGHEST_CELL", 0),
        ("QUARTER", 1),
        ("DARK", 2),
        ("MEAN", 3),
        ("CORNERS_ALIGNED", i64::from(CORNERS_ALIGNED)),
    ] {
        ours.insert(format!("PUNCTUAL_{name}"), number);
    }
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

#[test]
fn the_numbers_of_heads_mean_what_the_header_says() {
    let initial = Head {
        size: size_of::<Head>() as u32,
        input_width: 64,
        input_height: 48,
        layout: 0,
        activation: 0,
        background: -1,
        form: 0,
        threshold: 0.25,
        several_classes: 0,
        candidates: 1000,
        candidates_of: 0,
        suppression: 1,
        overlap: 0.5,
        weights: [1.0; 4],
        centre: 0.5,
    };
    // PUNCTUAL_HEAD_INIT is the library's own default.
    let limit = Keep::default().limit;
    assert_eq!(initial.keep(limit).unwrap(), Keep::default());
    assert_eq!(initial.layout().unwrap(), Layout::default());
    assert_eq!(initial.activation().unwrap(), Activation::default());
    assert_eq!(initial.form().unwrap(), BoxForm::default());
    assert_eq!(initial.background().unwrap(), None);
    let other = Head {
        layout: 1,
        activation: 1,
        background: 0,
        form: 1,
        several_classes: 1,
        candidates_of: 1,
        suppression: 2,
        ..initial
    };
    let (overlap, keep) = (0.5, other.keep(7).unwrap());
    assert_eq!(keep.candidates, Candidates::OfEachClass(1000));
    assert_eq!(keep.suppression, Suppression::AcrossClasses { overlap });
    assert!(keep.several_classes && keep.limit == 7);
    assert_eq!(other.layout().unwrap(), Layout::Channels);
    assert_eq!(other.activation().unwrap(), Activation::Softmax);
    assert_eq!(other.form().unwrap(), BoxForm::Centre);
    assert_eq!(other.background().unwrap(), Some(0));
    let plain = (Refinement::Quarter, Alignment::Areas);
    assert_eq!(refinement(1).unwrap(), plain);
    let kernel = 11;
    let of_vitpose = (Refinement::Dark { kernel }, Alignment::Corners);
    assert_eq!(refinement(2 + CORNERS_ALIGNED).unwrap(), of_vitpose);
    for bad in [
        other.keep(7).is_ok() && refinement(4).is_ok(),
        Head { layout: 2, ..other }.layout().is_ok(),
        Head {
            activation: 3,
            ..other
        }
        .activation()
        .is_ok(),
        Head {
            background: -2,
            ..other
        }
        .background()
        .is_ok(),
        Head { form: 2, ..other }.form().is_ok(),
        Head {
            suppression: 3,
            ..other
        }
        .keep(7)
        .is_ok(),
        Head {
            candidates_of: 2,
            ..other
        }
        .keep(7)
        .is_ok(),
        Head {
            several_classes: 2,
            ..other
        }
        .keep(7)
        .is_ok(),
    ] {
        assert!(!bad);
    }
}

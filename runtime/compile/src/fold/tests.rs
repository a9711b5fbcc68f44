//! Each rule on small tensors, then all of them on random ones: an error or as many values as the dimensions say.

use std::collections::BTreeMap;

use fastrand::Rng;

use super::*;
use crate::graph::Attribute;
use crate::lower;
use crate::schema::data_type;

fn node(operator: &str, attributes: &[(&str, Attribute)], outputs: usize) -> Node {
    let id = |at| Some(crate::graph::ValueId(at));
    let named = |(name, value): &(&str, Attribute)| ((*name).to_owned(), value.clone());
    Node {
        name: "node".to_owned(),
        operator: operator.to_owned(),
        domain: None,
        opset: 17,
        inputs: vec![],
        outputs: (0..outputs).map(id).collect(),
        attributes: attributes.iter().map(named).collect::<BTreeMap<_, _>>(),
    }
}

fn try_fold(
    operator: &str,
    attributes: &[(&str, Attribute)],
    operands: &[&Constant],
) -> Result<Constant, Problem> {
    let operands: Vec<Option<&Constant>> = operands.iter().map(|operand| Some(*operand)).collect();
    let node = node(operator, attributes, 1);
    Ok(all_folded(&node, &operands)?.remove(0))
}

fn all_folded(node: &Node, operands: &[Option<&Constant>]) -> Result<Vec<Constant>, Problem> {
    folded_within(&mut Room::of(0), node, operands)
}

fn folded_within(
    room: &mut Room,
    node: &Node,
    operands: &[Option<&Constant>],
) -> Result<Vec<Constant>, Problem> {
    let operator = lower::operator(&node.operator).expect("it is supported");
    fold(operator.fold.expect("it is folded"), node, operands, room)
}

fn measured(operator: &str, sizes: &[Dim]) -> Result<Constant, Problem> {
    let rule = lower::operator(operator).and_then(|operator| operator.measure);
    fold_sizes(
        rule.expect("it is measured"),
        &node(operator, &[], 1),
        sizes,
    )
}

#[track_caller]
fn folded(operator: &str, attributes: &[(&str, Attribute)], operands: &[&Constant]) -> Constant {
    try_fold(operator, attributes, operands).unwrap()
}

fn floats(dims: &[usize], values: &[f32]) -> Constant {
    Constant::new(dims.to_vec(), Data::Floats(values.to_vec()))
}

fn ints(dims: &[usize], values: &[i64]) -> Constant {
    Constant::new(dims.to_vec(), Data::Ints(values.to_vec()))
}

fn list(values: &[i64]) -> Constant {
    ints(&[values.len()], values)
}

fn scalar(value: i64) -> Constant {
    ints(&[], &[value])
}

/// 0, 1, 2, ...
fn counted(dims: &[usize]) -> Constant {
    let values: Vec<i64> = (0..dims.iter().product::<usize>() as i64).collect();
    ints(dims, &values)
}

fn int(value: i64) -> Attribute {
    Attribute::Int(value)
}

fn text(value: &str) -> Attribute {
    Attribute::Text(value.to_owned())
}

fn shape_of(sizes: &[Dim]) -> Constant {
    measured("Shape", sizes).unwrap()
}

#[test]
fn view_of_size_0_and_minus_1_folds_to_batch_and_minus_1() {
    let shape = shape_of(&[
        Dim::Batches(1),
        Dim::Known(64),
        Dim::Known(1),
        Dim::Known(1),
    ]);
    let batch = folded("Gather", &[], &[&shape, &scalar(0)]);
    assert!(batch.dims.is_empty());
    let batch = folded("Unsqueeze", &[], &[&batch, &list(&[0])]);
    let target = folded("Concat", &[("axis", int(0))], &[&batch, &list(&[-1])]);
    let sizes: Vec<_> = target.integers().unwrap().iter().map(|i| i.dim()).collect();
    assert_eq!(sizes, [Some(Dim::Batches(1)), Some(Dim::Known(-1))]);
    assert_eq!(target.at_batch(4).unwrap(), list(&[4, -1]));
}

#[test]
fn slices_count_from_the_end_and_may_run_backwards() {
    let from = list(&[1, 2, 3, 4, 5]);
    let slice = |start: i64, end: i64, step: i64| {
        let bounds = [start, end, 0, step].map(|value| list(&[value]));
        let [start, end, axis, step] = &bounds;
        folded("Slice", &[], &[&from, start, end, axis, step])
    };
    assert_eq!(slice(-2, 9, 1), list(&[4, 5]));
    assert_eq!(slice(0, i64::MAX, 2), list(&[1, 3, 5]));
    assert_eq!(slice(-1, i64::MIN, -1), list(&[5, 4, 3, 2, 1]));
    assert_eq!(slice(3, 0, -2), list(&[4, 2]));
    assert_eq!(slice(3, 1, 1), list(&[]));
    let plane = counted(&[2, 3]);
    let two = list(&[0, 1]);
    let part = folded("Slice", &[], &[&plane, &two, &list(&[2, 3])]);
    assert_eq!(part, ints(&[2, 2], &[1, 2, 4, 5]));
    // An operand left out does not let the next one take its place: the step is no axis.
    let (zero, back) = (list(&[0]), list(&[-1]));
    let operands = [Some(&from), Some(&back), Some(&zero), None, Some(&back)];
    let reversed = all_folded(&node("Slice", &[], 1), &operands);
    assert_eq!(reversed.unwrap(), [list(&[5, 4, 3, 2])]);
}

#[test]
fn what_is_no_integer_or_depends_on_the_batch_is_refused() {
    let batch = folded("Gather", &[], &[&shape_of(&[Dim::Batches(1)]), &scalar(0)]);
    for (operator, a, b) in [
        ("Div", scalar(1), scalar(0)),
        ("Mul", scalar(i64::MAX), scalar(2)),
        ("Div", batch.clone(), scalar(2)),
        ("Equal", batch.clone(), scalar(4)),
        ("Mod", scalar(1), batch.clone()),
    ] {
        let error = try_fold(operator, &[], &[&a, &b]).unwrap_err();
        assert!(
            matches!(error, Problem::Folding { .. }),
            "{operator}: {error}"
        );
    }
    assert!(try_fold("Cast", &[("to", int(1))], &[&batch]).is_err());
    let error = try_fold("Gather", &[], &[&list(&[1]), &scalar(1)]).unwrap_err();
    assert!(error.to_string().contains("outside the operand"), "{error}");
    let twice = folded("Mul", &[], &[&batch, &scalar(2)]);
    assert_eq!(folded("Sub", &[], &[&twice, &batch]), batch);
    assert_eq!(folded("Equal", &[], &[&batch, &scalar(-1)]), scalar(0));
}

fn bytes(values: &[u8]) -> Constant {
    Constant::new(vec![values.len()], Data::Unsigned(values.to_vec()))
}

#[test]
fn bytes_wrap_and_stay_bytes() {
    assert_eq!(
        folded("Add", &[], &[&bytes(&[250, 3]), &bytes(&[10, 4])]),
        bytes(&[4, 7])
    );
    assert_eq!(
        folded("Sub", &[], &[&bytes(&[1]), &bytes(&[2])]),
        bytes(&[255])
    );
    let signed = |value| Constant::new(vec![1], Data::Signed(vec![value]));
    assert_eq!(folded("Neg", &[], &[&signed(-128)]), signed(-128));
    assert_eq!(folded("Mul", &[], &[&signed(100), &signed(2)]), signed(-56));
}

#[test]
fn what_might_be_int32_and_needs_more_bits_is_refused() {
    let most = list(&[i32::MAX.into()]);
    let two = list(&[i32::MAX.into(), 1]);
    for refused in [
        try_fold("Add", &[], &[&most, &scalar(1)]),
        try_fold("ReduceSum", &[], &[&two]),
        try_fold("CumSum", &[], &[&two, &scalar(0)]),
    ] {
        let words = refused.unwrap_err().to_string();
        assert!(words.contains("more than 32 bits"), "{words}");
    }
    // Slices end at the largest int64, which is no int32 already.
    let last = list(&[i64::MAX]);
    assert_eq!(
        folded("Sub", &[], &[&last, &scalar(1)]),
        list(&[i64::MAX - 1])
    );
}

#[test]
fn casts_wrap_integers_and_refuse_floats_outside_of_the_type() {
    let to = |kind: i32| [("to", int(kind.into()))];
    let wide = list(&[(1 << 32) + 5, -1]);
    assert_eq!(
        folded("Cast", &to(data_type::INT32), &[&wide]),
        list(&[5, -1])
    );
    assert_eq!(
        folded("Cast", &to(data_type::UINT8), &[&list(&[256, -1])]),
        bytes(&[0, 255])
    );
    assert_eq!(
        folded(
            "Cast",
            &to(data_type::INT32),
            &[&floats(&[2], &[-3e9, f32::NEG_INFINITY])]
        ),
        list(&[i32::MIN.into(); 2])
    );
    for (kind, value) in [
        (data_type::INT32, 3e9),
        (data_type::UINT8, -3e9),
        (data_type::INT64, 1e19),
        (data_type::INT32, f32::NAN),
    ] {
        let error = try_fold("Cast", &to(kind), &[&floats(&[1], &[value])]).unwrap_err();
        assert!(error.to_string().contains("outside"), "{error}");
    }
    assert_eq!(
        folded("Cast", &to(data_type::UINT8), &[&floats(&[1], &[255.9])]),
        bytes(&[255])
    );
}

#[test]
fn arithmetic_repeats_dimensions_and_keeps_types() {
    let column = floats(&[2, 1], &[1.0, 2.0]);
    let row = floats(&[3], &[1.0, 2.0, 4.0]);
    let product = folded("Mul", &[], &[&column, &row]);
    assert_eq!(product, floats(&[2, 3], &[1.0, 2.0, 4.0, 2.0, 4.0, 8.0]));
    let power = folded("Pow", &[], &[&row, &scalar(2)]);
    assert_eq!(power, floats(&[3], &[1.0, 4.0, 16.0]));
    let less = folded("Less", &[], &[&row, &floats(&[], &[2.0])]);
    assert_eq!(less, list(&[1, 0, 0]));
    let chosen = folded("Where", &[], &[&less, &row, &floats(&[1], &[9.0])]);
    assert_eq!(chosen, floats(&[3], &[1.0, 9.0, 9.0]));
    let largest = folded("Max", &[], &[&list(&[1, 5]), &list(&[3]), &list(&[0, 9])]);
    assert_eq!(largest, list(&[3, 9]));
    assert_eq!(
        folded("Div", &[], &[&list(&[-7, 7]), &scalar(2)]),
        list(&[-3, 3])
    );
    let c = [("fmod", int(1))];
    assert_eq!(folded("Mod", &c, &[&list(&[-7]), &scalar(3)]), list(&[-1]));
    assert_eq!(folded("Mod", &[], &[&list(&[-7]), &scalar(3)]), list(&[2]));
    let remainder = folded("Mod", &c, &[&floats(&[1], &[-7.5]), &floats(&[], &[2.0])]);
    assert_eq!(remainder, floats(&[1], &[-1.5]));
    assert!(try_fold("Mod", &[], &[&row, &row]).is_err());
    assert!(try_fold("Add", &[], &[&row, &list(&[1])]).is_err());
    assert!(try_fold("Add", &[], &[&row, &floats(&[2], &[1.0; 2])]).is_err());
}

#[test]
fn functions_of_one_value() {
    let of =
        |operator: &str, value: f32| match folded(operator, &[], &[&floats(&[1], &[value])]).data {
            Data::Floats(values) => values[0],
            Data::Ints(values) => values[0] as f32,
            other => panic!("{other:?}"),
        };
    assert_eq!(
        [of("Round", 2.5), of("Round", -1.5), of("Ceil", -1.5)],
        [2.0, -2.0, -1.0]
    );
    assert_eq!(
        [of("Sign", -3.0), of("Sign", 0.0), of("Reciprocal", 4.0)],
        [-1.0, 0.0, 0.25]
    );
    assert_eq!(
        [of("IsNaN", f32::NAN), of("IsInf", 1.0), of("Neg", 2.0)],
        [1.0, 0.0, -2.0]
    );
    assert_eq!(
        [of("Sqrt", 9.0), of("Floor", -1.5), of("Relu", -1.0)],
        [3.0, -2.0, 0.0]
    );
    assert_eq!(folded("Not", &[], &[&list(&[0, 2])]), list(&[1, 0]));
    assert_eq!(folded("Neg", &[], &[&list(&[5])]), list(&[-5]));
}

#[test]
fn general_products_scale_transpose_and_repeat() {
    let a = floats(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let b = floats(&[2, 2], &[1.0, 0.0, 1.0, -1.0]);
    let scaled = [
        ("alpha", Attribute::Float(2.0)),
        ("beta", Attribute::Float(0.5)),
        ("transA", int(1)),
    ];
    // Its rows are a's columns: (1, 4), (2, 5), (3, 6).
    let product = folded("Gemm", &scaled, &[&a, &b, &floats(&[2], &[10.0, 20.0])]);
    let expected = floats(&[3, 2], &[15.0, 2.0, 19.0, 0.0, 23.0, -2.0]);
    assert_eq!(product, expected);
    let tall = floats(&[3, 2], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let turned = folded("Gemm", &[("transB", int(1))], &[&b, &tall]);
    let expected = floats(&[2, 3], &[1.0, 3.0, 5.0, -1.0, -1.0, -1.0]);
    assert_eq!(turned, expected);
    assert!(try_fold("Gemm", &[], &[&a, &b]).is_err());
}

#[test]
fn casts_are_those_of_c() {
    let to = |kind: i64, from: &Constant| folded("Cast", &[("to", int(kind))], &[from]);
    let from = floats(&[3], &[1.9, -1.9, 300.0]);
    assert_eq!(to(7, &from), list(&[1, -1, 300]));
    assert_eq!(to(9, &floats(&[2], &[0.5, f32::NAN])), list(&[1, 1]));
    assert_eq!(to(2, &from).data, Data::Unsigned(vec![1, 255, 44]));
    assert_eq!(to(10, &list(&[3])), floats(&[1], &[3.0]));
    let bytes = Constant::new(vec![2], Data::Signed(vec![-3, 0]));
    assert_eq!(to(1, &bytes), floats(&[2], &[-3.0, 0.0]));
    assert_eq!(to(9, &bytes), list(&[1, 0]));
    assert_eq!(
        folded("CastLike", &[], &[&list(&[3]), &from]),
        floats(&[1], &[3.0])
    );
    assert!(try_fold("Cast", &[("to", int(8))], &[&from]).is_err());
}

#[test]
fn values_are_arranged_as_onnx_says() {
    let from = counted(&[2, 3]);
    let turned = folded("Transpose", &[], &[&from]);
    assert_eq!(turned, ints(&[3, 2], &[0, 3, 1, 4, 2, 5]));
    assert_eq!(
        folded("Reshape", &[], &[&from, &list(&[0, -1, 1])]),
        counted(&[2, 3, 1])
    );
    assert_eq!(
        folded("Flatten", &[("axis", int(0))], &[&from]),
        counted(&[1, 6])
    );
    assert_eq!(
        folded("Expand", &[], &[&list(&[7]), &list(&[2, 2])]),
        ints(&[2, 2], &[7; 4])
    );
    let tiled = folded("Tile", &[], &[&ints(&[1, 2], &[1, 2]), &list(&[2, 2])]);
    assert_eq!(tiled, ints(&[2, 4], &[1, 2, 1, 2, 1, 2, 1, 2]));
    let joined = folded(
        "Concat",
        &[("axis", int(1))],
        &[&from, &ints(&[2, 1], &[8, 9])],
    );
    assert_eq!(joined, ints(&[2, 4], &[0, 1, 2, 8, 3, 4, 5, 9]));
    let pads = list(&[0, 1, 0, 2]);
    let pad = |mode: &str| folded("Pad", &[("mode", text(mode))], &[&from, &pads]);
    assert_eq!(
        pad("constant"),
        ints(&[2, 6], &[0, 0, 1, 2, 0, 0, 0, 3, 4, 5, 0, 0])
    );
    assert_eq!(
        pad("reflect"),
        ints(&[2, 6], &[1, 0, 1, 2, 1, 0, 4, 3, 4, 5, 4, 3])
    );
    assert_eq!(
        pad("edge"),
        ints(&[2, 6], &[0, 0, 1, 2, 2, 2, 3, 3, 4, 5, 5, 5])
    );
    let node = node("Split", &[("axis", int(1))], 2);
    let parts = all_folded(&node, &[Some(&from)]).unwrap();
    assert_eq!(
        parts,
        [ints(&[2, 2], &[0, 1, 3, 4]), ints(&[2, 1], &[2, 5])]
    );
    let squeezed = folded("Squeeze", &[], &[&ints(&[1, 2, 1], &[0, 1]), &list(&[-1])]);
    assert_eq!(squeezed, counted(&[1, 2]));
}

#[test]
fn indices_pick_and_place() {
    let from = counted(&[3, 2]);
    let rows = folded("Gather", &[], &[&from, &ints(&[1, 2], &[-1, 0])]);
    assert_eq!(rows, ints(&[1, 2, 2], &[4, 5, 0, 1]));
    let columns = folded("Gather", &[("axis", int(1))], &[&from, &scalar(1)]);
    assert_eq!(columns, list(&[1, 3, 5]));
    let each = folded(
        "GatherElements",
        &[("axis", int(1))],
        &[&from, &ints(&[3, 1], &[1, 0, 1])],
    );
    assert_eq!(each, ints(&[3, 1], &[1, 2, 5]));
    let tuples = folded("GatherND", &[], &[&from, &ints(&[2, 2], &[2, 1, 0, 0])]);
    assert_eq!(tuples, list(&[5, 0]));
    let batched = folded(
        "GatherND",
        &[("batch_dims", int(1))],
        &[&from, &ints(&[3, 1], &[1, 0, 1])],
    );
    assert_eq!(batched, list(&[1, 2, 5]));
    let placed = folded(
        "ScatterND",
        &[],
        &[&from, &ints(&[1, 1], &[1]), &ints(&[1, 2], &[8, 9])],
    );
    assert_eq!(placed, ints(&[3, 2], &[0, 1, 8, 9, 4, 5]));
    let set = folded(
        "ScatterElements",
        &[],
        &[&from, &ints(&[1, 2], &[2, 0]), &ints(&[1, 2], &[8, 9])],
    );
    assert_eq!(set, ints(&[3, 2], &[0, 9, 2, 3, 8, 5]));
    let found = folded("NonZero", &[], &[&ints(&[2, 2], &[0, 7, 7, 0])]);
    assert_eq!(found, ints(&[2, 2], &[0, 1, 1, 0]));
    let hot = folded(
        "OneHot",
        &[],
        &[&list(&[1, -1, 5]), &scalar(3), &list(&[0, 1])],
    );
    assert_eq!(hot, ints(&[3, 3], &[0, 1, 0, 0, 0, 1, 0, 0, 0]));
}

#[test]
fn axes_are_summed_compared_and_sorted_along() {
    let from = floats(&[2, 3], &[1.0, 5.0, 3.0, 4.0, 2.0, 6.0]);
    let flat = [("keepdims", int(0))];
    let axis = list(&[1]);
    assert_eq!(
        folded("ReduceSum", &flat, &[&from, &axis]),
        floats(&[2], &[9.0, 12.0])
    );
    assert_eq!(folded("ReduceMean", &[], &[&from]), floats(&[1, 1], &[3.5]));
    assert_eq!(
        folded("ReduceMax", &[], &[&from, &list(&[0])]),
        floats(&[1, 3], &[4.0, 5.0, 6.0])
    );
    let product = folded(
        "ReduceProd",
        &flat,
        &[&shape_of(&[Dim::Batches(1), Dim::Known(6)])],
    );
    assert_eq!(product.at_batch(2).unwrap(), scalar(12));
    assert_eq!(
        folded("ArgMax", &[("axis", int(1))], &[&from]),
        ints(&[2, 1], &[1, 2])
    );
    let sums = folded("CumSum", &[], &[&list(&[1, 2, 3]), &scalar(0)]);
    assert_eq!(sums, list(&[1, 3, 6]));
    let from_end = [("exclusive", int(1)), ("reverse", int(1))];
    assert_eq!(
        folded("CumSum", &from_end, &[&list(&[1, 2, 3]), &scalar(0)]),
        list(&[5, 3, 0])
    );
    let node = node("TopK", &[], 2);
    let top = all_folded(&node, &[Some(&from), Some(&list(&[2]))]);
    let top = top.unwrap();
    assert_eq!(
        top,
        [
            floats(&[2, 2], &[5.0, 3.0, 6.0, 4.0]),
            ints(&[2, 2], &[1, 2, 2, 0])
        ]
    );
    let product = folded("MatMul", &[], &[&from, &floats(&[3], &[1.0, 0.0, 2.0])]);
    assert_eq!(product, floats(&[2], &[7.0, 16.0]));
    let batched = folded(
        "MatMul",
        &[],
        &[
            &floats(&[2, 1, 1], &[2.0, 3.0]),
            &floats(&[1, 2], &[1.0, 5.0]),
        ],
    );
    assert_eq!(batched, floats(&[2, 1, 2], &[2.0, 10.0, 3.0, 15.0]));
}

#[test]
fn ranges_diagonals_and_one_value_everywhere() {
    let range = |a, b, c| folded("Range", &[], &[&scalar(a), &scalar(b), &scalar(c)]);
    assert_eq!(range(1, 8, 3), list(&[1, 4, 7]));
    assert_eq!(range(5, 0, -2), list(&[5, 3, 1]));
    assert_eq!(range(5, 0, 2), list(&[]));
    let [a, b, c] = [0.0, 1.0, 0.25].map(|value| floats(&[], &[value]));
    assert_eq!(
        folded("Range", &[], &[&a, &b, &c]),
        floats(&[4], &[0.0, 0.25, 0.5, 0.75])
    );
    assert_eq!(
        folded("ConstantOfShape", &[], &[&list(&[2])]),
        floats(&[2], &[0.0; 2])
    );
    assert_eq!(
        folded("EyeLike", &[("k", int(1))], &[&counted(&[2, 3])]),
        ints(&[2, 3], &[0, 1, 0, 0, 0, 1])
    );
    assert_eq!(
        folded("Trilu", &[("upper", int(0))], &[&counted(&[2, 2])]),
        ints(&[2, 2], &[0, 0, 2, 3])
    );
    assert_eq!(
        folded("Trilu", &[], &[&counted(&[2, 2]), &scalar(1)]),
        ints(&[2, 2], &[0, 1, 0, 0])
    );
    let size = measured("Size", &[Dim::Known(2), Dim::Known(3)]);
    assert_eq!(size.unwrap(), scalar(6));
}

/// Expected values from onnxruntime.
#[test]
fn positions_are_resized_as_onnxruntime_does() {
    let row = floats(&[1, 1, 3], &[1.0, 2.0, 4.0]);
    let resize = |size: i64, attributes: &[(&str, Attribute)]| {
        let nothing = floats(&[0], &[]);
        let sizes = list(&[1, 1, size]);
        let operands = [Some(&row), None, Some(&nothing), Some(&sizes)];
        let results = all_folded(&node("Resize", attributes, 1), &operands);
        match results.unwrap().remove(0).data {
            Data::Floats(values) => values,
            other => panic!("{other:?}"),
        }
    };
    let asymmetric = ("coordinate_transformation_mode", text("asymmetric"));
    let nearest = resize(6, &[asymmetric, ("nearest_mode", text("floor"))]);
    assert_eq!(nearest, [1.0, 1.0, 2.0, 2.0, 4.0, 4.0]);
    let linear = resize(6, &[("mode", text("linear"))]);
    assert_eq!(linear, [1.0, 1.25, 1.75, 2.5, 3.5, 4.0]);
    let corners = ("coordinate_transformation_mode", text("align_corners"));
    assert_eq!(
        resize(5, &[("mode", text("linear")), corners]),
        [1.0, 1.5, 2.0, 3.0, 4.0]
    );
    let cubic = resize(6, &[("mode", text("cubic"))]);
    let expected = [
        0.894_531_25,
        1.156_25,
        1.562_5,
        2.558_593_8,
        3.582_031_3,
        4.210_937_5,
    ];
    for (found, expected) in cubic.iter().zip(expected) {
        assert!((found - expected).abs() < 1e-6, "{cubic:?}");
    }
}

#[test]
fn the_number_of_an_image_is_a_dimension_of_its_own() {
    let n = folded("Gather", &[], &[&shape_of(&[Dim::Batches(1)]), &scalar(0)]);
    let images = folded("Range", &[], &[&scalar(0), &n, &scalar(1)]);
    assert_eq!(images.sizes(), [Dim::Batches(1)]);
    let column = folded("Unsqueeze", &[], &[&images, &list(&[1])]);
    let places = folded(
        "Add",
        &[],
        &[&folded("Mul", &[], &[&column, &scalar(6)]), &counted(&[6])],
    );
    assert_eq!(places.sizes(), [Dim::Batches(1), Dim::Known(6)]);
    let last = places.integers().unwrap()[5];
    assert_eq!((last.images, last.offset), (6, 5));
    // Images before tokens are no tokens before images.
    let torn = folded("Transpose", &[], &[&places]);
    assert_eq!(torn.sizes(), [Dim::Known(6), Dim::Batches(1)]);
    let target = folded(
        "Concat",
        &[("axis", int(0))],
        &[&folded("Unsqueeze", &[], &[&n, &list(&[0])]), &list(&[6])],
    );
    assert_eq!(folded("Reshape", &[], &[&places, &target]), places);
    assert!(try_fold("Reshape", &[], &[&torn, &target]).is_err());
    assert!(try_fold("ReduceSum", &[], &[&places]).is_err());
    let truth = folded("GreaterOrEqual", &[], &[&places, &scalar(0)]);
    assert_eq!(truth.data, Data::Ints(vec![1; 6]));
    assert_eq!(truth.batch, Some(0));
}

/// `offset + each * i` for image `i`, of `count` offsets from 0 on.
fn places(each: i64, count: usize) -> Constant {
    let place = |offset| Integer {
        offset,
        images: each,
        ..Integer::default()
    };
    Constant {
        dims: vec![1, count],
        batch: Some(0),
        data: Data::Symbols((0..count as i64).map(place).collect()),
    }
}

#[test]
fn images_that_lie_in_one_dimension_are_taken_apart_by_indices_of_their_own() {
    let sizes = shape_of(&[Dim::Batches(1), Dim::Known(3)]);
    let mask = folded("Expand", &[], &[&counted(&[1, 3]), &sizes]);
    let flat = folded("Flatten", &[("axis", int(2))], &[&mask]);
    assert_eq!(flat.sizes(), [Dim::Batches(3), Dim::Known(1)]);
    let gathered = folded("Gather", &[], &[&flat, &places(3, 3)]);
    assert_eq!(
        gathered.sizes(),
        [Dim::Batches(1), Dim::Known(3), Dim::Known(1)]
    );
    assert_eq!(gathered.data, mask.data);
    let line = folded("Reshape", &[], &[&gathered, &list(&[-1])]);
    assert_eq!(line.sizes(), [Dim::Batches(3)]);
    assert_eq!(folded("Reshape", &[], &[&line, &sizes]), mask);
    let one = line.at_batch(1).unwrap();
    assert_eq!((one.sizes(), line.at_batch(2)), (vec![Dim::Known(3)], None));
}

#[test]
fn images_that_lie_in_one_dimension_are_not_mixed() {
    let sizes = shape_of(&[Dim::Batches(1), Dim::Known(3)]);
    let mask = folded("Expand", &[], &[&counted(&[1, 3]), &sizes]);
    let flat = folded("Flatten", &[("axis", int(2))], &[&mask]);
    let back = folded("Sub", &[], &[&places(3, 3), &scalar(1)]);
    let columns = folded("Transpose", &[], &[&flat]);
    let torn = folded("Transpose", &[], &[&places(3, 3)]);
    let last = list(&[i64::MAX]);
    for (what, operator, operands, reason) in [
        ("image 0", "Gather", [&flat, &scalar(0)], IMAGE),
        ("others' places", "Gather", [&flat, &places(2, 2)], IMAGE),
        ("the one before", "Gather", [&flat, &back], IMAGE),
        ("the next one", "Gather", [&flat, &places(3, 4)], OUTSIDE),
        ("a second batch", "Gather", [&columns, &places(1, 1)], BATCH),
        (
            "no positions",
            "Gather",
            [&flat, &floats(&[], &[0.0])],
            TYPES,
        ),
        ("all twice", "Tile", [&flat, &list(&[2, 1])], BATCH),
        ("other sizes", "Add", [&flat, &counted(&[3, 1])], SIZES),
        ("another width", "Add", [&flat, &places(1, 1)], SIZES),
        ("images last", "Reshape", [&torn, &list(&[-1, 1])], BATCH),
        ("a list", "Unsqueeze", [&mask, &columns], BATCH),
        ("a sum", "ReduceSum", [&flat, &list(&[0])], BATCH),
        ("a running sum", "CumSum", [&flat, &scalar(0)], BATCH),
    ] {
        let found = try_fold(operator, &[], &operands);
        assert!(
            matches!(found, Err(Problem::Folding { reason: found }) if found == reason),
            "{what}: {found:?}"
        );
    }
    let zero = list(&[0]);
    let part = try_fold("Slice", &[], &[&flat, &list(&[1]), &last, &zero]);
    assert!(part.is_err(), "{part:?}");
}

/// The tensor that a constant is in a batch of `images` images; `None` where its values are unknown.
fn in_batch(constant: &Constant, images: usize) -> Option<Constant> {
    let mut dims = constant.dims.clone();
    let each = constant.batch.map_or(1, |at| dims[at]);
    let count = constant.batch.map_or(1, |_| images);
    if let Some(at) = constant.batch {
        dims[at] *= images;
    }
    let inner: usize = constant
        .batch
        .map_or(1, |at| dims[at + 1..].iter().product());
    let total = dims.iter().product::<usize>();
    // Where each value comes from: the image, and the place in the constant.
    let place = |at: usize| {
        let (outer, along, column) = (at / (inner * each * count), at / inner, at % inner);
        let along = along % (each * count);
        let place = (outer * each + along % each) * inner + column;
        (along / each, place)
    };
    let places = (0..total).map(place);
    let data = match &constant.data {
        Data::Floats(values) => Data::Floats(places.map(|(_, at)| values[at]).collect()),
        _ => {
            let values = constant.integers()?;
            let number = |(image, at): (usize, usize)| {
                let value = values[at];
                let number =
                    value.offset + value.images * image as i64 + value.batches * images as i64;
                (!value.unknown).then_some(number)
            };
            Data::Ints(places.map(number).collect::<Option<_>>()?)
        }
    };
    Some(Constant::new(dims, data))
}

/// A small tensor, perhaps with the batch, of which an image may have several positions.
fn any_of_images(random: &mut Rng) -> Constant {
    let dims: Vec<usize> = (0..random.usize(1..4))
        .map(|_| random.usize(1..4))
        .collect();
    let batch = Some(random.usize(..dims.len())).filter(|_| random.u8(..4) > 0);
    let each = batch.map_or(0, |at| dims[at] as i64);
    let count: usize = dims.iter().product();
    let mut value = || Integer {
        offset: random.i64(0..4),
        images: [0, 0, each][random.usize(..3)],
        batches: i64::from(random.u8(..6) == 0),
        ..Integer::default()
    };
    let integers: Vec<Integer> = (0..count).map(|_| value()).collect();
    let data = match random.u8(..3) {
        0 => Data::Floats(integers.iter().map(|value| value.offset as f32).collect()),
        1 => Data::Ints(integers.iter().map(|value| value.offset).collect()),
        _ => Data::of_integers(integers),
    };
    Constant { dims, batch, data }
}

#[test]
fn what_is_folded_for_any_batch_is_what_is_folded_for_each_batch() {
    const OPERATORS: [&str; 18] = [
        "Add",
        "Concat",
        "CumSum",
        "Expand",
        "Flatten",
        "Gather",
        "Less",
        "Max",
        "Mul",
        "Neg",
        "ReduceMax",
        "ReduceSum",
        "Reshape",
        "Slice",
        "Squeeze",
        "Tile",
        "Transpose",
        "Where",
    ];
    let mut random = Rng::with_seed(0xBA7C);
    let mut done = BTreeMap::new();
    for at in 0..OPERATORS.len() * 4_000 {
        let operator = OPERATORS[at % OPERATORS.len()];
        let mut operands: Vec<Constant> = (0..random.usize(1..4))
            .map(|_| any_of_images(&mut random))
            .collect();
        if matches!(operator, "Add" | "Concat" | "Mul" | "Where") && random.bool() {
            let first = operands[0].clone();
            operands
                .iter_mut()
                .for_each(|operand| *operand = first.clone());
        }
        let sizes = |_| match random.u8(..4) {
            0 => Dim::Batches(random.i64(1..4)),
            _ => Dim::Known(random.i64(-1..5)),
        };
        if matches!(operator, "Expand" | "Reshape" | "Tile") {
            let rank = operands[0].dims.len();
            let sizes: Vec<Dim> = (0..rank).map(sizes).collect();
            operands = vec![operands.swap_remove(0), shape_of(&sizes)];
        }
        let mut attributes = vec![];
        if matches!(operator, "Concat" | "Flatten" | "Gather") {
            attributes.push(("axis", int(random.i64(0..3))));
        }
        let list: Vec<&Constant> = operands.iter().collect();
        let Ok(found) = try_fold(operator, &attributes, &list) else {
            continue;
        };
        // A squeeze takes a single image, too: of one it is not asked.
        for images in 2..4 {
            let operands = operands.iter().map(|operand| in_batch(operand, images));
            let operands = operands.collect::<Option<Vec<_>>>().unwrap();
            let list: Vec<&Constant> = operands.iter().collect();
            let expected = try_fold(operator, &attributes, &list);
            let Some(found) = in_batch(&found, images) else {
                continue;
            };
            assert_eq!(
                expected.as_ref().ok(),
                Some(&found),
                "{operator} {attributes:?} {operands:?}: {expected:?}"
            );
        }
        if found.has_wide_batch() {
            *done.entry(operator).or_insert(0) += 1;
        }
    }
    assert!(done.len() >= OPERATORS.len() - 2, "{done:?}");
}

#[test]
fn results_without_end_are_refused() {
    let long = list(&[1 << 40]);
    for (operator, operands) in [
        ("ConstantOfShape", vec![long.clone()]),
        ("Expand", vec![scalar(1), long.clone()]),
        ("Tile", vec![list(&[1, 2]), long.clone()]),
        ("Range", vec![scalar(0), scalar(i64::MAX), scalar(1)]),
        ("Range", vec![scalar(i64::MIN), scalar(i64::MAX), scalar(1)]),
        ("OneHot", vec![list(&[1]), scalar(1 << 40), list(&[0, 1])]),
        ("Pad", vec![list(&[1]), list(&[1 << 40, 0])]),
    ] {
        let operands: Vec<&Constant> = operands.iter().collect();
        assert!(try_fold(operator, &[], &operands).is_err(), "{operator}");
    }
    // What is made in many steps counts together.
    let mut room = Room::of(0);
    let (value, target) = (floats(&[], &[1.0]), list(&[1 << 20]));
    let expand = node("Expand", &[], 1);
    let made = (0..100)
        .take_while(|_| folded_within(&mut room, &expand, &[Some(&value), Some(&target)]).is_ok());
    // 16 million words, one for each float, although the sizes are integers.
    assert_eq!(made.count(), 16);
}

/// A tensor of any type whose values are small, so that they are often indices or sizes, or huge.
fn any(random: &mut Rng) -> Constant {
    let mut sizes: Vec<usize> = (0..random.usize(..4)).map(|_| random.usize(..4)).collect();
    if random.u8(..20) == 0 {
        sizes = vec![0, 1 << 39, 1 << 39];
    }
    let count: usize = sizes.iter().product();
    let mut number = || match random.u8(..12) {
        0 => i64::MAX,
        1 => i64::MIN,
        2 => 1 << 40,
        other => i64::from(other) - 5,
    };
    let numbers: Vec<i64> = (0..count).map(|_| number()).collect();
    let symbol = |&offset: &i64| Integer {
        offset,
        images: offset & 1,
        batches: offset >> 1 & 1,
        unknown: offset & 4 > 0,
    };
    let data = match random.u8(..6) {
        0 | 1 => Data::Floats(numbers.iter().map(|&value| value as f32 * 0.5).collect()),
        2 => Data::Symbols(numbers.iter().map(symbol).collect()),
        3 => Data::Unsigned(numbers.iter().map(|&value| value as u8).collect()),
        _ => Data::Ints(numbers),
    };
    let present = (0..sizes.len())
        .filter(|&at| sizes[at] > 0)
        .collect::<Vec<_>>();
    let batch = random.choice(present).filter(|_| random.u8(..5) == 0);
    Constant {
        dims: sizes,
        batch,
        data,
    }
}

#[test]
fn whatever_is_folded_there_is_an_error_or_as_many_values_as_the_dimensions_say() {
    const NAMES: [&str; 12] = [
        "axis",
        "axes",
        "to",
        "keepdims",
        "mode",
        "k",
        "upper",
        "perm",
        "fmod",
        "batch_dims",
        "split",
        "exclusive",
    ];
    let mut random = Rng::with_seed(0xF01D);
    let mut done = BTreeMap::new();
    let mut rules: Vec<&str> = lower::all()
        .filter(|operator| operator.fold.is_some())
        .map(|operator| operator.name)
        .collect();
    rules.sort_unstable();
    for at in 0..rules.len() * 3_000 {
        let operator = rules[at % rules.len()];
        let mut operands: Vec<Constant> =
            (0..random.usize(..5)).map(|_| any(&mut random)).collect();
        if operator == "BitShift" {
            for operand in &mut operands {
                operand.data = Data::Unsigned(vec![1; operand.data.len()]);
            }
        }
        let operands: Vec<_> = operands
            .iter()
            .map(|o| Some(o).filter(|_| random.u8(..8) > 0))
            .collect();
        let mut attributes = Vec::new();
        if random.u8(..3) == 0 {
            let number = random.i64(-4..12);
            let value = match random.u8(..4) {
                0 => text(
                    random
                        .choice(["linear", "cubic", "edge", "reflect", "wrap"])
                        .unwrap(),
                ),
                1 => Attribute::Ints((0..random.usize(..4)).map(|_| random.i64(-3..4)).collect()),
                _ => int(number),
            };
            attributes.push((*random.choice(&NAMES).unwrap(), value));
        }
        if operator == "BitShift" {
            attributes.push(("direction", text("RIGHT")));
        }
        let node = node(operator, &attributes, random.usize(1..3));
        if let Ok(results) = all_folded(&node, &operands) {
            *done.entry(operator).or_insert(0) += 1;
            for result in results {
                assert_eq!(
                    result.elements(),
                    result.data.len(),
                    "{node:?} {operands:?}"
                );
                assert!(
                    result.batch.is_none_or(|at| result.dims[at] > 0),
                    "{node:?} {operands:?}"
                );
            }
        }
    }
    let often = rules
        .iter()
        .filter(|operator| done.get(*operator).is_some_and(|&n| n > 10));
    assert!(often.count() > rules.len() * 9 / 10, "{done:?}");
}

/// A tensor as `tests/data/folding.py` writes it.
#[derive(serde::Deserialize)]
struct Recorded {
    dims: Vec<usize>,
    floats: Option<Vec<Option<f32>>>,
    ints: Option<Vec<i64>>,
}

#[derive(serde::Deserialize)]
#[serde(untagged)]
enum RecordedAttribute {
    Int(i64),
    Ints(Vec<i64>),
    Text(String),
}

#[derive(serde::Deserialize)]
struct Case {
    operator: String,
    operands: Vec<Option<Recorded>>,
    attributes: BTreeMap<String, RecordedAttribute>,
    results: Vec<Recorded>,
}

impl Recorded {
    fn constant(&self) -> Constant {
        let number = |value: &Option<f32>| value.unwrap_or(f32::NAN);
        let data = match (&self.floats, &self.ints) {
            (Some(floats), _) => Data::Floats(floats.iter().map(number).collect()),
            (None, values) => Data::Ints(values.clone().unwrap_or_default()),
        };
        Constant::new(self.dims.clone(), data)
    }
}

fn agree(found: &Constant, expected: &Constant) -> bool {
    let close = |(a, b): (&f32, &f32)| {
        a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= 2e-5 * b.abs().max(1.0)
    };
    let values = match (&found.data, &expected.data) {
        (Data::Floats(a), Data::Floats(b)) => a.iter().zip(b).all(close),
        _ => found.integers() == expected.integers(),
    };
    values && found.dims == expected.dims
}

#[test]
fn what_is_folded_is_what_onnxruntime_computes() {
    let cases: Vec<Case> = include_str!("../../tests/data/folding.jsonl")
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(cases.len() > 100);
    for case in cases {
        let operands = case.operands.iter().map(Option::as_ref);
        let operands: Vec<_> = operands.map(|o| o.map(Recorded::constant)).collect();
        let attribute = |(name, value): (&String, &RecordedAttribute)| {
            let value = match value {
                RecordedAttribute::Int(value) => int(*value),
                RecordedAttribute::Ints(values) => Attribute::Ints(values.clone()),
                RecordedAttribute::Text(value) => text(value),
            };
            (name.clone(), value)
        };
        let node = Node {
            attributes: case.attributes.iter().map(attribute).collect(),
            ..node(&case.operator, &[], case.results.len())
        };
        let list: Vec<_> = operands.iter().map(Option::as_ref).collect();
        let found = all_folded(&node, &list).unwrap();
        for (found, expected) in found.iter().zip(&case.results) {
            let expected = expected.constant();
            assert!(
                agree(found, &expected),
                "{node:?} {operands:?}: {found:?}, not {expected:?}"
            );
        }
    }
}

//! ONNX files for tests, node by node.

use prost::Message;

pub(super) use crate::schema::attribute::{float, int, text};
use crate::schema::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto,
    ValueInfoProto, data_type,
};

/// A model with one input `image`, (batch, 3, 8, 8), in opset 17.
#[derive(Clone)]
pub(super) struct Onnx(pub ModelProto);

impl Onnx {
    pub fn new() -> Self {
        let image = image_of("image", &[3, 8, 8]);
        Self(ModelProto {
            ir_version: Some(8),
            graph: Some(GraphProto {
                input: vec![image],
                ..GraphProto::default()
            }),
            opset_import: vec![OperatorSetIdProto {
                domain: None,
                version: Some(17),
            }],
            functions: vec![],
        })
    }

    pub fn graph(&mut self) -> &mut GraphProto {
        self.0.graph.as_mut().expect("every test model has a graph")
    }

    /// A float initializer with values that differ from each other.
    pub fn floats(self, name: &str, dims: &[i64]) -> Self {
        let count = dims.iter().product::<i64>();
        let values = (0..count).map(|at| ((at as f32 + name.len() as f32) * 0.7).sin() * 0.4);
        let values = values.collect();
        self.exactly(name, dims, values)
    }

    /// A float initializer with these values.
    pub fn exactly(mut self, name: &str, dims: &[i64], float_data: Vec<f32>) -> Self {
        self.graph().initializer.push(TensorProto {
            name: Some(name.to_owned()),
            dims: dims.to_vec(),
            data_type: Some(data_type::FLOAT),
            float_data,
            ..TensorProto::default()
        });
        self
    }

    /// An initializer of unsigned bytes.
    pub fn unsigned(self, name: &str, dims: &[i64], bytes: Vec<u8>) -> Self {
        self.raw(name, dims, data_type::UINT8, bytes)
    }

    /// An initializer of signed bytes.
    pub fn signed(self, name: &str, dims: &[i64], bytes: Vec<i8>) -> Self {
        let bytes = bytes.into_iter().map(i8::cast_unsigned).collect();
        self.raw(name, dims, data_type::INT8, bytes)
    }

    /// A list of unsigned integers of 16 bits.
    pub fn unsigned_shorts(self, name: &str, values: &[u16]) -> Self {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        let count = values.len() as i64;
        self.raw(name, &[count], data_type::UINT16, bytes.collect())
    }

    fn raw(mut self, name: &str, dims: &[i64], kind: i32, bytes: Vec<u8>) -> Self {
        let tensor = TensorProto::raw(name, kind, dims, bytes);
        self.graph().initializer.push(tensor);
        self
    }

    pub fn ints(mut self, name: &str, values: &[i64]) -> Self {
        self.graph()
            .initializer
            .push(TensorProto::ints(name, values));
        self
    }

    /// A node named `node_OUTPUT`; operands and result are one word each.
    pub fn node(
        mut self,
        operator: &str,
        inputs: &str,
        output: &str,
        attribute: &[AttributeProto],
    ) -> Self {
        // A dash stands for an operand that is left out.
        let inputs = inputs.split(' ').filter(|name| !name.is_empty());
        let inputs: Vec<&str> = inputs.map(|name| name.trim_matches('-')).collect();
        let name = format!("node_{output}");
        let node = NodeProto::of(operator, &name, &inputs, &[output], attribute.to_vec());
        self.graph().node.push(node);
        self
    }

    pub fn output(mut self, name: &str) -> Self {
        self.graph().output.push(value(name));
        self
    }

    /// A head: the mean of each channel, then a matrix to five classes.
    pub fn head(self, from: &str, channels: i64, exit: &str) -> Self {
        self.scores(from, channels, exit).output(exit)
    }

    /// As [`head`](Self::head), which is no output.
    pub fn scores(self, from: &str, channels: i64, exit: &str) -> Self {
        let (mean, flat) = (format!("mean_{exit}"), format!("flat_{exit}"));
        let (weights, bias) = (format!("w_{exit}"), format!("b_{exit}"));
        self.floats(&weights, &[5, channels])
            .floats(&bias, &[5])
            .node("GlobalAveragePool", from, &mean, &[])
            .node("Flatten", &mean, &flat, &[])
            .node(
                "Gemm",
                &format!("{flat} {weights} {bias}"),
                exit,
                &[int("transB", 1)],
            )
    }

    pub fn bytes(&self) -> Vec<u8> {
        self.0.encode_to_vec()
    }
}

/// A two-exit network with every supported operator.
pub(super) fn everything() -> Onnx {
    let window = [
        ints_of("kernel_shape", &[3, 3]),
        ints_of("strides", &[2, 2]),
    ];
    let ceiling = [&window[..], &[int("ceil_mode", 1)]].concat();
    Onnx::new()
        .floats("w0", &[4, 3, 3, 3])
        .floats("b0", &[4])
        .floats("gain", &[4])
        .floats("mean", &[4])
        .exactly("variance", &[4], vec![1.0, 0.5, 2.0, 0.1])
        .node("Conv", "image w0 b0", "c0", &[ints_of("pads", &[1; 4])])
        .node("BatchNormalization", "c0 gain b0 mean variance", "n0", &[])
        .node("Relu", "n0", "r0", &[])
        .node("MaxPool", "r0", "p0", &ceiling)
        .head("p0", 4, "exit_0")
        .floats("w1", &[4, 1, 3, 3])
        .exactly("low", &[], vec![0.0])
        .exactly("high", &[], vec![6.0])
        .node(
            "Conv",
            "p0 w1",
            "c1",
            &[int("group", 4), ints_of("pads", &[1; 4])],
        )
        .node("Add", "c1 p0", "a1", &[])
        .node("Clip", "a1 low high", "r1", &[])
        .node("AveragePool", "r1", "p1", &window)
        .node("Dropout", "p1", "d1", &[])
        .ints("axes", &[2, 3])
        .node("ReduceMean", "d1", "m1", &[ints_of("axes", &[-2, -1])])
        .node("Squeeze", "m1 axes", "s1", &[])
        .node("Identity", "s1", "i1", &[])
        // (batch, -1) as PyTorch writes it.
        .node("Shape", "m1", "shape", &[])
        .node("Constant", "", "zero", &[int("value_int", 0)])
        .node("Gather", "shape zero", "batch", &[])
        .node("Constant", "", "front", &[ints_of("value_ints", &[0])])
        .node("Unsqueeze", "batch front", "batches", &[])
        .ints("rest", &[-1])
        .node("Concat", "batches rest", "target", &[int("axis", 0)])
        .node("Reshape", "m1 target", "f1", &[])
        .node("Add", "f1 i1", "twice", &[])
        .floats("w2", &[4, 5])
        .floats("b2", &[5])
        .node("MatMul", "twice w2", "h1", &[])
        .node("Add", "h1 b2", "l1", &[])
        .node("Softmax", "l1", "exit_1", &[int("axis", 1)])
        .output("exit_1")
}

pub(super) fn ints_of(name: &str, values: &[i64]) -> AttributeProto {
    crate::schema::attribute::ints(name, values)
}

pub(super) fn value(name: &str) -> ValueInfoProto {
    ValueInfoProto::named(name)
}

/// A tensor of floats, one for each image.
pub(super) fn image_of(name: &str, sizes: &[i64]) -> ValueInfoProto {
    let sizes = sizes.iter().copied().map(Some);
    ValueInfoProto::tensor(name, data_type::FLOAT, [None].into_iter().chain(sizes))
}

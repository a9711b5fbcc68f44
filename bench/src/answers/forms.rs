//! Answers of usual forms, and how much longer a stage takes that writes them to a client's area, compared with a copy of as
//! many bytes.

use std::hint::black_box;
use std::sync::Arc;

use hdrhistogram::Histogram;
use punctual_core::{
    ActionId, Criticality, Event, Infer, Instant, ModelId, PartitionId, RequestId, StageId, Window,
};
use punctual_device::{
    Device, DeviceSpec, HostedDevice, ModelSpec, PartitionSpec, Start, SubmitError,
};
use punctual_device_cpu::{CpuDevice, StartError};
use punctual_model::{
    AnswerKind, Conv2d, Exit, InputSpec, Network, Operator, OperatorKind, Output, OutputLayout,
    Quantised, Resize, Stage, Tensor, TensorId, WeightRange,
};
use punctual_platform::areas::{self, Area};
use punctual_platform::{Doorbell, OsError, affinity, clock};
use punctual_types::{
    Activation, Axis, Coordinates, Digit, Element, Extent, Filter, Random, Resampling, View,
};

use super::histogram;

/// An answer: how its last operator makes it.
#[derive(Clone, Copy, Debug)]
pub struct Form {
    pub name: &'static str,
    /// Channels, rows, columns.
    pub shape: [u32; 3],
    pub last: Last,
    /// Whether the channels of a pixel follow each other.
    pub tokens: bool,
    pub element: Element,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Last {
    /// A convolution with windows of 1x1.
    Convolution,
    /// A quarter of the rows and columns, enlarged.
    Resize,
}

const fn form(name: &'static str, shape: [u32; 3], last: Last) -> Form {
    Form {
        name,
        shape,
        last,
        tokens: false,
        element: Element::F32,
    }
}

/// All of about 1 MiB.
pub const FORMS: [Form; 8] = [
    form("depth map, 1x512x512", [1, 512, 512], Last::Convolution),
    form("depth map, enlarged", [1, 512, 512], Last::Resize),
    form("logits, 21x112x112", [21, 112, 112], Last::Convolution),
    form("logits, enlarged", [21, 112, 112], Last::Resize),
    form("heat maps, 17x96x160", [17, 96, 160], Last::Convolution),
    Form {
        tokens: true,
        ..form("anchors, 8732x30", [30, 1, 8732], Last::Convolution)
    },
    Form {
        element: Element::I32,
        ..form("class map, i32, 512x512", [1, 512, 512], Last::Resize)
    },
    Form {
        element: Element::Bool,
        ..form("mask, bool, 1024x1024", [1, 1024, 1024], Last::Resize)
    },
];

/// Channels that the last convolution reads.
const WIDTH: u32 = 16;

impl Form {
    /// A convolution of the picture, then what makes the answer.
    pub fn network(&self) -> Network {
        let [channels, height, width] = self.shape;
        let (below, wide) = match self.last {
            Last::Convolution => ((height, width), WIDTH),
            Last::Resize => ((height / 4, width / 4), channels),
        };
        let operator = |at: u32, kind: OperatorKind| {
            let (reads, output) = ([TensorId(at - 1)], TensorId(at));
            Operator::new(format!("operator {at}"), &reads, output, kind)
        };
        let mut random = Random::new(1);
        let mut weights: Vec<f32> = Vec::new();
        let mut range = |len: u32| {
            let start = weights.len() as u32;
            weights.extend((0..len).map(|_| random.signed_unit()));
            WeightRange { start, len }
        };
        let mut convolution = |at: u32, from: u32, to: u32| {
            let conv = Conv2d {
                window: punctual_types::Window::whole(Extent::square(1)),
                groups: 1,
                activation: Activation::None,
            };
            operator(at, conv.into()).with_weights([range(from * to), range(to)])
        };
        let tensor = |channels, (height, width)| Tensor {
            channels,
            height,
            width,
        };
        let first = convolution(1, 3, wide);
        let last = match self.last {
            Last::Convolution => convolution(2, wide, channels),
            Last::Resize => {
                let resampling = Resampling {
                    size: Extent { height, width },
                    scale: [4.0; 2],
                    coordinates: Coordinates::HalfPixel,
                    filter: Filter::Linear,
                };
                operator(2, Resize { resampling }.into())
            }
        };
        Network {
            name: self.name.to_owned(),
            input: InputSpec::rgb(below.0, below.1, [0.0; 3], [1.0; 3]),
            vectors: vec![],
            answer: AnswerKind::None,
            classes: vec![],
            tensors: vec![
                tensor(3, below),
                tensor(wide, below),
                tensor(channels, (height, width)),
            ],
            stages: vec![Stage {
                inputs: vec![TensorId(0)],
                outputs: vec![],
                operators: vec![first, last],
                exit: Some(self.exit()),
            }],
            weights: weights.into(),
            quantised: Quantised::default(),
        }
    }

    fn exit(&self) -> Exit {
        let digit = |axis, extent| Digit {
            axis,
            step: 1,
            extent,
        };
        let [channels, height, width] = self.shape;
        let mut digits = vec![
            digit(Axis::Channel, channels),
            digit(Axis::Row, height),
            digit(Axis::Column, width),
        ];
        if self.tokens {
            digits.rotate_left(1);
        }
        Exit {
            outputs: vec![Output {
                name: "answer".to_owned(),
                tensor: TensorId(2),
                shape: digits.iter().map(|digit| digit.extent).collect(),
                view: View {
                    start: [0; 3],
                    digits,
                },
                element: self.element,
            }],
            scores: None,
            confidence: None,
        }
    }
}

/// Why a form was not measured.
#[derive(Debug, thiserror::Error)]
pub enum FormError {
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("areas of shared memory: {0}")]
    Areas(#[from] OsError),
    #[error("the device refused the stage: {0}")]
    Refused(#[from] SubmitError),
    #[error("the stage ended with {0:?}")]
    Failed(Box<Event>),
}

/// Times in ns, in alternation.
pub struct Times {
    /// The stage that writes no outputs, and the one that does.
    pub without: Histogram<u64>,
    pub with: Histogram<u64>,
    /// A copy of as many bytes, of a buffer that was just written, to an area.
    pub copy: Histogram<u64>,
    pub bytes: usize,
}

/// Areas in turn: a client holds some.
const AREAS: usize = 4;

/// Measures on a core, to which the calling thread is bound then: both sides' caches are the same.
pub fn measure(form: &Form, core: usize, rounds: u32) -> Result<Times, FormError> {
    let network = form.network();
    let layout = OutputLayout::of(&network, |_| true);
    let bytes = form.exit().outputs[0].bytes() as usize;
    let bell = Arc::new(Doorbell::new());
    let spec = DeviceSpec {
        models: &[
            ModelSpec::resident(&network, &[1]),
            ModelSpec {
                outputs: Some(&layout),
                ..ModelSpec::resident(&network, &[1])
            },
        ],
        partitions: &[PartitionSpec::on_cores("main", vec![core], None)],
        request_buffers: AREAS as u16,
        cache: None,
        start: Start::Whole,
    };
    let mut device = CpuDevice::start(&spec, bell.clone())?;
    // Where that is not granted, the copy's caches are another core's.
    let _ = affinity::pin_current_thread(core);
    let area_bytes = layout.area_bytes as usize;
    let (_file, areas) = areas::shared(c"answers", &[], 2 * AREAS, area_bytes)?;
    let mut areas = areas.into_iter();
    let inputs = device.shell().input_buffers();
    for buffer in 0..AREAS {
        let claim = inputs.regions().claim(buffer);
        claim.expect("nothing runs").replace_area(areas.next());
    }
    let mut copies: Vec<Area> = areas.collect();
    let mut source = vec![0_u8; bytes];
    let mut times = Times {
        without: histogram(),
        with: histogram(),
        copy: histogram(),
        bytes,
    };
    for round in 0..rounds as usize + WARM_UP {
        let at = round % AREAS;
        let without = stage(&mut device, &bell, ModelId(0), at as u16)?;
        let with = stage(&mut device, &bell, ModelId(1), at as u16)?;
        black_box(&mut source).fill(round as u8);
        let to = &mut copies[at].as_mut_slice()[..bytes];
        let before = clock::now_ns();
        to.copy_from_slice(black_box(&source));
        let copy = clock::now_ns() - before;
        if round >= WARM_UP {
            times.without.saturating_record(without);
            times.with.saturating_record(with);
            times.copy.saturating_record(copy);
        }
    }
    Ok(times)
}

/// Rounds that find cold caches.
const WARM_UP: usize = 4;

/// How long a stage of a request took.
fn stage(
    device: &mut CpuDevice,
    bell: &Doorbell,
    model: ModelId,
    buffer: u16,
) -> Result<u64, FormError> {
    let inputs = device.shell().input_buffers();
    // Models put their zeros in different places: a claim clears what another one left.
    drop(inputs.claim(buffer, model).expect("nothing runs"));
    let request = RequestId {
        buffer,
        generation: 0,
    };
    device.submit(&Infer {
        id: ActionId(1),
        partition: PartitionId(0),
        model,
        stage: StageId(0),
        batch: 1,
        members: [request].into_iter().collect(),
        window: Window {
            earliest: Instant::ZERO,
            latest: Instant::FAR_FUTURE,
        },
        criticality: Criticality::RealTime,
    })?;
    loop {
        let seen = bell.count();
        match device.poll() {
            Some(Event::Finished(finished)) => return Ok(finished.measured.as_nanos()),
            Some(other) => return Err(FormError::Failed(Box::new(other))),
            None => bell.wait(seen, None),
        };
    }
}

//! Which bytes of a launch come from memory, which are in the second-level cache, and which cross the way to the host.
//!
//! A stage is taken to run over and over, as measurements do it. The cache keeps what was touched last, whole tensors
//! at a time, and knows nothing of its sets: an assumption that favours networks that just fit.

use std::collections::BTreeMap;

use punctual_kernels::cuda::Arguments;
use punctual_kernels::cuda::params::{Conv, ConvBytes, InputPlanar, Linear, Pattern, Recurrent};

use crate::lower::{LaunchList, Place, Step};

/// Bytes that a launch moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// From and to device memory: what the cache does not have.
    pub memory: u64,
    /// From and to memory of the host: inputs, outputs, answers.
    pub host: u64,
    /// Found in the cache.
    pub cached: u64,
}

/// Of each launch of a list, with a cache of `capacity` bytes.
pub(super) fn moved(list: &LaunchList, capacity: u64) -> Vec<Moved> {
    let touched: Vec<_> = list.steps.iter().map(touched).collect();
    let mut cache = Cache {
        capacity,
        kept: Vec::new(),
    };
    let mut run = || -> Vec<Moved> { touched.iter().map(|all| cache.launch(all)).collect() };
    run();
    run()
}

/// Different bytes of device memory that a list touches: no run of it can do with fewer, less those that a cache kept.
pub(super) fn different(list: &LaunchList) -> u64 {
    let mut places = BTreeMap::new();
    for (place, bytes) in list.steps.iter().flat_map(touched) {
        if matches!(place, Place::Weights { .. } | Place::Request { .. }) {
            let most: &mut u64 = places.entry(place.encode()).or_default();
            *most = bytes.max(*most);
        }
    }
    // Buffers of the workspace may lie on others.
    list.workspace_bytes + places.values().sum::<u64>()
}

/// What was touched, the last at the end: memory, whichever tensors it holds.
struct Cache {
    capacity: u64,
    /// Encoded places, and bytes.
    kept: Vec<(u64, u64)>,
}

impl Cache {
    fn launch(&mut self, touched: &[(Place, u64)]) -> Moved {
        let mut moved = Moved::default();
        for &(place, bytes) in touched {
            let to = match place {
                Place::Input { .. } | Place::Outputs { .. } | Place::Answers | Place::Done => {
                    &mut moved.host
                }
                _ if self.has(place, bytes) => &mut moved.cached,
                _ => &mut moved.memory,
            };
            *to += bytes;
        }
        moved
    }

    /// Whether the bytes are there; they are afterwards.
    fn has(&mut self, place: Place, bytes: u64) -> bool {
        let place = place.encode();
        let at = self.kept.iter().position(|&(kept, _)| kept == place);
        let since = |at: usize| self.kept[at..].iter().map(|&(_, bytes)| bytes).sum::<u64>();
        let has = at.is_some_and(|at| since(at) <= self.capacity);
        if let Some(at) = at {
            self.kept.remove(at);
        }
        self.kept.push((place, bytes));
        has
    }
}

/// Where a launch reads and writes, and how many bytes.
fn touched(step: &Step) -> Vec<(Place, u64)> {
    let traffic = step.traffic();
    let inputs = unnamed(step.arguments());
    let mut weights = Some(inputs);
    let spans = traffic.reads.iter().chain(&traffic.writes);
    let named = spans.map(|span| match (span.place, span.bytes) {
        // A launch's weights, biases and tables lie in one page: the first of them stands for all.
        (Place::Weights { .. }, _) => (span.place, weights.take().unwrap_or(0)),
        (Place::Input { .. }, _) => (span.place, inputs),
        (Place::Workspace { .. } | Place::Request { .. }, bytes) => (span.place, bytes),
        (_, bytes) => (span.place, bytes),
    });
    let share = share_read(step.arguments());
    let scaled = named.enumerate().map(|(at, (place, bytes))| match at {
        0 if share < 1.0 => (place, (bytes as f64 * share) as u64),
        _ => (place, bytes),
    });
    scaled.filter(|&(_, bytes)| bytes > 0).collect()
}

/// Which part of a convolution's input, its first read, windows reach that are smaller than their steps.
fn share_read(arguments: &Arguments) -> f64 {
    match arguments {
        // What adds up parts of sums has no input.
        Arguments::Conv(conv) if conv.input.address != 0 => {
            let down = f64::from(conv.kernel_height) / f64::from(conv.stride_height);
            let across = f64::from(conv.kernel_width) / f64::from(conv.stride_width);
            down.min(1.0) * across.min(1.0)
        }
        _ => 1.0,
    }
}

/// Bytes of a launch's weights, tables or, of prepared inputs, of each member: traffic names only where they begin.
fn unnamed(arguments: &Arguments) -> u64 {
    match arguments {
        Arguments::Conv(conv) => of_conv(conv),
        Arguments::ConvBytes(conv) => of_conv_bytes(conv),
        Arguments::Linear(linear) => of_linear(linear),
        Arguments::Recurrent(layer) => of_recurrent(layer),
        Arguments::LayerNorm(norm) => 8 * u64::from(norm.input.pitch),
        Arguments::Embedding(embedding) => {
            let rows = embedding.images * embedding.output.height * embedding.output.width;
            2 * u64::from(rows) * u64::from(embedding.channel_count)
        }
        Arguments::Tokens(tokens) => {
            2 * u64::from(tokens.output.width) * u64::from(tokens.channel_count)
        }
        Arguments::Resize(resize) => {
            16 * (u64::from(resize.output.height) + u64::from(resize.output.width))
        }
        Arguments::Gather(gather) => 4 * u64::from(gather.output.pitch),
        Arguments::Attention(attention) if attention.bias != 0 => {
            let rows = if attention.bias_row == 0 {
                1
            } else {
                attention.rows
            };
            let heads = if attention.bias_head == 0 {
                1
            } else {
                attention.heads
            };
            let of_head = u64::from(attention.queries) * u64::from(attention.keys);
            4 * u64::from(rows) * u64::from(heads) * of_head
        }
        Arguments::InputPlanar(input) => of_input(input),
        _ => 0,
    }
}

/// Inputs of one output of a convolution.
fn taps(conv: &Conv) -> u64 {
    u64::from(conv.kernel_height) * u64::from(conv.kernel_width)
}

/// How a convolution's weights lie.
pub(super) fn pattern(conv: &Conv) -> Pattern {
    match conv.groups {
        0 | 1 => Pattern::Dense,
        groups if groups == conv.input.channels && groups == conv.output.channels => {
            Pattern::Depthwise
        }
        _ => Pattern::Grouped,
    }
}

fn of_conv(conv: &Conv) -> u64 {
    let channels = u64::from(conv.channel_count);
    let inputs = match pattern(conv) {
        Pattern::Dense => u64::from(conv.input.pitch),
        Pattern::Depthwise => 1,
        Pattern::Grouped => u64::from(conv.input.channels / conv.groups),
    };
    // What adds up parts of sums reads biases alone; they are few beside weights.
    let weights = match conv.input.address {
        0 => 0,
        _ => 2 * channels * taps(conv) * inputs,
    };
    weights + 4 * channels
}

fn of_conv_bytes(conv: &ConvBytes) -> u64 {
    let taps = u64::from(conv.kernel_height) * u64::from(conv.kernel_width);
    let inputs = match conv.groups {
        0 | 1 => u64::from(conv.input.pitch),
        groups => u64::from((conv.input.channels / groups).max(1)),
    };
    u64::from(conv.channel_count) * (taps * inputs + 8)
}

fn of_linear(linear: &Linear) -> u64 {
    let features = u64::from(linear.feature_count);
    let weights = match linear.input {
        0 => 0,
        _ => 2 * features * u64::from(linear.depth),
    };
    weights + 4 * features
}

fn of_recurrent(layer: &Recurrent) -> u64 {
    let hidden = u64::from(layer.hidden);
    let gates = u64::from(layer.gates.channels);
    2 * gates * hidden.next_multiple_of(8) + 4 * gates
}

fn of_input(input: &InputPlanar) -> u64 {
    let output = &input.output;
    4 * u64::from(output.channels) * u64::from(output.height) * u64::from(output.width)
}

#[cfg(test)]
mod tests {
    use punctual_kernels::cuda::TensorView;

    use super::*;

    fn cache(capacity: u64) -> Cache {
        Cache {
            capacity,
            kept: Vec::new(),
        }
    }

    const A: Place = Place::Workspace { offset: 0 };
    const B: Place = Place::Workspace { offset: 256 };
    const C: Place = Place::Weights { page: 0, offset: 0 };

    #[test]
    fn what_was_touched_before_less_than_the_cache_holds_is_still_there() {
        let mut cache = cache(30);
        assert!(!cache.has(A, 10));
        assert!(!cache.has(B, 10));
        assert!(cache.has(A, 10), "20 bytes since");
        assert!(!cache.has(C, 15));
        assert!(!cache.has(B, 10), "35 bytes since");
    }

    #[test]
    fn memory_of_the_host_is_never_in_the_cache() {
        let mut cache = cache(1 << 20);
        let input = Place::Input {
            member: 0,
            offset: 0,
        };
        for _ in 0..2 {
            let moved = cache.launch(&[(input, 40), (Place::Answers, 16)]);
            assert_eq!((moved.host, moved.memory, moved.cached), (56, 0, 0));
        }
    }

    #[test]
    fn weights_are_those_of_the_launch_s_channels() {
        let mut conv = Conv {
            input: TensorView {
                address: A.encode(),
                channels: 60,
                pitch: 64,
                ..TensorView::default()
            },
            channel_count: 128,
            kernel_height: 3,
            kernel_width: 3,
            groups: 1,
            ..Conv::default()
        };
        assert_eq!(of_conv(&conv), 2 * 128 * 9 * 64 + 4 * 128);
        conv.input.address = 0;
        assert_eq!(
            of_conv(&conv),
            4 * 128,
            "what adds parts up has biases alone"
        );
    }

    #[test]
    fn a_window_smaller_than_its_step_reads_a_part_of_its_input() {
        let mut conv = Conv {
            kernel_height: 1,
            kernel_width: 1,
            input: TensorView {
                address: A.encode(),
                ..TensorView::default()
            },
            stride_height: 2,
            stride_width: 2,
            ..Conv::default()
        };
        assert_eq!(share_read(&Arguments::Conv(conv)), 0.25);
        (conv.kernel_height, conv.kernel_width) = (3, 3);
        assert_eq!(share_read(&Arguments::Conv(conv)), 1.0);
    }
}

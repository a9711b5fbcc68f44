//! Shapes, lifetimes and memory plans of a whole network fit together.

use proptest::prelude::*;
use punctual_model::{Tensor, memory, window_output};
use punctual_types::{Extent, Padding, Window};

use crate::fixture;

#[test]
fn a_tensor_lives_from_its_writer_to_its_last_reader_and_the_logits_beyond() {
    for stage in &fixture::network().stages {
        let lifetimes = stage.lifetimes();
        for (at, operator) in stage.operators.iter().enumerate() {
            let covers = |tensor| {
                let life = lifetimes.iter().find(|life| life.tensor == tensor);
                life.map(|life| life.first as usize <= at && at <= life.last as usize)
            };
            for read in operator.reads().filter(|read| !stage.inputs.contains(read)) {
                assert_ne!(
                    covers(read),
                    Some(false),
                    "{} reads {read:?}",
                    operator.name
                );
                assert!(covers(read).is_some() || stage.outputs.contains(&read));
            }
            assert_eq!(
                covers(operator.output).is_some(),
                !stage.outputs.contains(&operator.output)
            );
        }
        let logits = lifetimes
            .iter()
            .find(|life| Some(life.tensor) == stage.scores())
            .unwrap();
        assert_eq!(logits.last as usize, stage.operators.len());
    }
}

#[test]
fn no_operator_writes_where_it_reads() {
    let network = fixture::network();
    for stage in &network.stages {
        let lifetimes = stage.lifetimes();
        let bytes =
            |id: punctual_model::TensorId| 4 * network.tensors[id.index()].elements() as usize;
        let buffers: Vec<_> = lifetimes
            .iter()
            .map(|life| life.with_size(bytes(life.tensor)))
            .collect();
        let plan = memory::plan(&buffers, 64);
        let range = |tensor| {
            let at = lifetimes.iter().position(|life| life.tensor == tensor)?;
            Some(plan.offsets[at]..plan.offsets[at] + buffers[at].size)
        };
        for operator in &stage.operators {
            let Some(output) = range(operator.output) else {
                continue; // Carried over: it lies in the request buffer.
            };
            for input in operator.reads().filter_map(range) {
                let apart = input.end <= output.start || output.end <= input.start;
                assert!(apart, "{}: {input:?} and {output:?}", operator.name);
            }
        }
    }
}

proptest! {
    /// The formula against counting: windows begin at every stride and end inside the padding, and
    /// each of them sees a pixel.
    #[test]
    fn a_window_operator_makes_one_pixel_a_window(
        length in 1_u32..30, kernel in 1_u32..8, stride in 1_u32..6, before in 0_u32..7, after in 0_u32..7,
    ) {
        let input = Tensor { channels: 2, height: length, width: 9 };
        let kernel_extent = Extent { height: kernel, width: 1 };
        let stride_extent = Extent { height: stride, width: 1 };
        let padding = Padding { top: before, left: 0, bottom: after, right: 0 };
        let fits = before.max(after) < kernel && length + before + after >= kernel;
        let output = window_output(input, 5, &Window::new(kernel_extent, stride_extent, padding));
        prop_assert_eq!(output.is_ok(), fits);
        if let Ok(output) = output {
            let starts = (0..length + before + after).step_by(stride as usize);
            let windows: Vec<u32> =
                starts.filter(|start| start + kernel <= length + before + after).collect();
            prop_assert_eq!((output.channels, output.width), (5, 9));
            prop_assert_eq!(output.height as usize, windows.len());
            let sees_a_pixel = |start: &u32| start + kernel > before && *start < before + length;
            prop_assert!(windows.iter().all(sees_a_pixel));
        }
    }
}

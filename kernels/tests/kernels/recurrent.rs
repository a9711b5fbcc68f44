//! Recurrent layers equal their reference on every instruction set.

use crate::support::{blocked, check_output, isa, noise, run_in_parts};
use proptest::prelude::*;
use punctual_kernels::{
    BlockedLayout, Isa, Kernel, KernelError, Recurrent, RecurrentSpec, Weights,
};
use punctual_types::{Cell, HIDDEN_UNITS_MAX};

proptest! {
    #![proptest_config(crate::support::cases(200))]

    #[test]
    fn a_recurrent_layer_equals_its_reference(
        isa in isa(),
        cell in prop::sample::select(Cell::ALL.to_vec()),
        (hidden, steps) in (1..=40usize, 1..=9usize),
        halos in (0..=1usize, 0..=1usize),
        (starts, backwards) in any::<(bool, bool)>(),
        (batch, parts, seed) in (1..=2usize, 1..=4usize, any::<u64>()),
    ) {
        let [gates, values] = [cell.gates(), cell.values()].map(|count| count as usize * hidden);
        let layout = |channels, halo| BlockedLayout::new(isa, channels, 1, steps, halo).unwrap();
        let spec = RecurrentSpec {
            cell,
            gates: layout(gates, halos.0),
            initial: starts.then(|| BlockedLayout::vector(isa, values).unwrap()),
            output: layout(values, halos.1),
            backwards,
        };
        let layer = Recurrent::new(isa, &spec).unwrap();
        // Sums near 1, whatever the number of units.
        let size = 2.0 / (hidden as f32).sqrt();
        let weights: Vec<f32> = noise(seed, gates * hidden).iter().map(|x| x * size).collect();
        let bias = noise(seed ^ 1, gates);
        let packed = layer.packed(&Weights::floats(&[&weights, &bias])).unwrap();
        let images: Vec<[Vec<f32>; 2]> = (0..batch as u64)
            .map(|image| [noise(seed ^ (2 + image), gates * steps), noise(seed ^ (9 + image), values)])
            .collect();
        let memory: Vec<Vec<Vec<f32>>> = images
            .iter()
            .map(|[inputs, state]| {
                let state = spec.initial.map(|layout| blocked(&layout, state, 7.0, 1e9));
                [blocked(&spec.gates, inputs, 7.0, 1e9)].into_iter().chain(state).collect()
            })
            .collect();
        let outputs = run_in_parts(parts, &spec.output, &memory, &layer, &packed);
        for ([inputs, state], found) in images.iter().zip(&outputs) {
            let initial = starts.then_some(&state[..]);
            let expected = cell.run(inputs, &weights, &bias, initial, backwards);
            check_output(&spec.output, found, &expected, 2e-6 * steps as f32);
        }
    }
}

#[test]
fn recurrent_layers_that_do_not_fit_are_refused() {
    let isa = Isa::Scalar;
    let layout = |channels, steps| BlockedLayout::new(isa, channels, 1, steps, 0).unwrap();
    let refused = |gates, output| {
        let spec = RecurrentSpec {
            cell: Cell::Lstm,
            gates,
            initial: None,
            output,
            backwards: false,
        };
        Recurrent::new(isa, &spec).err()
    };
    assert_eq!(refused(layout(12, 5), layout(6, 5)), None);
    assert!(refused(layout(13, 5), layout(6, 5)).is_some());
    assert!(refused(layout(12, 5), layout(3, 5)).is_some());
    assert!(refused(layout(12, 5), layout(6, 4)).is_some());
    let most = HIDDEN_UNITS_MAX as usize;
    assert_eq!(refused(layout(4 * most, 1), layout(2 * most, 1)), None);
    let (found, limit) = (most + 1, most);
    let what = "the hidden units";
    assert_eq!(
        refused(layout(4 * found, 1), layout(2 * found, 1)),
        Some(KernelError::TooLarge { what, found, limit })
    );
}

//! A temperature folded into an exit's last layer.

use punctual_model::{Exit, TemperatureError, reference};

use crate::fixture::network;

#[test]
fn an_exits_scores_are_divided_and_no_other_exits() {
    let image: Vec<f32> = (0..network().tensors[0].elements())
        .map(|i| (i * 37 % 11) as f32 / 11.0)
        .collect();
    let before = reference::run(&network(), &image);
    let mut divided = network();
    divided.divide_scores(1, 2.5).unwrap();
    divided.validate().unwrap();
    let after = reference::run(&divided, &image);
    assert_eq!(after[0], before[0]);
    for (after, before) in after[1].iter().zip(&before[1]) {
        assert!((after - before / 2.5).abs() < 1e-6, "{after}, {before}");
    }
}

#[test]
fn an_exit_whose_weights_another_exit_has_is_divided_alone() {
    let image: Vec<f32> = (0..network().tensors[0].elements())
        .map(|i| (i * 37 % 11) as f32 / 11.0)
        .collect();
    let mut shared = network();
    let head = shared.stages[1].operators[4].weights.clone();
    shared.stages[0].operators[2].weights = head;
    shared.validate().unwrap();
    let before = reference::run(&shared, &image);
    for exit in [0, 1] {
        let mut divided = shared.clone();
        divided.divide_scores(exit, 2.5).unwrap();
        divided.validate().unwrap();
        let after = reference::run(&divided, &image);
        assert_eq!(after[1 - exit], before[1 - exit]);
        for (after, before) in after[exit].iter().zip(&before[exit]) {
            assert!((after - before / 2.5).abs() < 1e-6, "{after}, {before}");
        }
        // They are its own now.
        let weights = divided.weights.len();
        divided.divide_scores(exit, 0.4).unwrap();
        assert_eq!(divided.weights.len(), weights);
        let again = reference::run(&divided, &image);
        for (again, before) in again.iter().flatten().zip(before.iter().flatten()) {
            assert!((again - before).abs() < 1e-6, "{again}, {before}");
        }
    }
}

#[test]
fn temperatures_out_of_range_are_refused_and_change_nothing() {
    for temperature in [0.0, -1.0, 21.0, f64::NAN, f64::INFINITY] {
        let mut unchanged = network();
        let refused = unchanged.divide_scores(0, temperature);
        assert!(
            matches!(refused, Err(TemperatureError::Range(_))),
            "{temperature}"
        );
        assert_eq!(unchanged, network());
    }
}

#[test]
fn an_exit_without_a_last_layer_of_weights_is_refused_by_name() {
    let mut headless = network();
    let stage = &mut headless.stages[0];
    stage.operators.pop();
    let last = stage.operators.last().unwrap();
    let (name, output) = (last.name.clone(), last.output);
    stage.exit = Some(Exit::of_scores(output, 3));
    let refused = headless.divide_scores(0, 2.0);
    let operator = name;
    assert_eq!(
        refused,
        Err(TemperatureError::NoWeights { exit: 0, operator })
    );
}

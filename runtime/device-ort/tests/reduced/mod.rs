//! A network whose later stage reads what reductions behind a session give.

use punctual_conformance::networks;
use punctual_model::Network;

/// The second exit answers by the scores of the first, which a linear layer makes of a list of detections.
pub fn network() -> Network {
    let mut network = networks::detectors(3);
    let [first, second] = &mut network.stages[..] else {
        panic!("two stages");
    };
    let scores = first.exit.as_ref().and_then(|exit| exit.scores);
    let carried = scores.expect("scores").tensor;
    first.outputs.push(carried);
    second.inputs.push(carried);
    second.exit.as_mut().expect("an exit").scores = scores;
    for stage in &mut network.stages {
        stage.outputs.sort_unstable();
        stage.inputs.sort_unstable();
    }
    network
        .validate()
        .expect("an exit may read what an earlier stage made");
    network
}

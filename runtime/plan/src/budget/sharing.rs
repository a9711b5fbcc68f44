//! Stages that several models have in common: networks that begin alike share batches as long as
//! they are alike (Nexus, section 6.3).

use punctual_core::{ModelConfig, ModelId};
use punctual_model::{OutputLayout, Package};

use crate::inputs::DeviceKind;
use crate::resolve::Model;

/// Which stages run as another model's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sharing {
    /// By model and stage: the model, an earlier one, whose stage it is as well.
    lenders: Vec<Vec<Option<usize>>>,
    /// By model: the first model of those that it shares stages with, directly or not.
    groups: Vec<usize>,
}

impl Sharing {
    pub(crate) fn none(models: &[Model<'_>]) -> Self {
        Self::of_none(models.iter().map(|model| model.package))
    }

    fn of_none<'p>(packages: impl ExactSizeIterator<Item = &'p Package>) -> Self {
        let count = packages.len();
        let stages = packages.map(|package| package.network().stages.len());
        Self {
            lenders: stages.map(|stages| vec![None; stages]).collect(),
            groups: (0..count).collect(),
        }
    }

    /// Stages with equal hashes, of models whose request buffers are alike: a stage that runs as
    /// another model's reads and writes its members' buffers as that one would its own, and their
    /// outputs go to the same places. Models that `may_share` rules out share nothing, nor do models
    /// on different devices.
    pub(crate) fn find(
        models: &[Model<'_>],
        outputs: &[OutputLayout],
        may_share: impl Fn(usize) -> bool,
    ) -> Self {
        let packages = models.iter().map(|model| (model.package, model.device));
        Self::between(&packages.collect::<Vec<_>>(), outputs, may_share)
    }

    fn between(
        models: &[(&Package, DeviceKind)],
        outputs: &[OutputLayout],
        may_share: impl Fn(usize) -> bool,
    ) -> Self {
        let (packages, devices): (Vec<&Package>, Vec<DeviceKind>) = models.iter().copied().unzip();
        let mut sharing = Self::of_none(packages.iter().copied());
        for model in (0..packages.len()).filter(|&model| may_share(model)) {
            let carried = packages[model].network().carried();
            let alike: Vec<usize> = (0..model)
                .filter(|&other| may_share(other))
                .filter(|&other| devices[other] == devices[model])
                .filter(|&other| packages[other].network().carried() == carried)
                .collect();
            for stage in 0..sharing.lenders[model].len() {
                let hash = |of: usize| packages[of].stage_prefixes().get(stage).map(|p| p.hash);
                let outputs = |of: usize| outputs.get(of).and_then(|layout| layout.stage(stage));
                let lender = alike
                    .iter()
                    .find(|&&other| hash(other) == hash(model) && outputs(other) == outputs(model));
                if let Some(&lender) = lender {
                    sharing.lenders[model][stage] = Some(lender);
                    sharing.unite(model, lender);
                }
            }
        }
        sharing
    }

    fn unite(&mut self, a: usize, b: usize) {
        let (a, b) = (self.groups[a], self.groups[b]);
        for group in &mut self.groups {
            if *group == a.max(b) {
                *group = a.min(b);
            }
        }
    }

    /// Whether two models have to be compiled and measured alike.
    pub(crate) fn are_grouped(&self, a: usize, b: usize) -> bool {
        self.groups[a] == self.groups[b]
    }

    /// Names the lenders, and gives stages that are one the same times: the longest that was measured of any.
    pub(crate) fn apply(&self, models: &mut [ModelConfig]) {
        for (model, lenders) in self.lenders.iter().enumerate() {
            for (stage, lender) in lenders.iter().enumerate() {
                let Some(lender) = *lender else { continue };
                let (before, from) = models.split_at_mut(model);
                let (lent, own) = (
                    &mut before[lender].stages[stage],
                    &mut from[0].stages[stage],
                );
                for (lent, own) in lent.times.iter_mut().zip(&own.times) {
                    for (lent, own) in lent.on.iter_mut().zip(&own.on) {
                        lent.budget = lent.budget.max(own.budget);
                        lent.max_seen = lent.max_seen.max(own.max_seen);
                    }
                }
                own.runs_as = Some(ModelId(lender as u16));
            }
        }
        for (model, lenders) in self.lenders.iter().enumerate() {
            for (stage, lender) in lenders.iter().enumerate() {
                if let Some(lender) = *lender {
                    models[model].stages[stage].times = models[lender].stages[stage].times.clone();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use punctual_model::{
        AnswerKind, Calibration, Exit, InputSpec, Linear, Network, Operator, OperatorKind, Pool,
        Quantised, Stage, Tensor, TensorId, WeightRange, cut_where_they_part,
    };
    use punctual_types::{Activation, Extent};

    use super::*;

    fn package(network: Network) -> Package {
        Package::new(network, Calibration::default()).expect("a valid network")
    }

    /// Means of the channels, a layer of three features, and a head of two classes whose bias is `head`.
    fn network(layer: f32, head: f32) -> Network {
        let shape = |channels, side| Tensor {
            channels,
            height: side,
            width: side,
        };
        let operator = |name: &str, input, kind: OperatorKind| {
            Operator::new(name, &[TensorId(input)], TensorId(input + 1), kind)
        };
        let linear = |name: &str, input, start, [inputs, outputs]: [u32; 2], activation| {
            let matrix = WeightRange {
                start,
                len: inputs * outputs,
            };
            let bias = WeightRange {
                start: start + inputs * outputs,
                len: outputs,
            };
            let kind = Linear { activation };
            operator(name, input, kind.into()).with_weights([matrix, bias])
        };
        let mut weights = vec![layer; 12];
        weights.extend([head; 8]);
        Network {
            name: "means".to_owned(),
            input: InputSpec::rgb(4, 4, [0.5; 3], [0.5; 3]),
            vectors: vec![],
            answer: AnswerKind::Classes,
            classes: vec!["no".to_owned(), "yes".to_owned()],
            tensors: vec![shape(3, 4), shape(3, 1), shape(3, 1), shape(2, 1)],
            stages: vec![Stage {
                inputs: vec![TensorId(0)],
                outputs: Vec::new(),
                operators: vec![
                    operator("mean", 0, Pool::mean_of_all(Extent::square(4)).into()),
                    linear("layer", 1, 0, [3, 3], Activation::Relu),
                    linear("head", 2, 12, [3, 2], Activation::None),
                ],
                exit: Some(Exit::of_scores(TensorId(3), 2)),
            }],
            weights: weights.into(),
            quantised: Quantised::default(),
        }
    }

    #[test]
    fn what_networks_have_in_common_runs_as_the_first_ones() {
        let cut = cut_where_they_part(&[1.0, 2.0, 3.0].map(|head| network(0.5, head)));
        let packages: Vec<Package> = cut.into_iter().map(package).collect();
        let models: Vec<_> = packages.iter().map(|p| (p, DeviceKind::Cpu)).collect();
        let sharing = Sharing::between(&models, &[], |_| true);
        assert_eq!(sharing.lenders[0], [None, None]);
        for model in 1..3 {
            assert_eq!(sharing.lenders[model], [Some(0), None]);
            assert!(sharing.are_grouped(0, model));
        }
    }

    #[test]
    fn other_networks_share_nothing() {
        let packages = [0.25, 0.5].map(|layer| package(network(layer, 1.0)));
        let models: Vec<_> = packages.iter().map(|p| (p, DeviceKind::Cpu)).collect();
        assert_eq!(
            Sharing::between(&models, &[], |_| true),
            Sharing::of_none(packages.iter())
        );
    }

    #[test]
    fn a_network_on_two_devices_shares_nothing_with_itself() {
        let cut = cut_where_they_part(&[1.0, 2.0, 1.0].map(|head| network(0.5, head)));
        let packages: Vec<Package> = cut.into_iter().map(package).collect();
        let devices = [DeviceKind::Cpu, DeviceKind::Cuda, DeviceKind::Cpu];
        let models: Vec<_> = packages.iter().zip(devices).collect();
        let sharing = Sharing::between(&models, &[], |_| true);
        assert_eq!(sharing.lenders[1], [None, None]);
        assert!(!sharing.are_grouped(0, 1));
        assert!(sharing.are_grouped(0, 2));
    }
}

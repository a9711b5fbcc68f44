//! Networks of the papers, operator by operator, with seeded weights: for benchmarks and tests, which
//! ask how long a network takes and what a device makes of it, not what it knows.
//!
//! The early-exit networks are those of SEEB-GPU: torchvision's ResNet-34, ResNet-50, MobileNetV2 and
//! ShuffleNetV2 with a small head behind every second block (MobileNetV2: at the ten depths of its
//! section 4). ResNet-152 and VGG-19 are whole, as in REEF's DISB. Two more are of `models/zoo`: a segmenter and a
//! transformer with exits.

mod outline;
mod residual;
mod seeds;
mod separable;
mod unet;
mod vgg;
mod vit;

use punctual_model::Network;

use seeds::seed_weights;

/// A network that can be made for inputs of any size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Structure {
    ResNet34,
    ResNet50,
    ResNet152,
    MobileNetV2,
    /// Of width 1, with eight exits.
    ShuffleNetV2,
    Vgg19,
    /// A segmenter of five classes: the zoo's `unet_nearest`.
    UNet,
    /// With exits behind every third block, as in the zoo.
    VitB16,
    /// The tiny one of DeiT: width 192, three heads, one exit.
    VitTi16,
}

const CLASSES: u32 = 1000;

/// The networks of DISB (REEF's benchmark) by their names in its files, and what stands for them: three have operators or
/// branches that these structures lack.
pub const OF_DISB: [(&str, Structure); 5] = [
    ("resnet152-imagenet", Structure::ResNet152),
    ("densenet201-imagenet", Structure::ResNet50),
    ("vgg19-imagenet", Structure::Vgg19),
    ("inceptionv3-imagenet", Structure::ResNet34),
    ("distilbert", Structure::MobileNetV2),
];

impl Structure {
    /// Those of the papers.
    pub const ALL: [Self; 6] = [
        Self::ResNet34,
        Self::ResNet50,
        Self::ResNet152,
        Self::MobileNetV2,
        Self::ShuffleNetV2,
        Self::Vgg19,
    ];

    /// Its name, e.g. `resnet34`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ResNet34 => "resnet34",
            Self::ResNet50 => "resnet50",
            Self::ResNet152 => "resnet152",
            Self::MobileNetV2 => "mobilenet_v2",
            Self::ShuffleNetV2 => "shufflenet_v2",
            Self::Vgg19 => "vgg19",
            Self::UNet => "unet",
            Self::VitB16 => "vit_b_16",
            Self::VitTi16 => "vit_ti_16",
        }
    }

    /// The network for images of `side` rows and columns, without its weights: enough to be lowered, not to be run.
    ///
    /// # Panics
    /// If the image is too small: less than 32 pixels a side.
    #[must_use]
    pub fn outline(self, side: u32) -> Network {
        assert!(side >= 32, "an image of {side} pixels a side");
        match self {
            Self::ResNet34 => residual::basic(self.name(), side),
            Self::ResNet50 => residual::bottleneck(self.name(), side, [3, 4, 6, 3], true),
            Self::ResNet152 => residual::bottleneck(self.name(), side, [3, 8, 36, 3], false),
            Self::MobileNetV2 => separable::mobilenet_v2(self.name(), side),
            Self::ShuffleNetV2 => separable::shufflenet_v2(self.name(), side),
            Self::Vgg19 => vgg::vgg19(self.name(), side),
            Self::UNet => unet::nearest(self.name(), side),
            Self::VitB16 => vit::vit(self.name(), side, vit::BASE),
            Self::VitTi16 => vit::vit(self.name(), side, vit::TINY),
        }
    }

    /// The network with weights drawn from `seed`, of sizes that keep activations far from the ends of halves.
    ///
    /// # Panics
    /// As [`outline`](Self::outline).
    #[must_use]
    pub fn network(self, side: u32, seed: u64) -> Network {
        let mut network = self.outline(side);
        seed_weights(&mut network, seed);
        network
    }

    /// Networks that were specialised from one by training its last layer again: they are equal but for its weights.
    ///
    /// # Panics
    /// As [`outline`](Self::outline).
    #[must_use]
    pub fn specialised(self, side: u32, seed: u64, count: u16) -> Vec<Network> {
        let network = self.network(side, seed);
        let last = network.stages.last().and_then(|it| it.operators.last());
        let ranges = last.map(|it| it.weights.clone()).unwrap_or_default();
        let variant = |number: u16| {
            let mut variant = network.clone();
            let weights = variant.weights.to_mut();
            for range in &ranges {
                let own = &mut weights[range.start as usize..][..range.len as usize];
                own.iter_mut()
                    .for_each(|it| *it *= 1.0 + f32::from(number) / 64.0);
            }
            variant
        };
        (0..count).map(variant).collect()
    }
}

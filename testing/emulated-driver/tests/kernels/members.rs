//! The way of a batch's members in and out.
use crate::buffer::Buffer;
use crate::launch::{Queue, launch};
use crate::tensor::{Tensor, shape};
use punctual_cuda_kernels::params::{Answers, InputPlanar, Members};
use punctual_cuda_kernels::{Arguments, IMAGES_MAX};
use punctual_kernels::softmax_top1;
use punctual_types::{Random, half};

fn addresses(buffers: &mut [Buffer]) -> [u64; IMAGES_MAX] {
    let mut addresses = [0; IMAGES_MAX];
    for (address, buffer) in addresses.iter_mut().zip(buffers) {
        *address = buffer.address();
    }
    addresses
}

#[test]
fn tensors_go_into_the_batch_and_out_of_it() {
    // Less than a block, a block, and a block and a bit of vectors.
    for bytes in [48, 8192, 8192 + 32] {
        let mut random = Random::new(9);
        let mut bytes_of = || Buffer::of((0..bytes / 8).map(|_| random.next_u64().to_ne_bytes()));
        let mut members: Vec<Buffer> = (0..3).map(|_| bytes_of()).collect();
        let mut batch = Buffer::of_bytes(3 * bytes);
        let mut params = Members {
            batch: batch.address(),
            bytes: bytes as u64,
            members: addresses(&mut members),
            images: 3,
            gap: 0,
        };
        launch("members_in", Arguments::Members(params));
        let together: Vec<u8> = members.iter().flat_map(Buffer::bytes).collect();
        assert_eq!(batch.bytes(), together, "{bytes} bytes");

        let mut others: Vec<Buffer> = (0..3).map(|_| Buffer::of_bytes(bytes)).collect();
        params.members = addresses(&mut others);
        launch("members_out", Arguments::Members(params));
        assert_eq!(others, members, "{bytes} bytes");
    }
}

#[test]
fn prepared_inputs_become_halves_side_by_side() {
    for channels in [1, 3, 11] {
        let of = shape(channels, 13, 11);
        let (row_stride, plane_stride) = (12, 13 * 12 + 5);
        let mut random = Random::new(10);
        let planes: Vec<Vec<f32>> = (0..2)
            .map(|_| {
                (0..channels * plane_stride)
                    .map(|_| random.signed_unit())
                    .collect()
            })
            .collect();
        let mut members: Vec<Buffer> = planes.iter().map(|p| Buffer::of_f32(p)).collect();
        let mut output = Tensor::unwritten(of, 2);
        launch(
            "input_planar",
            Arguments::InputPlanar(InputPlanar {
                output: output.view(),
                members: addresses(&mut members),
                row_stride,
                plane_stride: plane_stride as u32,
                images: 2,
                kept: 0,
            }),
        );
        for (found, planes) in output.planar().iter().zip(&planes) {
            for (at, &found) in found.iter().enumerate() {
                let (channel, row, column) = (at / 143, at / 11 % 13, at % 11);
                let value = planes[channel * plane_stride + row * 12 + column];
                assert_eq!(found, half::to_f32(half::from_f32(value)));
            }
        }
    }
}

/// Class and confidence of each image, and whether the done word was written.
fn answers(images: &[Vec<f32>]) -> (Vec<(u32, f32)>, u32) {
    let classes = images[0].len();
    let pitch = classes.next_multiple_of(8);
    let padded = images.iter().flat_map(|scores| {
        let padding = std::iter::repeat_n(1e9, pitch - classes);
        scores.iter().copied().chain(padding)
    });
    let mut scores = Buffer::of_f32(&padded.collect::<Vec<f32>>());
    let mut answers = Buffer::of_bytes(images.len() * 16);
    let mut done = Buffer::of_u32(&[0]);
    launch(
        "answers",
        Arguments::Answers(Answers {
            scores: scores.address(),
            answers: answers.address(),
            done: done.address(),
            images: images.len() as u32,
            classes: classes as u32,
            pitch: pitch as u32,
            sequence: 77,
            ..Answers::default()
        }),
    );
    let words = answers.u32s();
    let answer = |words: &[u32]| (words[0], f32::from_bits(words[1]));
    let found = words.chunks_exact(4).take(images.len()).map(answer);
    (found.collect(), done.u32s()[0])
}

#[test]
fn answers_are_those_of_softmax() {
    let mut random = Random::new(12);
    for (count, classes) in [(1, 1), (3, 10), (32, 43), (2, 1000)] {
        let images: Vec<Vec<f32>> = (0..count)
            .map(|_| (0..classes).map(|_| random.signed_unit() * 9.0).collect())
            .collect();
        let (found, done) = answers(&images);
        assert_eq!(done, 77);
        for (scores, (class, confidence)) in images.iter().zip(found) {
            let expected = softmax_top1(scores);
            assert_eq!(class, u32::from(expected.class));
            // A thousand roundings of summands up to 1.
            let error = (confidence - expected.confidence).abs();
            assert!(error < 1e-4 * expected.confidence, "{error}");
        }
    }
}

#[test]
fn scores_that_are_equal_or_no_numbers_are_answered_as_the_processor_does() {
    let (nan, infinity) = (f32::NAN, f32::INFINITY);
    let mut late = vec![0.0; 70];
    (late[38], late[65]) = (5.0, 5.0);
    let mut broken = late.clone();
    broken[2] = nan;
    for scores in [
        late,
        broken,
        vec![2.0; 4],
        vec![nan; 5],
        vec![-infinity; 40],
        vec![-infinity, -infinity, 1.0],
        vec![1.0, infinity, 0.0],
        vec![-1e30, -2e30],
    ] {
        let expected = softmax_top1(&scores);
        let (found, _) = answers(std::slice::from_ref(&scores));
        let (class, confidence) = found[0];
        assert_eq!(class, u32::from(expected.class), "{scores:?}");
        let error = (confidence - expected.confidence).abs();
        assert!(error < 1e-6, "{scores:?}: {confidence}");
    }
}

#[test]
fn a_stage_without_an_exit_only_says_that_it_is_done() {
    let mut done = Buffer::of_u32(&[0]);
    let arguments = Arguments::Answers(Answers {
        done: done.address(),
        images: 4,
        sequence: 5,
        ..Answers::default()
    });
    launch("answers", arguments);
    assert_eq!(done.u32s()[0], 5);

    let mut done = Buffer::of_u32(&[0]);
    let Arguments::Answers(params) = arguments else {
        unreachable!()
    };
    let arguments = Arguments::Answers(Answers {
        done: done.address(),
        ..params
    });
    let queue = Queue::new();
    queue.launch("answers", &arguments, None, 0).expect("runs");
    assert_eq!(done.u32s()[0], 0, "an evicted stage is not done");
}

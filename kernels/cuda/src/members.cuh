// The way of a batch's members in and out: request buffers, inputs, answers.
#pragma once

#include "epilogue.cuh"
#include "guard.cuh"

constexpr u32 COPY_VECTORS = 4;

// Copies a member's tensor (blockIdx.y), four vectors a thread, all read before the first is written.
DEVICE void copy_member(const Guard& guard, const Members& params, const u8* from, u8* to) {
    Watch watch(guard);
    u64 vectors = params.bytes / sizeof(Halves8);
    u64 first = u64(blockIdx.x) * (COPY_VECTORS * 128) + threadIdx.x;
    Halves8 copies[COPY_VECTORS];
#pragma unroll
    for (u32 i = 0; i < COPY_VECTORS; i++) {
        if (first + i * 128 < vectors) {
            copies[i] = reinterpret_cast<const Halves8*>(from)[first + i * 128];
        }
    }
    if (!watch.may_go_on()) {
        return;
    }
#pragma unroll
    for (u32 i = 0; i < COPY_VECTORS; i++) {
        if (first + i * 128 < vectors) {
            reinterpret_cast<Halves8*>(to)[first + i * 128] = copies[i];
        }
    }
}

PUNCTUAL_KERNEL(members_in, Members, 128) {
    u8* batch = at<u8>(params.batch + blockIdx.y * params.bytes);
    copy_member(guard, params, at<const u8>(params.members[blockIdx.y]), batch);
}

PUNCTUAL_KERNEL(members_out, Members, 128) {
    const u8* batch = at<const u8>(params.batch + blockIdx.y * params.bytes);
    copy_member(guard, params, batch, at<u8>(params.members[blockIdx.y]));
}

// Eight channels of a pixel from their planes.
DEVICE Values8 read_planes(const InputPlanar& params, const f32* from, u32 channel) {
    Values8 values = {};
#pragma unroll
    for (u32 i = 0; i < 8; i++) {
        if (channel + i < params.output.channels) {
            values.of[i] = from[u64(channel + i) * params.plane_stride];
        }
    }
    return values;
}

DEVICE void store_input(const InputPlanar& params, u64 place, const Values8& values) {
    if (params.kept == KEPT_FLOATS) {
        store8(at<f32>(params.output.address) + place, values);
    } else {
        store8(at<Half>(params.output.address) + place, values);
    }
}

// A pixel of a member (blockIdx.y) a thread: neighbouring threads read neighbours of each plane.
PUNCTUAL_KERNEL(input_planar, InputPlanar, 128) {
    Watch watch(guard);
    const TensorView& output = params.output;
    u32 pixels = output.height * output.width;
    u32 pixel = blockIdx.x * blockDim.x + threadIdx.x;
    bool here = pixel < pixels;
    const f32* from = at<const f32>(params.members[blockIdx.y]) +
                      u64(pixel / output.width) * params.row_stride + pixel % output.width;
    u64 to = (u64(blockIdx.y) * pixels + pixel) * output.pitch;
    // Most inputs have no more channels. They may lie in the host's memory, which is as far as the guard.
    Values8 first = here ? read_planes(params, from, 0) : Values8{};
    if (!watch.may_go_on() || !here) {
        return;
    }
    store_input(params, to, first);
#pragma unroll 1
    for (u32 channel = 8; channel < output.pitch; channel += 8) {
        store_input(params, to + channel, read_planes(params, from, channel));
    }
}

// The largest of some scores and the first class that has it.
struct Best {
    f32 score;
    u32 class_index;

    // False for a NaN, which is never the largest.
    DEVICE void consider(f32 other, u32 of) {
        if (other > score || (other == score && of < class_index)) {
            score = other;
            class_index = of;
        }
    }
};

// Class and confidence of an image's scores, by a warp. A score that is no number, or infinite, says that the
// computation went wrong: the confidence by softmax is 0.
DEVICE Answer answer(const Answers& params, const f32* scores) {
    Best best = {-infinity(), 0};
    for (u32 of = lane(); of < params.classes; of += LANES) {
        // Not `consider`: among scores of minus infinity it is class 0 that counts, whose lane is another's.
        if (scores[of] > best.score) {
            best = {scores[of], of};
        }
    }
#pragma unroll
    for (u32 mask = 1; mask < LANES; mask *= 2) {
        f32 score = shuffle_xor(best.score, mask);
        best.consider(score, shuffle_xor(best.class_index, mask));
    }
    if (params.form != FORM_SOFTMAX) {
        return {best.class_index, params.form == FORM_SIGMOID ? sigmoid(best.score) : best.score, 0, 0};
    }
    f32 sum = 0.0f;
    for (u32 of = lane(); of < params.classes; of += LANES) {
        // NaN for each NaN, and for infinity minus infinity.
        sum += expf(scores[of] - best.score);
    }
    sum = warp_sum(sum);
    // The largest one itself counts 1, so a sum below 1 can only be NaN.
    return {best.class_index, sum >= 1.0f ? 1.0f / sum : 0.0f, 0, 0};
}

// Says which launch of a queue was evicted first, and forgets it. By one thread, and without a look at the epoch: it is
// launched behind what was evicted.
PUNCTUAL_KERNEL(report_evicted, ReportEvicted, 32) {
    if (threadIdx.x == 0) {
        u32* first = at<u32>(params.first_evicted);
        store_relaxed(at<u32>(params.report), load_relaxed(first));
        store_relaxed(first, ~0u);
    }
}

// A warp an image; the block's last act is to say that the stage is done.
PUNCTUAL_KERNEL(answers, Answers, 1024) {
    Watch watch(guard);
    if (!watch.may_go_on()) {
        return;
    }
    if (params.answers != 0 && warp() < params.images) {
        Answer found = {};
        if (params.scores != 0) {
            found = answer(params, at<const f32>(params.scores) + u64(warp()) * params.pitch);
        }
        if (params.confidence != 0) {
            found.confidence = at<const f32>(params.confidence)[u64(warp()) * 8];
        }
        u32 not_finite = 0;
        for (u32 i = lane(); i < params.all_counts; i += LANES) {
            not_finite += at<const u32>(params.counts)[u64(warp()) * params.all_counts + i];
        }
        found.not_finite = warp_sum(not_finite);
        if (lane() == 0) {
            at<Answer>(params.answers)[warp()] = found;
            fence_system();
        }
    }
    block_barrier();
    if (threadIdx.x == 0) {
        fence_system();
        store_release(at<u32>(params.done), params.sequence);
    }
}

// Dense convolution on tensor cores: the matrix of all output pixels (rows) by all steps of the sum (taps times padded
// input channels), gathered from the input as it goes, times the matrix of weights. Weights and pixels have their
// channels side by side, so both operands lie as mma.sync wants them.
//
// A block computes PIXELS x CHANNELS sums. Its main loop goes through DEPTH steps at a time, with STAGES tiles in
// shared memory, all but one of them being filled by cp.async. The barrier of each tile is also the guard's check. Few
// output tiles (late layers of small batches) leave multiprocessors idle: then the sum is cut into `splits`, one a
// blockIdx.z, which go as f32 to `partial`, and conv_reduce finishes. Nothing is counted in memory, so that a launch
// that was cut short can run again.
#pragma once

#include "conv_finish.cuh"
#include "conv_window.cuh"
#include "guard.cuh"
#include "tensor_core.cuh"

#if __CUDA_ARCH__ >= 800

template <u32 PIXELS, u32 CHANNELS, u32 DEPTH, u32 STAGES, u32 WARPS_DOWN, u32 WARPS_ACROSS>
class ConvGemm {
    static constexpr u32 THREADS = WARPS_DOWN * WARPS_ACROSS * LANES;
    // 16-byte chunks of a row of a tile, of which each thread copies one, of several rows.
    static constexpr u32 CHUNKS = DEPTH / 8;
    static constexpr u32 ROW_BYTES = DEPTH * 2;
    static constexpr u32 ROWS_A_PASS = THREADS / CHUNKS;
    static constexpr u32 PIXEL_COPIES = PIXELS / ROWS_A_PASS;
    static constexpr u32 WEIGHT_COPIES = CHANNELS / ROWS_A_PASS;
    static constexpr u32 PASS_BYTES = ROWS_A_PASS * ROW_BYTES;
    static constexpr u32 WEIGHTS_AT = PIXELS * ROW_BYTES;
    static constexpr u32 STAGE_BYTES = (PIXELS + CHANNELS) * ROW_BYTES;
    // What a warp computes, in fragments.
    static constexpr u32 DOWN = PIXELS / WARPS_DOWN / 16;
    static constexpr u32 ACROSS = CHANNELS / WARPS_ACROSS / 8;
    // Sums pass through shared memory to be written in whole rows. Eight words of padding: eight rows of a
    // fragment's pairs then lie in different banks.
    static constexpr u32 SUMS_PITCH = CHANNELS + 8;
    static constexpr u32 ROUNDS = PIXELS * SUMS_PITCH * 4 <= STAGES * STAGE_BYTES ? 1 : WARPS_DOWN;
    static constexpr u32 ROUND_PIXELS = PIXELS / ROUNDS;
    static_assert(CHUNKS == 4 || CHUNKS == 8, "rows of 64 or 128 bytes");
    static_assert(ROWS_A_PASS % 8 == 0, "all copies of a thread are swizzled alike");
    static_assert(PIXEL_COPIES * ROWS_A_PASS == PIXELS && WEIGHT_COPIES * ROWS_A_PASS == CHANNELS, "whole passes");
    static_assert(DOWN >= 1 && ACROSS >= 2 && ACROSS % 2 == 0, "weights are loaded for 16 channels at a time");
    static_assert(ROUND_PIXELS * SUMS_PITCH * 4 <= STAGES * STAGE_BYTES, "sums fit");

public:
    static DEVICE void run(const Guard& guard, const Conv& conv) {
        ConvGemm gemm(conv);
        Watch watch(guard);
        if (gemm.sum(watch)) {
            gemm.finish();
        }
    }

private:
    const Conv& conv;
    const u32 shared = shared_address();
    const u32 pixels;
    // The block's first pixel and channel, the latter of the launch.
    const u32 first_pixel = blockIdx.x * PIXELS;
    const u32 first_channel = blockIdx.y * CHANNELS;
    FragmentC sums[DOWN][ACROSS];
    // Where this lane points in a tile when its warp loads matrices: which row of theirs, and which of two
    // neighbouring chunks.
    const u32 pixels_at = kept(swizzled(warp() % WARPS_DOWN * DOWN * 16 + lane() % 16, lane() / 16));
    const u32 weights_at = kept(
        WEIGHTS_AT +
        swizzled(warp() / WARPS_DOWN * ACROSS * 8 + lane() / 16 * 8 + lane() % 8, lane() / 8 % 2));

    DEVICE explicit ConvGemm(const Conv& conv)
        : conv(conv), pixels(conv.images * conv.output.height * conv.output.width), sums{} {}

    // Of chunk `chunk` of row `row` of a tile. Eight neighbouring rows have the same chunk in different banks. Eight rows
    // further it is 8 * ROW_BYTES further, and `swizzled(row, a) ^ 16 * b` is `swizzled(row, a ^ b)`.
    static DEVICE u32 swizzled(u32 row, u32 chunk) {
        u32 turn = CHUNKS == 8 ? row & 7 : row >> 1 & 3;
        return row * ROW_BYTES + (chunk ^ turn) * 16;
    }

    // What a thread copies: one chunk of some rows of pixels and of some rows of weights, tile after tile.
    class Copies {
        const Conv& conv;
        const u32 depth;
        const u32 chunk = threadIdx.x % CHUNKS;
        const u32 row = threadIdx.x / CHUNKS;
        const u32 channel = blockIdx.y * CHANNELS + row;
        // The chunk's first step of the sum.
        u32 step;
        Tap tap;
        WindowStart windows[PIXEL_COPIES];
        // Which pixels have the tap inside of the input: the same until the tap is another.
        bool inside[PIXEL_COPIES];
        // Of the first row, at the step.
        const Half* weights;
        // Of the first row in the first stage.
        const u32 place;

    public:
        DEVICE Copies(const Conv& conv, u32 shared, u32 pixels, u32 depth, u32 first_tile)
            : conv(conv), depth(depth), step(first_tile * DEPTH + chunk * 8), tap(conv, step),
              weights(at<const Half>(conv.weights) + (u64(channel) * depth + step)),
              place(kept(shared + swizzled(row, chunk))) {
#pragma unroll
            for (u32 i = 0; i < PIXEL_COPIES; i++) {
                windows[i].find(conv, blockIdx.x * PIXELS + row + i * ROWS_A_PASS, pixels);
            }
            look();
        }

        // Begins to copy the next tile.
        DEVICE void fill(u32 stage) {
            u32 to = place + stage * STAGE_BYTES;
            const Half* at_tap = kept(at<const Half>(conv.input.address) + tap.offset);
#pragma unroll
            for (u32 i = 0; i < PIXEL_COPIES; i++) {
                copy16(to + i * PASS_BYTES, at_tap + windows[i].offset, inside[i]);
            }
#pragma unroll
            for (u32 i = 0; i < WEIGHT_COPIES; i++) {
                bool there = channel + i * ROWS_A_PASS < conv.channel_count && step < depth;
                copy16(to + WEIGHTS_AT + i * PASS_BYTES, weights + i * ROWS_A_PASS * depth, there);
            }
            weights = kept(weights + DEPTH);
            step += DEPTH;
            if (tap.advance(conv, DEPTH)) {
                look();
            }
        }

    private:
        DEVICE void look() {
#pragma unroll
            for (u32 i = 0; i < PIXEL_COPIES; i++) {
                inside[i] = windows[i].holds(conv, tap);
            }
        }
    };

    // The main loop. False: evicted.
    DEVICE bool sum(Watch& watch) {
        u32 depth = conv.kernel_height * conv.kernel_width * conv.input.pitch;
        u32 all = ceil_div(depth, DEPTH);
        u32 begin = u32(u64(all) * blockIdx.z / conv.splits);
        u32 tiles = u32(u64(all) * (blockIdx.z + 1) / conv.splits) - begin;
        Copies copies(conv, shared, pixels, depth, begin);
        for (u32 stage = 0; stage + 1 < STAGES; stage++) {
            if (stage < tiles) {
                copies.fill(stage);
            }
            copies_commit();
        }
        bool may = watch.may_go_on();
        u32 computed = 0, filled = STAGES - 1;
        for (u32 tile = 0; may && tile < tiles; tile++) {
            copies_wait<STAGES - 2>();
            may = watch.may_go_on();
            if (!may) {
                break;
            }
            if (tile + 1 < tiles) {
                watch.look_again();
            }
            // What was computed with last is free now: all threads came to the barrier after it.
            if (tile + STAGES - 1 < tiles) {
                copies.fill(filled);
            }
            copies_commit();
            multiply(shared + computed * STAGE_BYTES);
            computed = computed + 1 == STAGES ? 0 : computed + 1;
            filled = filled + 1 == STAGES ? 0 : filled + 1;
        }
        // No copy may arrive after the block has ended, or in what its sums pass through.
        copies_wait<0>();
        return may;
    }

    // Adds the products of a tile in shared memory.
    DEVICE void multiply(u32 tile) {
#pragma unroll
        for (u32 chunk = 0; chunk < CHUNKS; chunk += 2) {
            FragmentA a[DOWN];
            FragmentB b[ACROSS];
            u32 from = tile + (pixels_at ^ chunk * 16);
#pragma unroll
            for (u32 i = 0; i < DOWN; i++) {
                load_matrices(a[i].pairs, from + i * 16 * ROW_BYTES);
            }
            from = tile + (weights_at ^ chunk * 16);
#pragma unroll
            for (u32 j = 0; j < ACROSS; j += 2) {
                u32 pairs[4];
                load_matrices(pairs, from + j * 8 * ROW_BYTES);
                b[j] = {{pairs[0], pairs[1]}};
                b[j + 1] = {{pairs[2], pairs[3]}};
            }
#pragma unroll
            for (u32 i = 0; i < DOWN; i++) {
#pragma unroll
                for (u32 j = 0; j < ACROSS; j++) {
                    multiply_add(sums[i][j], a[i], b[j]);
                }
            }
        }
    }

    // Bias, residual, activation, and the result, or the sums as they are.
    DEVICE void finish() {
        f32* rows = reinterpret_cast<f32*>(shared_bytes());
#pragma unroll 1
        for (u32 round = 0; round < ROUNDS; round++) {
            block_barrier();
            if (ROUNDS == 1 || warp() % WARPS_DOWN == round) {
                deposit(rows);
            }
            block_barrier();
#pragma unroll 1
            for (u32 at = threadIdx.x; at < ROUND_PIXELS * (CHANNELS / 8); at += THREADS) {
                u32 row = at / (CHANNELS / 8), channel = at % (CHANNELS / 8) * 8;
                u32 pixel = first_pixel + round * ROUND_PIXELS + row;
                if (pixel < pixels && first_channel + channel < conv.channel_count) {
                    write(load8(rows + row * SUMS_PITCH + channel), pixel, first_channel + channel);
                }
            }
        }
    }

    // The warp's sums into the rows of its round.
    DEVICE void deposit(f32* rows) const {
        struct alignas(8) Pair {
            f32 of[2];
        };
        u32 down = ROUNDS == 1 ? warp() % WARPS_DOWN * DOWN * 16 : 0;
        u32 across = warp() / WARPS_DOWN * ACROSS * 8;
#pragma unroll
        for (u32 i = 0; i < DOWN; i++) {
#pragma unroll
            for (u32 j = 0; j < ACROSS; j++) {
                f32* to = rows + (down + i * 16 + lane() / 4) * SUMS_PITCH + across + j * 8 + lane() % 4 * 2;
                *reinterpret_cast<Pair*>(to) = {{sums[i][j].sums[0], sums[i][j].sums[1]}};
                *reinterpret_cast<Pair*>(to + 8 * SUMS_PITCH) = {{sums[i][j].sums[2], sums[i][j].sums[3]}};
            }
        }
    }

    // `channel` is of the launch.
    DEVICE void write(const Values8& values, u32 pixel, u32 channel) const {
        finish_split8(conv, values, blockIdx.z, pixel, channel);
    }
};

#endif

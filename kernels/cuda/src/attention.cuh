// Attention of the pixels of a query to those of a key, head by head, without the matrix of their products in memory:
// the softmax's largest product and sum are kept up as the keys go by (Milakov and Gimelshein 2018, Dao et al. 2022).
#pragma once

#include "guard.cuh"
#include "vectors.cuh"

constexpr u32 ATTENTION_KEYS = 32;
constexpr u32 ATTENTION_WARPS = 4;
constexpr u32 ATTENTION_QUERIES = 4;

// A warp computes four queries of one head. While products are computed each lane has one key of the tile; while values
// are summed each lane has some of the channels.
template <u32 SIZE>
class AttentionOfHead {
    static constexpr u32 BLOCK_QUERIES = ATTENTION_WARPS * ATTENTION_QUERIES;
    // Eight halves of padding: eight neighbouring rows then lie in different banks.
    static constexpr u32 PITCH = SIZE + 8;
    static constexpr u32 SHARE = SIZE / LANES;

public:
    struct Tiles {
        alignas(16) Half queries[BLOCK_QUERIES * PITCH];
        alignas(16) Half keys[ATTENTION_KEYS * PITCH];
        alignas(16) Half values[ATTENTION_KEYS * PITCH];
    };

    static DEVICE void run(const Guard& guard, const Attention& params, Tiles& tiles) {
        Watch watch(guard);
        AttentionOfHead head(params, tiles);
        if (head.attend(watch)) {
            head.finish();
        }
    }

private:
    const Attention& params;
    Tiles& tiles;
    const u32 head = blockIdx.y;
    // Channels of a head's queries and keys, and of its values.
    const u32 size;
    const u32 value_size;
    const u32 first_query = blockIdx.x * BLOCK_QUERIES;
    f32 largest[ATTENTION_QUERIES];
    f32 sums[ATTENTION_QUERIES];
    f32 weighed[ATTENTION_QUERIES][SHARE];

    DEVICE AttentionOfHead(const Attention& params, Tiles& tiles)
        : params(params), tiles(tiles), size(params.query.channels / params.heads),
          value_size(params.value.channels / params.heads), sums{}, weighed{} {
#pragma unroll
        for (u32 i = 0; i < ATTENTION_QUERIES; i++) {
            largest[i] = -infinity();
        }
    }

    // Copies this head's channels of `count` pixels into shared memory, with zeros behind the last pixel and channel.
    DEVICE void bring(Half* to, const TensorView& view, u32 size, u32 pixels, u32 first, u32 count) const {
        const Half* from = at<const Half>(view.address) + u64(blockIdx.z) * pixels * view.pitch + head * size;
        u32 vectors = ceil_div(size, 8);
        for (u32 i = threadIdx.x; i < count * vectors; i += ATTENTION_WARPS * LANES) {
            u32 row = i / vectors, channel = i % vectors * 8;
            Halves8 halves = {};
            if (first + row < pixels) {
                const Half* pixel = from + u64(first + row) * view.pitch + channel;
                if (size % 8 == 0) {
                    halves = load_halves(pixel);
                } else {
#pragma unroll
                    for (u32 c = 0; c < 8; c++) {
                        u32 bits = channel + c < size ? pixel[c].bits : 0;
                        halves.pairs[c / 2] |= bits << c % 2 * 16;
                    }
                }
            }
            *reinterpret_cast<Halves8*>(to + row * PITCH + channel) = halves;
        }
    }

    // Zeros behind the head's channels of every row of values, which `bring` leaves as they are and `weigh` reads.
    DEVICE void clear_tails() const {
        constexpr u32 SHARERS = ATTENTION_WARPS * LANES / ATTENTION_KEYS;
        Half* row = tiles.values + threadIdx.x / SHARERS * PITCH;
        for (u32 i = ceil_div(value_size, 8) + threadIdx.x % SHARERS; i < SIZE / 8; i += SHARERS) {
            *reinterpret_cast<Halves8*>(row + i * 8) = {};
        }
    }

    // Returns false if the launch was evicted: nothing is to be written then.
    DEVICE bool attend(Watch& watch) {
        u32 keys = params.keys;
        clear_tails();
        bring(tiles.queries, params.query, size, params.queries, first_query, BLOCK_QUERIES);
        bool may = watch.may_go_on();
        for (u32 first = 0; may && first < keys; first += ATTENTION_KEYS) {
            // Also the barrier behind the last tile's reads.
            may = watch.may_go_on(first + ATTENTION_KEYS < keys);
            if (!may) {
                break;
            }
            bring(tiles.keys, params.key, size, keys, first, ATTENTION_KEYS);
            bring(tiles.values, params.value, value_size, keys, first, ATTENTION_KEYS);
            block_barrier();
            f32 products[ATTENTION_QUERIES] = {};
            multiply(products);
            weigh(products, first + lane());
        }
        return may;
    }

    DEVICE void multiply(f32 (&products)[ATTENTION_QUERIES]) const {
        const Half* key = tiles.keys + lane() * PITCH;
        const Half* query = tiles.queries + warp() * ATTENTION_QUERIES * PITCH;
#pragma unroll 1
        for (u32 step = 0; step < size; step += 8) {
            Values8 of_key = load8(key + step);
#pragma unroll
            for (u32 i = 0; i < ATTENTION_QUERIES; i++) {
                products[i] = dot8(load8(query + i * PITCH + step), of_key, products[i]);
            }
        }
    }

    DEVICE void weigh(f32 (&products)[ATTENTION_QUERIES], u32 key) {
        constexpr f32 IGNORED = -3.40282347e38f;
        bool there = key < params.keys;
        bool ignored = there && params.mask != 0 &&
                       to_f32(at<const Half>(params.mask)[(u64(blockIdx.z) * params.keys + key) * 8]) == 0.0f;
        u32 row = blockIdx.z % params.rows;
        const f32* bias = at<const f32>(params.bias) + (row * params.bias_row + head * params.bias_head + key);
#pragma unroll
        for (u32 i = 0; i < ATTENTION_QUERIES; i++) {
            f32 product = products[i] * params.scale + (ignored ? IGNORED : 0.0f);
            u32 query = first_query + warp() * ATTENTION_QUERIES + i;
            if (params.bias != 0 && there && query < params.queries) {
                product += bias[query * params.keys];
            }
            product = there ? product : -infinity();
            f32 tops = largest[i] > product ? largest[i] : product;
#pragma unroll
            for (u32 mask = 1; mask < LANES; mask *= 2) {
                f32 other = shuffle_xor(tops, mask);
                tops = other > tops ? other : tops;
            }
            f32 shrink = exponential(largest[i] - tops);
            largest[i] = tops;
            products[i] = exponential(product - tops);
            // Each lane adds up its own keys.
            sums[i] = fused(sums[i], shrink, products[i]);
#pragma unroll
            for (u32 c = 0; c < SHARE; c++) {
                weighed[i][c] *= shrink;
            }
        }
#pragma unroll 4
        for (u32 of = 0; of < ATTENTION_KEYS; of++) {
            const Half* value = tiles.values + of * PITCH + lane();
            f32 values[SHARE];
#pragma unroll
            for (u32 c = 0; c < SHARE; c++) {
                // Values behind the head's channels are never written to the output.
                values[c] = to_f32(value[c * LANES]);
            }
#pragma unroll
            for (u32 i = 0; i < ATTENTION_QUERIES; i++) {
                f32 weight = shuffle(products[i], of);
#pragma unroll
                for (u32 c = 0; c < SHARE; c++) {
                    weighed[i][c] = fused(weight, values[c], weighed[i][c]);
                }
            }
        }
    }

    // The last head also writes the padding.
    DEVICE void finish() const {
        bool last = head + 1 == params.heads;
#pragma unroll
        for (u32 i = 0; i < ATTENTION_QUERIES; i++) {
            f32 sum = warp_sum(sums[i]);
            u32 query = first_query + warp() * ATTENTION_QUERIES + i;
            if (query >= params.queries) {
                continue;
            }
            u64 place = u64(blockIdx.z) * params.queries + query;
            Half* pixel = at<Half>(params.output) + place * params.value.pitch;
            f32 factor = reciprocal(sum);
#pragma unroll
            for (u32 c = 0; c < SHARE; c++) {
                u32 channel = c * LANES + lane();
                if (channel < value_size) {
                    pixel[head * value_size + channel] = to_half(weighed[i][c] * factor);
                }
            }
            u32 padding = params.value.channels + lane();
            if (last && padding < params.value.pitch) {
                pixel[padding] = to_half(0.0f);
            }
        }
    }
};

// Heads of up to 64 channels.
PUNCTUAL_KERNEL(attention_64, Attention, 128) {
    __shared__ AttentionOfHead<64>::Tiles tiles;
    AttentionOfHead<64>::run(guard, params, tiles);
}

// Heads of up to 256 channels.
PUNCTUAL_KERNEL(attention_256, Attention, 128) {
    __shared__ AttentionOfHead<256>::Tiles tiles;
    AttentionOfHead<256>::run(guard, params, tiles);
}

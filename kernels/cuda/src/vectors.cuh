// Eight neighbouring channels: the unit in which activations are read, finished and written.
#pragma once

#include "device.cuh"

// As they lie in memory.
struct alignas(16) Halves8 {
    u32 pairs[4];
};

// As they are computed with.
struct Values8 {
    f32 of[8];
};

DEVICE Values8 to_values(const Halves8& halves) {
    Values8 values;
#pragma unroll
    for (u32 pair = 0; pair < 4; pair++) {
        values.of[2 * pair] = low_of(halves.pairs[pair]);
        values.of[2 * pair + 1] = high_of(halves.pairs[pair]);
    }
    return values;
}

DEVICE Halves8 to_halves(const Values8& values) {
    Halves8 halves;
#pragma unroll
    for (u32 pair = 0; pair < 4; pair++) {
        halves.pairs[pair] = to_pair(values.of[2 * pair], values.of[2 * pair + 1]);
    }
    return halves;
}

// The address is a multiple of 16 bytes.
DEVICE Halves8 load_halves(const Half* from) {
    return *reinterpret_cast<const Halves8*>(from);
}

DEVICE Values8 load8(const Half* from) {
    return to_values(load_halves(from));
}

DEVICE void store8(Half* to, const Values8& values) {
    *reinterpret_cast<Halves8*>(to) = to_halves(values);
}

struct alignas(16) Quad {
    f32 of[4];
};

DEVICE Values8 load8(const f32* from) {
    Quad low = reinterpret_cast<const Quad*>(from)[0];
    Quad high = reinterpret_cast<const Quad*>(from)[1];
    return {{low.of[0], low.of[1], low.of[2], low.of[3], high.of[0], high.of[1], high.of[2], high.of[3]}};
}

DEVICE void store8(f32* to, const Values8& v) {
    reinterpret_cast<Quad*>(to)[0] = {{v.of[0], v.of[1], v.of[2], v.of[3]}};
    reinterpret_cast<Quad*>(to)[1] = {{v.of[4], v.of[5], v.of[6], v.of[7]}};
}

DEVICE void add8(Values8& sums, const Values8& values) {
#pragma unroll
    for (u32 i = 0; i < 8; i++) {
        sums.of[i] += values.of[i];
    }
}

// The sum of products of eight pairs of halves, in f32.
DEVICE f32 dot8(const Values8& a, const Values8& b, f32 sum) {
#pragma unroll
    for (u32 i = 0; i < 8; i++) {
        sum = fused(a.of[i], b.of[i], sum);
    }
    return sum;
}

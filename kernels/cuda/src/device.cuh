// Everything that touches the hardware.
#pragma once

#include "params.cuh"

// PUNCTUAL_KERNEL(name, P, block) { body } is a kernel for blocks of `block` threads, with `guard` and `params`.
// PUNCTUAL_KERNEL_RESIDENT also says how many blocks a multiprocessor must have registers for.
// `__grid_constant__`: indexing an array of parameters needs no copy of it in local memory.
#define PUNCTUAL_KERNEL_RESIDENT(name, P, block, blocks)        \
    extern "C" __global__ void __launch_bounds__(block, blocks) \
        name(const __grid_constant__ Guard guard, const __grid_constant__ P params)
#define PUNCTUAL_KERNEL(name, P, block) PUNCTUAL_KERNEL_RESIDENT(name, P, block, 1)

#define DEVICE __device__ __forceinline__

constexpr u32 LANES = 32;

DEVICE f32 infinity() {
    return __int_as_float(0x7f800000);
}

// Of type T at a device address.
template <class T>
DEVICE T* at(u64 address) {
    return reinterpret_cast<T*>(address);
}

constexpr DEVICE u32 ceil_div(u32 a, u32 b) {
    return (a + b - 1) / b;
}

// The same value, of which the compiler no longer knows how it came about: it is kept in its register, not computed
// again.
template <class T>
DEVICE T kept(T value) {
    if constexpr (sizeof(T) == 8) {
        asm volatile("" : "+l"(value));
    } else {
        asm volatile("" : "+r"(value));
    }
    return value;
}

// a * b + c, rounded once.
DEVICE f32 fused(f32 a, f32 b, f32 c) {
    return fmaf(a, b, c);
}

// e^x; relative error below 2^-21 for what is neither 0 nor infinite.
DEVICE f32 exponential(f32 x) {
    f32 power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * 1.44269504f));
    return power;
}

// 1 / x; error of a unit in the last place.
DEVICE f32 reciprocal(f32 x) {
    f32 inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
    return inverse;
}

// a / b; error of two units in the last place.
DEVICE f32 quotient(f32 a, f32 b) {
    return __fdividef(a, b);
}

DEVICE f32 square_root(f32 x) {
    f32 root;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(x));
    return root;
}

// x rounded towards zero and clamped to what an int holds; 0 for NaN.
DEVICE int to_integer(f32 x) {
    return __float2int_rz(x);
}

// a * b, never fused with another operation, so that it rounds as written.
DEVICE f32 product(f32 a, f32 b) {
    return __fmul_rn(a, b);
}

DEVICE f32 exact_sum(f32 a, f32 b) {
    return __fadd_rn(a, b);
}

DEVICE f32 exact_quotient(f32 a, f32 b) {
    return __fdiv_rn(a, b);
}

// The nearest whole number, halves to even ones.
DEVICE f32 to_nearest(f32 x) {
    return rintf(x);
}

// `sum` plus the products of four bytes and four signed bytes.
DEVICE int dot4(u32 bytes, u32 signed_bytes, int sum) {
    int result;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(bytes), "r"(signed_bytes), "r"(sum));
    return result;
}

// Sine and cosine of x between -pi and pi; absolute errors below 2^-20.
DEVICE void sine_and_cosine(f32 x, f32& sine, f32& cosine) {
    asm("sin.approx.ftz.f32 %0, %1;" : "=f"(sine) : "f"(x));
    asm("cos.approx.ftz.f32 %0, %1;" : "=f"(cosine) : "f"(x));
}

// The natural logarithm of x, which is at least 1.
DEVICE f32 logarithm(f32 x) {
    f32 power;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power * 0.69314718f;
}

// ---- Halves. -------------------------------------------------------------------------------------

// A half as it lies in memory.
struct Half {
    u16 bits;
};

DEVICE f32 to_f32(Half half) {
    f32 value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half.bits));
    return value;
}

// Rounds to nearest, ties to even.
DEVICE Half to_half(f32 value) {
    Half half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half.bits) : "f"(value));
    return half;
}

DEVICE u32 to_pair(f32 low, f32 high) {
#if __CUDA_ARCH__ >= 800
    u32 pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
#else
    return to_half(low).bits | u32(to_half(high).bits) << 16;
#endif
}

// The bits of a value that a half holds exactly.
DEVICE u32 half_bits_of(f32 value) {
    return to_half(value).bits;
}

DEVICE f32 low_of(u32 pair) {
    return to_f32({u16(pair)});
}

DEVICE f32 high_of(u32 pair) {
    return to_f32({u16(pair >> 16)});
}

// ---- Blocks and warps. ---------------------------------------------------------------------------

DEVICE u32 lane() {
    return threadIdx.x % LANES;
}

DEVICE u32 warp() {
    return threadIdx.x / LANES;
}

DEVICE void block_barrier() {
    __syncthreads();
}

DEVICE bool block_barrier_or(bool mine) {
    return __syncthreads_or(mine) != 0;
}

// What the lane whose number differs in the bits of `mask` came with.
template <class T>
DEVICE T shuffle_xor(T mine, u32 mask) {
    return __shfl_xor_sync(0xffffffffu, mine, mask);
}

// The value of lane `from`.
template <class T>
DEVICE T shuffle(T mine, u32 from) {
    return __shfl_sync(0xffffffffu, mine, from);
}

DEVICE u8* shared_bytes() {
    extern __shared__ __align__(128) u8 dynamic_shared[];
    return dynamic_shared;
}

template <class T>
DEVICE T warp_sum(T value) {
#pragma unroll
    for (u32 mask = 1; mask < LANES; mask *= 2) {
        value += shuffle_xor(value, mask);
    }
    return value;
}

// ---- Words that the host reads or writes meanwhile. ----------------------------------------------

// Volatile assembly: the compiler neither drops nor repeats it. On devices before 7.0 there is no `.relaxed.sys`.
DEVICE u32 load_relaxed(const u32* word) {
    u32 value;
    asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
}

DEVICE void store_relaxed(u32* word, u32 value) {
    asm volatile("st.relaxed.sys.global.u32 [%0], %1;" : : "l"(word), "r"(value) : "memory");
}

// After everything that the thread wrote, or knows by a barrier that others wrote. Its partner is the host's acquire.
DEVICE void store_release(u32* word, u32 value) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" : : "l"(word), "r"(value) : "memory");
}

DEVICE void fence_system() {
    __threadfence_system();
}

DEVICE void minimum(u32* word, u32 value) {
    atomicMin(word, value);
}

// ---- Place and time. -----------------------------------------------------------------------------

DEVICE u32 multiprocessor() {
    u32 number;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(number));
    return number;
}

// Steps of up to a microsecond on some devices.
DEVICE u64 nanoseconds() {
    u64 time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
    return time;
}

DEVICE void rest() {
    asm volatile("nanosleep.u32 200;");
}

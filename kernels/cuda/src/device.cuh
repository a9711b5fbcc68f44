// Everything that touches the hardware. Each function has two bodies: instructions for the GPU, and plain C++ on
// the emulation of runtime/emulated-driver/cpp, on which the tests run the same kernels thread by thread.
#pragma once

#include "params.cuh"

// PUNCTUAL_KERNEL(name, P, block) { body } is a kernel for blocks of `block` threads, with `guard` and `params`.
// PUNCTUAL_KERNEL_RESIDENT also says how many blocks a multiprocessor must have registers for.
#ifdef EMULATED
#include <cmath>
#include <cstring>
#define PUNCTUAL_KERNEL_RESIDENT(name, P, block, blocks) \
    extern "C" void name(Guard, P);                      \
    EMULATED_REGISTER(name, block);                      \
    extern "C" void name(const Guard guard, const P params)
#else
// `__grid_constant__`: indexing an array of parameters needs no copy of it in local memory.
#define PUNCTUAL_KERNEL_RESIDENT(name, P, block, blocks)        \
    extern "C" __global__ void __launch_bounds__(block, blocks) \
        name(const __grid_constant__ Guard guard, const __grid_constant__ P params)
#endif
#define PUNCTUAL_KERNEL(name, P, block) PUNCTUAL_KERNEL_RESIDENT(name, P, block, 1)

#define DEVICE __device__ __forceinline__

constexpr u32 LANES = 32;

DEVICE f32 infinity() {
#ifdef EMULATED
    return INFINITY;
#else
    return __int_as_float(0x7f800000);
#endif
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
#ifndef EMULATED
    if constexpr (sizeof(T) == 8) {
        asm volatile("" : "+l"(value));
    } else {
        asm volatile("" : "+r"(value));
    }
#endif
    return value;
}

// a * b + c. On the processor not fused, as that may be a call.
DEVICE f32 fused(f32 a, f32 b, f32 c) {
#ifdef EMULATED
    return a * b + c;
#else
    return fmaf(a, b, c);
#endif
}

// e^x; relative error below 2^-21 for what is neither 0 nor infinite.
DEVICE f32 exponential(f32 x) {
#ifdef EMULATED
    return expf(x);
#else
    f32 power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x * 1.44269504f));
    return power;
#endif
}

// 1 / x; error of a unit in the last place.
DEVICE f32 reciprocal(f32 x) {
#ifdef EMULATED
    return 1.0f / x;
#else
    f32 inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
    return inverse;
#endif
}

// a / b; error of two units in the last place.
DEVICE f32 quotient(f32 a, f32 b) {
#ifdef EMULATED
    return a / b;
#else
    return __fdividef(a, b);
#endif
}

DEVICE f32 square_root(f32 x) {
#ifdef EMULATED
    return sqrtf(x);
#else
    f32 root;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(x));
    return root;
#endif
}

// x rounded towards zero and clamped to what an int holds; 0 for NaN.
DEVICE int to_integer(f32 x) {
#ifdef EMULATED
    if (!(x >= -2147483648.0f)) {
        return x < 0.0f ? -2147483647 - 1 : 0;
    }
    return x >= 2147483648.0f ? 2147483647 : int(x);
#else
    return __float2int_rz(x);
#endif
}

// a * b, never fused with another operation, so that it rounds as written.
DEVICE f32 product(f32 a, f32 b) {
#ifdef EMULATED
    return a * b;
#else
    return __fmul_rn(a, b);
#endif
}

DEVICE f32 exact_sum(f32 a, f32 b) {
#ifdef EMULATED
    return a + b;
#else
    return __fadd_rn(a, b);
#endif
}

DEVICE f32 exact_quotient(f32 a, f32 b) {
#ifdef EMULATED
    return a / b;
#else
    return __fdiv_rn(a, b);
#endif
}

// The nearest whole number, halves to even ones.
DEVICE f32 to_nearest(f32 x) {
#ifdef EMULATED
    return nearbyintf(x);
#else
    return rintf(x);
#endif
}

// `sum` plus the products of four bytes and four signed bytes.
DEVICE int dot4(u32 bytes, u32 signed_bytes, int sum) {
#ifdef EMULATED
    for (u32 i = 0; i < 4; i++) {
        sum += int(bytes >> i * 8 & 0xff) * int(static_cast<signed char>(signed_bytes >> i * 8 & 0xff));
    }
    return sum;
#else
    int result;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(bytes), "r"(signed_bytes), "r"(sum));
    return result;
#endif
}

// Sine and cosine of x between -pi and pi; absolute errors below 2^-20.
DEVICE void sine_and_cosine(f32 x, f32& sine, f32& cosine) {
#ifdef EMULATED
    sine = sinf(x);
    cosine = cosf(x);
#else
    asm("sin.approx.ftz.f32 %0, %1;" : "=f"(sine) : "f"(x));
    asm("cos.approx.ftz.f32 %0, %1;" : "=f"(cosine) : "f"(x));
#endif
}

// The natural logarithm of x, which is at least 1.
DEVICE f32 logarithm(f32 x) {
#ifdef EMULATED
    return logf(x);
#else
    f32 power;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power * 0.69314718f;
#endif
}

// ---- Halves. -------------------------------------------------------------------------------------

// A half as it lies in memory.
struct Half {
    u16 bits;
};

#ifdef EMULATED

DEVICE f32 to_f32(Half half) {
    // The exponent's bias is corrected by a multiplication, which also normalises subnormal halves.
    u32 wide = (half.bits & 0x7fffu) << 13;
    f32 value;
    std::memcpy(&value, &wide, 4);
    value *= 0x1p112f;
    std::memcpy(&wide, &value, 4);
    if ((half.bits & 0x7c00u) == 0x7c00u) {
        wide = 0x7f800000u | (half.bits & 0x3ffu) << 13;
    }
    wide |= (half.bits & 0x8000u) << 16;
    std::memcpy(&value, &wide, 4);
    return value;
}

// Rounds to nearest, ties to even.
DEVICE Half to_half(f32 value) {
    u32 bits;
    std::memcpy(&bits, &value, 4);
    u32 sign = bits >> 16 & 0x8000u;
    u32 magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) {
        return {u16(sign | 0x7fffu)};
    }
    if (magnitude >= 0x477ff000u) {
        return {u16(sign | 0x7c00u)};
    }
    if (magnitude < 0x38800000u) {
        // Adding 1/2 leaves multiples of 2^-24 in the lowest bits, rounded as the processor rounds.
        f32 small;
        std::memcpy(&small, &magnitude, 4);
        small += 0.5f;
        u32 rounded;
        std::memcpy(&rounded, &small, 4);
        return {u16(sign | (rounded - 0x3f000000u))};
    }
    u32 rounded = magnitude - (112u << 23) + 0xfffu + (magnitude >> 13 & 1);
    return {u16(sign | rounded >> 13)};
}

DEVICE u32 to_pair(f32 low, f32 high) {
    return to_half(low).bits | u32(to_half(high).bits) << 16;
}

#else

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

#endif

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

#ifdef EMULATED

DEVICE void block_barrier() {
    emulated::barrier();
}

DEVICE bool block_barrier_or(bool mine) {
    return emulated::barrier_or(mine) != 0;
}

// What the lane whose number differs in the bits of `mask` came with.
template <class T>
DEVICE T shuffle_xor(T mine, u32 mask) {
    return static_cast<const T*>(emulated::exchange(&mine, sizeof(T)))[lane() ^ mask];
}

// The value of lane `from`.
template <class T>
DEVICE T shuffle(T mine, u32 from) {
    return static_cast<const T*>(emulated::exchange(&mine, sizeof(T)))[from];
}

DEVICE u8* shared_bytes() {
    return static_cast<u8*>(emulated::shared_memory());
}

#else

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

#endif

template <class T>
DEVICE T warp_sum(T value) {
#pragma unroll
    for (u32 mask = 1; mask < LANES; mask *= 2) {
        value += shuffle_xor(value, mask);
    }
    return value;
}

// ---- Words that the host reads or writes meanwhile. ----------------------------------------------

#ifdef EMULATED

DEVICE u32 load_relaxed(const u32* word) {
    emulated::checkpoint();
    return __atomic_load_n(word, __ATOMIC_RELAXED);
}

DEVICE void store_relaxed(u32* word, u32 value) {
    __atomic_store_n(word, value, __ATOMIC_RELAXED);
}

// After everything that the thread wrote, or knows by a barrier that others wrote. Its partner is the host's acquire.
DEVICE void store_release(u32* word, u32 value) {
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

DEVICE void fence_system() {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

DEVICE void minimum(u32* word, u32 value) {
    u32 found = __atomic_load_n(word, __ATOMIC_RELAXED);
    while (value < found &&
           !__atomic_compare_exchange_n(word, &found, value, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

#else

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

#endif

// ---- Place and time. -----------------------------------------------------------------------------

#ifdef EMULATED

DEVICE u32 multiprocessor() {
    return emulated::smid();
}

DEVICE u64 nanoseconds() {
    return emulated::nanoseconds();
}

DEVICE void rest() {
    emulated::relax();
}

#else

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

#endif

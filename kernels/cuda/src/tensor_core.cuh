// Tensor cores and the copies that feed them: mma.sync.m16n8k16, ldmatrix, cp.async. For devices from 8.0 on.
#pragma once

#include "vectors.cuh"

// A fragment of a 16x16 matrix of halves, spread over a warp. With `g = lane / 4` and `q = lane % 4` a lane has the
// pairs of columns 2q, 2q+1 of row g, of row g+8, and again of both rows eight columns further.
struct FragmentA {
    u32 pairs[4];
};

// Of a matrix of 16 steps by 8 columns: steps 2q, 2q+1 of column g, and eight steps further.
struct FragmentB {
    u32 pairs[2];
};

// Of 16 rows by 8 columns of sums: columns 2q, 2q+1 of row g, then of row g+8.
struct FragmentC {
    f32 sums[4];
};

#ifdef EMULATED

// A place in shared memory; adding bytes gives another.
using Shared = u8*;

DEVICE Shared shared_place() {
    return shared_bytes();
}

// Four matrices of 8x8 halves from shared memory; row r of matrix i lies where lane 8i + r says. A lane gets pair
// `lane % 4` of row `lane / 4` of each.
DEVICE void load_matrices(u32 (&pairs)[4], Shared row) {
    const u8* const* rows = static_cast<const u8* const*>(emulated::exchange(&row, sizeof row));
    for (u32 matrix = 0; matrix < 4; matrix++) {
        std::memcpy(&pairs[matrix], rows[8 * matrix + lane() / 4] + 4 * (lane() % 4), 4);
    }
}

// c += a * b, as the PTX manual defines it for mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32.
DEVICE void multiply_add(FragmentC& c, const FragmentA& a, const FragmentB& b) {
    struct Deposit {
        f32 a[8], b[4];
    } mine;
    for (u32 i = 0; i < 8; i++) {
        mine.a[i] = i % 2 == 0 ? low_of(a.pairs[i / 2]) : high_of(a.pairs[i / 2]);
    }
    for (u32 i = 0; i < 4; i++) {
        mine.b[i] = i % 2 == 0 ? low_of(b.pairs[i / 2]) : high_of(b.pairs[i / 2]);
    }
    const Deposit* all = static_cast<const Deposit*>(emulated::exchange(&mine, sizeof mine));
    u32 row = lane() / 4, column = 2 * (lane() % 4);
    for (u32 i = 0; i < 4; i++) {
        const Deposit* of_row = &all[4 * row];
        const Deposit* of_column = &all[4 * (column + i % 2)];
        for (u32 step = 0; step < 16; step++) {
            u32 quad = step % 8 / 2, part = step % 2 + 2 * (step / 8);
            f32 left = of_row[quad].a[step % 2 + 2 * (i / 2) + 4 * (step / 8)];
            c.sums[i] += left * of_column[quad].b[part];
        }
    }
}

// 16 bytes from global to shared memory, or 16 zeros without reading anything, wherever `from` points. They are there
// when their group was waited for.
DEVICE void copy16(Shared to, const Half* from, bool valid) {
    emulated::copy_async(to, from, 16, valid ? 16 : 0);
}

DEVICE void copies_commit() {
    emulated::copy_commit();
}

// Until at most the NEWEST latest groups of this thread's copies are under way.
template <u32 NEWEST>
DEVICE void copies_wait() {
    emulated::copy_wait(NEWEST);
}

#elif __CUDA_ARCH__ >= 800

// A place in shared memory; adding bytes gives another. An address in 32 bits instead of a pointer.
using Shared = u32;

DEVICE Shared shared_place() {
    u32 address;
    asm("{ .reg .u64 wide; cvta.to.shared.u64 wide, %1; cvt.u32.u64 %0, wide; }" : "=r"(address) : "l"(shared_bytes()));
    return address;
}

// Four matrices of 8x8 halves from shared memory; row r of matrix i lies where lane 8i + r says. A lane gets pair
// `lane % 4` of row `lane / 4` of each.
DEVICE void load_matrices(u32 (&pairs)[4], Shared row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(pairs[0]), "=r"(pairs[1]), "=r"(pairs[2]), "=r"(pairs[3])
                 : "r"(row)
                 : "memory");
}

// c += a * b
DEVICE void multiply_add(FragmentC& c, const FragmentA& a, const FragmentB& b) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c.sums[0]), "+f"(c.sums[1]), "+f"(c.sums[2]), "+f"(c.sums[3])
        : "r"(a.pairs[0]), "r"(a.pairs[1]), "r"(a.pairs[2]), "r"(a.pairs[3]), "r"(b.pairs[0]), "r"(b.pairs[1]));
}

// 16 bytes from global to shared memory, or 16 zeros without reading anything, wherever `from` points. They are there
// when their group was waited for.
DEVICE void copy16(Shared to, const Half* from, bool valid) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;"
                 :
                 : "r"(to), "l"(from), "r"(valid ? 16 : 0)
                 : "memory");
}

DEVICE void copies_commit() {
    asm volatile("cp.async.commit_group;" : : : "memory");
}

// Until at most the NEWEST latest groups of this thread's copies are under way.
template <u32 NEWEST>
DEVICE void copies_wait() {
    asm volatile("cp.async.wait_group %0;" : : "n"(NEWEST) : "memory");
}

#endif

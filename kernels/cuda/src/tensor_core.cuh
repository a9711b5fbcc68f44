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

#if __CUDA_ARCH__ >= 800

// Where dynamic shared memory begins, in shared memory's own addresses: 32 bits instead of a pointer's 64.
DEVICE u32 shared_address() {
    u32 address;
    asm("{ .reg .u64 wide; cvta.to.shared.u64 wide, %1; cvt.u32.u64 %0, wide; }" : "=r"(address) : "l"(shared_bytes()));
    return address;
}

// Four matrices of 8x8 halves from shared memory; row r of matrix i lies where lane 8i + r says. A lane gets pair
// `lane % 4` of row `lane / 4` of each.
DEVICE void load_matrices(u32 (&pairs)[4], u32 row) {
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
DEVICE void copy16(u32 to, const Half* from, bool valid) {
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

#include "conv_gemm.cuh"

// One block computes while the other waits for its tile.
PUNCTUAL_KERNEL_RESIDENT(conv_gemm_128x128, Conv, 256, 2) {
    ConvGemm<128, 128, 32, 3, 2, 4>::run(guard, params);
}

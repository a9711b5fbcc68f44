#include "conv_gemm.cuh"

PUNCTUAL_KERNEL(conv_gemm_128x128, Conv, 256) {
    ConvGemm<128, 128, 32, 3, 2, 4>::run(guard, params);
}

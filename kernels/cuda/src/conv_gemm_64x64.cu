#include "conv_gemm.cuh"

PUNCTUAL_KERNEL(conv_gemm_64x64, Conv, 128) {
    ConvGemm<64, 64, 64, 3, 2, 2>::run(guard, params);
}

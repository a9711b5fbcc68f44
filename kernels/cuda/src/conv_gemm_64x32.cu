#include "conv_gemm.cuh"

PUNCTUAL_KERNEL(conv_gemm_64x32, Conv, 128) {
    ConvGemm<64, 32, 64, 4, 2, 2>::run(guard, params);
}

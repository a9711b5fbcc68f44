#include "conv_gemm.cuh"

PUNCTUAL_KERNEL(conv_gemm_128x64, Conv, 128) {
    ConvGemm<128, 64, 32, 4, 2, 2>::run(guard, params);
}

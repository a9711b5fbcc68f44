# The portable linker; sourced by packaging/portable/build and .ci/aarch64 at the root of the tree.

# JetPack 5 and Ubuntu 20.04 have this one.
glibc=2.31
ziglang=0.15.2

# portable_linker ARCH: cargo links what it builds for that architecture's Linux by zig.
portable_linker() {
  local folder=${CARGO_TARGET_DIR:-target}/ziglang-$ziglang variable
  [ -x "$folder/ziglang/zig" ] || python3 -m pip install --quiet --no-deps --target "$folder" "ziglang==$ziglang"
  PUNCTUAL_ZIG=$(cd "$folder/ziglang" && pwd)/zig
  PUNCTUAL_ZIG_TARGET=$1-linux-gnu.$glibc
  # What zig builds once, its start files and libunwind, is kept where cargo keeps its own.
  ZIG_GLOBAL_CACHE_DIR=${PUNCTUAL_ZIG%/zig}/cache
  ZIG_LOCAL_CACHE_DIR=$ZIG_GLOBAL_CACHE_DIR
  export PUNCTUAL_ZIG PUNCTUAL_ZIG_TARGET ZIG_GLOBAL_CACHE_DIR ZIG_LOCAL_CACHE_DIR
  variable=CARGO_TARGET_${1^^}_UNKNOWN_LINUX_GNU_LINKER
  export "$variable=$PWD/packaging/portable/zig"
}
